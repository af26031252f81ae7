"""Check the figures of README.md and docs/ against records, and update them with ``make figures``.

This program writes the tables of records between two comments:

    <!-- record: migration.memory > Peak resident memory -->
    <!-- end of record -->

Without a table's name, it writes all tables of the record except its claims; ``; `` separates several names. A figure
in running text has a comment on the lines after its paragraph, in the order of the text:

    <!-- figure: 94.8 = migration.memory > Peak resident memory > 2,000 > MiB -->
    <!-- constant: 8 MiB = restow.conversion.server:Limits.object -->
    <!-- source: 1.5 MiB = https://etcd.io/docs/v3.5/dev-guide/limit/ -->

A ``figure`` comes from a record, a ``constant`` from the code, a ``source`` from another publication or a test. A
ratio, a time in milliseconds, a size, a rate, or a number of seeds without one of these is an error.
"""

from __future__ import annotations

import argparse
import dataclasses
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from benchmarks.records import SEPARATOR, Figure, RecordedTable, RecordError, ResultRecord, load

__all__ = ["ROOT", "Renewed", "is_directive", "main", "pages", "renew"]

ROOT: Final = Path(__file__).parents[1]
_BEGIN: Final = re.compile(r"<!-- record: (?P<record>[\w.-]+)(?: > (?P<tables>.+?))? -->")
_END: Final = "<!-- end of record -->"
_QUOTE: Final = re.compile(r"\s*<!-- (?P<kind>figure|constant|source): (?P<shown>.+?) = (?P<of>.+?) -->")
_FENCE: Final = re.compile(r"\s*(`{3,}|~{3,})")
_HEADING: Final = re.compile(r"#{1,6} ")
#: The parts of a page that make no statement: code, targets of links, comments.
_MASKED: Final = re.compile(r"`(?:[^`\n]|\n(?!\s*\n))*`|\]\([^)]*\)|<!--.*?-->", re.DOTALL)
_MEASURED: Final = re.compile(
    r"(?<![\w.,])\d(?:[\d,.]*\d)?(?:\s+to\s+\d(?:[\d,.]*\d)?)?(?:"
    r"\s?(?:\u00d7|x\b)|(?<=\.\d\d)\stimes\b|(?<=\.\d)\stimes\b|\s(?:times\s(?:the|as|more|less|faster|slower)\b|ms\b|µs\b|us\b|objects/s|s\sof\sCPU|seeds\b|writes/s)"
    r"|\s?(?:[KMG]i?B|kB)\b)|(?<!\w)[Ss]eeds\s\d[\d,]*\sto\s\d(?:[\d,]*\d)?"
)
_MEASURED_COLUMN: Final = re.compile(r"(?<!\w)(?:ms|µs|us|MiB|MB|objects/s|CPU|p50|p99|peak)(?!\w)")
_RULE: Final = re.compile(r"\|[\s:|-]+\|")
_NUMBER: Final = re.compile(r"(-?[\d,]*\.?\d+)\s*(\S*)")
_FACTORS: Final = {
    "": 1.0, "%": 0.01, "s": 1.0, "ms": 0.001, "seconds": 1.0, "minutes": 60.0, "hours": 3600.0, "kB": 1e3, "MB": 1e6,
    "KiB": 1024.0, "MiB": 1024.0**2, "GiB": 1024.0**3,
}  # fmt: skip


@dataclass(slots=True)
class Renewed:
    """A page with the figures of the records, and its errors, each with its line."""

    text: str
    problems: list[str] = field(default_factory=list)


def pages() -> list[Path]:
    """Return the pages whose figures are checked; the changelog is excluded, because it keeps old measurements."""
    docs = (ROOT / "docs").rglob("*.md")
    return [ROOT / "README.md", *sorted(page for page in docs if page.name != "changelog.md")]


def is_directive(comment: str) -> bool:
    """Whether this module reads an HTML comment of a page."""
    return comment == _END or bool(_BEGIN.fullmatch(comment) or _QUOTE.fullmatch(comment))


def renew(page: str, text: str, records: Mapping[str, ResultRecord]) -> Renewed:
    """Write the figures of the records into a page, and return its errors."""
    renewer = _Renewer(page, text, records)
    renewer.run()
    return Renewed("\n".join(renewer.written), renewer.problems)


@dataclass(frozen=True, slots=True)
class _Quote:
    """A comment with the origin of a figure in the text above it."""

    kind: str
    shown: str
    of: str

    @property
    def line(self) -> str:
        return f"<!-- {self.kind}: {self.shown} = {self.of} -->"


