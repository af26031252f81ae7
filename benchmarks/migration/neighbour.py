"""The effect of a migration on others: the latency of a client that reads another object meanwhile."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from statistics import median, quantiles

from benchmarks.migration.admin import Admin
from benchmarks.migration.contenders import Contender, bare_loop, restow_command
from benchmarks.migration.course import Course, Herd, Section, say
from benchmarks.migration.manifests import Variant
from benchmarks.tables import Result, Table, at_most
from restow.migrator import Options

__all__ = ["NEIGHBOUR"]

_HERD = "gizmos"
_READ = "/api/v1/namespaces/default"
_EVERY = 0.02  # seconds between two reads
_RATE = 50  # writes per second of the rate-limited migration


@asynccontextmanager
async def _reading(admin: Admin) -> AsyncIterator[list[float]]:
    """Repeatedly read an object that no contender migrates; collect the seconds of each answer."""
    took: list[float] = []

    async def read() -> None:
        while True:
            begun = time.perf_counter()
            await admin.call("GET", _READ)
            took.append(time.perf_counter() - begun)
            await asyncio.sleep(_EVERY)

    async with asyncio.TaskGroup() as group:
        task = group.create_task(read())
        yield took
        task.cancel()


async def _measure(course: Course) -> Result:
    plan = course.plan
    say(f"neighbour: {plan.kind_objects} objects, {plan.runs} rounds")
    calm = f"restow migrate --rate {_RATE}"
    contenders: dict[str, Contender] = {
        "bare loop": bare_loop("combined", Options().concurrency),
        "restow migrate": restow_command(),
        calm: restow_command("--rate", str(_RATE)),
    }
    await course.warm_up(_HERD, contenders["bare loop"])
    took: dict[str, list[float]] = {"no contender": []}
    async with _reading(course.stage.admin) as idle:
        await asyncio.sleep(min(10.0, plan.patience + 1.0))
    took["no contender"] = idle
    for _ in range(plan.runs):
        for name, contender in contenders.items():
            async with _reading(course.stage.admin) as latencies:
                await course.run(_HERD, contender, begins=latencies.clear)
            took.setdefault(name, []).extend(latencies)
    rows = tuple(
        (name, str(len(each)), f"{median(each) * 1000:.1f}", f"{_p99(each) * 1000:.1f}") for name, each in took.items()
    )
    return Result(
        "What another client notices: reads of a namespace, every 20 ms",
        [Table("Latency of reads while this migrates", ("who migrates", "reads", "median, ms", "p99, ms"), rows)],
        [at_most("p99 with --rate / p99 at full speed", _p99(took[calm]) / _p99(took["restow migrate"]), 0.8)],
    )


def _p99(took: list[float]) -> float:
    return quantiles(took, n=100, method="inclusive")[98]


NEIGHBOUR = Section(lambda plan: [Herd(_HERD, Variant.PLAIN, plan.kind_objects)], _measure)
