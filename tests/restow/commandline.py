"""Running ``restow`` as people do: a process of its own, its exit code, and what it says on which stream."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import yaml

from tests.restow import forkserver

RESTOW = (sys.executable, "-c", "from restow.main import main; main()")

_CACHES = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
"""Where the binaries of control planes are; without it a command would build them below another home folder."""

_TIMEOUT = 120.0  # seconds
_OF_PYTHON = ("PYTHON", "LANG", "LC_", "TZ")  # variables that Python reads when it starts


@dataclass(frozen=True)
class Ran:
    """What became of one run."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """The result, where it was asked for as JSON; nothing else may stand on stdout."""
        return json.loads(self.out)

    @property
    def yaml(self) -> Any:
        """The result, where it was asked for as YAML."""
        return yaml.safe_load(self.out)

    @property
    def rows(self) -> list[list[str]]:
        """The cells of the table, its headings first; columns are two blanks apart."""
        return [[cell.strip() for cell in line.split("  ") if cell.strip()] for line in self.out.splitlines()]

    @property
    def refusal(self) -> str:
        """The one sentence on stderr of a run that was refused: exit code 2, nothing else, no traceback."""
        assert self.code == 2, (self.code, self.out, self.err)
        lines = self.err.splitlines()
        assert len(lines) == 1, self.err
        assert lines[0].startswith("restow: "), self.err
        assert " at 0x" not in lines[0], "an object's address is no help"
        return lines[0].removeprefix("restow: ")


Cli: TypeAlias = Callable[..., Awaitable[Ran]]
"""Runs ``restow`` with these arguments."""


def restow(
    *arguments: str | Path,
    kubeconfig: Path | None = None,
    command: tuple[str, ...] = RESTOW,
    environment: Mapping[str, str] | None = None,
    stdin: str = "",
    cwd: Path | None = None,
) -> Ran:
    """Run it to its end; without a terminal, and without this machine's own clusters.

    The usual command is forked by a server that has imported it; another one is started.
    """
    configured = ("--kubeconfig", str(kubeconfig)) if kubeconfig is not None else ()
    quiet = {name: value for name, value in os.environ.items() if name not in ("KUBECONFIG", "FORCE_COLOR", "COLUMNS")}
    words = [*map(str, arguments), *configured]
    usual = {"HOME": "/nonexistent", "XDG_CACHE_HOME": _CACHES, "RESTOW_PATIENCE": "3"}
    env = quiet | usual | dict(environment or {})
    if command == RESTOW and not any(name.startswith(_OF_PYTHON) for name in environment or ()):
        done = forkserver.run(words, stdin=stdin, cwd=cwd, env=env, timeout=_TIMEOUT)
    else:
        done = subprocess.run(
            [*command, *words],
            input=stdin,
            capture_output=True,
            text=True,
            check=False,
            timeout=_TIMEOUT,
            cwd=cwd,
            env=env,
        )
    ran = Ran(done.returncode, done.stdout, done.stderr)
    assert "Traceback" not in ran.err, ran.err
    assert "\x1b" not in ran.out + ran.err, "colours are for terminals"
    assert "\r" not in ran.out + ran.err, "bars are for terminals"
    return ran
