"""``restow profile``: what CloudProfiles and NamespacedCloudProfiles say, at any time, from files."""

from __future__ import annotations

from importlib import import_module

import click
from click.shell_completion import CompletionItem

from restow.cli.shared import dressed

__all__ = ["command"]

_COMMANDS = {
    "evaluate": "Show the classification of every version at a time, and when it changes.",
    "timeline": "Draw the stages of every version over time.",
    "render": "Render a NamespacedCloudProfile with its parent.",
    "validate": "Check profiles as admission would.",
    "forced-target": "Show where updates take a version, step by step.",
    "manage": "Show what automatic version management would change.",
}


class _Group(click.Group):
    def list_commands(self, _context: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, _context: click.Context, name: str) -> click.Command | None:
        if name not in _COMMANDS:
            return None
        found = import_module(f"restow.commands.profile.{name.replace('-', '_')}").command
        assert isinstance(found, click.Command)
        return dressed(found)

    def shell_complete(self, context: click.Context, incomplete: str) -> list[CompletionItem[str]]:
        if incomplete.startswith("-"):
            return super().shell_complete(context, incomplete)
        return [CompletionItem(name, help=text) for name, text in _COMMANDS.items() if name.startswith(incomplete)]

    def format_commands(self, _context: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(_COMMANDS.items()))


@click.command("profile", cls=_Group)
def command() -> None:
    """Evaluate, draw, render, validate, manage CloudProfiles of files.

    No cluster is needed. Manifests may be of v1beta1 or v1beta2; of a List every item counts.

    Exit codes: 0 done; 1 something is refused, or leads nowhere; 2 usage, or a manifest that is none; 3 something
    would change.

    \b
    restow profile evaluate -f cloudprofile.yaml
    """
