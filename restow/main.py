"""The ``restow`` command: a table of its subcommands, each in a module of ``restow.commands``.

The command imports a subcommand only when it is called, because importing the API client alone takes longer than
showing the help should.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Final

import click
from click.shell_completion import CompletionItem, ShellComplete

from restow import __version__
from restow.cli.escapes import visible
from restow.cli.exits import InputError
from restow.cli.extras import missing_library
from restow.cli.shared import WORDS, HelpContext, dressed
from restow.cli.tables import fold

_SHORT: Final = re.compile(r"(?P<flag>-[a-zA-Z])=(?P<value>.*)", re.ASCII | re.DOTALL)
_SERVING: Final = ("serve", "operator")  # their SIGHUP reloads the certificate
_FILES: Final = 0  # cobra's ShellCompDirectiveDefault: the shell's own completion of files
_NO_FILES: Final = 4  # ShellCompDirectiveNoFileComp
_FOLDERS: Final = 16  # ShellCompDirectiveFilterDirs


class _Kubectl(ShellComplete):
    """kubectl's completion protocol for plugins: words as arguments, candidates on stdout."""

    name = "kubectl"

    def format_completion(self, item: CompletionItem[str]) -> str:
        help_text = " ".join(item.help.split()) if item.help else ""
        return f"{item.value}\t{help_text}" if help_text else item.value


def kubectl(words: Sequence[str]) -> str:
    """Return kubectl's candidates for the last of the plugin's words, which is empty for a new word."""
    *before, incomplete = words or [""]
    shell = _Kubectl(main, {}, "restow", "")
    found = shell.get_completions(list(before), incomplete)
    plain = [shell.format_completion(item) for item in found if item.type == "plain"]
    directive = _NO_FILES
    if any(item.type == "file" for item in found):
        directive = _FILES
    elif any(item.type == "dir" for item in found):
        directive = _FOLDERS
    return "".join(f"{line}\n" for line in [*plain, f":{directive}"])


def kubectl_main() -> None:
    """Run ``kubectl_complete-restow``."""
    from restow.cli.printing import print_text

    print_text(kubectl(sys.argv[1:]))


COMMANDS = {
    "diff": "Say what clients notice if the CRDs of NEW replace those of OLD.",
    "plan": "Show what a migration would do, without a change.",
    "migrate": "Migrate all objects of CRDs to their storage version.",
    "status": "Show the versions of CRDs and whether a migration is due.",
    "ready": "Report whether a version can be unserved or removed now.",
    "references": "Find everything that names a version of a CRD.",
    "rbac": "Print the minimal RBAC that commands need, with reasons.",
    "timeline": "Plan the removal of API versions across releases of a project.",
    "report": "Write an HTML page of stored versions, owners, and readiness.",
    "suggest": "Draft the conversion rules between two versions of a CRD.",
    "convert": "Convert manifests to another version, with comments and order.",
    "explain": "Explain where each field of a converted object came from.",
    "check": "Check that conversions account for every field of CRDs.",
    "roundtrip": "Convert objects to other versions and back; report differences.",
    "rules": "List, explain and print conversion rules, or their JSON Schema.",
    "serve": "Serve conversions and admission over HTTPS.",
    "operator": "Run conversion, admission and controllers of CloudProfiles.",
    "unwire": "Take a conversion webhook away from CRDs that do not need it.",
    "uninstall": "Remove what restow left in a cluster, except what is needed.",
    "doctor": "Find out what is wrong with a CRD, and how to fix it.",
    "profile": "Evaluate, draw, render, validate, manage CloudProfiles of files.",
    "version": "Show the versions of restow, the API server and all formats.",
    "completion": "Print the completion script of restow for a shell.",
    "options": "Show the options that select the cluster, the user and the log.",
}
"""The subcommands in the order in which a migration uses them, with their one-line help."""


def separated(arguments: Sequence[str]) -> list[str]:
    """Split values off short flags, because kubectl accepts ``-o=json`` and ``-v=6`` too."""
    found: list[str] = []
    flags = True
    for each in arguments:
        flags = flags and each != "--"
        short = _SHORT.fullmatch(each) if flags else None
        found += [short["flag"], short["value"]] if short else [each]
    return found


class _Commands(click.Group):
    """Looks up subcommands by name, and imports only the one that is called."""

    context_class = HelpContext

    def list_commands(self, _context: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, _context: click.Context, name: str) -> click.Command | None:
        if name not in COMMANDS:
            return None
        if name in _SERVING:
            from restow.cli.signals import ignore_hangup

            ignore_hangup()  # before the imports, which take seconds on a busy machine
        try:
            command = import_module(f"restow.commands.{name}").command
        except ModuleNotFoundError as error:
            raise InputError(missing_library(f"restow {name}", error)) from error
        assert isinstance(command, click.Command)
        return dressed(command)

    def resolve_command(
        self, context: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if name not in COMMANDS and not name.startswith("-"):
            from difflib import get_close_matches

            near = get_close_matches(name, COMMANDS, 1)
            advice = f"did you mean {near[0]}?" if near else "restow --help lists them"
            context.fail(f"No such command {name!r}: {advice}")
        found, command, rest = super().resolve_command(context, args)
        rest = separated(rest)
        context.meta[WORDS] = [found, *rest]
        return found, command, rest

    def shell_complete(self, context: click.Context, incomplete: str) -> list[CompletionItem[str]]:
        if incomplete.startswith("-"):
            return super().shell_complete(context, incomplete)
        return [CompletionItem(name, help=text) for name, text in COMMANDS.items() if name.startswith(incomplete)]

    def invoke(self, context: click.Context) -> object:
        try:
            return super().invoke(context)
        except ModuleNotFoundError as error:
            raise InputError(missing_library(f"restow {context.invoked_subcommand}", error)) from error
        except click.UsageError as error:
            from restow.cli.printing import terminal_width

            # The message may quote a manifest, and click prints it unescaped, and as one line.
            prefix, text = "Error: ", visible(error.format_message())
            lines = fold(text, terminal_width(stderr=True), first=prefix)
            raise click.UsageError("\n".join(lines).removeprefix(prefix), error.ctx) from error
        except click.ClickException as error:
            vars(error)["message"] = visible(error.message)
            raise

    def format_commands(self, _context: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.command(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(__version__, prog_name="restow")
def main() -> None:
    """Migrate CustomResourceDefinitions from one API version to the next, with every object and its owners.

    What cannot be kept fails or is reported: see "Limits" in the documentation.

    Exit codes: 0 done; 1 some objects failed, or findings; 2 usage or refused; 3 work is due, or not ready;
    4 the API server or a converter stayed out of reach: run again.

    \b
    restow plan                           # what is due
    restow migrate widgets                # do it
    restow ready widgets --drop v1alpha1  # may the old version go?
    """
