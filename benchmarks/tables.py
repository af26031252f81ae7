"""Results: tables of figures, and claims about figures, as Markdown, which is also readable on a terminal. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

__all__ = [
    "Claim",
    "Ranged",
    "Result",
    "Shown",
    "Table",
    "at_least",
    "at_most",
    "claims_table",
    "exactly",
    "markdown",
    "ranged",
    "report",
]


@dataclass(frozen=True, slots=True)
class Ranged:
    """A printed figure, with the lowest and the highest of the values that it summarizes."""

    shown: str
    low: float
    high: float

    def __str__(self) -> str:
        return self.shown


Shown = str | Ranged


def ranged(value: float, values: Iterable[float], digits: int) -> Ranged:
    """Return a figure with this number of digits, and the range of its values."""
    known = list(values)
    return Ranged(f"{value:.{digits}f}", round(min(known), digits + 1), round(max(known), digits + 1))


@dataclass(frozen=True, slots=True)
class Table:
    """An optional heading, columns and rows; the first column is text, the others are figures.

    A column whose name is a unit, or ends with a comma and a unit, has that unit; the others have ``unit``.
    """

    heading: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Shown, ...], ...]
    unit: str = "1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """A figure, its bound, and whether it holds."""

    claim: str
    figure: float
    wanted: str
    holds: bool


def at_least(claim: str, figure: float, bound: float) -> Claim:
    """Claim that a figure reaches a bound."""
    return Claim(claim=claim, figure=figure, wanted=f"≥ {bound:g}", holds=figure >= bound)


def at_most(claim: str, figure: float, bound: float) -> Claim:
    """Claim that a figure stays within a bound."""
    return Claim(claim=claim, figure=figure, wanted=f"≤ {bound:g}", holds=figure <= bound)


def exactly(claim: str, figure: float, value: float) -> Claim:
    """Claim that a count per object, rounded to two digits, is a value."""
    return Claim(claim=claim, figure=figure, wanted=f"{value:.2f}", holds=round(figure, 2) == value)


@dataclass(slots=True)
class Result:
    """The result of a section."""

    title: str
    tables: list[Table] = field(default_factory=list)
    claims: list[Claim] = field(default_factory=list)


def report(head: str, results: Sequence[Result]) -> str:
    """Return all results and claims of sections as text, below a line about the circumstances."""
    parts = [head]
    for result in results:
        parts += [f"## {result.title}", *(markdown(table) for table in result.tables)]
    claims = [claim for result in results for claim in result.claims]
    return "\n\n".join([*parts, "## Claims", markdown(claims_table(claims))])


def claims_table(claims: Sequence[Claim]) -> Table:
    """Return the claims and whether they hold."""
    rows = tuple(
        (each.claim, f"{each.figure:.3f}", each.wanted, "pass" if each.holds else "**miss**") for each in claims
    )
    return Table("", ("claim", "measured", "wanted", ""), rows)


def markdown(table: Table) -> str:
    """Return a table with aligned columns."""
    lines = [table.columns, *(tuple(map(str, row)) for row in table.rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(table.columns))]

    def row(cells: Sequence[str]) -> str:
        first, *others = zip(cells, widths, strict=True)
        return "| " + " | ".join([first[0].ljust(first[1]), *(cell.rjust(width) for cell, width in others)]) + " |"

    rule = "| " + " | ".join([":" + "-" * (widths[0] - 1), *("-" * (width - 1) + ":" for width in widths[1:])]) + " |"
    heading = [f"### {table.heading}", ""] if table.heading else []
    return "\n".join([*heading, row(lines[0]), rule, *(row(line) for line in lines[1:])])
