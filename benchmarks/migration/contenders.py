"""Who migrates: the bare loop, restow as a command and as a library, and the cluster's own StorageVersionMigration.

Each contender brings a ``Subject`` from due to done and says how long it took; ``measure`` reads the meters around it and
makes sure of what it has stored.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from benchmarks.migration.admin import Admin
from benchmarks.migration.bareloop import Job, WriteKind
from benchmarks.migration.manifests import GROUP
from benchmarks.migration.meters import read
from benchmarks.migration.results import Run
from benchmarks.migration.subject import Subject
from restow.controlplane import ControlPlane

__all__ = ["Contender", "RunFailedError", "Stage", "bare_loop", "measure", "native", "restow_command", "restow_library", "rewrite"]

_HERE = Path(__file__).parent
_ROOT = _HERE.parent.parent
_MIGRATIONS = "/apis/storagemigration.k8s.io/v1beta1/storageversionmigrations"
_CONTROLLER_MANAGER = "kube-controller-manager"
_WRITES = ("PATCH", "APPLY", "PUT", "POST")
_NATIVE_PATIENCE = 900.0  # seconds
_REWRITE_CONCURRENCY = 16


class RunFailedError(Exception):
    """A contender did not finish its migration."""


@dataclass(frozen=True, slots=True)
class Stage:
    """Where the contenders run."""

    plane: ControlPlane
    admin: Admin


class Usage(msgspec.Struct, frozen=True):
    """What a child process used, by the launcher."""

    exit_code: int
    seconds: float
    cpu_seconds: float
    peak_kib: int


@dataclass(frozen=True, slots=True)
class Act:
    """What is known of a run from the contender's side; see ``Run``."""

    seconds: float
    process_seconds: float
    client_cpu: float
    engine_cpu: float | None
    peak_kib: int | None


@dataclass(frozen=True, slots=True)
class Contender:
    """One way to migrate.

    Attributes:
        name: for the tables.
        act: does it.
        moves_entries: whether managedFields entries are at the new storage version afterwards.
        prunes: whether it prunes ``status.storedVersions``.
    """

    name: str
    act: Callable[[Stage, Subject], Awaitable[Act]]
    moves_entries: bool = True
    prunes: bool = True


async def measure(stage: Stage, subject: Subject, contender: Contender) -> Run:
    """Let a contender migrate a subject that is due, and return what that took."""
    requests_before = await subject.requests()
    before = read(stage.plane)
    act = await contender.act(stage, subject)
    passed = read(stage.plane).since(before)
    requests = {verb: n - requests_before.get(verb, 0) for verb, n in (await subject.requests()).items()}
    await subject.check_done(entries_moved=contender.moves_entries, pruned=contender.prunes)
    clients = 0.0 if contender.name == NATIVE else act.client_cpu
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
        foreign_cpu=max(0.0, passed.machine - sum(passed.plane.values()) - clients),
        writes=sum(requests.get(verb, 0) for verb in _WRITES),
        lists=requests.get("LIST", 0),
        reads=requests.get("GET", 0),
    )


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
    """Give all entries of a subject a version, unmeasured."""
    await _bare(stage, subject, version, "combined", _REWRITE_CONCURRENCY)


def restow_command(*arguments: str) -> Contender:
    """Return the ``restow`` command: seconds are ``durationSeconds`` of its report."""

    async def act(stage: Stage, subject: Subject) -> Act:
        command = [str(Path(sys.executable).with_name("restow")), "migrate", subject.name, "--settle", "0", "-o", "json"]
        output, usage = await child([*command, "--kubeconfig", str(stage.plane.kubeconfig), *arguments])
        seconds = _migrated(msgspec.json.decode(output), subject)
        return Act(seconds, usage.seconds, usage.cpu_seconds, None, usage.peak_kib)

    return Contender("restow migrate", act)


def restow_library(**options: Any) -> Contender:
    """Return restow as a library: seconds are those of ``Migration.run``."""

    async def act(stage: Stage, subject: Subject) -> Act:
        told = msgspec.json.encode({"settle_s": 0.0, **options}).decode()
        module = "benchmarks.migration.embedded"
        output, usage = await child([sys.executable, "-m", module, str(stage.plane.kubeconfig), subject.name, told])
        done = msgspec.json.decode(output)
        _migrated(done["report"], subject)
        return Act(done["seconds"], usage.seconds, usage.cpu_seconds, done["cpu_seconds"], usage.peak_kib)

    return Contender("restow, as a library", act)


