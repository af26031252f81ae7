"""Gardener's own code, asked about profiles and Shoots: the program below ``program/``, or its recording.

The program answers at any time, to the nanosecond: see its ``main.go``. Objects are Gardener's, at v1beta1, where a
version may have a ``lifecycle`` if the feature gate VersionClassificationLifecycle is on.
"""

from __future__ import annotations

import atexit
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any, Final

from tests.peers.building import Project
from tests.peers.recordings import program

__all__ = ["GARDENER", "Gardener", "Panicked", "gardener"]

GARDENER: Final = Project("gardener", folder=Path(__file__).parent / "program")
"""github.com/gardener/gardener, at the version that ``program/go.mod`` pins."""


class Panicked(AssertionError):
    """Gardener's code panicked; its API server answers 500 then."""


class Gardener:
    """What answers as Gardener does."""

    def __init__(self) -> None:
        self._program = program(GARDENER)
        atexit.register(self._program.close)

    def ask(self, function: str, given: Mapping[str, Any], now: datetime, *, gate: bool = True) -> Any:
        """Return what a function answers at a time (2000 or later).

        Raises:
            Panicked: Gardener's code panicked.
            AssertionError: the program cannot make sense of what is given, or no recording has the question.
        """
        asked = {"ask": function, "now": now.astimezone(UTC).isoformat(), "gate": gate, "input": given}
        said = self._program.ask(asked)
        if "panic" in said:
            raise Panicked(said["panic"])
        assert "error" not in said, said
        return said.get("answer")


@cache
def gardener() -> Gardener:
    """Return the one of this process."""
    return Gardener()
