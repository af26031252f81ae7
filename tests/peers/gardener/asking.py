"""Gardener's own code, asked about profiles and Shoots: the program below ``program/``, built once, one for a process.

The program answers at any time, to the nanosecond: see its ``main.go``. Objects are Gardener's, at v1beta1, where a
version may have a ``lifecycle`` if the feature gate VersionClassificationLifecycle is on.
"""

from __future__ import annotations

import atexit
import json
import subprocess
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any, Final

from tests.peers.oracle import Project, installed

__all__ = ["GARDENER", "Gardener", "Panicked", "gardener"]

GARDENER: Final = Project("gardener", folder=Path(__file__).parent / "program")
"""github.com/gardener/gardener, at the version that ``program/go.mod`` pins."""


class Panicked(AssertionError):
    """Gardener's code panicked; its API server answers 500 then."""


class Gardener:
    """The running program."""

    def __init__(self, program: Path) -> None:
        self._process = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(self, function: str, given: Mapping[str, Any], now: datetime, *, gate: bool = True) -> Any:
        """Return what a function answers at a time (2000 or later).

        Raises:
            Panicked: Gardener's code panicked.
            AssertionError: the program cannot make sense of what is given.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        asked = {"ask": function, "now": now.astimezone(UTC).isoformat(), "gate": gate, "input": given}
        self._process.stdin.write(json.dumps(asked) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        assert line, f"Gardener's program ended with status {self._process.wait()}."
        said = json.loads(line)
        if "panic" in said:
            raise Panicked(said["panic"])
        assert "error" not in said, said
        return said.get("answer")

    def close(self) -> None:
        """End the program."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()


@cache
def gardener() -> Gardener:
    """Return the program, started on first use and ended with the process."""
    program = Gardener(installed(GARDENER) / "oracle")
    atexit.register(program.close)
    return program
