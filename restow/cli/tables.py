"""Tables in kubectl's format, laid out for the width of a terminal. Pure.

A terminal does not show a column that says nothing: each of its cells is trivial, such as zero failed objects.

A row that is too wide for the terminal is folded between words, never inside one, because a broken name can be neither
read nor copied. The steps, until the table fits:

1. Columns of several words become narrower, and their cells take several lines.
2. Columns that the caller marks as spare are omitted.
3. Each row becomes a block: its first cell, and below it a line for each other column that has a value.

Sentences fold between words too. Without a width, for example in a pipe, a row or a sentence is one line.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

_GAP: Final = "  "
_NONE: Final = "-"  # what commands print for a cell without a value
_NOTHING: Final[Mapping[str, str]] = {}
_NARROWEST: Final = 12  # cells; text in a narrower column takes too many lines to read


def cell_len(text: str) -> int:
    """Return the width of a text in cells of a terminal. The library for it is loaded only if the text needs it."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len as measured

    return measured(text)


@dataclass(frozen=True, slots=True)
class TableLayout:
    """A table as lines.

    Attributes:
        heading: the lines of the column names; empty for a table of blocks.
        lines: the lines of the rows.
        left_out: the columns that are omitted for lack of room.
    """

    heading: tuple[str, ...]
    lines: tuple[str, ...]
    left_out: tuple[str, ...] = ()


def lay_out(
    columns: Sequence[str],
    rows: Iterable[Sequence[str]],
    width: int | None = None,
    spare: Sequence[str] = (),
    trivial: Mapping[str, str] = _NOTHING,
) -> TableLayout:
    """Lay out a table.

    Args:
        columns: the column names.
        rows: the cells of each row, one for each column; a cell contains no line feed.
        width: the width of a line in cells, None for no limit.
        spare: columns that may be omitted, the first one first.
        trivial: columns that are omitted if all cells have this value.
    """
    heading, body = tuple(column.upper() for column in columns), [tuple(row) for row in rows]
    if width is None:
        return _table(heading, body, _natural(heading, body))
    telling = [place for place, name in enumerate(columns) if not _says_nothing(body, place, trivial.get(name))]
    shown, left_out = [*telling], []
    for name in (None, *(name for name in spare if columns.index(name) in telling)):
        if name is not None:
            shown.remove(columns.index(name))
            left_out.append(name.upper())
        part, cells = _selected(heading, shown), [_selected(row, shown) for row in body]
        if (widths := _fitting(part, cells, width)) is not None:
            made = _table(part, cells, widths)
            return TableLayout(made.heading, made.lines, tuple(left_out))
    part = _selected(heading, telling)
    return TableLayout((), tuple(line for row in body for line in _block(part, _selected(row, telling), width)))


def _says_nothing(rows: Sequence[Sequence[str]], place: int, trivial: str | None) -> bool:
    return bool(rows) and all(row[place] == trivial for row in rows)


def _selected(cells: Sequence[str], shown: Sequence[int]) -> tuple[str, ...]:
    return tuple(cells[index] for index in shown)


def _natural(heading: Sequence[str], rows: Sequence[Sequence[str]]) -> list[int]:
    """Return the width of each column on one line."""
    return [max(map(cell_len, column)) for column in zip(heading, *rows, strict=True)]


def _fitting(heading: Sequence[str], rows: Sequence[Sequence[str]], width: int) -> list[int] | None:
    """Return column widths with which the table fits, None if there are none."""
    most = _natural(heading, rows)
    room = width - len(_GAP) * (len(heading) - 1)
    if sum(most) <= room:
        return most
    columns = zip(heading, *rows, strict=True)
    widths = [min(natural, _least(column)) for natural, column in zip(most, columns, strict=True)]
    left = room - sum(widths)
    if left < 0:
        return None
    for index in sorted(range(len(widths)), key=lambda each: most[each] - widths[each]):  # unfolded ones come first
        more = min(left, most[index] - widths[index])
        widths[index], left = widths[index] + more, left - more
    return widths


def _least(column: Sequence[str]) -> int:
    """Return the width of the longest word, for sentences at least a readable width."""
    sentences = any(" " in cell for cell in column[1:])
    return max(_NARROWEST if sentences else 0, *(cell_len(word) for cell in column for word in _words(cell)))


def _table(heading: Sequence[str], rows: Sequence[Sequence[str]], widths: Sequence[int]) -> TableLayout:
    lines = (line for row in rows for line in _row(row, widths))
    return TableLayout(tuple(_row(heading, widths)), tuple(lines))


def _row(cells: Sequence[str], widths: Sequence[int]) -> Iterator[str]:
    """Yield the lines of one row."""
    folded = [_folded(cell, width) for cell, width in zip(cells, widths, strict=True)]
    for number in range(max(map(len, folded))):
        parts = (lines[number] if number < len(lines) else "" for lines in folded)
        padded = (part + " " * (width - cell_len(part)) for part, width in zip(parts, widths, strict=True))
        yield _GAP.join(padded).rstrip()


def _block(heading: Sequence[str], cells: Sequence[str], width: int) -> Iterator[str]:
    """Yield one row as a block of lines."""
    yield cells[0]
    for name, cell in zip(heading[1:], cells[1:], strict=True):
        if cell != _NONE:
            yield from fold(f"{name}: {cell}", width, first=_GAP, then=_GAP * 2, lists=True)


def fold(text: str, width: int | None, *, first: str = "", then: str = _GAP, lists: bool = False) -> list[str]:
    """Fold a sentence between words.

    Args:
        text: the sentence, without line feeds.
        width: the width of a line in cells, None for no limit.
        first: what the first line begins with.
        then: what the other lines begin with.
        lists: whether a line may also end after a comma inside a word, as in a cell ``v1beta1,v1``.
    """
    if width is None:
        return [first + text]
    return _filled(text, _words(text) if lists else text.split(), width, first, then)


def _words(text: str) -> list[str]:
    """Split a text where a line may end: at spaces, and after the commas of a list."""
    return [part for word in text.split() for part in word.replace(",", ", ").split()]


def _folded(text: str, width: int) -> list[str]:
    """Split a cell into lines of at most ``width`` cells; a longer word gets its own line."""
    return _filled(text, _words(text), width, "", "")


def _filled(text: str, words: Sequence[str], width: int, first: str, then: str) -> list[str]:
    """Fill lines with words, and with what is between them in the text."""
    if cell_len(first + text) <= width:
        return [first + text]
    lines, position, empty = [first], 0, True
    for word in words:
        start = text.index(word, position)
        between, position = text[position:start], start + len(word)
        if not empty and cell_len(lines[-1] + between + word) > width:
            lines.append(then + word)
        else:
            lines[-1] += between + word
        empty = False
    return lines