class _Renewer:
    """Reads a page from top to bottom.

    The text since the last comment, table of a record or heading is a passage. The comments after it have its figures
    in their order.
    """

    def __init__(self, page: str, text: str, records: Mapping[str, ResultRecord]) -> None:
        self._page = page
        self._records = records
        self._lines = text.split("\n")
        self._fenced = list(_fenced(self._lines))
        self._begun = 0
        self.written: list[str] = []
        self.problems: list[str] = []

    def run(self) -> None:
        number = 0
        while number < len(self._lines):
            line = self._lines[number]
            if self._fenced[number]:
                number += 1
            elif begin := _BEGIN.fullmatch(line):
                self._close(number, [])
                number = self._block(number, begin)
            elif _QUOTE.fullmatch(line):
                quotes = []
                after = number
                while after < len(self._lines) and (found := _QUOTE.fullmatch(self._lines[after])):
                    quotes.append(_Quote(found["kind"], found["shown"], found["of"]))
                    after += 1
                self._close(number, quotes)
                self._begun = number = after
            elif _HEADING.match(line):
                self._close(number, [])
                self._begun, number = number, number + 1
            else:
                number += 1
        self._close(number, [])

    def _wrong(self, number: int, problem: str) -> None:
        self.problems.append(f"{self._page}:{number + 1}: {problem}")

    def _block(self, number: int, begin: re.Match[str]) -> int:
        """Write the tables of a record; return the number of the line after them."""
        end = number + 1
        while end < len(self._lines) and self._lines[end] != _END and not _BEGIN.fullmatch(self._lines[end]):
            end += 1
        if end == len(self._lines) or self._lines[end] != _END:
            self._wrong(number, f"no {_END} follows")
            self._begun = number
            return number + 1
        try:
            record = _record(self._records, begin["record"])
            wanted = begin["tables"].split("; ") if begin["tables"] else None
            lines = list(rendered(record, wanted))
        except RecordError as error:
            self._wrong(number, str(error))
            lines = self._lines[number + 1 : end]
        self.written += [self._lines[number], *lines, _END]
        self._begun = end + 1
        return end + 1

    def _close(self, number: int, quotes: Sequence[_Quote]) -> None:
        """Write the passage that ends before a line, and its comments after it."""
        lines, fenced = self._lines[self._begun : number], self._fenced[self._begun : number]
        stated = "\n".join(" " * len(line) if code else line for line, code in zip(lines, fenced, strict=True))
        plain = _MASKED.sub(_blank, stated)
        text, covered, comments = self._replaced("\n".join(lines), plain, number, quotes)
        for start, what in _measured(plain):
            if not any(first < start + len(what) and start < last for first, last in covered):
                line = self._begun + plain.count("\n", 0, start)
                self._wrong(line, f"{' '.join(what.split())} is a figure without a source")
        if lines:
            self.written += text.split("\n")
        self.written += comments

    def _replaced(
        self, text: str, plain: str, number: int, quotes: Sequence[_Quote]
    ) -> tuple[str, list[tuple[int, int]], list[str]]:
        """Return a passage with the current figures, the parts of the old one that have a source, and the comments."""
        parts, covered, comments, at = [], [], [], 0
        for quote in quotes:
            place = _place_of(quote.shown).search(plain, at)
            if place is None:
                self._wrong(number, f"the text above does not say {quote.shown}, or not in this order")
                comments.append(quote.line)
                continue
            shown = self._checked(number, quote)
            parts += [text[at : place.start()], shown if shown != quote.shown else place[0]]
            at = place.end()
            covered.append(place.span())
            comments.append(_Quote(quote.kind, shown, quote.of).line)
        return "".join(parts) + text[at:], covered, comments

    def _checked(self, number: int, quote: _Quote) -> str:
        """Return the current text of a figure."""
        try:
            if quote.kind == "figure":
                return self._figure(quote).shown
            if quote.kind == "constant":
                _check_constant(quote.shown, quote.of)
            elif not _is_source(quote.of):
                self._wrong(number, f"{quote.of} is neither a link nor a test of the checkout")
        except RecordError as error:
            self._wrong(number, str(error))
        return quote.shown

    def _figure(self, quote: _Quote) -> Figure:
        name, _, path = quote.of.partition(SEPARATOR)
        return _record(self._records, name).figure(path)


def _fenced(lines: Sequence[str]) -> Iterator[bool]:
    """Yield for each line whether it is part of a fence."""
    fence = ""
    for line in lines:
        opened = _FENCE.match(line)
        if fence:
            yield True
            if opened and opened[1].startswith(fence) and line.strip() == opened[1]:
                fence = ""
        else:
            fence = opened[1] if opened else ""
            yield bool(opened)


def _place_of(shown: str) -> re.Pattern[str]:
    """Return the pattern of a figure, which is not part of a longer number and may continue on the next line."""
    words = r"\s+".join(map(re.escape, shown.split()))
    return re.compile(rf"(?<![\d.,]){words}(?!\d|[.,]\d)")


