"""Manual pages, generated from the commands' help.

``python -m restow.manpages FOLDER`` writes ``restow.1``, ``restow-plan.1``, and so on.

Why not an existing tool: click-man 0.6 sees only commands that a group has loaded, fails at an option without a help
record (``SharedOption``), and shortens the description of a page. Sphinx's writer makes one page of the whole
reference, without the sections that readers expect in a manual. The help texts of restow have a regular form (a
summary, paragraphs, "Exit codes:", verbatim examples), so the module can split them into these sections.

Invariant: the same commands give the same bytes.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import click

from restow import __version__
from restow.cli.shared import OPTIONS, SharedOption

_VERBATIM: Final = "\b"  # click's marker of a paragraph that is not rewrapped
_EXITS: Final = "Exit codes: "


def pages(program: click.Command, name: str, version: str) -> dict[str, str]:
    """Return roff by file name (``restow-profile-render.1``) for a program and all its commands."""
    made: dict[str, str] = {}
    root = click.Context(program, info_name=name, **program.context_settings)
    for path, context in _commands(root):
        made[f"{'-'.join(path)}.1"] = _page(path, context, version)
    return made


def examples(command: click.Command) -> list[str]:
    """Return the example lines of a command's help, with their comments after a ``#``."""
    found = [part for part in _paragraphs(command) if part.startswith(_VERBATIM)]
    return [line for part in found for line in part.splitlines()[1:]]


def exit_codes(command: click.Command) -> dict[int, str]:
    """Return the exit codes in a command's help, with their meaning."""
    (told,) = [part for part in _paragraphs(command) if part.startswith(_EXITS)] or [""]
    listed = " ".join(told.removeprefix(_EXITS).split()).rstrip(".")
    matches = (re.fullmatch(r"(\d+) (.+)", each) for each in listed.split("; "))
    return {int(match[1]): match[2] for match in matches if match}


def _commands(context: click.Context) -> Iterator[tuple[tuple[str, ...], click.Context]]:
    """Yield a command and its subcommands, each with the words that call it."""
    path = tuple(context.command_path.split())
    yield path, context
    if isinstance(context.command, click.Group):
        for name in context.command.list_commands(context):
            command = context.command.get_command(context, name)
            assert command is not None
            yield from _commands(click.Context(command, parent=context, info_name=name))


def _page(path: Sequence[str], context: click.Context, version: str) -> str:
    command = context.command
    first, *rest = _paragraphs(command)
    described = [part for part in rest if not part.startswith((_VERBATIM, _EXITS))]
    usage = " ".join(command.collect_usage_pieces(context))
    title = "-".join(path)
    lines = [f'.TH "{title.upper()}" "1" "" "restow {version}" "restow"']
    lines += [".SH NAME", f"{_text(title)} \\- {_text(_joined(first).rstrip('.'))}"]
    lines += [".SH SYNOPSIS", f".B {_text(' '.join(path))}", _text(usage)]
    if described:
        lines += [".SH DESCRIPTION", *_separated(_text(_joined(part)) for part in described)]
    lines += _options(context)
    if isinstance(command, click.Group):
        lines += [".SH COMMANDS"]
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            assert below is not None
            lines += [".TP", f".BR {_text(f'{title}-{name}')} (1)", _text(_joined(_paragraphs(below)[0]))]
    lines += [".SH EXIT STATUS"]
    for code, meaning in exit_codes(command).items():
        lines += [".TP", f".B {code}", _text(f"{meaning[0].upper()}{meaning[1:]}.")]
    lines += [".SH EXAMPLES", ".nf", *map(_text, examples(command)), ".fi"]
    if context.parent is not None:
        shared = [f"{path[0]}-{OPTIONS}"] if any(isinstance(each, SharedOption) for each in command.params) else []
        also = dict.fromkeys(("-".join(path[:-1]), *shared))
        lines += [".SH SEE ALSO", *(f".BR {_text(each)} (1)" for each in also if each != title)]
    return "\n".join(lines) + "\n"


def _options(context: click.Context) -> list[str]:
    records = [record for each in context.command.get_params(context) if (record := each.get_help_record(context))]
    lines = [".SH OPTIONS"]
    for flags, meaning in records:
        lines += [".TP", f".B {_text(flags)}", _text(_joined(meaning))]
    return lines


def _paragraphs(command: click.Command) -> list[str]:
    return inspect.cleandoc(command.help or "").split("\n\n")


def _joined(paragraph: str) -> str:
    return " ".join(paragraph.split())


def _separated(paragraphs: Iterator[str]) -> list[str]:
    return "\n.PP\n".join(paragraphs).split("\n")


def _text(text: str) -> str:
    """Escape a text for roff: no request at its beginning, and hyphens that can be searched."""
    escaped = text.replace("\\", "\\e").replace("-", "\\-").replace("'", "\\(aq").replace('"', "\\(dq")
    return f"\\&{escaped}" if escaped.startswith(".") else escaped


def main(arguments: Sequence[str]) -> int:
    """Write the pages of ``restow`` into a folder; return the exit code."""
    from restow.main import main as program

    if len(arguments) != 1:
        sys.stderr.write("usage: python -m restow.manpages FOLDER\n")
        return 2
    folder = Path(arguments[0])
    folder.mkdir(parents=True, exist_ok=True)
    for name, page in pages(program, "restow", __version__).items():
        (folder / name).write_text(page, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
