"""Measure thousands of ConversionRules: ``python -m benchmarks.rules [--kinds 2000] [--groups 20]``.

The benchmark runs one API server and one replica of ``restow operator --conversions``, with small CRDs that have two
versions and one rule each. It prints the time until all rules are Ready, their cost for the replica (CPU, resident
memory, requests that the API server answered), the cost without changes, the time until a change is served, and the
time until a restarted replica is ready.

The API server uses the same cores. A busy machine changes the CPU time of the process little, but changes the seconds.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import re
import signal
import socket
import sys
import tempfile
import time
import urllib.request
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from restow.controlplane import ControlPlane
from restow.crds.conversionrules import CONVERSION_RULES
from restow.kube import Cluster, PatchType, Resource, connect
from restow.kube.pager import list_pages
from restow.kube.resources import CRDS

PORTS: Final = re.compile(r"probes and metrics at port (\d+)")
PATIENCE: Final = 3600
AT_ONCE: Final = 16
TICKS: Final = os.sysconf("SC_CLK_TCK")
PAGE: Final = os.sysconf("SC_PAGE_SIZE")

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
    """The work of the replica and the API server up to a moment, or between two: seconds and numbers."""

    seconds: float
    cpu: float
    server_cpu: float
    requests: float
    reconciles: float

    def __sub__(self, earlier: Costs) -> Costs:
        return Costs(
            self.seconds - earlier.seconds,
            self.cpu - earlier.cpu,
            self.server_cpu - earlier.server_cpu,
            self.requests - earlier.requests,
            self.reconciles - earlier.reconciles,
        )


class Bench:
    """An API server, the kinds, and one replica at a time."""

    def __init__(
        self, plane: ControlPlane, cluster: Cluster, command: str, folder: Path, kinds: int, groups: int
    ) -> None:
        self._plane = plane
        self._cluster = cluster
        self._command = command
        self._folder = folder
        self._kinds = kinds
        self._groups = groups
        with socket.create_server(("127.0.0.1", 0)) as found:
            self._port: int = found.getsockname()[1]
        self._pid = self._probes = 0

    @asynccontextmanager
    async def replica(self) -> AsyncIterator[float]:
        """Run a replica; yield the seconds until it was ready, once it is."""
        began = time.monotonic()
        flags = [f"--own-ca=https://127.0.0.1:{self._port}", f"--port={self._port}", "--bind=127.0.0.1"]
        flags += [f"--kubeconfig={self._plane.kubeconfig}", "--metrics-port=0", "--drain-seconds=0", "--install-crds"]
        log = self._folder / f"log-{began}"
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
            yield time.monotonic() - began
        finally:
            if process.returncode is None:
                process.send_signal(signal.SIGTERM)
            await process.wait()

    async def create_kinds(self) -> None:
        """Create the CRDs, and wait until all of them are served."""
        await self._every(lambda number: self._cluster.create(CRDS, encoded(crd(number, self._groups))))
        await self._until(CRDS, "Established", self._kinds)

    async def create_rules(self) -> None:
        """Create the rules."""
        await self._every(lambda number: self._cluster.create(CONVERSION_RULES, encoded(rules(number, self._groups))))

    async def until_ready(self, number: int) -> None:
        """Wait until this number of rules is Ready."""
        await self._until(CONVERSION_RULES, "Ready", number)

    async def _until(self, kind: Resource, condition: str, number: int) -> None:
        for _ in range(PATIENCE):
            if await self._count(kind, condition) >= number:
                return
            await asyncio.sleep(1)
        raise TimeoutError(f"not all {kind.plural} are {condition}")

    async def change(self) -> float:
        """Change one of the rules; return the seconds until the change is served."""
        name = rules(0, self._groups)["metadata"]["name"]
        spec = rules(0, self._groups)["spec"]
        spec["spokes"][0]["rules"].append({"move": {"spoke": "spec.image", "hub": "spec.image"}})
        body = encoded({"spec": spec})
        began = time.monotonic()
        reply = await self._cluster.patch(CONVERSION_RULES, name, body, patch_type=PatchType.MERGE)
        generation = reply.json()["metadata"]["generation"]
        async with asyncio.timeout(PATIENCE):
            while True:
                status = (await self._cluster.get(CONVERSION_RULES, name)).json()["status"]
                found = {each["type"]: each for each in status["conditions"]}["Ready"]
                if found["status"] == "True" and found["observedGeneration"] == generation:
                    return time.monotonic() - began
                if found["reason"] in ("Invalid", "Unaccounted"):
                    raise RuntimeError(found["message"])
                await asyncio.sleep(0.1)

    async def costs(self) -> Costs:
        """Return the costs so far."""
        told = await asyncio.to_thread(self._metrics)
        served = (await self._cluster.discover("/metrics")).body.decode()
        cpu = cpu_seconds(self._pid)
        server = self._plane.cpu_seconds()["kube-apiserver"]
        reconciles = total(told, "restow_controller_reconciles_total")
        return Costs(time.monotonic(), cpu, server, total(served, "apiserver_request_total"), reconciles)

    def resident_mib(self) -> float:
        """Return the resident memory of the replica."""
        return int(Path(f"/proc/{self._pid}/statm").read_text().split()[1]) * PAGE / 2**20

    def _metrics(self) -> str:
        with urllib.request.urlopen(f"http://127.0.0.1:{self._probes}/metrics", timeout=60) as reply:
            found: str = reply.read().decode()
            return found

    async def _every(self, make: Callable[[int], Awaitable[object]]) -> None:
        turns = asyncio.Semaphore(AT_ONCE)

        async def one(number: int) -> None:
            async with turns:
                await make(number)

        async with asyncio.TaskGroup() as group:
            for number in range(self._kinds):
                group.create_task(one(number))

    async def _count(self, kind: Resource, condition: str) -> int:
        number = 0
        async for page in list_pages(self._cluster, kind, limit=200):
            for item in page:
                conditions = (item.get("status") or {}).get("conditions") or ()
                number += any(each["type"] == condition and each["status"] == "True" for each in conditions)
        return number


def encoded(document: Json) -> bytes:
    """Return a document as JSON."""
    return json.dumps(document).encode()


def total(text: str, name: str) -> float:
    """Return the sum of a metric's samples."""
    return sum(float(value) for value in re.findall(rf"^{name}(?:{{.*}})? (\S+)$", text, re.MULTILINE))


