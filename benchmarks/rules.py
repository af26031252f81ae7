"""Measure thousands of ConversionRules: ``python -m benchmarks.rules [--kinds 2000] [--groups 20] [--record]``.

The benchmark runs one API server and one replica of ``restow operator --conversions``, with small CRDs that have two
versions and one rule each. The kinds come in three steps: a quarter of them, another quarter, and the other half. If
the cost of a kind depended on the number of kinds that are there already, the last step would show it. After each step
nothing changes for a while, and then the rules of one kind change. At the end another replica starts.

Requests are those that the API server answered, without the benchmark's own reads. A busy machine changes the CPU time
of a process little, and the requests hardly; so no seconds are recorded.
Requests for Leases, of which there is about one a second whatever happens, are counted apart.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import signal
import socket
import sys
import tempfile
import time
import urllib.request
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import msgspec

from benchmarks.records import Recorder, add_flag, check_flag
from benchmarks.tables import Result, Table, at_most, report
from restow.controlplane import ControlPlane
from restow.crds.conversionrules import CONVERSION_RULES
from restow.kube import Cluster, PatchType, connect
from restow.kube.resources import CRDS

PORTS: Final = re.compile(r"probes and metrics at port (\d+)")
REQUESTS: Final = re.compile(r"^apiserver_request_total\{(.*)\} (\S+)$", re.MULTILINE)
PATIENCE: Final = 3600
AT_ONCE: Final = 16
#: Requests in a minute without changes, for any number of kinds: a replica looks after its certificates twice, and each
#: time reads its Secrets and 16 CRDs again, so that each CRD gets its turn.
_STILL: Final = 40
#: A replica has nothing to do if it uses less than this share of a core for two seconds.
CALM: Final = 0.03
TICKS: Final = os.sysconf("SC_CLK_TCK")
PAGE: Final = os.sysconf("SC_PAGE_SIZE")
QUICK: Final = (24, 2, 3.0)

Json = dict[str, Any]


def kind(number: int, groups: int) -> tuple[str, str, str]:
    """Return group, kind and plural."""
    return f"g{number % groups}.bench.dev", f"Kind{number}", f"kind{number}s"


def crd(number: int, groups: int) -> Json:
    """Return a small CRD; v1 and v1beta1 represent a timeout differently."""
    group, name, plural = kind(number, groups)
    fields: dict[str, Json] = {
        "v1beta1": {"timeoutSeconds": {"type": "integer"}, "image": {"type": "string"}},
        "v1": {"timeout": {"type": "string"}, "image": {"type": "string"}},
    }
    versions = [
        {
            "name": version,
            "served": True,
            "storage": version == "v1",
            "schema": {
                "openAPIV3Schema": {
                    "type": "object",
                    "properties": {"spec": {"type": "object", "properties": properties}},
                }
            },
        }
        for version, properties in fields.items()
    ]
    names = {"plural": plural, "singular": name.lower(), "kind": name, "listKind": f"{name}List"}
    spec = {"group": group, "scope": "Namespaced", "names": names, "versions": versions}
    return {"metadata": {"name": f"{plural}.{group}"}, "spec": spec}


def rules(number: int, groups: int) -> Json:
    """Return the rules for the CRD."""
    group, name, plural = kind(number, groups)
    rule = {"duration": {"spoke": "spec.timeoutSeconds", "hub": "spec.timeout", "unit": "s", "text": "hub"}}
    spec = {
        "target": {"group": group, "kind": name},
        "hub": "v1",
        "spokes": [{"version": "v1beta1", "rules": [rule]}],
    }
    return {
        "apiVersion": CONVERSION_RULES.api_version,
        "kind": "ConversionRules",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": spec,
    }


@dataclass(frozen=True, slots=True)
class Costs:
    """The work of the replica and the API server up to a moment, or between two: seconds of CPU, and numbers.

    ``requests`` are those that are no requests for Leases: these depend on the seconds that something takes.
    """

    cpu: float
    server_cpu: float
    requests: float
    leases: float

    def __sub__(self, earlier: Costs) -> Costs:
        return Costs(
            self.cpu - earlier.cpu,
            self.server_cpu - earlier.server_cpu,
            self.requests - earlier.requests,
            self.leases - earlier.leases,
        )


@dataclass(frozen=True, slots=True)
class Step:
    """A step: the kinds that came, all kinds, the memory then, and the costs until they were ready and after that."""

    added: int
    kinds: int
    memory: float
    reconciles: float
    ready: Costs
    idle: Costs
    change: Costs


@dataclass(frozen=True, slots=True)
class Found:
    """The measurements: the steps, the costs of a new replica until it is ready and in all, and its memory."""

    steps: Sequence[Step]
    new_ready: float
    new: Costs
    new_memory: float
    idle: float
    kubernetes: str


class Bench:
    """An API server, the kinds, and one replica at a time."""

    def __init__(self, plane: ControlPlane, cluster: Cluster, command: str, folder: Path, groups: int) -> None:
        self._plane = plane
        self._cluster = cluster
        self._command = command
        self._folder = folder
        self._groups = groups
        with socket.create_server(("127.0.0.1", 0)) as found:
            self._port: int = found.getsockname()[1]
        self._pid = self._probes = self._own_reads = self._changes = 0

    @asynccontextmanager
    async def replica(self) -> AsyncIterator[float]:
        """Run a replica; yield the CPU seconds until it was ready, once it is."""
        flags = [f"--own-ca=https://127.0.0.1:{self._port}", f"--port={self._port}", "--bind=127.0.0.1"]
        flags += [f"--kubeconfig={self._plane.kubeconfig}", "--metrics-port=0", "--drain-seconds=0", "--install-crds"]
        log = self._folder / f"log-{time.monotonic()}"
        with log.open("wb") as file:
            process = await asyncio.create_subprocess_exec(
                self._command, "operator", "--conversions", *flags, cwd=self._folder, stdout=file, stderr=file
            )
        try:
            async with asyncio.timeout(PATIENCE):
                while (found := PORTS.search(log.read_text())) is None:
                    if process.returncode is not None:
                        raise RuntimeError(log.read_text())
                    await asyncio.sleep(0.05)
            self._pid, self._probes = process.pid, int(found[1])
            yield cpu_seconds(process.pid)
        finally:
            if process.returncode is None:
                process.send_signal(signal.SIGTERM)
            await process.wait()
            self._pid = 0

    async def create_kinds(self, numbers: Iterable[int]) -> None:
        """Create CRDs, and wait until all of them are served."""
        await _every(numbers, self._create_kind)

    async def _create_kind(self, number: int) -> None:
        document = crd(number, self._groups)
        await self._cluster.create(CRDS, encoded(document))
        async with asyncio.timeout(PATIENCE):
            while True:
                found = (await self._cluster.get(CRDS, document["metadata"]["name"])).json()
                conditions = (found.get("status") or {}).get("conditions") or ()
                if any(each["type"] == "Established" and each["status"] == "True" for each in conditions):
                    return
                await asyncio.sleep(0.2)

    async def create_rules(self, numbers: Iterable[int]) -> None:
        """Create the rules of kinds."""
        await _every(
            numbers, lambda number: self._cluster.create(CONVERSION_RULES, encoded(rules(number, self._groups)))
        )

    async def until_ready(self, numbers: Iterable[int]) -> None:
        """Wait until the rules of these kinds are Ready, and the replica is calm.

        The replica's own count is not asked: its metrics have lines for each kind, which take CPU time.
        """
        async with asyncio.timeout(PATIENCE):
            for number in numbers:
                name = rules(number, self._groups)["metadata"]["name"]
                while True:
                    if await self._is_ready(name):
                        break
                    await asyncio.sleep(2)
        await self.until_calm()

    async def _is_ready(self, name: str) -> bool:
        self._own_reads += 1
        status = (await self._cluster.get(CONVERSION_RULES, name)).json().get("status") or {}
        found = {each["type"]: each["status"] for each in status.get("conditions") or ()}
        return found.get("Ready") == "True"

    async def until_calm(self) -> None:
        """Wait until the replica has nothing to do."""
        async with asyncio.timeout(PATIENCE):
            used = -1.0
            while (now := cpu_seconds(self._pid)) - used > 2 * CALM:
                used = now
                await asyncio.sleep(2)

    async def change(self) -> None:
        """Change the rules of one kind, and wait until the change is served."""
        self._changes += 1
        document = rules(0, self._groups)
        name, spec = document["metadata"]["name"], document["spec"]
        if self._changes % 2:
            spec["spokes"][0]["rules"].append({"move": {"spoke": "spec.image", "hub": "spec.image"}})
        reply = await self._cluster.patch(CONVERSION_RULES, name, encoded({"spec": spec}), patch_type=PatchType.MERGE)
        generation = reply.json()["metadata"]["generation"]
        async with asyncio.timeout(PATIENCE):
            while True:
                self._own_reads += 1
                status = (await self._cluster.get(CONVERSION_RULES, name)).json()["status"]
                found = {each["type"]: each for each in status["conditions"]}["Ready"]
                if found["status"] == "True" and found["observedGeneration"] == generation:
                    return await self.until_calm()
                if found["reason"] in ("Invalid", "Unaccounted"):
                    raise RuntimeError(found["message"])
                await asyncio.sleep(0.1)

    async def costs(self) -> Costs:
        """Return the costs so far."""
        cpu = cpu_seconds(self._pid) if self._pid else 0.0
        served = (await self._cluster.discover("/metrics")).body.decode()
        server = self._plane.cpu_seconds()["kube-apiserver"]
        requests, leases = answered(served)
        return Costs(cpu, server, requests - self._own_reads, leases)

    async def reconciles(self) -> float:
        """Return the number of reconciles so far; ask it outside of what is measured, because it takes CPU time."""
        return total(await asyncio.to_thread(self._metrics), "restow_controller_reconciles_total")

    def resident_mib(self) -> float:
        """Return the resident memory of the replica."""
        return int(Path(f"/proc/{self._pid}/statm").read_text().split()[1]) * PAGE / 2**20

    def _metrics(self) -> str:
        with urllib.request.urlopen(f"http://127.0.0.1:{self._probes}/metrics", timeout=60) as reply:
            found: str = reply.read().decode()
            return found


async def _every(numbers: Iterable[int], make: Callable[[int], Awaitable[object]]) -> None:
    turns = asyncio.Semaphore(AT_ONCE)

    async def one(number: int) -> None:
        async with turns:
            await make(number)

    async with asyncio.TaskGroup() as group:
        for number in numbers:
            group.create_task(one(number))


def encoded(document: Json) -> bytes:
    """Return a document as JSON."""
    return json.dumps(document).encode()


def total(text: str, name: str) -> float:
    """Return the sum of a metric's samples."""
    return sum(float(value) for value in re.findall(rf"^{name}(?:{{.*}})? (\S+)$", text, re.MULTILINE))


