"""The tables of the migration benchmark. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from benchmarks.migration.results import Summary
from benchmarks.tables import Ranged, Table

__all__ = ["costs_table", "rates_table"]


def rates_table(
    heading: str, summaries: Iterable[Summary], ratio: str, to: float, cores: float, others: Collection[str] = ()
) -> Table:
    """Return the rates of contenders, and in the column ``ratio`` their share of a reference rate.

    Args:
        heading: the heading of the table.
        summaries: the summaries of the contenders, in the order of the rows.
        ratio: the heading of the share.
        to: the reference rate.
        cores: the API server's cores in the reference run; the share of them is *at equal speed*.
        others: contenders that cause other work per object in the API server, and have no such ratio.
    """
    columns = (
        *("contender", "runs", "objects/s", "range", ratio, "at equal speed", "whole command, objects/s"),
        *("API server cores", "writes", "requests", "other cores"),
    )
    rows = tuple(
        (
            each.contender,
            str(each.runs),
            Ranged(f"{each.rate:.0f}", round(each.slowest, 1), round(each.fastest, 1)),
            f"{each.slowest:.0f}-{each.fastest:.0f}",
            f"{each.rate / to:.2f}",
            "-" if each.contender in others else f"{each.server_cores / cores:.3f}",
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
    """Return the CPU time per object of contenders."""
    columns = ("contender", "API server", "etcd", "webhook", "client", "client process", "in all")
    rows = tuple(
        (
            each.contender,
            f"{each.server_ms:.2f}",
            f"{each.etcd_ms:.2f}",
            f"{each.webhook_ms:.2f}",
            "-" if each.engine_ms is None else f"{each.engine_ms:.2f}",
            f"{each.client_ms:.2f}",
            "-" if each.all_ms is None else f"{each.all_ms:.2f}",
        )
        for each in summaries
    )
    return Table(heading, columns, rows, unit="ms per object")
