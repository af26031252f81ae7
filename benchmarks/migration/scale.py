"""How it goes with the number of objects: rate, cost per object, and memory, from a thousand to a hundred thousand."""

from __future__ import annotations

from statistics import median

from benchmarks.claims import at_least, at_most
from benchmarks.migration.contenders import bare_loop, restow_command
from benchmarks.migration.course import Course, Herd, Plan, say
from benchmarks.migration.manifests import Variant
from benchmarks.migration.results import Run, summary
from benchmarks.migration.section import Section
from benchmarks.migration.tables import costs_table, rates_table
from benchmarks.tables import Result, Table
from restow.migrator import Options

__all__ = ["SCALE"]

_PLURALS = ("kilos", "myriads", "lakhs")
_PEAK_MIB = 150.0


def _herds(plan: Plan) -> list[Herd]:
    return [Herd(plural, Variant.PLAIN, count) for plural, (count, _) in zip(_PLURALS, plan.scale, strict=True)]


async def _measure(course: Course) -> Result:
    loop, command = bare_loop("combined", Options().concurrency), restow_command()
    result = Result("Scale: from few objects to many")
    costs, memory = [], []
    for herd, (count, rounds) in zip(_herds(course.plan), course.plan.scale, strict=True):
        say(f"scale: {count} objects, {rounds} rounds")
        if rounds > 1:
            await course.warm_up(herd.plural, loop)
        bare: list[Run] = []
        ours: list[Run] = []
        for _ in range(rounds):
            for contender in course.turns([loop, command]):
                (bare if contender is loop else ours).append(await course.run(herd.plural, contender))
        yardstick, found = summary(bare), summary(ours)
        peak = max(run.peak_kib or 0 for run in ours) / 1024
        result.tables += [
            rates_table(f"{count} objects", [yardstick, found], "of the bare loop", yardstick.rate),
            costs_table(f"{count} objects: CPU, milliseconds per object", [yardstick, found]),
        ]
        result.claims.append(
            at_least(
                f"{count} objects: restow migrate / bare loop, at equal speed of the machine",
                found.server_cores / yardstick.server_cores,
                0.95,
            )
        )
        costs.append(median(theirs.client_cpu / theirs.server_cpu for theirs in ours))
        memory.append((str(count), f"{peak:.1f}"))
    result.tables.append(Table("Peak resident memory of restow migrate", ("objects", "MiB"), tuple(memory)))
    result.claims += [
        at_most("client CPU per API server CPU, most objects / second most", costs[-1] / costs[-2], 1.1),
        at_most("peak MiB with the most objects", float(memory[-1][1]), _PEAK_MIB),
    ]
    return result


SCALE = Section(_herds, _measure)
