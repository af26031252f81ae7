"""The contenders: the bare loop, and restow as a command and as a library.

Each contender migrates a ``Subject`` and returns the duration; ``measure`` reads the meters before and after, and
verifies the stored objects.
"""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from benchmarks.conversion.webhooks import Webhook
from benchmarks.migration.admin import Admin
from benchmarks.migration.bareloop import Job, WriteKind
from benchmarks.migration.children import RunFailedError, Usage, run
from benchmarks.migration.manifests import CONVERTED, GROUP, Variant
from benchmarks.migration.meters import read
from benchmarks.migration.results import Run
from benchmarks.migration.subject import Subject
from restow.controlplane import ControlPlane

__all__ = [
    "Act",
    "Contender",
    "Stage",
    "bare_loop",
    "measure",
    "restow_command",
    "restow_library",
    "restow_proof",
    "restow_shard",
    "rewrite",
]

_WRITES = ("PATCH", "APPLY", "PUT")
_REWRITE_CONCURRENCY = 16


@dataclass(frozen=True, slots=True)
class Stage:
    """The environment in which the contenders run."""

    plane: ControlPlane
    admin: Admin
    webhook: Webhook | None = None


@dataclass(frozen=True, slots=True)
class Act:
    """The contender's own data about a run; see ``Run``."""

    seconds: float
    process_seconds: float
    client_cpu: float
    engine_cpu: float | None
    peak_kib: int | None


@dataclass(frozen=True, slots=True)
class Contender:
    """One way to migrate.

    Attributes:
        name: the name in tables.
        act: does the migration.
        moves_entries: whether managedFields entries are at the new storage version afterwards.
        prunes: whether it prunes ``status.storedVersions``.
        in_control_plane: whether the control plane's CPU time includes the client's.
    """

    name: str
    act: Callable[[Stage, Subject], Awaitable[Act]]
    moves_entries: bool = True
    prunes: bool = True
    in_control_plane: bool = False


async def measure(stage: Stage, subject: Subject, contender: Contender) -> Run:
    """Let a contender migrate a subject that is due, and return the measured run."""
    requests_before = await subject.requests()
    before = read(stage.plane)
    converting = _converting(stage)
    act = await contender.act(stage, subject)
    passed, webhook = read(stage.plane).since(before), _converting(stage) - converting
    requests = {verb: n - requests_before.get(verb, 0) for verb, n in (await subject.requests()).items()}
    await subject.check_done(entries_moved=contender.moves_entries, pruned=contender.prunes)
    client = 0.0 if contender.in_control_plane else act.client_cpu
    return Run(
        contender=contender.name,
        objects=subject.count,
        seconds=act.seconds,
        process_seconds=act.process_seconds,
        client_cpu=act.client_cpu,
        engine_cpu=act.engine_cpu,
        peak_kib=act.peak_kib,
        server_cpu=passed.plane["kube-apiserver"],
        etcd_cpu=passed.plane["etcd"],
        plane_cpu=sum(passed.plane.values()),
        webhook_cpu=webhook,
        foreign_cpu=max(0.0, passed.machine - sum(passed.plane.values()) - client - webhook),
        writes=sum(requests.get(verb, 0) for verb in _WRITES),
        lists=requests.get("LIST", 0),
        reads=requests.get("GET", 0),
        in_control_plane=contender.in_control_plane,
    )


def _converting(stage: Stage) -> float:
    return stage.webhook.cpu_seconds if stage.webhook is not None else 0.0


def bare_loop(write: WriteKind, concurrency: int) -> Contender:
    """Return the yardstick at one concurrency."""

    async def act(stage: Stage, subject: Subject) -> Act:
        done, usage = await _bare(stage, subject, subject.storage, write, concurrency)
        return Act(done["seconds"], usage.seconds, usage.cpu_seconds, done["cpu_seconds"], usage.peak_kib)

    return Contender(
        f"bare loop, {concurrency} in flight",
        act,
        moves_entries=write in ("combined", "two"),
        prunes=False,
    )


async def rewrite(stage: Stage, subject: Subject, version: str) -> None:
    """Move all entries of a subject to a version, without measuring."""
    await _bare(stage, subject, version, "combined", _REWRITE_CONCURRENCY)


