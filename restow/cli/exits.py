"""How commands end: exit codes, which tell a Job whether a retry can help, and errors about the user's input."""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum
from typing import Any

import click


class Exit(IntEnum):
    """The meaning of a command's exit code.

    A Job should fail permanently on 2 and 3, and retry after 1 and 4.
    """

    DONE = 0
    FAILURES = 1
    REFUSED = 2
    DUE = 3
    OUT_OF_REACH = 4


class InputError(click.ClickException):
    """An input file is not what the command expects; printed like every other usage error.

    Args:
        message: a sentence; its line feeds are shown as escapes, because names can contain them.
        lines: further lines, printed below the message.
    """

    exit_code = Exit.REFUSED

    def __init__(self, message: str, lines: Iterable[str] = ()) -> None:
        super().__init__(message)
        self.lines = tuple(lines)

    def show(self, _file: Any = None) -> None:
        from restow.cli.printing import say

        for line in (f"restow: {self.message}", *self.lines):
            say(line)


class FindingsError(InputError):
    """The input is readable, but an API server would refuse it; the command reports the reasons as findings."""

    exit_code = Exit.FAILURES
