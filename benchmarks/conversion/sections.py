"""The sections: volleys at both webhooks in turns, so that other load on the machine affects both equally."""

from __future__ import annotations

import ssl
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median, quantiles

import msgspec

from benchmarks.conversion.kinds import DENSE, SPARSE, Workload, review
from benchmarks.conversion.load import Load, Volley, fire
from benchmarks.conversion.webhooks import Certificate, Webhook, floor, restow
from benchmarks.tables import Ranged, Result, Shown, Table, at_least, at_most, ranged

__all__ = ["SECTIONS", "Plan"]

_BUDGET = 40_000_000  # the most bytes of a volley
_LEVELS = {1: 0.050, 1_500: 1.0, 10_000: 6.0}  # KEP-95: objects of a request, seconds at the 99th percentile
_PAIR = 2


@dataclass(frozen=True, slots=True)
class Plan:
    """The amounts: objects per review, kilobytes of each, rounds, most requests of a volley, bytes of a large one."""

    counts: Sequence[int]
    sizes: Sequence[int]
    rounds: int
    requests: int
    levels: Sequence[int]
    kilobytes_of_levels: int = 2
    large: int = 30_000_000


@dataclass(frozen=True, slots=True)
class Cell:
    """One comparison: a workload, and the number of objects per review, their size, and the connections."""

    workload: Workload
    count: int
    kilobytes: int
    connections: int


@dataclass(frozen=True, slots=True)
class Measured:
    """The two webhooks on one cell: medians over the rounds of p50, p99 (milliseconds) and objects per second.

    ``over``, as a number ``ratio``, is the median of the rounds' ratios of restow's p50 to the floor's. The volleys of
    a round are close in time, so the machine's speed cancels out.
    """

    cell: Cell
    p50: tuple[Ranged, Ranged]
    p99: tuple[Ranged, Ranged]
    rate: tuple[Ranged, Ranged]
    over: Ranged
    ratio: float


