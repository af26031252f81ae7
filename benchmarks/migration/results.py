"""The measurements of runs, the medians and shares derived from them, and their tables. Pure."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from statistics import median

from benchmarks.tables import Ranged, Table

__all__ = ["Run", "Summary", "busiest", "costs_table", "fastest", "rates_table", "summary"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One migration of all objects by one contender.

    Attributes:
        seconds: the duration of the migration, by the contender's own clock: from its first request about the migration
            (for the bare loop, from its first LIST) to its end.
        process_seconds: the duration of the whole command with its start and end; equal to ``seconds`` without one.
        client_cpu: CPU seconds of the whole client process.
        engine_cpu: CPU seconds within ``seconds``, or None if the contender does not report them.
        peak_kib: the peak resident memory of the client process, or None.
        server_cpu, etcd_cpu, plane_cpu: CPU seconds of kube-apiserver, etcd, and the whole control plane.
        webhook_cpu: CPU seconds of the conversion webhook, for all of its clients.
        foreign_cpu: CPU seconds of all processes on the machine except control plane, webhook and client.
        in_control_plane: whether the client is a part of the control plane, and ``plane_cpu`` includes its CPU.
        writes, lists, reads: requests for these objects, counted by the API server.
    """

    contender: str
    objects: int
    seconds: float
    process_seconds: float
    client_cpu: float
    engine_cpu: float | None
    peak_kib: int | None
    server_cpu: float
    etcd_cpu: float
    plane_cpu: float
    foreign_cpu: float
    writes: int
    lists: int
    reads: int
    in_control_plane: bool = False
    webhook_cpu: float = 0.0

    @property
    def rate(self) -> float:
        """Objects per second."""
        return self.objects / self.seconds

    @property
    def server_cores(self) -> float:
        """The number of cores that the API server used during the migration.

        Contenders that send the same writes cause the same work per object in the API server. Therefore this is their
        rate relative to the machine's speed at that time, which on shared hardware changes by half within minutes.
        """
        return self.server_cpu / self.seconds

    @property
    def foreign_cores(self) -> float:
        """The number of cores that other processes used."""
        return self.foreign_cpu / self.process_seconds

    @property
    def all_cpu(self) -> float | None:
        """CPU seconds of all processes for the migration, including the webhook; a busy machine distorts them least."""
        if self.in_control_plane:
            return self.plane_cpu + self.webhook_cpu
        return None if self.engine_cpu is None else self.plane_cpu + self.webhook_cpu + self.engine_cpu


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """Medians over the runs of one contender; ``…_ms`` are milliseconds of CPU per object, see ``Run``.

    Attributes:
        rate, slowest, fastest: objects per second, and their range.
        process_rate: objects per second with the start and end of the client process.
        server_cores: the number of cores that the API server used, see ``Run.server_cores``.
        foreign: the number of cores that other processes used meanwhile.
    """

    contender: str
    runs: int
    rate: float
    slowest: float
    fastest: float
    process_rate: float
    server_cores: float
    server_ms: float
    etcd_ms: float
    webhook_ms: float
    client_ms: float
    engine_ms: float | None
    all_ms: float | None
    writes: float
    requests: float
    foreign: float


def summary(runs: Sequence[Run]) -> Summary:
    """Summarise the runs of one contender."""

    def per_object(value: Callable[[Run], float]) -> float:
        return median(value(run) / run.objects for run in runs)

    def ms_where_known(value: Callable[[Run], float | None]) -> float | None:
        known = [cpu / run.objects for run in runs if (cpu := value(run)) is not None]
        return median(known) * 1000 if known else None

    return Summary(
        contender=runs[0].contender,
        runs=len(runs),
        rate=median(run.rate for run in runs),
        slowest=min(run.rate for run in runs),
        fastest=max(run.rate for run in runs),
        process_rate=median(run.objects / run.process_seconds for run in runs),
        server_cores=median(run.server_cores for run in runs),
        server_ms=per_object(lambda run: run.server_cpu * 1000),
        etcd_ms=per_object(lambda run: run.etcd_cpu * 1000),
        webhook_ms=per_object(lambda run: run.webhook_cpu * 1000),
        client_ms=per_object(lambda run: run.client_cpu * 1000),
        engine_ms=ms_where_known(lambda run: run.engine_cpu),
        all_ms=ms_where_known(lambda run: run.all_cpu),
        writes=per_object(lambda run: run.writes),
        requests=per_object(lambda run: run.writes + run.lists + run.reads),
        foreign=median(run.foreign_cores for run in runs),
    )


def fastest(summaries: Iterable[Summary]) -> Summary:
    """Return the summary with the highest median rate."""
    return max(summaries, key=lambda each: each.rate)


def busiest(summaries: Iterable[Summary]) -> Summary:
    """Return the summary with the highest load on the API server."""
    return max(summaries, key=lambda each: each.server_cores)


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
