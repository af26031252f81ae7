"""The maintenance of a Shoot: its changes, its reports, and its conditions."""

from __future__ import annotations

import copy
from datetime import UTC, datetime
from typing import Any

import pytest

from restow.cloudprofile.maintenance.plan import (
    CONTROL_PLANE,
    KUBELET,
    MACHINE_IMAGE,
    Maintenance,
    MaintenanceUpdate,
    UpdatedPart,
    last_maintenance,
    maintain,
    succeeded,
)
from tests.cloudprofile.cases import Case, load, params

NOW = datetime(2025, 1, 15, 12, tzinfo=UTC)
PAST = "2025-01-14T12:00:00Z"
FORCED = "Kubernetes version expired - force update required"


def update_of(given_: dict[str, Any], part: UpdatedPart, pool: str | None) -> MaintenanceUpdate:
    """Return an update from the notation of a case."""
    return MaintenanceUpdate(given_["successful"], given_["description"], given_["reason"], part, pool)


@pytest.mark.parametrize("case", params(load("messages")))
def test_messages_as_in_gardener(case: Case) -> None:
    """Dashboards and people who read Gardener's texts would no longer recognise them."""
    given_, expected = case["input"], case["expected"]
    updates = [update_of(given_["controlPlane"], CONTROL_PLANE, None)] if "controlPlane" in given_ else []
    for source, part in (("workersKubernetes", KUBELET), ("workersMachineImage", MACHINE_IMAGE)):
        updates += [update_of(item, part, name) for name, item in given_.get(source, {}).items()]
    status = last_maintenance(updates, NOW)
    assert status.get("failureReason", "") == expected["failureReason"]
    for part in expected.get("descriptionContains", ()):
        assert part in status["description"]
    if "description" in expected:
        assert status["description"] == expected["description"]


def test_messages_of_failures() -> None:
    """A failure would be reported with the words of another kind, in the description or in the reason."""
    places = ((CONTROL_PLANE, None), (KUBELET, "a"), (MACHINE_IMAGE, "b"))
    updates = [MaintenanceUpdate(False, "nothing fits", "expired", part, pool) for part, pool in places]
    status = last_maintenance(updates, NOW)
    assert status["description"] == (
        "(0/3) maintenance operations successful. "
        "Control Plane: Kubernetes version update failed. Reason for update: expired, "
        'Worker pool "a": Kubernetes version maintenance failed. Reason for update: expired, '
        'Worker pool "b": machine image version maintenance failed. Reason for update: expired'
    )
    assert status["failureReason"] == (
        "Control Plane: Kubernetes maintenance failure due to: nothing fits, "
        'Worker pool "a": Kubernetes maintenance failure due to: nothing fits, '
        'Worker pool "b": nothing fits'
    )


def test_events_tell_success_from_failure() -> None:
    """An owner who watches Events would not see a failed update as a warning."""
    updates = (
        MaintenanceUpdate(True, "done", "why"),
        MaintenanceUpdate(False, "nothing fits", "why", MACHINE_IMAGE, "w"),
    )
    assert [(update.event.type, update.event.message) for update in updates] == [
        ("Normal", "Control Plane: done. Reason: why."),
        (
            "Warning",
            'Worker pool "w": machine image version maintenance failed. Reason for update: why. Error: nothing fits',
        ),
    ]


def test_last_maintenance() -> None:
    """A failure would vanish from the status before a maintenance has nothing left to do, or stay after that."""
    done, failed = [MaintenanceUpdate(True, "done", "why")], [MaintenanceUpdate(False, "nothing fits", "why")]
    running = last_maintenance(done, NOW)
    assert running == {
        "description": "All maintenance operations successful. Control Plane: done. Reason: why",
        "triggeredTime": "2025-01-15T12:00:00Z",
        "state": "Processing",
    }
    assert succeeded(running, done) == running | {"state": "Succeeded"}
    broken = last_maintenance(failed, NOW)
    assert broken["state"] == "Failed"
    assert broken["failureReason"] == "Control Plane: Kubernetes maintenance failure due to: nothing fits"
    assert succeeded(broken, failed) == broken
    after = succeeded(broken, [])
    assert after == {
        "description": "Maintenance succeeded",
        "triggeredTime": "2025-01-15T12:00:00Z",
        "state": "Succeeded",
    }


