"""The tables of the migration benchmark. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from benchmarks.migration.results import Summary
from benchmarks.tables import Table

__all__ = ["costs_table", "rates_table"]


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
