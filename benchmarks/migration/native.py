"""The cluster's own StorageVersionMigration, an API that is disabled by default up to Kubernetes 1.36."""

from __future__ import annotations

import asyncio
import time
from typing import Any

from benchmarks.migration.admin import until
from benchmarks.migration.children import RunFailedError
from benchmarks.migration.contenders import Act, Contender, Stage
from benchmarks.migration.manifests import GROUP
from benchmarks.migration.subject import Subject
from restow.controlplane import ControlPlane

__all__ = ["control_plane", "native"]

_API = "storagemigration.k8s.io/v1beta1"
_MIGRATIONS = f"/apis/{_API}/storageversionmigrations"
_CONTROLLER_MANAGER = "kube-controller-manager"
_PATIENCE = 900.0  # seconds


def control_plane() -> ControlPlane:
    """Return a control plane that has the native migration, and whose controller manager does not hold back."""
    return ControlPlane(
        feature_gates={"StorageVersionMigrator": True},
        runtime_config={_API: True},
        controller_manager=True,
        controller_manager_args={"kube-api-qps": "10000", "kube-api-burst": "20000"},
    )


def native() -> Contender:
    """Return the cluster's own migration, which leaves managedFields unchanged.

    Its seconds are the time between its conditions Running and Succeeded, its process seconds the time since its
    creation, its client is the controller manager. Before it starts, it waits until the garbage collector's cache has
    reached the resourceVersion of the request; without writes this takes until the next bookmark, up to a minute. Here
    a write to another object of the resource avoids this wait.
    """
    return Contender("native StorageVersionMigration", _act, moves_entries=False, in_control_plane=True)


async def _act(stage: Stage, subject: Subject) -> Act:
    name = f"{subject.plural}-{time.monotonic_ns()}"
    body = {
        "apiVersion": _API,
        "kind": "StorageVersionMigration",
        "metadata": {"name": name},
        "spec": {"resource": {"group": GROUP, "resource": subject.plural}},
    }
    cpu_before = stage.plane.cpu_seconds()[_CONTROLLER_MANAGER]
    created = time.perf_counter()
    version = (await stage.admin.call("POST", _MIGRATIONS, body))["metadata"]["resourceVersion"]
    running = await _follow(stage, subject, name, version)
    ended = time.perf_counter()
    used = stage.plane.cpu_seconds()[_CONTROLLER_MANAGER] - cpu_before
    await until(subject.pruned)
    await stage.admin.call("DELETE", f"{_MIGRATIONS}/{name}")
    return Act(ended - running, ended - created, used, used, None)


async def _follow(stage: Stage, subject: Subject, name: str, version: str) -> float:
    """Watch a migration until it has succeeded; return when it started."""
    running = 0.0
    touched = False
    watch = f"{_MIGRATIONS}?watch=true&fieldSelector=metadata.name%3D{name}&resourceVersion={version}"
    async with asyncio.timeout(_PATIENCE):
        async for event in stage.admin.events(watch):
            status: dict[str, Any] = event["object"].get("status", {})
            conditions = {each["type"] for each in status.get("conditions", []) if each["status"] == "True"}
            if "Failed" in conditions:
                raise RunFailedError(f"the StorageVersionMigration of {subject.name} failed: {status}")
            if "Running" in conditions and not running:
                running = time.perf_counter()
            if status.get("resourceVersion") and not touched:
                touched = True
                await subject.touch()
            if "Succeeded" in conditions:
                return running
    raise RunFailedError(f"the watch of the StorageVersionMigration of {subject.name} ended before it did")
