"""One bash for a page, as a reader has one terminal: variables, the folder and what runs in the background stay."""

from __future__ import annotations

import itertools
import os
import signal
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from shlex import quote

from tests.docs.replies import Child, NoAnswer

__all__ = ["PATIENCE", "Shell"]

PATIENCE = 900.0
_ENDED = (0, 128 + signal.SIGTERM)


class Shell:
    """The bash. What it is told to run, and what that prints, is kept in a folder of its own."""

    def __init__(self, folder: Path, notes: Path, environment: Mapping[str, str]) -> None:
        self._notes = notes
        self._numbers = itertools.count(1)
        self._child = Child(("bash", "--norc", "--noprofile"), folder, environment)

    def run(self, text: str, *, script: bool = False, folder: Path | None = None) -> tuple[int, str]:
        """Run a command, or a script in a bash of its own; return its exit code and all that a terminal would show."""
        command, output = self._note(text)
        call = f"bash -euo pipefail {quote(str(command))}" if script else f". {quote(str(command))}"
        if folder is not None:
            call = f"(cd {quote(str(folder))} && {call})"
        self._tell(f"{call} > {quote(str(output))} 2>&1 < /dev/null {self._child.fd}>&-; echo $?")
        return int(self._answer(text, output)), output.read_text(errors="replace")

    def until(self, text: str, enough: Callable[[str], bool], *, folder: Path | None = None) -> tuple[int, str]:
        """Run a command that does not end by itself until what it printed, and whatever else, is enough; then end it.

        Returns as ``run`` does, of a command that ended by SIGTERM 0.
        """
        command, output = self._note(f"exec {text}")
        where = f"cd {quote(str(folder))} && exec " if folder is not None else "exec "
        inside = quote(f"{where}bash {quote(str(command))}")
        self._tell(
            f"bash -c {inside} > {quote(str(output))} 2>&1 < /dev/null {self._child.fd}>&- & {{ echo $!; }}",
        )
        pid = int(self._answer(text, output))
        deadline = time.monotonic() + PATIENCE
        ended = False
        while not (ended or enough(output.read_text(errors="replace"))):
            ended = self._ended(pid)
            assert time.monotonic() < deadline, f"{text}\nis not as far as the page says:\n{output.read_text()}"
            time.sleep(0.1)
        assert not ended, f"{text}\nended by itself:\n{output.read_text(errors='replace')}"
        code = self._end(pid, text, output)
        return (0 if code in _ENDED else code), output.read_text(errors="replace")

    def close(self) -> None:
        """End it, and all that it left in the background; raises AssertionError if something has to be killed."""
        group = self._child.group
        self._child.close()
        deadline = time.monotonic() + 30
        again = 0.0
        while left := self._child.living():
            if time.monotonic() > again:  # servers drain after the first SIGTERM, and end at the second
                os.killpg(group, signal.SIGTERM)
                again = time.monotonic() + 1.5
            if time.monotonic() > deadline:
                os.killpg(group, signal.SIGKILL)
                break
            time.sleep(0.05)
        self._child.process.wait()
        self._child.released()
        assert not left, f"SIGTERM does not end what the page started: {left}"

    def _note(self, text: str) -> tuple[Path, Path]:
        number = next(self._numbers)
        command = self._notes / f"{number}.command"
        command.write_text(f"{text}\n")
        output = self._notes / f"{number}.output"
        output.touch()
        return command, output

    def _tell(self, line: str) -> None:
        self._child.tell(f"{line} >&{self._child.fd}")

    def _answer(self, text: str, output: Path, seconds: float = PATIENCE) -> str:
        try:
            return self._child.answer(seconds)
        except NoAnswer as error:
            printed = output.read_text(errors="replace") if output.exists() else ""
            raise AssertionError(f"{text}\n{error}:\n{printed}") from None

    def _ended(self, pid: int) -> bool:
        self._tell(f"kill -0 {pid} 2> /dev/null; echo $?")
        return self._child.answer(PATIENCE) != "0"

    def _end(self, pid: int, text: str, output: Path) -> int:
        os.kill(pid, signal.SIGTERM)
        self._tell(f"wait {pid} 2> /dev/null; echo $?")
        try:
            return int(self._child.answer(1.5))
        except NoAnswer:
            os.kill(pid, signal.SIGTERM)  # the second one: do not drain
            return int(self._answer(text, output, 30))