def answered(text: str) -> tuple[float, float]:
    """Return the numbers of requests for resources that the API server answered: those for Leases apart, as second."""
    counted = {True: 0.0, False: 0.0}
    for labels, value in REQUESTS.findall(text):
        if ',resource=""' not in labels:
            counted[',resource="leases"' in labels] += float(value)
    return counted[False], counted[True]


def cpu_seconds(pid: int) -> float:
    """Return the CPU time of a process, user and system (Linux)."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


async def measure(kinds: int, groups: int, idle: float, command: str) -> Found:
    """Measure."""
    steps: list[Step] = []
    with tempfile.TemporaryDirectory(prefix="restow-bench-") as folder:
        async with ControlPlane() as plane, connect(str(plane.kubeconfig)) as cluster:
            bench = Bench(plane, cluster, command, Path(folder), groups)
            async with bench.replica():
                done = 0
                for number in (kinds // 4, kinds // 2, kinds):
                    steps.append(await _step(bench, range(done, number), idle))
                    done = number
                    _say(f"{number} of {kinds} kinds are ready")
            before = await bench.costs()
            async with bench.replica() as ready:
                await bench.until_ready(range(kinds))
                new, memory = await bench.costs() - before, bench.resident_mib()
            kubernetes = (await cluster.discover("/version")).json()["gitVersion"]
    return Found(steps, ready, new, memory, idle, kubernetes)


async def _step(bench: Bench, numbers: range, idle: float) -> Step:
    """Add kinds, wait, and change the rules of one kind."""
    await bench.create_kinds(numbers)
    await bench.until_calm()
    reconciles = await bench.reconciles()
    begun = await bench.costs()
    await bench.create_rules(numbers)
    await bench.until_ready(numbers)
    ready, memory = await bench.costs(), bench.resident_mib()
    reconciles = await bench.reconciles() - reconciles
    await bench.until_calm()
    still = await bench.costs()
    await asyncio.sleep(idle)
    rested = await bench.costs()
    await bench.change()
    changed = await bench.costs()
    return Step(len(numbers), numbers.stop, memory, reconciles, ready - begun, rested - still, changed - rested)


def results(found: Found, groups: int) -> Result:
    """Return the tables and the claims."""
    first, *_, last = found.steps
    minute = 60 / found.idle
    added = tuple(
        (
            f"{each.kinds - each.added + 1:,} to {each.kinds:,}",
            f"{each.ready.requests / each.added:.1f}",
            f"{each.reconciles / each.added:.1f}",
            f"{1000 * each.ready.cpu / each.added:.0f}",
            f"{1000 * each.ready.server_cpu / each.added:.0f}",
            f"{each.memory:.0f}",
        )
        for each in found.steps
    )
    running = tuple(
        (
            f"{each.kinds:,}",
            f"{each.idle.requests * minute:.0f}",
            f"{each.idle.leases * minute:.0f}",
            f"{1000 * each.idle.cpu * minute:.0f}",
            f"{each.change.requests:.0f}",
            f"{1000 * each.change.cpu:.0f}",
        )
        for each in found.steps
    )
    new = (
        f"{last.kinds:,}",
        f"{found.new_ready:.1f}",
        f"{found.new.cpu:.1f}",
        f"{found.new.requests / last.kinds:.1f}",
        f"{found.new_memory:.0f}",
    )
    costs = ("replica CPU, ms", "API server CPU, ms", "memory afterwards, MiB")
    tables = [
        Table("Rules become Ready", ("kinds", "requests of a kind", "reconciles of a kind", *costs), added),
        Table(
            "Afterwards",
            (
                "kinds",
                "requests in a minute",
                "for Leases",
                "replica CPU in a minute, ms",
                "requests of a change",
                "its CPU, ms",
            ),
            running,
        ),
        Table(
            "A new replica",
            ("kinds", "CPU until it is ready, s", "CPU in all, s", "requests of a kind", "memory, MiB"),
            (new,),
        ),
    ]
    most = max(each.idle.requests * minute for each in found.steps)
    grown = (last.memory - first.memory) * 1024 / (last.kinds - first.kinds)
    claims = [
        at_most("requests of a kind, last / first step", _of_one(last, "requests") / _of_one(first, "requests"), 1.1),
        at_most("replica CPU of a kind, last / first step", _of_one(last, "cpu") / _of_one(first, "cpu"), 1.25),
        at_most("requests of a change, last / first step", last.change.requests / first.change.requests, 1.25),
        at_most("requests in a minute without changes", most, _STILL),
        at_most("memory of a further kind, KiB", grown, 256),
    ]
    return Result(f"{last.kinds:,} kinds in {groups} groups", tables, claims)


def _of_one(step: Step, cost: str) -> float:
    value: float = getattr(step.ready, cost)
    return value / step.added


def _say(line: str) -> None:
    sys.stderr.write(f"{line}\n")


def main() -> None:
    """Read the command line, measure, print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.rules", description=__doc__)
    parser.add_argument("--kinds", type=int, default=2000)
    parser.add_argument("--groups", type=int, default=20)
    parser.add_argument("--idle", type=float, default=60.0, help="seconds without a change, after each step")
    parser.add_argument("--quick", action="store_true", help="a smoke run on few kinds; its figures mean nothing")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the claims here too")
    parser.add_argument("--restow", default=str(Path(sys.executable).with_name("restow")), help="the command to run")
    add_flag(parser)
    flags = parser.parse_args()
    check_flag(parser, flags)
    kinds, groups, idle = QUICK if flags.quick else (flags.kinds, flags.groups, flags.idle)
    recorder = Recorder.begin(flags.record)
    found = asyncio.run(measure(kinds, groups, idle, flags.restow))
    result = results(found, groups)
    print(report(f"{len(os.sched_getaffinity(0))} cores; load average {os.getloadavg()[0]:.1f} at the end.", [result]))
    if recorder is not None:
        command = f"python -m benchmarks.rules --kinds {kinds} --groups {groups} --idle {idle:g}"
        recorder.write("rules", command, result, kubernetes=found.kubernetes)
    if flags.json is not None:
        flags.json.write_bytes(msgspec.json.encode({"claims": result.claims}))


if __name__ == "__main__":
    main()