NATIVE = "native StorageVersionMigration"


def native() -> Contender:
    """Return the cluster's own migration, which leaves managedFields as they are.

    Its seconds are those between the conditions Running and Succeeded, its process seconds those from its creation on.
    Before it begins, it waits until the garbage collector's cache has come as far as the resource was when it was asked,
    which in a resource that nobody writes to takes until the next bookmark, up to a minute. Here a write by somebody else
    spares it that wait.
    """
    return Contender(NATIVE, _native, moves_entries=False)


async def _native(stage: Stage, subject: Subject) -> Act:
    name = f"{subject.plural}-{subject.storage}-{time.monotonic_ns()}"
    body = {
        "apiVersion": "storagemigration.k8s.io/v1beta1",
        "kind": "StorageVersionMigration",
        "metadata": {"name": name},
        "spec": {"resource": {"group": GROUP, "resource": subject.plural}},
    }
    cpu_before = stage.plane.cpu_seconds()[_CONTROLLER_MANAGER]
    created = time.perf_counter()
    version = (await stage.admin.call("POST", _MIGRATIONS, body))["metadata"]["resourceVersion"]
    running = ended = 0.0
    nudged = False
    async with asyncio.timeout(_NATIVE_PATIENCE):
        watch = f"{_MIGRATIONS}?watch=true&fieldSelector=metadata.name%3D{name}&resourceVersion={version}"
        async for event in stage.admin.events(watch):
            conditions = {each["type"] for each in _true_conditions(event["object"])}
            if "Failed" in conditions:
                raise RunFailedError(f"the StorageVersionMigration of {subject.name} failed: {event['object']['status']}")
            if "Running" in conditions and not running:
                running = time.perf_counter()
            if event["object"]["status"].get("resourceVersion") and not nudged:
                nudged = True
                await subject.touch()
            if "Succeeded" in conditions:
                ended = time.perf_counter()
                break
    used = stage.plane.cpu_seconds()[_CONTROLLER_MANAGER] - cpu_before
    await subject.until_pruned()
    await stage.admin.call("DELETE", f"{_MIGRATIONS}/{name}")
    return Act(ended - running, ended - created, used, None, None)


def _true_conditions(migration: dict[str, Any]) -> list[dict[str, Any]]:
    return [each for each in migration.get("status", {}).get("conditions", []) if each["status"] == "True"]


def _migrated(report: dict[str, Any], subject: Subject) -> float:
    """Make sure that restow reports success; return its durationSeconds."""
    (crd,) = report["crds"]
    if report["result"] != "Succeeded" or crd["objects"]["rewritten"] != subject.count or not crd["pruned"]:
        raise RunFailedError(f"restow did not migrate {subject.name}: {report}")
    return float(crd["durationSeconds"])


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
    )
    told = msgspec.json.encode(job).decode()
    output, usage = await child([sys.executable, "-m", "benchmarks.migration.bareloop", told])
    done = msgspec.json.decode(output)
    if done["objects"] != subject.count:
        raise RunFailedError(f"the bare loop saw {done['objects']} of {subject.count} objects of {subject.name}")
    return done, usage


async def child(command: list[str]) -> tuple[bytes, Usage]:
    """Run a command to its end; return its stdout and what it used.

    Raises:
        RunFailedError: its exit code is not 0.
    """
    with tempfile.TemporaryDirectory(prefix="restow-bench-") as folder:
        used = Path(folder, "used.json")
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-I", "-S", str(_HERE / "launcher.py"), str(used), *command),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            cwd=_ROOT,
        )
        output, said = await process.communicate()
        if not used.exists():
            raise RunFailedError(f"{command[0]} could not be run: {said[-2000:].decode(errors='replace')}")
        usage = msgspec.json.decode(used.read_bytes(), type=Usage)
    if usage.exit_code != 0:
        told = (said + output)[-4000:].decode(errors="replace")
        raise RunFailedError(f"{' '.join(command[:4])} … ended with {usage.exit_code}: {told}")
    return output, usage
