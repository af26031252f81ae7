"""How commands end: exit codes, by which a Job can tell "run again" from "never", and refusals of what was given."""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum
from typing import Any

import click

from restow.cli.escapes import visible

__all__ = ["Exit", "FindingsError", "InputError"]


class Exit(IntEnum):
    """What a command's exit code says.

    A Job that fails for good on 2 and 3, and tries again after 1 and 4, does the right thing for each of them.
    """

    DONE = 0
    FAILURES = 1
    REFUSED = 2
    DUE = 3
    OUT_OF_REACH = 4


class InputError(click.ClickException):
    """A file that was given is not what it should be; told like every other refusal.

    Args:
        message: a sentence; its line feeds are shown as escapes, since names may hold some.
        lines: told below it.
    """

    exit_code = Exit.REFUSED

    def __init__(self, message: str, lines: Iterable[str] = ()) -> None:
        super().__init__(message)
        self.lines = tuple(lines)

    def show(self, file: Any = None) -> None:
        for line in (f"restow: {self.message}", *self.lines):
            click.echo(visible(line), err=True, file=file)


class FindingsError(InputError):
    """What was given can be read, and an API server would refuse it: the answer to it is findings."""

    exit_code = Exit.FAILURES
