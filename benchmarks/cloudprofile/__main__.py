"""Measure ``restow operator`` with a large CloudProfile, many NamespacedCloudProfiles on it and many Shoots.

Starts a control plane, puts the objects into its etcd, and starts the operator as a separate process. Measures the time
of the first statuses of all profiles; the cost of a change of the CloudProfile's spec until all are rendered again; the
operator's memory; and the objects per second of its webhooks, compared with their rules in process.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
import time
from collections import Counter
from dataclasses import asdict, dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Final

import msgspec

from benchmarks.cloudprofile.content import (
    FULL,
    PARENT,
    QUICK,
    USUAL,
    Sizes,
    changed_profile,
    children,
    profile,
    shoots,
    stored,
)
from benchmarks.cloudprofile.rules import Rates, RuleCosts, measure_rates, rule_costs
from benchmarks.migration.admin import MERGE, Admin, RequestFailedError, until
from benchmarks.migration.meters import read
from benchmarks.records import Recorder, add_flag, check_flag
from benchmarks.stored import put
from benchmarks.tables import Result, Table, at_most, exactly, report
from restow.cli.addresses import at, read_address
from restow.cloudprofile.objects import GROUP, HUB, NAMESPACED_CLOUD_PROFILES, SHOOTS
from restow.controlplane import ControlPlane
from restow.kube import connect
from restow.kube.client import HttpCluster
from restow.operator.family import manifests
from tests.apiserver.operators import Operator, Starter, bundles
from tests.apiserver.profile_api import install

_PARENT_PATH: Final = f"/apis/{GROUP}/{HUB}/cloudprofiles/{PARENT}"
_QUOTA: Final = str(8 * 1024**3)
_EVERY: Final = 0.5  # seconds
_STUCK: Final = 120.0  # seconds without progress before the run fails
_TICK: Final = 1 / os.sysconf("SC_CLK_TCK")
_MOST_CPU: Final = 0.5
_LATE: Final = (HTTPStatus.INTERNAL_SERVER_ERROR, HTTPStatus.GATEWAY_TIMEOUT)
_PATIENCE: Final = 5  # refusals


@dataclass(frozen=True, slots=True)
class Settled:
    """The cost until all statuses were right."""

    what: str
    seconds: float
    operator_cpu: float
    plane_cpu: float
    requests: dict[str, int]


@dataclass(frozen=True, slots=True)
class Found:
    """All measurements."""

    settled: list[Settled]
    admission_seconds: float
    refusals: int
    peak_mib: float
    idle_mib: float
    rates: list[Rates]
    kubernetes: str


async def measure(sizes: Sizes, requests: int) -> Found:
    """Fill a control plane, run the operator, change the CloudProfile, call the webhooks."""
    async with (
        ControlPlane(etcd_args={"quota-backend-bytes": _QUOTA}) as plane,
        Admin.of(plane.admin) as admin,
        connect(plane.kubeconfig) as cluster,
    ):
        starter = Starter()
        address = read_address(starter.url)
        crds = manifests(lambda path: at(address, path))
        await install(cluster, {each["metadata"]["name"]: dict(each) for each in crds})
        await put(plane.etcd.url, map(stored, [profile(sizes), *children(sizes), *shoots(sizes)]))
        await _listed(admin, NAMESPACED_CLOUD_PROFILES.plural, sizes.children)
        await _listed(admin, SHOOTS.plural, sizes.shoots)
        _say(f"There are {sizes}.")
        meter = _Meter(plane, admin, sizes)
        await meter.begin(None)
        operator = await starter.start(plane.kubeconfig)
        try:
            first = await meter.settled("the first statuses", operator)
            await until(lambda: _wired(cluster))
            await meter.begin(operator)
            admission, refusals = await _change(admin, sizes)
            again = await meter.settled("after a change of the CloudProfile", operator)
            rates = await measure_rates(operator.port, sizes, requests)
            peak, idle = _memory(operator, "VmHWM"), _memory(operator, "VmRSS")
        finally:
            await operator.stop()
        kubernetes = (await admin.call("GET", "/version"))["gitVersion"]
        return Found([first, again], admission, refusals, peak, idle, rates, kubernetes)


class _Meter:
    """Counts requests and CPU from a start until every status was written."""

    def __init__(self, plane: ControlPlane, admin: Admin, sizes: Sizes) -> None:
        self._plane = plane
        self._admin = admin
        self._wanted = sizes.children

    async def begin(self, operator: Operator | None) -> None:
        self._before = await self._requests()
        self._reading = read(self._plane)
        self._used = 0.0 if operator is None else _cpu(operator)
        self._begun = time.perf_counter()

    async def settled(self, what: str, operator: Operator) -> Settled:
        """Wait until each NamespacedCloudProfile has its status, as long as there is progress."""
        seen, since = -1, time.perf_counter()
        status = "PATCH namespacedcloudprofiles/status"
        while (written := (await self._requests() - self._before)[status]) < self._wanted:
            if written > seen:
                seen, since = written, time.perf_counter()
            if time.perf_counter() > since + _STUCK:
                message = f"{what}: it stays at {seen} of {self._wanted} statuses: {''.join(operator.log[-20:])}"
                raise RuntimeError(message)
            await asyncio.sleep(_EVERY)
        seconds = time.perf_counter() - self._begun
        await self._calm(operator)
        plane = sum(read(self._plane).since(self._reading).plane.values())
        requests = dict(await self._requests() - self._before)
        _say(f"{what}: {seconds:.1f} s")
        return Settled(what, seconds, _cpu(operator) - self._used, plane, requests)

    async def _calm(self, operator: Operator) -> None:
        """Wait until the operator has processed the events of its own writes."""
        used = -1.0
        while (now := _cpu(operator)) - used > _MOST_CPU * _EVERY:
            used = now
            await asyncio.sleep(2 * _EVERY)

    async def _requests(self) -> Counter[str]:
        """Return the numbers of requests for the family that the API server has answered, by verb and resource."""
        found: Counter[str] = Counter()
        for labels, value in await self._admin.metric("apiserver_request_total", {"group": GROUP}):
            if labels["verb"] not in ("WATCH", "CONNECT") and labels["code"] != "0":
                subresource = f"/{labels['subresource']}" if labels["subresource"] else ""
                found[f"{labels['verb']} {labels['resource']}{subresource}"] += int(value)
        return found


async def _change(admin: Admin, sizes: Sizes) -> tuple[float, int]:
    """Change the CloudProfile; return the duration of the admitted request, and the number of timed out ones."""
    refusals = 0
    while True:
        begun = time.perf_counter()
        try:
            await admin.call("PATCH", _PARENT_PATH, {"spec": changed_profile(sizes)}, content_type=MERGE)
        except RequestFailedError as error:
            if error.status not in _LATE or refusals == _PATIENCE:
                raise
            refusals += 1
            _say(f"The change was not admitted in time: {error}")
        else:
            return time.perf_counter() - begun, refusals


async def _wired(cluster: HttpCluster) -> bool:
    return bool(await bundles(cluster))


async def _listed(admin: Admin, plural: str, count: int) -> None:
    """Wait until the API server's cache has the objects that were put into etcd."""
    while True:
        page = await admin.call("GET", f"/apis/{GROUP}/{HUB}/{plural}?limit=1")
        if len(page["items"]) + page["metadata"].get("remainingItemCount", 0) >= count:
            return
        await asyncio.sleep(_EVERY)


