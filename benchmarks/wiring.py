"""Measure reads at another version while another writer undoes the wiring.

Run it with ``python -m benchmarks.wiring [--seconds 60]``. It starts three replicas of ``restow serve --own-ca`` behind
one address, as behind a Service, and one API server. Twenty reads per second start by the clock, whether or not the
earlier ones have ended, so that the share of failed reads is a share of time. First each way to undo the wiring happens
once: the CA bundle is removed, the CA bundle is replaced by another CA's, the strategy is reset to None. Then the CA
bundle is removed every second.

A read fails if the answer is an error, or an object that was not converted. Reads are not retried.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import json
import socket
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, Final

from benchmarks.records import Recorder, add_flag
from benchmarks.tables import Result, Table, markdown
from restow.controlplane import ControlPlane
from restow.controlplane.users import ControlPlaneAuthority
from restow.crds.documents import load_documents
from restow.kube import Cluster, KubeError, PatchType, connect
from restow.kube.resources import CRDS, Resource

ROOT: Final = Path(__file__).parents[1]
MANIFEST: Final = ROOT / "docs/examples/provider/manifests/gateways.yaml"
REGISTRY: Final = "docs.examples.provider.conversions:graph"
NAME: Final = "gateways.edge.example.dev"
OLD: Final = Resource("edge.example.dev", "v1alpha1", "gateways", namespaced=True)
NEW: Final = Resource("edge.example.dev", "v1", "gateways", namespaced=True)
REPLICAS: Final = 3
BETWEEN_READS: Final = 0.05
PATIENCE: Final = 60.0

Json = dict[str, Any]


class Reads:
    """Reads of one object at a version that is not stored."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self.made = self.failed = 0
        self.last_failed = 0.0

    async def begin_forever(self) -> None:
        """Start one read after the other, by the clock."""
        async with asyncio.TaskGroup() as group:
            while True:
                group.create_task(self._read())
                await asyncio.sleep(BETWEEN_READS)

    def reset(self) -> None:
        """Reset the counts."""
        self.made = self.failed = 0

    async def _read(self) -> None:
        try:
            shown = (await self._cluster.get(OLD, "a", "default")).json()
            converted = shown.get("spec", {}).get("host") == "a.example.dev"
        except KubeError:
            converted = False
        self.made += 1
        if not converted:
            self.failed += 1
            self.last_failed = time.monotonic()


async def undo(cluster: Cluster, how: str) -> None:
    """Undo the wiring, like a tool that replaces the CRD, injects its own CA, or applies an old manifest."""
    changes: dict[str, Json] = {
        "`caBundle` removed": {"webhook": {"clientConfig": {"caBundle": None}}},
        "`caBundle` of another CA": {"webhook": {"clientConfig": {"caBundle": FOREIGN}}},
        "strategy `None`": {"strategy": "None", "webhook": None},
    }
    body = json.dumps({"spec": {"conversion": changes[how]}}).encode()
    await cluster.patch(CRDS, NAME, body, patch_type=PatchType.MERGE, params={"fieldManager": "another-tool"})


FOREIGN: Final = base64.b64encode(ControlPlaneAuthority.create().certificate).decode()


async def until_wired(cluster: Cluster, *, without: str = "") -> float:
    """Wait until the CRD is wired as at the start; return the seconds of the wait."""
    began = time.monotonic()
    while time.monotonic() - began < PATIENCE:
        conversion = (await cluster.get(CRDS, NAME)).json()["spec"]["conversion"]
        bundle = (conversion.get("webhook") or {}).get("clientConfig", {}).get("caBundle")
        if bundle and bundle != without:
            break
        await asyncio.sleep(0.02)
    return time.monotonic() - began


async def once(cluster: Cluster, reads: Reads, how: str) -> tuple[str, float, float, int]:
    """Undo the wiring; return how, the seconds until the CRD is wired and until no read fails, and failed reads."""
    reads.reset()
    began = time.monotonic()
    await undo(cluster, how)
    wired = await until_wired(cluster, without=FOREIGN)
    # API servers follow a CRD with a delay: reads count as right again when none has failed for two seconds.
    for _ in range(round(PATIENCE / 2.0)):
        if time.monotonic() - max(began, reads.last_failed) >= 2.0:
            break
        await asyncio.sleep(max(0.0, max(began, reads.last_failed) + 2.0 - time.monotonic()))
    return how, wired, max(0.0, reads.last_failed - began), reads.failed


async def every_second(cluster: Cluster, reads: Reads, seconds: int) -> tuple[int, int]:
    """Remove the bundle every second; return the numbers of failed reads and of all reads."""
    reads.reset()
    for _ in range(seconds):
        next_one = time.monotonic() + 1.0
        await undo(cluster, CHANGES[0])
        await asyncio.sleep(max(0.0, next_one - time.monotonic()))
    counted = reads.failed, reads.made
    await until_wired(cluster)
    return counted


