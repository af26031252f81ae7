"""``restow options``: show the options of the cluster and the log once, as ``kubectl options`` does."""

from __future__ import annotations

from typing import Any

import click

from restow.cli import options
from restow.cli.printing import print_text
from restow.cli.shared import OPTIONS


@click.command(OPTIONS)
@options.connection
@click.pass_context
def command(context: click.Context, /, **_values: Any) -> None:
    """Show the options that select the cluster, the user and the log.

    Every command that talks to an API server takes them. They come after the command's name.

    Exit codes: 0 shown; 2 usage.

    \b
    restow options
    """
    formatter = context.make_formatter()
    context.command.format_options(context, formatter)
    print_text(formatter.getvalue())
