"""Scaling with the number of objects: rate, cost per object, and memory, from a thousand to a hundred thousand."""

from __future__ import annotations

from statistics import median

from benchmarks.migration.contenders import Contender, bare_loop, restow_command
from benchmarks.migration.course import Course, Herd, Plan, Section, say
from benchmarks.migration.manifests import Variant
from benchmarks.migration.results import Run, costs_table, rates_table, summary
from benchmarks.tables import Ranged, Result, Table, at_least, at_most
from restow.migrator import Options

__all__ = ["SCALE"]

_EMPTY = Herd("naughts", Variant.PLAIN, 0)
_PLURALS = ("kilos", "myriads", "lakhs")
_PEAK_MIB = 150.0
_AT_EQUAL_SPEED = ("restow / bare loop, at equal speed", "client CPU beyond that of no objects / the bare loop's")


def _herds(plan: Plan) -> list[Herd]:
    return [Herd(plural, Variant.PLAIN, count) for plural, (count, _) in zip(_PLURALS, plan.scale, strict=True)]


async def _start(course: Course, command: Contender) -> float:
    """Return the CPU seconds of a run without objects: Python, imports, TLS, the first checks, the prune."""
    runs = [await course.run(_EMPTY.plural, command) for _ in range(min(course.plan.runs, 3))]
    return median(run.client_cpu for run in runs)


async def _measure(course: Course) -> Result:
    loop, command = bare_loop("combined", Options().concurrency), restow_command()
    result = Result("Scale: from few objects to many")
    start = await _start(course, command)
    costs, peaks, rows = [], [], []
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
        result.tables += [
            rates_table(
                f"{count} objects", [yardstick, found], "of the bare loop", yardstick.rate, yardstick.server_cores
            ),
            costs_table(f"{count} objects: CPU, milliseconds per object", [yardstick, found]),
        ]
        result.claims.append(
            at_least(
                f"{count} objects: restow migrate / bare loop, at equal speed of the machine",
                found.server_cores / yardstick.server_cores,
                0.95,
            )
        )
        beyond = median((run.client_cpu - start) / run.server_cpu for run in ours)
        costs.append(beyond / median((run.engine_cpu or 0.0) / run.server_cpu for run in bare))
        peaks.append(max(run.peak_kib or 0 for run in ours) / 1024)
        rates = [
            Ranged(f"{each.rate:.0f}", round(each.slowest, 1), round(each.fastest, 1)) for each in (found, yardstick)
        ]
        equal = found.server_cores / yardstick.server_cores
        rows.append((f"{count:,}", *rates, f"{equal:.3f}", f"{costs[-1]:.2f}", f"{peaks[-1]:.1f}"))
    columns = ("objects", "restow migrate, objects/s", "bare loop, objects/s", *_AT_EQUAL_SPEED, "peak, MiB")
    result.tables.insert(0, Table("By the number of objects", columns, tuple(rows)))
    result.tables.insert(1, Table("A run without objects", ("", "CPU, s"), (("restow migrate", f"{start:.2f}"),)))
    result.claims += [
        at_most(
            "client CPU / the bare loop's, at equal speed of the machine: with the most objects / with the fewest",
            costs[-1] / costs[0],
            1.1,
        ),
        at_most("peak MiB with the most objects", peaks[-1], _PEAK_MIB),
    ]
    return result


SCALE = Section(lambda plan: [_EMPTY, *_herds(plan)], _measure)
