"""The maintenance of a Shoot: what changes, what is said of it, and when it may happen."""

from __future__ import annotations

import copy
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from restow.cloudprofile.maintenance.plan import maintain
from restow.cloudprofile.maintenance.report import (
    MaintenanceReport,
    MaintenanceUpdate,
    events,
    last_maintenance,
    messages,
    rejected,
    succeeded,
)
from restow.cloudprofile.maintenance.schedule import (
    InvalidWindow,
    MaintenanceWindow,
    is_maintenance_due,
    is_maintenance_requested,
    is_maintenance_time,
    window_of,
)
from restow.cloudprofile.objects import CLOUD_PROFILE, NAMESPACED_CLOUD_PROFILE
from restow.cloudprofile.profiles.reconciliation import FINALIZER, decide_finalizers
from tests.cloudprofile.cases import Case, load, params

NOW = datetime(2025, 1, 15, 12, tzinfo=UTC)
PAST = "2025-01-14T12:00:00Z"
FORCED = "Kubernetes version expired - force update required"


def update_of(given_: dict[str, Any]) -> MaintenanceUpdate:
    """Return an update as a case writes it."""
    return MaintenanceUpdate(given_["successful"], given_["description"], given_["reason"])


@pytest.mark.parametrize("case", params(load("messages")))
def test_messages_as_in_gardener(case: Case) -> None:
    """Dashboards and people read these texts; they have to stay what they know."""
    given_, expected = case["input"], case["expected"]
    pools = {
        field: {name: update_of(item) for name, item in given_.get(source, {}).items()}
        for field, source in [
            ("workers_kubernetes", "workersKubernetes"),
            ("workers_machine_image", "workersMachineImage"),
            ("credentials", "credentials"),
        ]
    }
    control_plane = update_of(given_["controlPlane"]) if "controlPlane" in given_ else None
    texts = messages(MaintenanceReport(control_plane, operations=tuple(given_.get("operations", ())), **pools))
    assert texts.failure_reason == expected["failureReason"]
    for part in expected.get("descriptionContains", ()):
        assert part in texts.description
    if "description" in expected:
        assert texts.description == expected["description"]


def test_messages_of_failures() -> None:
    """Each kind of failure has its own words, in the description and in the reason."""
    failed = MaintenanceUpdate(False, "nothing fits", "expired")
    report = MaintenanceReport(failed, {"a": failed}, {"b": failed}, {"ssh-keypair": failed})
    texts = messages(report)
    assert texts.description == (
        "(0/4) maintenance operations successful. "
        "Control Plane: Kubernetes version update failed. Reason for update: expired, "
        'Worker pool "a": Kubernetes version maintenance failed. Reason for update: expired, '
        'Worker pool "b": machine image version maintenance failed. Reason for update: expired, '
        'Credentials "ssh-keypair": Automatic rotation failed. Reason for update: expired'
    )
    assert texts.failure_reason == (
        "Control Plane: Kubernetes maintenance failure due to: nothing fits, "
        'Worker pool "a": Kubernetes maintenance failure due to: nothing fits, '
        'Worker pool "b": nothing fits, '
        'Credentials "ssh-keypair": Automatic rotation failure due to: nothing fits'
    )


def test_events_tell_success_from_failure() -> None:
    """An owner who watches events has to see a failed update as a warning."""
    report = MaintenanceReport(
        MaintenanceUpdate(True, "done", "why"),
        workers_machine_image={"w": MaintenanceUpdate(False, "nothing fits", "why")},
    )
    assert [(event.type, event.message) for event in events(report)] == [
        ("Normal", "Control Plane: done. Reason: why."),
        (
            "Warning",
            'Worker pool "w": machine image version maintenance failed. Reason for update: why. Error: nothing fits',
        ),
    ]


