"""One migration by several processes: one shard each, or worker processes of one command.

Each shard lists all objects, and the last one to end prunes. With ``--processes``, one process lists and prunes.
"""

from __future__ import annotations

import asyncio
import os
import time

from benchmarks.claims import at_least, exactly
from benchmarks.migration.contenders import Act, Contender, Stage, restow_command, restow_shard
from benchmarks.migration.course import Course, Herd, say
from benchmarks.migration.manifests import Variant
from benchmarks.migration.results import Run, summary
from benchmarks.migration.section import Section
from benchmarks.migration.subject import Subject
from benchmarks.migration.tables import costs_table, rates_table
from benchmarks.tables import Result

__all__ = ["PROCESSES", "SHARDS"]

_HERD = "shardeds"
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
    return await _measure(course, "Shards", [_sharded(count) for count in _COUNTS], most_claimed=_COUNTS[-1])


async def _measure_processes(course: Course) -> Result:
    contenders = [restow_command(*(() if count == 1 else ("--processes", str(count)))) for count in _COUNTS]
    # Processes without a core of their own only cost.
    return await _measure(course, "Processes", contenders, most_claimed=len(os.sched_getaffinity(0)))


async def _measure(course: Course, what: str, contenders: list[Contender], *, most_claimed: int) -> Result:
    """Compare the first contender, one process, with the others; up to ``most_claimed`` processes claim its speed."""
    plan = course.plan
    say(f"{what.lower()}: {plan.objects} objects, {plan.runs} rounds")
    runs: dict[str, list[Run]] = {each.name: [] for each in contenders}
    for _ in range(plan.runs):
        for contender in course.turns(contenders):
            runs[contender.name].append(await course.run(_HERD, contender))
    found = [summary(each) for each in runs.values()]
    result = Result(
        f"{what}: {plan.objects} objects, all processes and the API server on the same cores",
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


SHARDS = Section(lambda plan: [Herd(_HERD, Variant.PLAIN, plan.objects)], _measure_shards)
PROCESSES = Section(lambda plan: [Herd(_HERD, Variant.PLAIN, plan.objects)], _measure_processes)
