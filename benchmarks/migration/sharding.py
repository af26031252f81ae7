"""One migration by several processes, one shard each: each lists all objects, and the last one to end prunes."""

from __future__ import annotations

import asyncio
import time

from benchmarks.migration.contenders import Act, Contender, Stage, restow_shard
from benchmarks.migration.course import Course, Herd, Section, say
from benchmarks.migration.manifests import Variant
from benchmarks.migration.results import Run, costs_table, rates_table, summary
from benchmarks.migration.subject import Subject
from benchmarks.tables import Result, at_least, exactly

__all__ = ["SHARDS"]

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


async def _measure(course: Course) -> Result:
    objects, rounds = course.plan.objects, course.plan.runs
    say(f"shards: {objects} objects, {rounds} rounds")
    contenders = [_sharded(count) for count in _COUNTS]
    runs: dict[str, list[Run]] = {each.name: [] for each in contenders}
    for _ in range(rounds):
        for contender in course.turns(contenders):
            runs[contender.name].append(await course.run(_HERD, contender))
    found = [summary(each) for each in runs.values()]
    result = Result(
        f"Shards: {objects} objects, all processes and the API server on the same cores",
        [
            rates_table("Rates", found, "of one", found[0].rate, found[0].server_cores),
            costs_table("CPU, milliseconds per object", found),
        ],
    )
    for each in found:
        result.claims.append(exactly(f"{each.contender}: writes per object", each.writes, 1.0))
    for each in found[1:]:
        share = each.server_cores / found[0].server_cores
        result.claims.append(at_least(f"{each.contender} / one, at equal speed of the machine", share, 0.9))
    return result


SHARDS = Section(lambda plan: [Herd(_HERD, Variant.PLAIN, plan.objects)], _measure)
