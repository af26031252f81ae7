"""Options that every command with an API server takes. As with kubectl, one command shows them for all."""

from __future__ import annotations

from functools import partial
from typing import Final

import click

OPTIONS: Final = "options"
"""The name of the command that shows the shared options."""

_POINTER: Final = "`restow options` shows the options that select the cluster, the user and the log."


class SharedOption(click.Option):
    """An option that only the help of ``restow options`` shows."""

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        return super().get_help_record(ctx) if ctx.command.name == OPTIONS else None


option = partial(click.option, cls=SharedOption)


def point_to_options(command: click.Command) -> None:
    """Name ``restow options`` at the end of the help of a command that takes the shared options."""
    if command.name != OPTIONS and any(isinstance(each, SharedOption) for each in command.params):
        command.epilog = _POINTER
