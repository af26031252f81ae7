"""Gardener's cases of reconciling profiles, with objects stored at the hub."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from restow.cloudprofile.controllers.index import ProfileIndex
from restow.cloudprofile.controllers.reconcilers import EventRecorder, ProfileStatus
from restow.cloudprofile.objects import NAMESPACED_CLOUD_PROFILE
from restow.cloudprofile.profiles.reconciliation import FINALIZER, decide_finalizers
from restow.kube.clock import Clock
from restow.kube.listwatch import Key
from restow.kube.watchevents import Listed
from tests.cloudprofile.cases import Case, load, now_of, params
from tests.cloudprofile.memory import Memory
from tests.cloudprofile.requests import written
from tests.cloudprofile.served import HUB, at_version
from tests.kube.test_store import item

PAST = "2025-01-14T12:00:00Z"
_PLURALS = {"cloudProfiles": "cloudprofiles", "namespacedCloudProfiles": "namespacedcloudprofiles", "shoots": "shoots"}
_KINDS = {"cloudprofiles": "CloudProfile", "namespacedcloudprofiles": "NamespacedCloudProfile", "shoots": "Shoot"}


def memory_of(case: Case, plural: str) -> Memory:
    """Return a server with the objects of a case, the profile itself under its plural."""
    held: dict[str, list[dict[str, Any]]] = {name: [] for name in _KINDS}
    for name, objects in case["input"]["existing"].items():
        held[_PLURALS[name]] += objects
    if case["input"]["object"] is not None:
        held[plural].append(case["input"]["object"])
    stored = {
        name: [at_version(written(each, _KINDS[name]), HUB) for each in objects] for name, objects in held.items()
    }
    return Memory(**stored)


def reconciled(case: Case, plural: str) -> tuple[Memory, float | None]:
    """Reconcile the profile of a case once; return the server, and the seconds until the next reconcile."""
    memory, now = memory_of(case, plural), now_of(case)
    index, clock = ProfileIndex(), Clock(now=lambda: now)
    for store, name in ((index.profiles, "cloudprofiles"), (index.namespaced, "namespacedcloudprofiles")):
        store.apply(Listed(tuple(item(found) for (of, _, _), found in memory.held.items() if of == name), "1"))
    index.shoots.apply(Listed(tuple(item(found) for (of, _, _), found in memory.held.items() if of == "shoots"), "1"))
    status = ProfileStatus(
        kind=_KINDS[plural],
        informer=memory,
        live=memory,
        index=index,
        recorder=EventRecorder(memory, "test", "test", clock),
        now=lambda: now,
    )
    metadata = (case["input"]["object"] or {"metadata": {"name": "missing"}})["metadata"]
    namespace = metadata.get("namespace") if plural != "cloudprofiles" else None
    result = asyncio.run(status.reconcile(Key(namespace, metadata["name"])))
    return memory, result.requeue_after


@pytest.mark.parametrize("case", params(load("deletion", "deletion")))
def test_a_cloudprofile_is_held_by_its_users(case: Case) -> None:
    """A profile in use would be deleted, and leave its Shoots without versions."""
    assert_reconciled(case, "cloudprofiles")


@pytest.mark.parametrize("case", params(load("deletion", "projects")))
def test_a_namespacedcloudprofile_is_held_and_rendered(case: Case) -> None:
    """A project's profile in use would be deleted, or lose its offer together with its parent."""
    assert_reconciled(case, "namespacedcloudprofiles")


def assert_reconciled(case: Case, plural: str) -> None:
    """Compare the result of a reconcile with a case."""
    expected, given = case["expected"], case["input"]["object"]
    memory, requeue = reconciled(case, plural)
    blocked = [event["note"] for event in memory.events if event["reason"] == "ResourceReferenced"]
    assert bool(blocked) is expected["error"]
    assert expected.get("errorContains", "") in "".join(blocked)
    if "requeueAfterSeconds" in expected:
        assert (requeue or 0) == expected["requeueAfterSeconds"]
    if given is None:
        assert memory.patches == []
        return
    metadata = given["metadata"]
    found = memory.held[plural, metadata.get("namespace") if plural != "cloudprofiles" else None, metadata["name"]]
    finalizers = found["metadata"].get("finalizers") or []
    if "metadata.finalizers" in expected:
        assert finalizers == expected["metadata.finalizers"]
    if "objectGone" in expected:
        assert (finalizers == []) is expected["objectGone"]
    if "statusUnchanged" in expected:
        assert ("status" not in found) is expected["statusUnchanged"]


def test_finalizers_of_a_namespaced_profile() -> None:
    """A Shoot of another namespace would block the deletion, or one of the same namespace would not."""
    profile = {"metadata": {"name": "n", "namespace": "ns", "finalizers": ["x"]}}
    assert decide_finalizers(NAMESPACED_CLOUD_PROFILE, profile, ()).finalizers == ("x", FINALIZER)
    reference = {"cloudProfile": {"kind": "NamespacedCloudProfile", "name": "n"}}
    users = [{"metadata": {"name": "s", "namespace": place}, "spec": reference} for place in ("other", "ns")]
    deleting = {"metadata": profile["metadata"] | {"deletionTimestamp": PAST, "finalizers": ["x", FINALIZER]}}
    assert decide_finalizers(NAMESPACED_CLOUD_PROFILE, deleting, users[:1]).finalizers == ("x",)
    decided = decide_finalizers(NAMESPACED_CLOUD_PROFILE, deleting, users)
    assert decided.finalizers == ("x", FINALIZER)
    assert decided.blocked == (
        'Cannot delete NamespacedCloudProfile "ns/n", because the following Shoots are still referencing it: [ns/s]'
    )
