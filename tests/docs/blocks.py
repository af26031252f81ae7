"""The pages of the documentation as blocks: what a reader types, runs or saves, in the order of the page.

A fence has a language, and may have directives: HTML comments on the lines before it, ``<!-- NAME: VALUE -->``. Those
on figures (``benchmarks.figures``) stand after their text, and are no concern of a fence.
CommonMark's own parser says what a fence is, so one in a list, a quote or another fence is found as well.

Whatever a page has that could pass for code and that the harness would not run is an error here, with its line.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

import yaml
from markdown_it import MarkdownIt
from markdown_it.token import Token

from benchmarks.figures import is_directive

__all__ = ["Block", "Command", "PageError", "commands", "pages", "parse"]

ROOT = Path(__file__).parents[2]

#: Each directive, with the languages of the fences that it may stand before; none means any.
DIRECTIVES: Mapping[str, frozenset[str]] = {
    "file": frozenset(),
    "tested by": frozenset(),
    "given": frozenset(),
    "exits": frozenset({"console"}),
    "until": frozenset({"console"}),
    "in": frozenset({"console", "sh"}),
}
RUN = frozenset({"console", "sh", "python", "yaml"})
#: Directives of the site whose text is prose, with fences of its own; and those that are no text at all.
PROSE = frozenset({"note", "tip", "important", "warning", "caution", "seealso", "admonition", "dropdown"})
GENERATED = frozenset({"toctree", "eval-rst", "image", "include"})

_COMMENT = re.compile(r"<!--(.*?)-->", re.DOTALL)
_DIRECTIVE = re.compile(r"\s*([a-z ]+?):\s*(\S.*?)\s*")
_SITE_DIRECTIVE = re.compile(r"\{([\w-]+)\}.*")


class PageError(Exception):
    """A page has what the harness cannot run; says where."""


@dataclass(frozen=True)
class Block:
    """A fence: its language, its text, the line of its first line of text (from 1), and its directives."""

    page: str
    line: int
    language: str
    text: str
    directives: Mapping[str, str] = field(default_factory=dict)

    @property
    def place(self) -> str:
        """Where it is, as editors jump to."""
        return f"{self.page}:{self.line}"


@dataclass(frozen=True)
class Command:
    """A command of a console, what the page says that it prints, or None, and the exit code that the page says."""

    line: int
    text: str
    printed: str | None
    code: int = 0


def pages() -> list[str]:
    """The pages, as paths below the checkout."""
    docs = (ROOT / "docs").rglob("*.md")
    return ["README.md", *sorted(page.relative_to(ROOT).as_posix() for page in docs)]


def parse(page: str, text: str) -> list[Block]:
    """Return the fences of a page that have a language, in their order; raises PageError."""
    return list(_blocks(page, text, 0))


def _blocks(page: str, text: str, above: int) -> Iterator[Block]:
    """The fences of a text that begins so many lines below the top of its page."""
    directives: dict[str, str] = {}
    shown = ""
    for token in MarkdownIt("commonmark").enable("table").parse(text):
        line = above + (token.map[0] + 1 if token.map else 0)
        if token.type == "html_block":
            for name, value in _directives(page, line, token.content):
                if name in directives:
                    raise PageError(f"{page}:{line}: a second `{name}` for the same fence")
                directives[name] = value
        elif token.type == "fence":
            yield from _fence(page, line, token, directives)
            _refuse_hidden_name(page, line, directives.get("file", ""), shown)
            directives = {}
        elif directives:
            raise PageError(f"{page}:{line}: `{'`, `'.join(directives)}` stands before what is no fence")
        elif token.type == "code_block":
            raise PageError(f"{page}:{line}: indented code, which has no language; make it a fence")
        elif token.type == "inline":
            shown = token.content
            _refuse_comments(page, line, token.children or ())
    if directives:
        raise PageError(f"{page}: `{'`, `'.join(directives)}` stands at the end, before no fence")


def _directives(page: str, line: int, html: str) -> Iterator[tuple[str, str]]:
    for comment in _COMMENT.finditer(html):
        if is_directive(comment[0]):
            continue
        said = _DIRECTIVE.fullmatch(comment[1])
        if said is None or said[1] not in DIRECTIVES:
            known = ", ".join(DIRECTIVES)
            raise PageError(f"{page}:{line}: {comment[0]} is no directive (NAME: VALUE, with {known})")
        yield said[1], said[2]


def _refuse_comments(page: str, line: int, children: Sequence[Token]) -> None:
    for child in children:
        if child.type == "html_inline" and child.content.startswith("<!--"):
            raise PageError(f"{page}:{line}: {child.content} is inside of a paragraph; directives have their own lines")


def _refuse_hidden_name(page: str, line: int, name: str, shown: str) -> None:
    """The directive is a comment: a reader sees the name of a file only in the paragraph before its fence."""
    if PurePosixPath(name.partition(" ")[0]).name not in shown:
        raise PageError(f"{page}:{line}: a reader does not see that this is {name}; name it in the line before")


def _fence(page: str, line: int, token: Token, directives: Mapping[str, str]) -> Iterator[Block]:
    """What a fence comes to: nothing, one block, or those of the prose in it."""
    language, *more = token.info.split(maxsplit=1) or [""]
    site = _SITE_DIRECTIVE.fullmatch(token.info.strip())
    if directives and (not language or site):
        raise PageError(f"{page}:{line}: `{'`, `'.join(directives)}` stands before a fence that nothing runs")
    if site is not None:
        if site[1] in PROSE:
            yield from _blocks(page, token.content, line)
        elif site[1] not in GENERATED or "code-block::" in token.content:
            raise PageError(f"{page}:{line}: {{{site[1]}}} may hold code that nothing runs; use a plain fence")
        return
    if not language:
        return
    if more:
        raise PageError(f"{page}:{line}: `{token.info}` has more than a language")
    if language not in RUN and not directives.keys() & {"file", "tested by"}:
        raise PageError(f"{page}:{line}: nothing runs `{language}`; say which file it is, or which test runs it")
    for name in directives:
        if DIRECTIVES[name] and language not in DIRECTIVES[name]:
            raise PageError(f"{page}:{line}: `{name}` says nothing of a fence of `{language}`")
    block = Block(page, line + 1, language, token.content, dict(directives))
    _check_together(block)
    yield block


def _check_together(block: Block) -> None:
    """Refuse directives that contradict each other, and a file out of the work folder."""
    names = block.directives.keys()
    if names & {"file", "tested by"} and names & {"exits", "until", "in"}:
        raise PageError(f"{block.place}: what is not run here neither exits nor stands anywhere")
    file = PurePosixPath(block.directives.get("file", "a"))
    if file.is_absolute() or ".." in file.parts:
        raise PageError(f"{block.place}: {file} is outside of the work folder")
    if block.directives.get("in", "checkout") != "checkout":
        raise PageError(f"{block.place}: `in` knows the checkout only")
    if names & {"file", "tested by"}:
        return
    if block.language == "console":
        commands(block)
    if block.language == "yaml":
        _check_whole(block)


def _check_whole(block: Block) -> None:
    """Refuse YAML that no API server can judge."""
    try:
        documents = list(yaml.safe_load_all(block.text))
    except yaml.YAMLError as error:
        raise PageError(f"{block.place}: no YAML ({error})") from error
    if not all(isinstance(each, dict) and {"apiVersion", "kind", "metadata"} <= each.keys() for each in documents):
        raise PageError(f"{block.place}: a part of a manifest; make it whole, or say which file it is")


def commands(block: Block) -> list[Command]:
    """Return the commands of a console with what each prints.

    A command goes on after a backslash at the end of its line. ``exits`` is the code of the last command, or the
    codes of all, with commas between.
    """
    parts: list[tuple[int, str, list[str]]] = []
    goes_on = False
    for number, line in enumerate(block.text.splitlines()):
        if goes_on:
            place, command, printed = parts.pop()
            parts.append((place, f"{command}\n{line}", printed))
        elif line.startswith("$ "):
            parts.append((block.line + number, line[2:], []))
        elif not parts:
            raise PageError(f"{block.place}: a console begins with a command, `$ …`")
        else:
            parts[-1][2].append(line)
        goes_on = (goes_on or line.startswith("$ ")) and line.endswith("\\")
    if not parts or goes_on:
        raise PageError(f"{block.place}: a console without a command, or whose last one goes on nowhere")
    codes = _codes(block, len(parts))
    return [
        Command(line, command, "\n".join(printed).strip("\n") if any(printed) else None, code)
        for (line, command, printed), code in zip(parts, codes, strict=True)
    ]


def _codes(block: Block, count: int) -> list[int]:
    said = block.directives.get("exits", "0")
    if not re.fullmatch(r"\d+(, *\d+)*", said):
        raise PageError(f"{block.place}: `exits: {said}` is no exit code, nor several with commas between")
    codes = [int(each) for each in said.split(",")]
    if len(codes) == 1:
        return [0] * (count - 1) + codes
    if len(codes) != count:
        raise PageError(f"{block.place}: {len(codes)} exit codes for {count} commands")
    return codes