def _blank(match: re.Match[str]) -> str:
    return re.sub(r"[^\n]", " ", match[0])


def _measured(plain: str) -> Iterator[tuple[int, str]]:
    """Yield text that looks like a measured figure, with its place: in sentences, and in tables with such columns."""
    for found in _MEASURED.finditer(plain):
        yield found.start(), found[0]
    at, measured = 0, False
    lines = plain.split("\n")
    for line, following in zip(lines, [*lines[1:], ""], strict=True):
        if _RULE.fullmatch(following):
            measured = bool(_MEASURED_COLUMN.search(line))
        elif measured and not _RULE.fullmatch(line):
            measured = line.startswith("|")
            for found in re.finditer(r"(?<=\| )-?\d[\d.,]*(?= \|)", line) if measured else ():
                yield at + found.start(), found[0]
        at += len(line) + 1


def _record(records: Mapping[str, ResultRecord], name: str) -> ResultRecord:
    if name not in records:
        raise RecordError(f"there is no record {name}")
    return records[name]


def rendered(record: ResultRecord, wanted: Sequence[str] | None) -> Iterator[str]:
    """Yield the lines of tables of a record, and of the description of the measurement."""
    if wanted is None:
        tables = [table for table in record.tables if table.name != "Claims"]
    else:
        tables = [record.table(name) for name in wanted]
    for table in tables:
        if len(tables) > 1 and table.name:
            yield from ("", f"**{table.name}**", "")
        yield from _table(table)
    yield from ("", _circumstances(record))


def _table(table: RecordedTable) -> Iterator[str]:
    yield f"| {' | '.join(table.columns)} |"
    yield "|---|" + "---:|" * (len(table.columns) - 1)
    for row in table.rows:
        cells = (cell.shown if isinstance(cell, Figure) else cell.replace("|", "\\|") for cell in row)
        yield f"| {' | '.join(cells)} |"


def _circumstances(record: ResultRecord) -> str:
    machine = record.machine
    told = f"`{record.command}`, {record.date}: {machine.cores} cores, Python {machine.python}"
    if machine.kubernetes is not None:
        told += f", Kubernetes {machine.kubernetes}"
    if machine.other_cores is not None:
        told += f"; other programs kept {machine.other_cores:.2f} cores busy"
    if record.transcribed is None:
        return f"{told}."
    copied = f"These figures were copied from the documentation as of commit {record.transcribed.commit}."
    return f"{told}; {record.transcribed.load}. {copied}"


def _is_source(of: str) -> bool:
    name, _, test = of.partition("::")
    path = ROOT / name
    if of.startswith("https://"):
        return True
    return path.is_file() and (not test or f"def {test}(" in path.read_text(encoding="utf-8"))


def _check_constant(shown: str, of: str) -> None:
    """Compare a figure with a constant of the code.

    Raises:
        RecordError: the constant has another value, or does not exist.
    """
    said = _NUMBER.fullmatch(shown)
    if said is None or said[2] not in _FACTORS:
        raise RecordError(f"{shown!r} is no number with a known unit")
    module, _, path = of.partition(":")
    try:
        value: Any = import_module(module)
        for name in path.split("."):
            value = _attribute(value, name)
    except (ImportError, AttributeError) as error:
        raise RecordError(f"{of}: {error}") from error
    if isinstance(value, timedelta):
        value = value.total_seconds()
    elif isinstance(value, range):
        value = value[-1]
    if not isinstance(value, int | float):
        raise RecordError(f"{of} is no number")
    if abs(float(said[1].replace(",", "")) * _FACTORS[said[2]] - value) > 1e-9 * abs(value):
        raise RecordError(f"{of} is {value:,}, and the page says {shown}")


def _attribute(value: Any, name: str) -> Any:
    """Return an attribute; for a field of a class, its default."""
    if dataclasses.is_dataclass(value) and isinstance(value, type):
        for each in dataclasses.fields(value):
            if each.name == name and each.default is not dataclasses.MISSING:
                return each.default
    return getattr(value, name)


def main(words: Sequence[str] | None = None) -> int:
    """Update all pages, or only check them; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.figures", description="Renew the figures of the pages.")
    parser.add_argument("--check", action="store_true", help="write nothing; fail if a page is not current")
    flags = parser.parse_args(words)
    records, problems = load(), []
    for path in pages():
        page, text = path.relative_to(ROOT).as_posix(), path.read_text(encoding="utf-8")
        renewed = renew(page, text, records)
        problems += renewed.problems
        if renewed.text == text:
            continue
        if flags.check:
            problems.append(f"{page} has other figures than benchmarks/results: run make figures")
        else:
            path.write_text(renewed.text, encoding="utf-8")
    sys.stderr.write("".join(f"{problem}\n" for problem in problems))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