def test_last_maintenance() -> None:
    """A failure stays in the status until a maintenance has nothing left to do."""
    done, failed = (
        MaintenanceReport(MaintenanceUpdate(True, "done", "why")),
        MaintenanceReport(MaintenanceUpdate(False, "nothing fits", "why")),
    )
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
    after = succeeded(broken, MaintenanceReport())
    assert after == {
        "description": "Maintenance succeeded",
        "triggeredTime": "2025-01-15T12:00:00Z",
        "state": "Succeeded",
    }
    assert rejected("no", NOW) == {
        "description": "Maintenance failed",
        "triggeredTime": "2025-01-15T12:00:00Z",
        "state": "Failed",
        "failureReason": "Updates to the Shoot failed to be applied: no",
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


def pool(name: str, image: str = "a", version: str = "1.0.0", **fields: Any) -> dict[str, Any]:
    """Return a worker pool."""
    return {"name": name, "machine": {"type": "m", "image": {"name": image, "version": version}}, **fields}


EXPIRED = {"version": "1.30.1", "expirationDate": PAST}


def test_workers_never_pass_their_control_plane() -> None:
    """Research 7.1: a worker's forced update is capped at the control plane, as it is after its own."""
    versions = [EXPIRED, {"version": "1.31.2"}, {"version": "1.31.0"}, {"version": "1.30.0", "expirationDate": PAST}]
    before = shoot("1.31.0", pool("w", kubernetes={"version": "1.30.1"}), kubernetesVersion=False)
    done = maintain(before, offer(*versions), NOW)
    assert done.spec["kubernetes"]["version"] == "1.31.0"
    assert done.spec["provider"]["workers"][0]["kubernetes"]["version"] == "1.31.0"
    assert done.report.workers_kubernetes == {
        "w": MaintenanceUpdate(True, 'Updated Kubernetes version from "1.30.1" to "1.31.0"', FORCED)
    }


def test_control_plane_and_workers_move_together() -> None:
    """A worker that was not let up to its control plane's new version would lag behind for a week."""
    before = shoot("1.30.1", pool("w", kubernetes={"version": "1.30.1"}), pool("follows"))
    done = maintain(before, offer(EXPIRED, {"version": "1.31.2"}), NOW)
    assert done.spec["kubernetes"]["version"] == "1.31.2"
    workers = done.spec["provider"]["workers"]
    assert workers[0]["kubernetes"]["version"] == "1.31.2"
    assert "kubernetes" not in workers[1]
    assert done.report.control_plane == MaintenanceUpdate(
        True, 'Updated Kubernetes version from "1.30.1" to "1.31.2"', FORCED
    )


def test_automatic_updates_stay_inside_the_minor_version() -> None:
    """A minor version that came without being asked for may break what runs in the cluster."""
    before = shoot("1.30.1", pool("w", kubernetes={"version": "1.30.1"}))
    done = maintain(before, offer({"version": "1.30.1"}, {"version": "1.31.2"}), NOW)
    assert done.spec["kubernetes"] == before["spec"]["kubernetes"]
    assert done.report.control_plane is None and done.report.workers_kubernetes == {}


def test_opted_out_shoots_are_only_forced() -> None:
    """Policy: opting out holds until a version expires, and no longer."""
    versions = [{"version": "1.31.0"}, {"version": "1.31.2"}]
    before = shoot("1.31.0", pool("w"), pool("old", "b", "2.0.0"), kubernetesVersion=False, machineImageVersion=False)
    done = maintain(before, offer(*versions), NOW)
    assert done.spec == before["spec"]
    assert done.report.control_plane is None
    assert {name: update.successful for name, update in done.report.workers_machine_image.items()} == {"old": False}


def test_automatic_updates_are_the_default() -> None:
    """A Shoot that says nothing about maintenance is kept up to date (API default)."""
    before = {"metadata": {}, "spec": shoot("1.31.0", pool("w"))["spec"]}
    del before["spec"]["maintenance"]
    done = maintain(before, offer({"version": "1.31.0"}, {"version": "1.31.2"}), NOW)
    assert done.spec["kubernetes"]["version"] == "1.31.2"
    assert done.spec["provider"]["workers"][0]["machine"]["image"] == {"name": "a", "version": "1.0.1"}
    reason = "Automatic update of the machine image version is configured (image update strategy: major)"
    assert done.report.workers_machine_image == {
        "w": MaintenanceUpdate(True, 'Updated machine image "a" from "1.0.0" to "1.0.1"', reason)
    }


def test_an_unknown_image_ends_the_search_but_not_the_maintenance() -> None:
    """Gardener's order: pools before the unknown one are updated, those after it not, Kubernetes anyway."""
    before = shoot("1.31.0", pool("first"), pool("lost", "gone"), pool("last"))
    done = maintain(before, offer({"version": "1.31.0"}, {"version": "1.31.2"}), NOW)
    versions = [item["machine"]["image"]["version"] for item in done.spec["provider"]["workers"]]
    assert versions == ["1.0.1", "1.0.0", "1.0.0"]
    assert done.image_error == 'machine image "gone" of worker "lost" does not exist in cloudprofile'
    assert set(done.report.workers_machine_image) == {"first"}
    assert done.spec["kubernetes"]["version"] == "1.31.2"


def test_a_broken_chain_is_reported() -> None:
    """A Shoot that cannot be moved off an expired version has to show why, and stay as it is."""
    before = shoot("1.30.1")
    done = maintain(before, offer(EXPIRED, {"version": "1.32.0"}), NOW)
    assert done.spec == before["spec"]
    update = done.report.control_plane
    assert update is not None and not update.successful and update.reason == FORCED
    assert update.description == (
        'could not determine higher suitable version than "1.30.1": cannot perform forceful update of expired version '
        '"1.30.1". No suitable version found in CloudProfile - this is most likely a misconfiguration of the '
        "CloudProfile"
    )


def test_what_cannot_be_read_is_reported() -> None:
    """A controller must not stumble over one Shoot."""
    done = maintain(shoot("one", pool("w")), offer({"version": "1.31.0"}), NOW)
    assert done.report.control_plane is not None and not done.report.control_plane.successful
    assert "'one' is no semantic version" in done.image_error


def test_nothing_goes_down() -> None:
    """A worker above its control plane, however it came there, must not be taken down to it."""
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
    """What one image of a profile gets wrong must not keep a Shoot from everything else."""
    fields = {"architectures": ["amd64"], "cri": [{"name": "containerd"}]}
    listed = [{"version": "1.0.0", **fields}, {"version": "1.0.1", **fields}]
    image = {"name": "a", "versions": listed} | broken
    image["versions"] = [{**fields, **item} for item in image["versions"]]
    spec = offer({"version": "1.31.0"}, {"version": "1.31.2"}) | {"machineImages": [image]}
    done = maintain(shoot("1.31.0", pool("w")), spec, NOW)
    assert [update.successful for update in done.report.workers_machine_image.values()] == [False]
    assert done.spec["kubernetes"]["version"] == "1.31.2"


def test_maintenance_is_idempotent_and_leaves_its_input() -> None:
    """A second run in the same window must not roll the nodes again."""
    before = shoot("1.31.0", pool("w"), pool("x", kubernetes={"version": "1.31.0"}))
    spec, kept = offer({"version": "1.31.0"}, {"version": "1.31.2"}), copy.deepcopy(before)
    once = maintain(before, spec, NOW)
    assert before == kept
    again = maintain({**before, "spec": once.spec}, spec, NOW)
    assert again.report.is_empty and again.spec == once.spec


@pytest.mark.parametrize(
    ("begin", "end", "now", "inside"),
    [
        ("220000+0100", "230000+0100", "2025-01-15T20:59:59Z", False),
        ("220000+0100", "230000+0100", "2025-01-15T21:00:00Z", True),
        ("220000+0100", "230000+0100", "2025-01-15T22:00:00Z", True),
        ("220000+0100", "230000+0100", "2025-01-15T22:00:01Z", False),
        ("003000+0100", "013000+0100", "2025-01-15T23:30:00Z", True),
        ("003000+0100", "013000+0100", "2025-01-15T00:15:00Z", True),
        ("003000+0100", "013000+0100", "2025-01-15T12:00:00Z", False),
        ("233000-0430", "003000-0430", "2025-01-15T04:30:00Z", True),
        ("230000+0000", "020000+0000", "2025-01-15T01:59:59Z", True),
    ],
)
def test_time_window(begin: str, end: str, now: str, inside: bool) -> None:
    """A maintenance outside of its window hits users in their working hours."""
    window = {"timeWindow": {"begin": begin, "end": end}}
    assert is_maintenance_time({"spec": {"maintenance": window}}, datetime.fromisoformat(now)) is inside


def test_next_start() -> None:
    """A controller sleeps until then: too late and the window is missed, not later than now and it spins."""
    window = MaintenanceWindow.parse("220000+0100", "230000+0100")
    assert window.duration == timedelta(hours=1)
    assert window.next_start(NOW) == datetime(2025, 1, 15, 21, tzinfo=UTC)
    assert window.next_start(datetime(2025, 1, 15, 21, tzinfo=UTC)) == datetime(2025, 1, 16, 21, tzinfo=UTC)
    assert window.next_start(datetime(2025, 1, 31, 21, 30, tzinfo=UTC)) == datetime(2025, 2, 1, 21, tzinfo=UTC)


@given(
    st.integers(0, 24 * 3600 - 1),
    st.integers(0, 24 * 3600 - 1),
    st.datetimes(datetime(2020, 1, 1), datetime(2030, 1, 1)),  # noqa: DTZ001 - gets its zone below
    st.integers(-12, 14),
)
def test_a_window_begins_where_it_says(begin: int, end: int, now: datetime, hours: int) -> None:
    """The next start is inside the window, in the next 24 hours, in whatever zone ``now`` is."""
    window = MaintenanceWindow(begin, end)
    at = now.replace(tzinfo=timezone(timedelta(hours=hours)))
    start = window.next_start(at)
    assert at < start <= at + timedelta(days=1)
    assert window.contains(start) and window.contains(start + window.duration)
    assert window.last_start(at) == start - timedelta(days=1)


@pytest.mark.parametrize("text", ["", "2200", "220000", "250000+0000", "226000+0000", "22:00:00+01:00", "220000+0160"])
def test_no_time_is_an_error(text: str) -> None:
    """A window that cannot be read must not be taken for always or never."""
    with pytest.raises(InvalidWindow, match="HHMMSS"):
        MaintenanceWindow.parse(text, "230000+0100")


def test_without_a_window_it_is_always_time() -> None:
    """Gardener's AlwaysTimeWindow."""
    assert is_maintenance_time({"spec": {}}, NOW)
    assert window_of({"spec": {}}).contains(datetime(2025, 1, 15, 23, 59, 59, 999999, tzinfo=UTC))


def test_requested_maintenance_is_due_at_once() -> None:
    """The annotation asks for maintenance outside of the window; a Shoot in deletion has none any more."""
    window = {"maintenance": {"timeWindow": {"begin": "220000+0000", "end": "230000+0000"}}}
    asked = {"metadata": {"annotations": {"gardener.cloud/operation": "rotate;maintain"}}, "spec": window}
    assert is_maintenance_requested(asked) and is_maintenance_time(asked, NOW)
    assert not is_maintenance_time({"metadata": {"annotations": {}}, "spec": window}, NOW)
    deleting = {**asked, "metadata": {**asked["metadata"], "deletionTimestamp": PAST}}
    assert not is_maintenance_time(deleting, NOW)


@pytest.mark.parametrize(
    ("triggered", "annotation", "due"),
    [
        (None, "", True),
        ("2025-01-14T21:30:00Z", "", True),
        ("2025-01-15T21:00:00Z", "", False),
        ("2025-01-15T21:00:00Z", "maintain", True),
    ],
)
def test_one_maintenance_a_window(triggered: str | None, annotation: str, due: bool) -> None:
    """A controller that looks again must not take the next step of a forced chain in the same window."""
    shoot_ = {
        "metadata": {"annotations": {"gardener.cloud/operation": annotation}},
        "spec": {"maintenance": {"timeWindow": {"begin": "220000+0100", "end": "230000+0100"}}},
        "status": {"lastMaintenance": {"triggeredTime": triggered}},
    }
    assert is_maintenance_due(shoot_, datetime(2025, 1, 15, 21, 40, tzinfo=UTC)) is due
    assert is_maintenance_due(shoot_, NOW) is bool(annotation)


@pytest.mark.parametrize("case", params(load("deletion")))
def test_deletion_as_in_gardener(case: Case) -> None:
    """A profile that vanished under its Shoots would leave them without versions."""
    expected, existing, profile = case["expected"], case["input"]["existing"], case["input"]["object"]
    if profile is None:
        assert expected == {"error": False, "requeueAfterSeconds": 0}  # nothing to decide
        return
    decided = decide_finalizers(
        CLOUD_PROFILE, profile, existing.get("shoots", ()), existing.get("namespacedCloudProfiles", ())
    )
    assert bool(decided.blocked) == expected["error"]
    assert expected.get("errorContains", "") in decided.blocked
    if "metadata.finalizers" in expected:
        assert list(decided.finalizers) == expected["metadata.finalizers"]
    if expected.get("objectGone"):
        assert decided.finalizers == ()


def test_finalizers_of_a_namespaced_profile() -> None:
    """Only Shoots of its own namespace can use it, whatever Shoots elsewhere call theirs."""
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
