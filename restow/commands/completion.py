"""``restow completion``: click's completion scripts, under the command name that kubectl uses."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from restow.cli.printing import print_text

_PROGRAM = "restow"


@click.command("completion")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def command(context: click.Context, shell: str) -> None:
    """Print the completion script of restow for a shell.

    The script completes commands, flags, their choices, files, and the names of the cluster's CRDs, unless the cluster
    takes more than three seconds to answer. `kubectl restow` needs no script of its own: kubectl's completion calls
    `kubectl_complete-restow`, which is installed together with restow.

    Exit codes: 0 printed; 2 usage.

    \b
    source <(restow completion bash)                                   # in ~/.bashrc
    restow completion zsh > "${fpath[1]}/_restow"                      # once
    restow completion fish > ~/.config/fish/completions/restow.fish    # once
    """
    made = get_completion_class(shell)
    assert made is not None, f"click completes {shell}"
    print_text(made(context.find_root().command, {}, _PROGRAM, f"_{_PROGRAM.upper()}_COMPLETE").source() + "\n")
