"""Compare ``restow references`` with kubectl with jq, and with Helm, on many objects and Helm releases.

Starts a control plane, puts the objects into its etcd, and runs each contender as a separate process, in turns. The API
server's cache is warm: every resource is listed once before. Every contender has to find all references.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Final

import msgspec

from benchmarks.migration.admin import Admin, RequestFailedError
from benchmarks.migration.children import Usage, run
from benchmarks.migration.meters import read
from benchmarks.records import Recorder, add_flag, check_flag
from benchmarks.references.contenders import CONTENDERS, Contender, Tools
from benchmarks.references.content import FULL, GROUP, QUICK, USUAL, Sizes, crds, plurals, releases, stored_objects
from benchmarks.stored import put
from benchmarks.tables import Claim, Result, Table, at_most, ranged, report
from deploy.tools.tools import find_tools
from restow.controlplane import ControlPlane
from restow.controlplane.binaries import find_binaries

_NAMESPACE: Final = "default"
_PEAK: Final = 200
_CRDS: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_PATIENCE: Final = 600.0
_KIB: Final = 1024


@dataclass(frozen=True, slots=True)
class Measured:
    """One run: the resources that the client and the control plane used, and the number of answered requests."""

    contender: str
    found: int
    usage: Usage
    plane_cpu: float
    reads: int


async def measure(sizes: Sizes, contenders: Sequence[Contender], rounds: int) -> tuple[list[Measured], str]:
    """Fill a control plane, and let the contenders take turns; return the runs, and the version of the API server."""
    helm = (await find_tools(_say))["helm"] if any(each.needs_helm for each in contenders) else None
    kubectl = (await find_binaries(("kubectl",)))["kubectl"]
    async with ControlPlane() as plane, Admin.of(plane.admin) as admin:
        await _fill(plane, admin, sizes)
        tools = Tools(plane.kubeconfig, kubectl, helm)
        runs = []
        for number in range(rounds):
            for contender in contenders[:: -1 if number % 2 else 1]:
                runs.append(await _run(plane, admin, contender, tools, sizes))
                _say(f"{contender.name}: {runs[-1].usage.seconds:.1f} s")
        return runs, (await admin.call("GET", "/version"))["gitVersion"]


async def _run(plane: ControlPlane, admin: Admin, contender: Contender, tools: Tools, sizes: Sizes) -> Measured:
    reads, before = await _reads(admin), read(plane)
    output, usage = await run(["/bin/sh", "-c", contender.command(tools, sizes)])
    plane_cpu = sum(read(plane).since(before).plane.values())
    found, expected = contender.found(output), contender.expected(sizes)
    if found != expected:
        message = f"{contender.name} found {found} of {expected}"
        raise RuntimeError(message)
    return Measured(contender.name, found, usage, plane_cpu, await _reads(admin) - reads)


async def _reads(admin: Admin) -> int:
    """Return the number of lists and single reads of resources that the API server has answered."""
    samples = await admin.metric("apiserver_request_total", {})
    return int(sum(value for labels, value in samples if labels["verb"] in ("LIST", "GET") and labels["resource"]))


async def _fill(plane: ControlPlane, admin: Admin, sizes: Sizes) -> None:
    for crd in crds(sizes.resources):
        await admin.call("POST", _CRDS, crd)
    for plural in plurals(sizes.resources):
        await _listed(admin, f"/apis/{GROUP}/v1/{plural}", 0)
    await put(plane.etcd.url, stored_objects(sizes, _NAMESPACE))
    await put(plane.etcd.url, releases(sizes, _NAMESPACE))
    for plural in plurals(sizes.resources):
        await _listed(admin, f"/apis/{GROUP}/v1/{plural}", sizes.of_each)
    await _listed(admin, "/api/v1/secrets", sizes.releases * sizes.revisions)
    _say(f"There are {sizes}.")


async def _listed(admin: Admin, path: str, count: int) -> None:
    """Wait until a resource is served, and lists this number of objects."""
    async with asyncio.timeout(_PATIENCE):
        while True:
            try:
                page = await admin.call("GET", f"{path}?limit=1")
            except RequestFailedError:  # not served yet
                await asyncio.sleep(0.1)
                continue
            if len(page["items"]) + page["metadata"].get("remainingItemCount", 0) >= count:
                return
            await asyncio.sleep(0.1)


def results(sizes: Sizes, runs: list[Measured]) -> Result:
    """Return the medians over the rounds, and the claims."""
    rows = []
    for name in dict.fromkeys(each.contender for each in runs):
        own = [each for each in runs if each.contender == name]
        usage = [each.usage for each in own]
        times = (
            [each.seconds for each in usage],
            [each.cpu_seconds for each in usage],
            [each.plane_cpu for each in own],
        )
        rows.append(
            (
                name,
                *(ranged(median(each), each, 1) for each in times),
                f"{max(each.peak_kib for each in usage) / _KIB:,.0f}",
                f"{median(each.reads for each in own):.0f}",
                f"{own[0].found:,}",
            )
        )
    columns = ("", "s", "client CPU, s", "control plane CPU, s", "peak, MiB", "reads", "found")
    return Result(f"References: {sizes}", [Table("", columns, tuple(rows))], _claims(runs))


def _claims(runs: list[Measured]) -> list[Claim]:
    peak = max(each.usage.peak_kib for each in runs if each.contender.startswith("restow")) / _KIB
    return [at_most("peak memory of restow references, MiB", peak, _PEAK)]


def _say(line: str) -> None:
    sys.stderr.write(f"{line}\n")


def main() -> None:
    """Read the command line, measure, print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.references", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a smoke run on few objects")
    parser.add_argument("--full", action="store_true", help=f"{FULL}; needs 6 GiB of memory")
    parser.add_argument("--without-helm", action="store_true", help="leave out the contender for which Helm is built")
    parser.add_argument("--rounds", type=int, default=1, help="how often each contender runs")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every run and the claims here too")
    for name, what in (("objects", "custom resources"), ("resources", "their kinds"), ("releases", "Helm releases")):
        parser.add_argument(f"--{name}", type=int, help=what)
    parser.add_argument("--revisions", type=int, help="of each release")
    add_flag(parser)
    flags = parser.parse_args()
    check_flag(parser, flags)
    size, chosen = (
        ("full", asdict(FULL)) if flags.full else ("quick", asdict(QUICK)) if flags.quick else ("usual", asdict(USUAL))
    )
    given = {name: value for name in chosen if (value := getattr(flags, name)) is not None}
    sizes = Sizes(**(chosen | given))
    contenders = [each for each in CONTENDERS if not (flags.without_helm and each.needs_helm)]
    recorder = Recorder.begin(flags.record)
    runs, kubernetes = asyncio.run(measure(sizes, contenders, flags.rounds))
    found = results(sizes, runs)
    head = f"{len(os.sched_getaffinity(0))} cores; load average {os.getloadavg()[0]:.1f} at the end."
    print(report(head, [found]))
    if recorder is not None:
        words = [f"--{size}"] * (size != "usual") + ["--without-helm"] * flags.without_helm
        words += [f"--{name} {value}" for name, value in (given | {"rounds": flags.rounds}).items()]
        name = f"references.{'chosen' if given else size}"
        recorder.write(name, " ".join(["python -m benchmarks.references", *words]), found, kubernetes=kubernetes)
    if flags.json is not None:
        recorded = {"sizes": asdict(sizes), "runs": runs, "claims": found.claims}
        flags.json.write_text(json.dumps(msgspec.to_builtins(recorded), indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
