"""Results as Markdown, which reads well on a terminal too. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from benchmarks.migration.results import Claim, Summary

__all__ = ["Table", "claims_table", "costs_table", "markdown", "rates_table"]


@dataclass(frozen=True, slots=True)
class Table:
    """A heading (or none), columns and rows of text; the first column is words, the others are figures."""

    heading: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def rates_table(heading: str, summaries: Iterable[Summary], ratio: str, to: float) -> Table:
    """Return the rates of contenders, in the column ``ratio`` as a share of a rate."""
    columns = (
        *("contender", "runs", "objects/s", "range", ratio, "whole command"),
        *("API server cores", "writes", "requests", "other cores"),
    )
    rows = tuple(
        (
            each.contender,
            str(each.runs),
            f"{each.rate:.0f}",
            f"{each.slowest:.0f}-{each.fastest:.0f}",
            f"{each.rate / to:.2f}",
            f"{each.process_rate:.0f}",
            f"{each.server_cores:.2f}",
            f"{each.writes:.2f}",
            f"{each.requests:.3f}",
            f"{each.foreign:.2f}",
        )
        for each in summaries
    )
    return Table(heading, columns, rows)


def costs_table(heading: str, summaries: Iterable[Summary]) -> Table:
    """Return the CPU time per object that contenders cost."""
    columns = ("contender", "API server", "etcd", "client", "client process", "control plane and client")
    rows = tuple(
        (
            each.contender,
            f"{each.server_ms:.2f}",
            f"{each.etcd_ms:.2f}",
            "-" if each.engine_ms is None else f"{each.engine_ms:.2f}",
            f"{each.client_ms:.2f}",
            "-" if each.all_ms is None else f"{each.all_ms:.2f}",
        )
        for each in summaries
    )
    return Table(heading, columns, rows)


def claims_table(claims: Sequence[Claim]) -> Table:
    """Return the claims and whether they hold."""
    rows = tuple(
        (each.claim, f"{each.figure:.3f}", each.wanted, "pass" if each.holds else "**miss**") for each in claims
    )
    return Table("", ("claim", "measured", "wanted", ""), rows)


def markdown(table: Table) -> str:
    """Write a table with aligned columns."""
    lines = [table.columns, *table.rows]
    widths = [max(len(line[column]) for line in lines) for column in range(len(table.columns))]

    def row(cells: Sequence[str]) -> str:
        first, *others = zip(cells, widths, strict=True)
        return "| " + " | ".join([first[0].ljust(first[1]), *(cell.rjust(width) for cell, width in others)]) + " |"

    rule = "| " + " | ".join([":" + "-" * (widths[0] - 1), *("-" * (width - 1) + ":" for width in widths[1:])]) + " |"
    heading = [f"### {table.heading}", ""] if table.heading else []
    return "\n".join([*heading, row(table.columns), rule, *(row(line) for line in table.rows)])
