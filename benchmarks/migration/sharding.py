"""One migration by several processes: one shard each, or worker processes of one command.

Each shard lists all objects, and the last one to end prunes. With ``--processes``, one process lists and prunes.

Where all of them share two cores with the API server, the API server is the limit, whatever the number of processes. So
the section *processes* also shows what a larger control plane would meet next: the CPU that one more object costs all
processes together, and the one that lists and deals, which there is only one of.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable
from statistics import median

from benchmarks.migration.contenders import Act, Contender, Stage, restow_command, restow_shard
from benchmarks.migration.course import Course, Herd, Section, say
from benchmarks.migration.manifests import Variant
from benchmarks.migration.results import Run, costs_table, rates_table, summary
from benchmarks.migration.subject import Subject
from benchmarks.tables import Result, Table, at_least, exactly

__all__ = ["PROCESSES", "SHARDS"]

_HERD = "shardeds"
_LARGE_HERD = "dealts"
_COUNTS = (1, 2, 4)


def _sharded(count: int) -> Contender:
    async def act(stage: Stage, subject: Subject) -> Act:
        begun = time.perf_counter()
        async with asyncio.TaskGroup() as group:
            shards = [group.create_task(restow_shard(stage, subject, index, count)) for index in range(count)]
        seconds = time.perf_counter() - begun
        used = [shard.result() for shard in shards]
        return Act(
            max(each.seconds for each in used),
            seconds,
            sum(each.client_cpu for each in used),
            None,
            max(each.peak_kib or 0 for each in used),
        )

    return Contender(f"{count} shard{'s' if count > 1 else ''}", act)


async def _measure_shards(course: Course) -> Result:
    say(f"shards: {course.plan.objects} objects, {course.plan.runs} rounds")
    runs = await _rounds(course, _HERD, [_sharded(count) for count in _COUNTS])
    return _compared("Shards", runs, most_claimed=_COUNTS[-1])


async def _measure_processes(course: Course) -> Result:
    say(f"processes: {course.plan.objects} objects, {course.plan.runs} rounds")
    contenders = [restow_command(*(() if count == 1 else ("--processes", str(count)))) for count in _COUNTS]
    runs = await _rounds(course, _HERD, contenders)
    large = {each.name: [await course.run(_LARGE_HERD, each)] for each in contenders[:2]}
    # Processes without a core of their own only cost.
    result = _compared("Processes", runs, most_claimed=len(os.sched_getaffinity(0)))
    result.tables.append(_by_process(runs, large))
    return result


async def _rounds(course: Course, plural: str, contenders: list[Contender]) -> dict[str, list[Run]]:
    runs: dict[str, list[Run]] = {each.name: [] for each in contenders}
    for _ in range(course.plan.runs):
        for contender in course.turns(contenders):
            runs[contender.name].append(await course.run(plural, contender))
    return runs


def _compared(what: str, runs: dict[str, list[Run]], *, most_claimed: int) -> Result:
    """Compare the first contender, one process, with the others; up to ``most_claimed`` processes claim its speed."""
    found = [summary(each) for each in runs.values()]
    objects = next(iter(runs.values()))[0].objects
    result = Result(
        f"{what}: {objects} objects, all processes and the API server on the same cores",
        [
            rates_table("Rates", found, "of one", found[0].rate, found[0].server_cores),
            costs_table("CPU, milliseconds per object", found),
        ],
    )
    for each in found:
        result.claims.append(exactly(f"{each.contender}: writes per object", each.writes, 1.0))
    for count, each in zip(_COUNTS[1:], found[1:], strict=True):
        if count > most_claimed:
            continue
        share = each.server_cores / found[0].server_cores
        result.claims.append(at_least(f"{each.contender} / one, at equal speed of the machine", share, 0.9))
    return result


def _by_process(few: dict[str, list[Run]], many: dict[str, list[Run]]) -> Table:
    """Return the CPU for one more object: the difference of two herds, to which no start of a process adds."""

    def for_one_more(contender: str, cpu: Callable[[Run], float]) -> float:
        less, more = few[contender], many[contender]
        difference = median(cpu(run) for run in more) - median(cpu(run) for run in less)
        return 1000 * difference / (more[0].objects - less[0].objects)

    rows = tuple(
        (
            contender,
            f"{for_one_more(contender, lambda run: run.client_cpu):.2f}",
            f"{for_one_more(contender, lambda run: run.first_cpu or 0.0):.2f}",
        )
        for contender in many
    )
    columns = ("contender", "all processes, ms", "the process that lists, ms")
    return Table("CPU of the client for one more object", columns, rows)


SHARDS = Section(lambda plan: [Herd(_HERD, Variant.PLAIN, plan.objects)], _measure_shards)
PROCESSES = Section(
    lambda plan: [
        Herd(_HERD, Variant.PLAIN, plan.objects),
        Herd(_LARGE_HERD, Variant.PLAIN, plan.large),
    ],
    _measure_processes,
)
