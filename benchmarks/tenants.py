"""Measure what one hostile kind costs nineteen others: ``python -m benchmarks.tenants [--seconds 60] [--record]``.

The benchmark runs one API server and one replica of ``restow operator --conversions``. Half of the nineteen kinds have
an expression, so the operator converts them in its processes as it does the hostile one. Their objects are listed at
the old version, at a fixed rate: first alone, then while the objects of a harmless kind are read without pause, and its
rules change as often as those of the hostile kind, then with the hostile kind, whose rules change to one costly
document after the other. Some of the kinds are listed at the stored version at the same time, so that no webhook takes
part. How slow those reads become is what the API server costs on a machine of so many cores; the rest is restow.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import msgspec

from benchmarks.records import Recorder, add_flag, check_flag
from benchmarks.tables import Result, Table, at_most, exactly, report
from restow.controlplane import ControlPlane
from restow.kube import connect
from restow.kube.client import HttpCluster
from restow.kube.errors import ApiError
from restow.kube.resources import CRDS
from tests.apiserver.kind import Document
from tests.apiserver.test_conversions_hostile import (
    ENDLESS_ITEMS,
    FILTERED,
    MANY,
    MOST_MEMORY,
    RENAME,
    Notes,
    hostile_rules,
    items,
    leadership,
    reads,
    watched,
)
from tests.apiserver.test_conversions_in_cluster import Replicas
from tests.conversion.operate.test_workers import LONG

#: Kinds, hostile documents, hostile objects, and seconds of a phase.
FULL: Final = (19, 200, 50)
QUICK: Final = (2, 5, 3)
_QUICK_S: Final = 3.0
#: Reads of each kind in a second.
RATE: Final = 4
#: So many kinds are read at the stored version, too.
_UNCONVERTED: Final = 10
#: Reads that are converted may take this much longer than those that are not, in the 99th percentile.
_MOST: Final = 3.0


@dataclass(slots=True)
class Phase:
    """The seconds that reads took at the old version (``converted``) and at the stored one, and how many failed."""

    converted: list[float] = field(default_factory=list)
    unconverted: list[float] = field(default_factory=list)
    failed: int = 0

    @property
    def ratio(self) -> float:
        """How much longer the slowest hundredth of the reads takes if they are converted."""
        return _quantile(self.converted, 0.99) / _quantile(self.unconverted, 0.99)


def _quantile(seconds: list[float], share: float) -> float:
    """Return the seconds that this share of the reads did not exceed."""
    return sorted(seconds)[min(len(seconds) - 1, int(share * len(seconds)))]


@dataclass(slots=True)
class Found:
    """The measurements. ``memory``: bytes of the operator and its processes. ``led``: the leader stayed the same."""

    quiet: Phase
    harmless: Phase
    hostile: Phase
    memory: int
    led: bool
    kubernetes: str


@asynccontextmanager
async def _reading(kinds: list[Notes]) -> AsyncIterator[Phase]:
    phase = Phase()

    async def read(each: Notes, number: int, version: str, seconds: list[float]) -> None:
        await asyncio.sleep(number / RATE / len(kinds))
        while True:
            begun = time.perf_counter()
            try:
                await each.cluster.list_page(each.at(version))
            except ApiError:
                phase.failed += 1
            seconds.append(time.perf_counter() - begun)
            await asyncio.sleep(max(0.0, 1 / RATE - seconds[-1]))

    async with asyncio.TaskGroup() as group:
        tasks = []
        for number, each in enumerate(kinds):
            tasks.append(group.create_task(read(each, number, "v1beta1", phase.converted)))
            if number < _UNCONVERTED:
                tasks.append(group.create_task(read(each, number, "v1", phase.unconverted)))
        yield phase
        for task in tasks:
            task.cancel()


async def _ready(each: Notes, number: int) -> None:
    await each.cluster.create(CRDS, json.dumps(each.crd()).encode())
    await each.served()
    await each.create("v1", "a", text="b")
    await each.declare(each.rules(FILTERED if number % 2 else RENAME, items()))
    await each.condition("Ready", "True")


def _harmless_rules(number: int) -> list[Document]:
    return [{"pair": {**FILTERED["pair"], "down": f"self == '{number}' ? self : self"}}, items()]


async def _use(kind: Notes, rules: Callable[[int], list[Document]], documents: int, seconds: float) -> None:
    """Read the objects of a kind without pause, and declare one document after the other."""

    async def read() -> None:
        while True:
            for name in names:
                await reads(kind, name)

    names = [each["metadata"]["name"] for each in (await kind.cluster.list_page(kind.at("v1"))).json()["items"]]
    reader = asyncio.create_task(read())
    try:
        for number in range(documents):
            await kind.change(kind.rules(*rules(number)))
            await asyncio.sleep(seconds / documents)
    finally:
        reader.cancel()


async def _fill(kind: Notes, objects: int, *, hostile: bool) -> None:
    for number in range(objects):
        size, text = (1 + number % MANY, LONG) if hostile else (1, "b")
        texts = [{"name": str(index), "text": text} for index in range(size)]
        await kind.create("v1", f"each-{number}", text="a" * 2 ** (number % 17 if hostile else 0), items=texts)


async def _measured(cluster: HttpCluster, replicas: Replicas, size: tuple[int, int, int], seconds: float) -> Found:
    kinds, documents, objects = size
    operator = await replicas.start()
    others = [Notes(cluster, f"k{number}.bench.dev") for number in range(kinds)]
    evil, good = Notes(cluster, "evil.bench.dev"), Notes(cluster, "good.bench.dev")
    for number, each in enumerate(others):
        await _ready(each, number)
    for each, rule in ((evil, items(ENDLESS_ITEMS)), (good, items())):
        await cluster.create(CRDS, json.dumps(each.crd()).encode())
        await each.served()
        await each.declare(each.rules(RENAME, rule))
        await each.condition("Ready", "True")
    async with _reading(others) as quiet:
        await asyncio.sleep(seconds)
    await _fill(good, objects, hostile=False)
    async with _reading(others) as harmless:
        await _use(good, _harmless_rules, documents, seconds)
    before = await leadership(cluster)
    async with watched(operator) as seen, _reading(others) as hostile:
        await _fill(evil, objects, hostile=True)
        await _use(evil, hostile_rules, documents, seconds)
    led = await leadership(cluster) == before
    kubernetes = (await cluster.discover("/version")).json()["gitVersion"]
    return Found(quiet, harmless, hostile, seen.most_memory, led, kubernetes)


async def measure(size: tuple[int, int, int], seconds: float) -> Found:
    """Measure."""
    async with ControlPlane() as plane, connect(str(plane.kubeconfig)) as cluster:
        replicas = Replicas(Path(plane.kubeconfig))
        try:
            return await _measured(cluster, replicas, size, seconds)
        finally:
            await replicas.end(cluster)


def results(found: Found, size: tuple[int, int, int]) -> Result:
    """Return the table and the claims."""
    kinds, documents, objects = size
    phases = {"alone": found.quiet, "with a harmless kind": found.harmless, "with a hostile kind": found.hostile}
    rows = tuple(
        (name, f"{len(phase.converted):,}", f"{phase.failed}", *_times(phase)) for name, phase in phases.items()
    )
    claims = [
        exactly("failed reads of the others", sum(each.failed for each in phases.values()), 0),
        at_most("p99 with a hostile kind, converted / unconverted", found.hostile.ratio, _MOST),
        at_most("the same, with a hostile kind / alone", found.hostile.ratio / found.quiet.ratio, _MOST),
        at_most("memory of the operator and its processes, MiB", found.memory / 2**20, MOST_MEMORY / 2**20),
        exactly("changes of the leader", int(not found.led), 0),
    ]
    table = Table("Reads of the others", ("", "reads", "failed", "median, ms", "p99, ms", "p99 unconverted, ms"), rows)
    return Result(f"{kinds} kinds, and {documents} hostile documents and {objects} objects of another", [table], claims)


def _times(phase: Phase) -> tuple[str, str, str]:
    times = (phase.converted, 0.5), (phase.converted, 0.99), (phase.unconverted, 0.99)
    median, slowest, unconverted = (f"{1000 * _quantile(seconds, share):.1f}" for seconds, share in times)
    return median, slowest, unconverted


def main() -> None:
    """Read the command line, measure, print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.tenants", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0, help="of each phase")
    parser.add_argument("--quick", action="store_true", help="a smoke run on few kinds; its figures mean nothing")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the claims here too")
    add_flag(parser)
    flags = parser.parse_args()
    check_flag(parser, flags)
    size, seconds = (QUICK, _QUICK_S) if flags.quick else (FULL, flags.seconds)
    recorder = Recorder.begin(flags.record)
    found = asyncio.run(measure(size, seconds))
    result = results(found, size)
    print(report(f"{len(os.sched_getaffinity(0))} cores; load average {os.getloadavg()[0]:.1f} at the end.", [result]))
    if recorder is not None:
        recorder.write(
            "tenants", f"python -m benchmarks.tenants --seconds {seconds:g}", result, kubernetes=found.kubernetes
        )
    if flags.json is not None:
        flags.json.write_bytes(msgspec.json.encode({"claims": result.claims}))


if __name__ == "__main__":
    main()
