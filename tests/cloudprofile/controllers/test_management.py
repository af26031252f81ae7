"""Automatic version management if admission refuses some of its changes."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from restow.cloudprofile.controllers.index import ProfileIndex
from restow.cloudprofile.controllers.reconcilers import EventRecorder, ManagedVersions
from restow.cloudprofile.findings import refusal
from restow.cloudprofile.management import KubernetesVersionManagement, VersionManagement
from restow.cloudprofile.profiles.admission import judge
from restow.kube.clock import Clock
from restow.kube.listwatch import Key
from restow.kube.watchevents import Listed
from tests.cloudprofile.memory import Memory
from tests.kube.test_store import item
from tests.memory.cluster import Request
from tests.memory.custom import apply_merge_patch

NOW = datetime(2025, 3, 1, tzinfo=UTC)
LATER = "2030-01-01T00:00:00Z"
CONFIG = VersionManagement(
    kubernetes_version_management=KubernetesVersionManagement(
        enabled=True, maintained_kubernetes_versions=1, expiration_duration_maintained_version=timedelta(days=90)
    )
)
PLANNED = {
    "version": "1.29.0",
    "lifecycle": [{"classification": "preview"}, {"classification": "supported", "startTime": LATER}],
}
PROFILE = {
    "metadata": {"name": "a", "uid": "p", "resourceVersion": "1"},
    "spec": {"kubernetes": {"versions": [PLANNED, {"version": "1.30.1"}, {"version": "1.30.2"}]}},
}
OVERRIDE = {
    "kind": "NamespacedCloudProfile",
    "metadata": {"name": "b", "namespace": "ns"},
    "spec": {
        "parent": {"kind": "CloudProfile", "name": "a"},
        "kubernetes": {
            "versions": [
                {
                    "version": "1.29.0",
                    "lifecycle": [{"classification": "supported", "startTime": "2031-01-01T00:00:00Z"}],
                }
            ]
        },
    },
}


def server(*children: dict[str, Any]) -> Memory:
    """Return the API server with the admission of profiles."""
    memory = Memory(cloudprofiles=[PROFILE])

    async def admit(request: Request) -> None:
        if request.verb != "patch":
            return
        old = memory.held["cloudprofiles", None, "a"]
        verdict = judge(apply_merge_patch(old, request.body), old, children=children, shoots=(), now=NOW)
        if not verdict.allowed:
            message = refusal("CloudProfile", "a", verdict.findings)
            raise memory.error(request, 403, "Forbidden", message)

    memory.before = admit
    return memory


async def reconciled(memory: Memory, times: int = 1) -> dict[Key, int]:
    """Run version management on the stored profile; return the number of refused changes by profile."""
    index, told = ProfileIndex(), {}
    recorder = EventRecorder(memory, "restow-version-management", "test", Clock(now=lambda: NOW))
    managed = ManagedVersions(
        config=CONFIG,
        applies=True,
        informer=memory,
        index=index,
        recorder=recorder,
        now=lambda: NOW,
        refused=told.__setitem__,
    )
    for _ in range(times):
        index.profiles.apply(Listed((item(memory.held["cloudprofiles", None, "a"]),), "1"))
        await managed.reconcile(Key(None, "a"))
    return told


def stages(memory: Memory) -> dict[str, list[str]]:
    """Return the stages of each stored version."""
    held = memory.held["cloudprofiles", None, "a"]["spec"]["kubernetes"]["versions"]
    return {each["version"]: [stage["classification"] for stage in each.get("lifecycle", ())] for each in held}


async def test_one_refused_change_does_not_block_the_others() -> None:
    """One project with an override would stop the management of a whole profile."""
    memory = server(OVERRIDE)
    told = await reconciled(memory, times=3)
    assert stages(memory) == {
        "1.29.0": ["preview", "supported"],
        "1.30.1": ["supported", "deprecated", "expired"],
        "1.30.2": ["supported"],
    }
    assert told == {Key(None, "a"): 1}
    warnings = [event for event in memory.events if event["type"] == "Warning"]
    assert len(warnings) == 1
    assert warnings[0]["reason"] == "VersionManagementRefused"
    assert "Kubernetes 1.29.0" in warnings[0]["note"]
    assert "ns/b" in warnings[0]["note"]


async def test_a_planned_stage_is_not_dropped_without_a_word() -> None:
    """A release that a person planned would vanish, and no Event would give the reason."""
    memory = server()
    assert await reconciled(memory) == {Key(None, "a"): 0}
    assert stages(memory)["1.29.0"] == ["preview", "deprecated"]
    (event,) = memory.events
    assert f"its planned stage supported of {LATER} is dropped" in event["note"]