class Balancer:
    """One address for all replicas: each new connection goes to the next one."""

    def __init__(self) -> None:
        self.ports: list[int] = []
        self._turn = 0

    async def carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Forward one connection."""
        self._turn += 1
        with suppress(OSError, ZeroDivisionError):
            there, back = await asyncio.open_connection("127.0.0.1", self.ports[self._turn % len(self.ports)])
            await asyncio.gather(pipe(reader, back), pipe(there, writer))
        writer.transport.abort()


async def pipe(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Forward bytes until the end of the stream."""
    try:
        while data := await reader.read(1 << 16):
            writer.write(data)
            await writer.drain()
    finally:
        writer.close()


@asynccontextmanager
async def replicas(kubeconfig: Path, folder: Path) -> AsyncIterator[None]:
    """Run the replicas behind one address."""
    balancer = Balancer()
    server = await asyncio.start_server(balancer.carry, "127.0.0.1", 0)
    address = f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    processes = []
    try:
        for number in range(REPLICAS):
            with socket.create_server(("127.0.0.1", 0)) as found:
                port = found.getsockname()[1]
            own = folder / str(number)
            own.mkdir()
            processes.append(await start(kubeconfig, own, address, port))
            balancer.ports.append(port)
        yield
    finally:
        for process in processes:
            process.terminate()
        for process in processes:
            await process.wait()
        server.close()


async def start(kubeconfig: Path, folder: Path, address: str, port: int) -> asyncio.subprocess.Process:
    """Start one replica; return once it listens."""
    flags = [f"--cert={folder}/tls.crt", f"--key={folder}/tls.key", f"--crd={MANIFEST}", f"--own-ca={address}"]
    flags += [f"--kubeconfig={kubeconfig}", f"--port={port}", "--metrics-port=0", "--drain-seconds=0"]
    command = [str(Path(sys.executable).with_name("restow")), "serve", f"--registry={REGISTRY}", "--bind=127.0.0.1"]
    with (folder / "log").open("wb") as log:
        process = await asyncio.create_subprocess_exec(*command, *flags, cwd=ROOT, stdout=log, stderr=log)
    async with asyncio.timeout(PATIENCE):
        while b"at port" not in (folder / "log").read_bytes():
            if process.returncode is not None:
                raise RuntimeError((folder / "log").read_text())
            await asyncio.sleep(0.05)
    return process


async def measure(seconds: int) -> tuple[Table, str]:
    """Measure; return the table, and the version of the API server."""
    with tempfile.TemporaryDirectory(prefix="restow-bench-") as folder:
        async with ControlPlane() as plane, connect(str(plane.kubeconfig)) as cluster:
            await cluster.create(CRDS, json.dumps(load_documents(MANIFEST.read_text())[0]).encode())
            async with replicas(plane.kubeconfig, Path(folder)):
                await until_wired(cluster)
                await create(cluster)
                reads = Reads(cluster)
                reading = asyncio.create_task(reads.begin_forever())
                await asyncio.sleep(2)
                found = [await once(cluster, reads, how) for how in CHANGES]
                failed, made = await every_second(cluster, reads, seconds)
                reading.cancel()
                kubernetes = (await cluster.discover("/version")).json()["gitVersion"]
    return table(found, failed, made, seconds), kubernetes


CHANGES: Final = ("`caBundle` removed", "`caBundle` of another CA", "strategy `None`")


def table(found: Sequence[tuple[str, float, float, int]], failed: int, made: int, seconds: int) -> Table:
    """Return the results as a table."""
    rows = [(how, f"{wired:.2f}", f"{failing:.2f}", f"{count}", "-") for how, wired, failing, count in found]
    share = 100 * failed / max(1, made)
    rows.append((f"`caBundle` removed every second, {seconds} times", "-", "-", f"{failed}", f"{share:.0f} %"))
    columns = ("wired again after, s", "reads fail for, s", "failed reads", "of all reads")
    return Table("Undone", ("undone", *columns), tuple(rows))


async def create(cluster: Cluster) -> None:
    """Create the object once its kind is served."""
    body = {"apiVersion": "edge.example.dev/v1", "kind": "Gateway", "metadata": {"name": "a"}}
    encoded = json.dumps({**body, "spec": {"hosts": ["a.example.dev"]}}).encode()
    async with asyncio.timeout(PATIENCE):
        while True:
            try:
                await cluster.create(NEW, encoded, "default")
            except KubeError:
                await asyncio.sleep(0.1)
            else:
                return


def main() -> None:
    """Read the command line, measure, print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.wiring", description=__doc__)
    parser.add_argument("--seconds", type=int, default=60, help="how long the bundle is removed every second")
    add_flag(parser)
    flags = parser.parse_args()
    recorder = Recorder.begin(flags.record)
    found, kubernetes = asyncio.run(measure(flags.seconds))
    print(markdown(found))
    if recorder is not None:
        command = f"python -m benchmarks.wiring --seconds {flags.seconds}"
        recorder.write("wiring", command, Result("Wiring", [found]), kubernetes=kubernetes)


if __name__ == "__main__":
    main()