def _cpu(operator: Operator) -> float:
    fields = Path(f"/proc/{operator.process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) * _TICK


def _memory(operator: Operator, field: str) -> float:
    for line in Path(f"/proc/{operator.process.pid}/status").read_text().splitlines():
        name, _, value = line.partition(":")
        if name == field:
            return int(value.split()[0]) / 1024
    return 0.0


def rules_table(costs: RuleCosts) -> Table:
    """Return the costs of the rules in process."""
    rows = (
        ("status of a NamespacedCloudProfile that has none", f"{costs.status * 1000:.0f} ms of CPU"),
        ("status that is right already", f"{costs.same_status * 1000:.0f} ms of CPU"),
        ("change of the CloudProfile, judged with all that use it", f"{costs.change * 1000:.0f} ms of CPU"),
        ("status of a NamespacedCloudProfile as JSON", f"{costs.status_bytes / 1000:.0f} kB"),
        ("what the operator keeps of it", f"{costs.kept_bytes / 1000:.0f} kB"),
    )
    return Table("Rules in process", ("", "each"), rows)


def results(sizes: Sizes, found: Found) -> Result:
    """Return the tables and the claims."""
    settled = tuple(
        (
            each.what,
            f"{each.seconds:.1f}",
            f"{each.operator_cpu:.1f}",
            f"{each.plane_cpu:.1f}",
            ", ".join(f"{count} {what}" for what, count in sorted(each.requests.items()) if count),
        )
        for each in found.settled
    )
    rates = tuple(
        (each.what, f"{each.webhook:,.0f}", f"{each.rules:,.0f}", f"{each.webhook / each.rules:.2f}")
        for each in found.rates
    )
    memory = (("after all", f"{found.idle_mib:.0f}"), ("at most", f"{found.peak_mib:.0f}"))
    change = (("until it was admitted", f"{found.admission_seconds:.1f} s"), ("refusals before", f"{found.refusals}"))
    tables = [
        Table("Settling", ("", "s", "operator CPU, s", "control plane CPU, s", "requests"), settled),
        Table("The change of the CloudProfile", ("", "each"), change),
        Table("The operator's memory", ("", "MiB"), memory),
        Table("Webhooks", ("", "webhook: objects/s", "rules alone: objects/s", "ratio"), rates),
    ]
    again = found.settled[-1].requests
    claims = [
        exactly(
            "statuses written per NamespacedCloudProfile after a change",
            again.get("PATCH namespacedcloudprofiles/status", 0) / sizes.children,
            1,
        ),
        at_most("reads of single Shoots after a change", again.get("GET shoots", 0), 0),
        at_most("statuses of the CloudProfile written after a change", again.get("PATCH cloudprofiles/status", 0), 1),
    ]
    late = f" after {found.refusals} that took too long" if found.refusals else ""
    admitted = f"the change was admitted in {found.admission_seconds:.1f} s{late}"
    return Result(f"CloudProfile: {sizes}; {admitted}", tables, claims)


def _say(line: str) -> None:
    sys.stderr.write(f"{line}\n")


def main() -> None:
    """Read the command line, measure, print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.cloudprofile", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a smoke run on few objects")
    parser.add_argument("--full", action="store_true", help=f"{FULL}")
    parser.add_argument("--kubernetes", type=int, help="Kubernetes versions")
    parser.add_argument("--images", type=int, help="image versions")
    parser.add_argument("--children", type=int, help="NamespacedCloudProfiles")
    parser.add_argument("--shoots", type=int, help="Shoots")
    parser.add_argument("--rules", action="store_true", help="only the rules in process, without a control plane")
    parser.add_argument("--requests", type=int, default=20, help="requests to each webhook")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures and the claims here too")
    add_flag(parser)
    flags = parser.parse_args()
    check_flag(parser, flags)
    size, chosen = (
        ("full", asdict(FULL)) if flags.full else ("quick", asdict(QUICK)) if flags.quick else ("usual", asdict(USUAL))
    )
    given = {name: value for name in chosen if (value := getattr(flags, name)) is not None}
    sizes = Sizes(**(chosen | given))
    recorder = Recorder.begin(flags.record)
    words = [f"--{size}"] * (size != "usual") + [f"--{name} {value}" for name, value in given.items()]
    name = "-".join([size, *(f"{name}-{value}" for name, value in given.items())])
    command = " ".join(["python -m benchmarks.cloudprofile", *words])
    costs = rule_costs(sizes)
    if flags.rules:
        rules = Result("CloudProfile", [rules_table(costs)])
        print(report(str(sizes), [rules]))
        if recorder is not None:
            recorder.write(f"cloudprofile-rules.{name}", f"{command} --rules", rules)
        return
    found = asyncio.run(measure(sizes, flags.requests))
    result = results(sizes, found)
    result.tables.append(rules_table(costs))
    head = f"{len(os.sched_getaffinity(0))} cores; load average {os.getloadavg()[0]:.1f} at the end."
    print(report(head, [result]))
    if recorder is not None:
        recorder.write(f"cloudprofile.{name}", command, result, kubernetes=found.kubernetes)
    if flags.json is not None:
        recorded = {"sizes": asdict(sizes), "found": asdict(found), "rules": asdict(costs), "claims": result.claims}
        flags.json.write_text(json.dumps(msgspec.to_builtins(recorded), indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