async def _measure(cell: Cell, pair: Sequence[Webhook], trust: ssl.SSLContext, plan: Plan) -> Measured:
    body = review(cell.workload, cell.count, cell.kilobytes)
    requests = max(cell.connections * 2, min(plan.requests, _BUDGET // len(body)))
    rounds: list[list[Volley]] = []
    for number in range(plan.rounds):
        volleys: list[Volley] = [None] * _PAIR  # type: ignore[list-item]
        for index in (0, 1) if number % 2 else (1, 0):
            webhook = pair[index]
            volleys[index] = await fire(Load(webhook.port, webhook.path, body, requests, cell.connections), trust)
            _check(volleys[index].answer, cell, webhook)
        rounds.append(volleys)

    def both(figure: Callable[[Volley], float], digits: int) -> tuple[Ranged, Ranged]:
        first, second = ([figure(each[webhook]) for each in rounds] for webhook in (0, 1))
        return ranged(median(first), first, digits), ranged(median(second), second, digits)

    ratios = [_p50(each[1]) / _p50(each[0]) for each in rounds]
    return Measured(
        cell,
        p50=both(lambda volley: 1000 * _p50(volley), 2),
        p99=both(lambda volley: 1000 * _p99(volley), 2),
        rate=both(lambda volley: len(volley.latencies) * cell.count / volley.seconds, 0),
        over=ranged(median(ratios), ratios, 2),
        ratio=median(ratios),
    )


def _p50(volley: Volley) -> float:
    return median(volley.latencies)


def _p99(volley: Volley) -> float:
    return quantiles(volley.latencies, n=100, method="inclusive")[98]


def _check(answer: bytes, cell: Cell, webhook: Webhook) -> None:
    """Check that a webhook did all of its work."""
    response = msgspec.json.decode(answer)["response"]
    done = len(response.get("convertedObjects") or ())
    if response["result"]["status"] != "Success" or done != cell.count:
        message = f"{webhook.name} converted {done} of {cell.count} objects: {response['result']}"
        raise RuntimeError(message)


def _rows(measured: Sequence[Measured]) -> tuple[tuple[Shown, ...], ...]:
    return tuple(
        (f"{each.cell.count} x {each.cell.kilobytes} kB", *each.p50, *each.p99, *each.rate, each.over)
        for each in measured
    )


_LATENCIES = ("floor: p50, ms", "restow: p50, ms", "floor: p99, ms", "restow: p99, ms")
_COLUMNS = ("review", *_LATENCIES, "floor: objects/s", "restow: objects/s")


async def _reviews(made: Certificate, plan: Plan, workload: Workload, bound: float) -> Result:
    result = Result(f"{workload.name.capitalize()} kind: {workload.what}")
    for connections in (1, 4):
        async with (
            floor(made) as bare,
            restow(made, registry=workload.registry, crd_name=workload.crd_name) as ours,
        ):
            found = [
                await _measure(Cell(workload, count, size, connections), (bare, ours), made.trust, plan)
                for size in plan.sizes
                for count in plan.counts
            ]
        heading = f"{connections} connection{'s' if connections > 1 else ''}"
        result.tables.append(Table(heading, (*_COLUMNS, "time over floor"), _rows(found)))
        if connections == 1:
            for each in found:
                if (each.cell.count, each.cell.kilobytes) == (100, 8):
                    claim = f"{workload.name}: 100 objects of 8 kB, time over the floor"
                    result.claims.append(at_most(claim, each.ratio, bound))
                elif each.cell.count == 1 and workload is SPARSE:
                    claim = f"{workload.name}: one object of {each.cell.kilobytes} kB, p50 over the floor"
                    result.claims.append(at_most(claim, each.ratio, 1.3))
    return result


async def _sparse(made: Certificate, plan: Plan) -> Result:
    return await _reviews(made, plan, SPARSE, 1.3)


async def _dense(made: Certificate, plan: Plan) -> Result:
    return await _reviews(made, plan, DENSE, 2.5)


async def _service_levels(made: Certificate, plan: Plan) -> Result:
    result = Result("KEP-95's service levels, sparse kind")
    rows = []
    async with restow(made, registry=SPARSE.registry, crd_name=SPARSE.crd_name) as ours:
        for count in plan.levels:
            body = review(SPARSE, count, plan.kilobytes_of_levels)
            requests = max(10, min(plan.requests, 3 * _BUDGET // len(body)))
            volley = await fire(Load(ours.port, ours.path, body, requests, 1), made.trust)
            p99, level = _p99(volley), _LEVELS[count]
            rows.append((f"{count}", f"{requests}", f"{p99 * 1000:.1f}", f"{level * 1000:.0f}", f"{level / p99:.1f}"))
            result.claims.append(at_least(f"KEP-95: {count} objects, level / p99", level / p99, 3.0))
        one_by_one = review(SPARSE, 1, plan.kilobytes_of_levels)
        volley = await fire(Load(ours.port, ours.path, one_by_one, max(plan.levels[1:2] or (10,)), 1), made.trust)
        rows.append((f"{len(volley.latencies)}, one by one", "1", f"{volley.seconds * 1000:.1f}", "-", "-"))
    columns = ("objects", "requests", "p99, ms", "level, ms", "margin")
    result.tables.append(Table(f"Objects of {plan.kilobytes_of_levels} kB", columns, tuple(rows)))
    return result


def _memory_of(pid: int) -> dict[str, float]:
    """Return the resident memory of a process in MiB: the present one (VmRSS) and the maximum so far (VmHWM)."""
    lines = (line.split() for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    return {words[0].rstrip(":"): int(words[1]) / 1024 for words in lines if words[0] in ("VmRSS:", "VmHWM:")}


async def _memory(made: Certificate, plan: Plan) -> Result:
    result = Result("Memory around large reviews, sparse kind")
    body = review(SPARSE, plan.large // 50_000, 50)
    size = len(body) / 2**20
    async with restow(made, registry=SPARSE.registry, crd_name=SPARSE.crd_name) as ours:
        await fire(Load(ours.port, ours.path, review(SPARSE, 1, 50), 100, 1), made.trust)
        found = [("before", _memory_of(ours.pid))]
        for number, when in ((1, "after a large review"), (4, "after four more")):
            await fire(Load(ours.port, ours.path, body, number - 1, 1), made.trust)
            found.append((when, _memory_of(ours.pid)))
    rows = tuple((when, f"{memory['VmRSS']:.0f}", f"{memory['VmHWM']:.0f}") for when, memory in found)
    result.tables.append(Table("Large reviews", ("", "each, MiB"), (("size", f"{size:.0f}"),)))
    result.tables.append(Table("restow serve", ("when", "resident, MiB", "peak so far, MiB"), rows))
    # Not the resident memory: glibc returns the freed memory of a large review at once, or only at a later one.
    _, once, often = (memory["VmHWM"] for _, memory in found)
    result.claims.append(at_most("peak memory after five large reviews / after one", often / once, 1.1))
    return result


SECTIONS: dict[str, Callable[[Certificate, Plan], Awaitable[Result]]] = {
    "sparse": _sparse,
    "dense": _dense,
    "levels": _service_levels,
    "memory": _memory,
}
"""The sections by name, in the order in which they are measured."""