def restow_command(*arguments: str) -> Contender:
    """Return the ``restow`` command: seconds are ``durationSeconds`` of its report."""

    async def act(stage: Stage, subject: Subject) -> Act:
        output, usage = await run([*_restow_migrate(stage, subject), *arguments])
        seconds = _migrated(msgspec.json.decode(output), subject)
        return Act(seconds, usage.seconds, usage.cpu_seconds, None, usage.peak_kib)

    return Contender(" ".join(["restow migrate", *arguments]), act)


def restow_proof() -> Contender:
    """Return the ``restow`` command on objects that are current, on a CRD without a proof."""

    async def act(stage: Stage, subject: Subject) -> Act:
        output, usage = await run(_restow_migrate(stage, subject))
        (crd,) = msgspec.json.decode(output)["crds"]
        if (crd["objects"]["rewritten"], crd["objects"]["current"]) != (0, subject.count):
            raise RunFailedError(f"restow did not find every object of {subject.name} current: {crd['objects']}")
        return Act(float(crd["durationSeconds"]), usage.seconds, usage.cpu_seconds, None, usage.peak_kib)

    return Contender("restow migrate, without a proof", act)


async def restow_shard(stage: Stage, subject: Subject, index: int, count: int) -> Act:
    """Migrate one shard of a subject by the ``restow`` command."""
    output, usage = await run([*_restow_migrate(stage, subject), "--shard", f"{index}/{count}"])
    (crd,) = msgspec.json.decode(output)["crds"]
    return Act(float(crd["durationSeconds"]), usage.seconds, usage.cpu_seconds, None, usage.peak_kib)


def _restow_migrate(stage: Stage, subject: Subject) -> list[str]:
    program = str(Path(sys.executable).with_name("restow"))
    where = ("--kubeconfig", str(stage.plane.kubeconfig))
    return [program, "migrate", subject.name, "--settle", "0", "-o", "json", *where]


def restow_library(**options: Any) -> Contender:
    """Return restow as a library: seconds are those of ``Migration.run``."""

    async def act(stage: Stage, subject: Subject) -> Act:
        told = msgspec.json.encode({"settle_s": 0.0, **options}).decode()
        module = "benchmarks.migration.embedded"
        output, usage = await run([sys.executable, "-m", module, str(stage.plane.kubeconfig), subject.name, told])
        done = msgspec.json.decode(output)
        _migrated(done["report"], subject)
        return Act(done["seconds"], usage.seconds, usage.cpu_seconds, done["cpu_seconds"], usage.peak_kib)

    return Contender(", ".join(["restow, as a library", *(f"{name} {value}" for name, value in options.items())]), act)


def _migrated(report: dict[str, Any], subject: Subject) -> float:
    """Check that restow reports success; return its durationSeconds."""
    (crd,) = report["crds"]
    if report["result"] != "Succeeded" or crd["objects"]["rewritten"] != subject.count or not crd["pruned"]:
        raise RunFailedError(f"restow did not migrate {subject.name}: {report}")
    return float(crd["durationSeconds"])


def _renamed(subject: Subject, version: str) -> tuple[str, str] | None:
    """Return the old name of a field, and its name at a version, if the two differ."""
    if subject.variant is not Variant.CONVERTED:
        return None
    before, after = (f"f:{name}" for name in CONVERTED)
    return (before, after) if version == "v2" else (after, before)


async def _bare(
    stage: Stage, subject: Subject, version: str, write: WriteKind, concurrency: int
) -> tuple[dict[str, Any], Usage]:
    user = stage.plane.admin
    job = Job(
        server=user.server,
        ca=str(user.ca_file),
        cert=str(user.certificate_file),
        key=str(user.key_file),
        group=GROUP,
        version=version,
        plural=subject.plural,
        kind=subject.kind,
        write=write,
        concurrency=concurrency,
        renamed=_renamed(subject, version),
    )
    told = msgspec.json.encode(job).decode()
    output, usage = await run([sys.executable, "-m", "benchmarks.migration.bareloop", told])
    done = msgspec.json.decode(output)
    if done["objects"] != subject.count:
        raise RunFailedError(f"the bare loop saw {done['objects']} of {subject.count} objects of {subject.name}")
    return done, usage