def offer(*versions: dict[str, Any]) -> dict[str, Any]:
    """Return a profile's spec with these Kubernetes versions and two images."""
    fields = {"architectures": ["amd64"], "cri": [{"name": "containerd"}]}
    images = [
        {
            "name": "a",
            "updateStrategy": "major",
            "versions": [{"version": text, **fields} for text in ("1.0.0", "1.0.1")],
        },
        {"name": "b", "updateStrategy": "patch", "versions": [{"version": "2.0.0", "expirationDate": PAST, **fields}]},
    ]
    return {"kubernetes": {"versions": list(versions)}, "machineImages": images, "machineTypes": [{"name": "m"}]}


def shoot(version: str, *pools: dict[str, Any], **auto_update: bool) -> dict[str, Any]:
    """Return a Shoot."""
    spec = {"kubernetes": {"version": version}, "provider": {"type": "x", "workers": list(pools)}}
    return {"metadata": {"name": "s"}, "spec": spec | {"maintenance": {"autoUpdate": auto_update}}}


def updates_of(done: Maintenance, part: UpdatedPart) -> dict[str | None, MaintenanceUpdate]:
    """Return the updates of a part by worker pool."""
    return {update.pool: update for update in done.updates if update.part == part}


def pool(name: str, image: str = "a", version: str = "1.0.0", **fields: Any) -> dict[str, Any]:
    """Return a worker pool."""
    return {"name": name, "machine": {"type": "m", "image": {"name": image, "version": version}}, **fields}


EXPIRED = {"version": "1.30.1", "expirationDate": PAST}


def test_workers_never_pass_their_control_plane() -> None:
    """A worker's forced update would go above its control plane (Research 7.1)."""
    versions = [EXPIRED, {"version": "1.31.2"}, {"version": "1.31.0"}, {"version": "1.30.0", "expirationDate": PAST}]
    before = shoot("1.31.0", pool("w", kubernetes={"version": "1.30.1"}), kubernetesVersion=False)
    done = maintain(before, offer(*versions), NOW)
    assert done.spec["kubernetes"]["version"] == "1.31.0"
    assert done.spec["provider"]["workers"][0]["kubernetes"]["version"] == "1.31.0"
    described = 'Updated Kubernetes version from "1.30.1" to "1.31.0"'
    assert done.updates[:1] == (MaintenanceUpdate(True, described, FORCED, KUBELET, "w"),)


def test_control_plane_and_workers_move_together() -> None:
    """A worker that may not follow its control plane's new version would lag behind for a week."""
    before = shoot("1.30.1", pool("w", kubernetes={"version": "1.30.1"}), pool("follows"))
    done = maintain(before, offer(EXPIRED, {"version": "1.31.2"}), NOW)
    assert done.spec["kubernetes"]["version"] == "1.31.2"
    workers = done.spec["provider"]["workers"]
    assert workers[0]["kubernetes"]["version"] == "1.31.2"
    assert "kubernetes" not in workers[1]
    assert done.updates[0] == MaintenanceUpdate(True, 'Updated Kubernetes version from "1.30.1" to "1.31.2"', FORCED)


def test_automatic_updates_stay_inside_the_minor_version() -> None:
    """An automatic update to another minor version may break the workloads of the cluster."""
    before = shoot("1.30.1", pool("w", kubernetes={"version": "1.30.1"}))
    done = maintain(before, offer({"version": "1.30.1"}, {"version": "1.31.2"}), NOW)
    assert done.spec["kubernetes"] == before["spec"]["kubernetes"]
    assert updates_of(done, CONTROL_PLANE) == updates_of(done, KUBELET) == {}


def test_opted_out_shoots_are_only_forced() -> None:
    """A Shoot whose owner opted out would be updated before its version expires, or not even then."""
    versions = [{"version": "1.31.0"}, {"version": "1.31.2"}]
    before = shoot("1.31.0", pool("w"), pool("old", "b", "2.0.0"), kubernetesVersion=False, machineImageVersion=False)
    done = maintain(before, offer(*versions), NOW)
    assert done.spec == before["spec"]
    assert [(update.part, update.pool, update.successful) for update in done.updates] == [(MACHINE_IMAGE, "old", False)]


