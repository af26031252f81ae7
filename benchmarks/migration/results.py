"""What runs measured, and what follows from it: medians and shares. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from statistics import median

__all__ = ["Run", "Summary", "busiest", "fastest", "summary"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One migration of all objects by one contender.

    Attributes:
        seconds: the migration itself, by the contender's own clock: from its first request about the migration (for
            the bare loop, from its first LIST) to its end.
        process_seconds: the whole command, its start and end included; equal to ``seconds`` where there is none.
        client_cpu: CPU seconds of the whole client process.
        engine_cpu: those of ``seconds`` alone, or None where the contender cannot tell.
        peak_kib: most memory of the client process (resident), or None.
        server_cpu, etcd_cpu, plane_cpu: CPU seconds of kube-apiserver, etcd, and the whole control plane.
        webhook_cpu: CPU seconds of the conversion webhook, whoever asks it.
        foreign_cpu: CPU seconds of everything on the machine that is neither control plane, webhook nor client.
        in_control_plane: whether the client is a part of the control plane, and ``plane_cpu`` includes its CPU.
        writes, lists, reads: requests for these objects as the API server itself counted them.
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
        """How many cores the API server worked on during the migration.

        Contenders that send the same writes make it do the same work for each object, so this is their rate in units of
        what the machine was able to do at that moment, which on shared hardware changes by a half within minutes.
        """
        return self.server_cpu / self.seconds

    @property
    def foreign_cores(self) -> float:
        """How many cores strangers kept busy."""
        return self.foreign_cpu / self.process_seconds

    @property
    def all_cpu(self) -> float | None:
        """CPU seconds of all for the migration alone, the webhook's among them; what a busy machine falsifies least."""
        if self.in_control_plane:
            return self.plane_cpu + self.webhook_cpu
        return None if self.engine_cpu is None else self.plane_cpu + self.webhook_cpu + self.engine_cpu


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """Medians over the runs of one contender; ``…_ms`` are milliseconds of CPU per object, see ``Run``.

    Attributes:
        rate, slowest, fastest: objects per second, and their range.
        process_rate: with the start and end of the client process.
        server_cores: how many cores the API server worked on, see ``Run.server_cores``.
        foreign: how many cores strangers kept busy meanwhile.
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
    """Return the one with the highest median rate."""
    return max(summaries, key=lambda each: each.rate)


def busiest(summaries: Iterable[Summary]) -> Summary:
    """Return the one that kept the API server at work the most."""
    return max(summaries, key=lambda each: each.server_cores)