def cpu_seconds(pid: int) -> float:
    """Return the CPU time of a process, user and system (Linux)."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def row(what: str, costs: Costs, kinds: int, memory: float = 0.0) -> str:
    """Return a line of the table."""
    each = f"{1000 * costs.cpu / costs.reconciles:.1f} ms" if costs.reconciles else ""
    resident = f"{memory:.0f} MiB" if memory else ""
    return (
        f"| {what} | {costs.seconds:.1f} s | {costs.cpu:.1f} s | {resident} | {costs.reconciles:.0f} | {each} | "
        f"{costs.requests:.0f} | {costs.requests / kinds:.1f} | {costs.server_cpu:.1f} s |"
    )


async def measure(kinds: int, groups: int, idle: float, command: str) -> None:
    """Measure, and print a table."""
    before = os.getloadavg()[0]
    print(f"{len(os.sched_getaffinity(0))} cores, Python {platform.python_version()}; load average {before:.1f}")
    print(f"{kinds} kinds in {groups} groups")
    print("| | seconds | replica: CPU | memory | reconciles | CPU of one | requests | of one kind | API server: CPU |")
    print("|---|---|---|---|---|---|---|---|---|", flush=True)
    with tempfile.TemporaryDirectory(prefix="restow-bench-") as folder:
        async with ControlPlane() as plane, connect(str(plane.kubeconfig)) as cluster:
            bench = Bench(plane, cluster, command, Path(folder), kinds, groups)
            await bench.create_kinds()
            async with bench.replica():
                first = await bench.costs()
                await bench.create_rules()
                await bench.until_ready(kinds)
                ready = await bench.costs()
                print(row("all rules Ready", ready - first, kinds, bench.resident_mib()), flush=True)
                await asyncio.sleep(idle)
                rested = await bench.costs()
                print(row("nothing changes", rested - ready, kinds, bench.resident_mib()), flush=True)
                print(f"one change served after {await bench.change():.1f} s", flush=True)
            async with bench.replica() as seconds:
                costs, memory = await bench.costs(), bench.resident_mib()
                print(f"ready again after {seconds:.1f} s, with {costs.cpu:.1f} s of CPU and {memory:.0f} MiB")


def main() -> None:
    """Read the command line, measure, print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.rules", description=__doc__)
    parser.add_argument("--kinds", type=int, default=2000)
    parser.add_argument("--groups", type=int, default=20)
    parser.add_argument("--idle", type=float, default=60.0, help="seconds without a change")
    parser.add_argument("--restow", default=str(Path(sys.executable).with_name("restow")), help="the command to run")
    given = parser.parse_args()
    asyncio.run(measure(given.kinds, given.groups, given.idle, given.restow))


if __name__ == "__main__":
    main()