def test_automatic_updates_are_the_default() -> None:
    """A Shoot without maintenance settings would not be kept up to date, against the API default."""
    before = {"metadata": {}, "spec": shoot("1.31.0", pool("w"))["spec"]}
    del before["spec"]["maintenance"]
    done = maintain(before, offer({"version": "1.31.0"}, {"version": "1.31.2"}), NOW)
    assert done.spec["kubernetes"]["version"] == "1.31.2"
    assert done.spec["provider"]["workers"][0]["machine"]["image"] == {"name": "a", "version": "1.0.1"}
    reason = "Automatic update of the machine image version is configured (image update strategy: major)"
    described = 'Updated machine image "a" from "1.0.0" to "1.0.1"'
    assert done.updates[-1:] == (MaintenanceUpdate(True, described, reason, MACHINE_IMAGE, "w"),)


def test_an_unknown_image_ends_the_search_but_not_the_maintenance() -> None:
    """One unknown image would stop Kubernetes updates, or pools would be updated in another order than in Gardener."""
    before = shoot("1.31.0", pool("first"), pool("lost", "gone"), pool("last"))
    done = maintain(before, offer({"version": "1.31.0"}, {"version": "1.31.2"}), NOW)
    versions = [item["machine"]["image"]["version"] for item in done.spec["provider"]["workers"]]
    assert versions == ["1.0.1", "1.0.0", "1.0.0"]
    assert done.image_error == 'machine image "gone" of worker "lost" does not exist in cloudprofile'
    assert updates_of(done, MACHINE_IMAGE).keys() == {"first"}
    assert done.spec["kubernetes"]["version"] == "1.31.2"


def test_a_broken_chain_is_reported() -> None:
    """An owner would not see why a Shoot cannot leave an expired version."""
    before = shoot("1.30.1")
    done = maintain(before, offer(EXPIRED, {"version": "1.32.0"}), NOW)
    assert done.spec == before["spec"]
    update = updates_of(done, CONTROL_PLANE)[None]
    assert not update.successful and update.reason == FORCED
    assert update.description == (
        'could not determine higher suitable version than "1.30.1": cannot perform forceful update of expired version '
        '"1.30.1". No suitable version found in CloudProfile - this is most likely a misconfiguration of the '
        "CloudProfile"
    )


def test_what_cannot_be_read_is_reported() -> None:
    """One Shoot with an unreadable version would stop the controller."""
    done = maintain(shoot("one", pool("w")), offer({"version": "1.31.0"}), NOW)
    assert [update.successful for update in updates_of(done, CONTROL_PLANE).values()] == [False]
    assert "'one' is no semantic version" in done.image_error


def test_nothing_goes_down() -> None:
    """A worker above its control plane would be downgraded."""
    versions = [{"version": "1.31.2"}, {"version": "1.31.5"}, {"version": "1.31.9"}]
    worker = pool("w", version="1.0.1", kubernetes={"version": "1.31.5"})
    before = shoot("1.31.2", worker, kubernetesVersion=False)
    listed = [{**item, "expirationDate": PAST} if item["version"] == "1.31.5" else item for item in versions]
    done = maintain(before, offer(*listed), NOW)
    assert done.spec == before["spec"]


@pytest.mark.parametrize(
    "broken", [{"updateStrategy": "sometimes"}, {"versions": [{"version": "1.0.0", "expirationDate": "soon"}]}]
)
def test_a_broken_image_is_reported(broken: dict[str, Any]) -> None:
    """A mistake in one image of a profile would stop all other updates of a Shoot."""
    fields = {"architectures": ["amd64"], "cri": [{"name": "containerd"}]}
    listed = [{"version": "1.0.0", **fields}, {"version": "1.0.1", **fields}]
    image = {"name": "a", "versions": listed} | broken
    image["versions"] = [{**fields, **item} for item in image["versions"]]
    spec = offer({"version": "1.31.0"}, {"version": "1.31.2"}) | {"machineImages": [image]}
    done = maintain(shoot("1.31.0", pool("w")), spec, NOW)
    assert [update.successful for update in updates_of(done, MACHINE_IMAGE).values()] == [False]
    assert done.spec["kubernetes"]["version"] == "1.31.2"


def test_maintenance_is_idempotent_and_leaves_its_input() -> None:
    """A second run in the same window would roll the nodes again, or the plan would change its input."""
    before = shoot("1.31.0", pool("w"), pool("x", kubernetes={"version": "1.31.0"}))
    spec, kept = offer({"version": "1.31.0"}, {"version": "1.31.2"}), copy.deepcopy(before)
    once = maintain(before, spec, NOW)
    assert before == kept
    again = maintain({**before, "spec": once.spec}, spec, NOW)
    assert not again.updates and again.spec == once.spec
