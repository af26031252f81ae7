"""The next transition in a status, and the Events about stages that started."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from restow.cloudprofile.objects import ObjectEvent
from restow.cloudprofile.profiles.reconciliation import StatusDecision, decide_namespaced_status, decide_status
from tests.memory.custom import apply_merge_patch

Stages = tuple[tuple[str, str | None], ...]

LIFE: Stages = (("preview", "2025-02-01"), ("supported", "2025-03-01"), ("deprecated", "2025-06-01"))


def moment(day: str) -> datetime:
    """Return the start of a day."""
    return datetime.fromisoformat(day).replace(tzinfo=UTC)


def version(name: str, stages: Stages = ()) -> dict[str, Any]:
    """Return a version; each stage with the day of its start."""
    lifecycle = [{"classification": what} | ({"startTime": f"{day}T00:00:00Z"} if day else {}) for what, day in stages]
    return {"version": name} | ({"lifecycle": lifecycle} if lifecycle else {})


def profile(*versions: dict[str, Any], images: dict[str, list[dict[str, Any]]] | None = None) -> dict[str, Any]:
    """Return a CloudProfile without a status."""
    listed = [{"name": name, "versions": each} for name, each in (images or {}).items()]
    return {"metadata": {"name": "a"}, "spec": {"kubernetes": {"versions": list(versions)}, "machineImages": listed}}


def written(obj: dict[str, Any], day: str, parent: dict[str, Any] | None = None) -> StatusDecision:
    """Bring the status of a profile up to date as the controller does; return what was decided."""
    at = moment(day)
    decided = decide_status(obj, at) if parent is None else decide_namespaced_status(obj, parent, at)
    obj["status"] = apply_merge_patch(obj.get("status", {}), decided.patch)
    return decided


def notes(decided: StatusDecision) -> list[str]:
    """Return the messages of the Events, which are all of one type and reason."""
    assert {(event.type, event.reason) for event in decided.events} <= {("Normal", "StageStarted")}
    return [event.message for event in decided.events]


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        (profile(version("1.30.1", LIFE)), "Kubernetes 1.30.1 deprecated"),
        (profile(version("1.30.1"), images={"ubuntu": [version("1.0.0", LIFE)]}), "ubuntu 1.0.0 deprecated"),
        (
            profile(version("1.30.1", LIFE), version("1.29.0"), images={"ubuntu": [version("1.0.0", LIFE)] * 2}),
            "Kubernetes 1.30.1 deprecated, and 1 more",
        ),
    ],
)
def test_the_next_transition_names_what_changes(made: dict[str, Any], expected: str) -> None:
    """A reader of `kubectl get cpfl` would not see which version changes next, and when."""
    written(made, "2025-04-01")
    assert made["status"]["nextTransition"] == {"startTime": "2025-06-01T00:00:00Z", "description": expected}
    written(made, "2025-06-01")
    assert "nextTransition" not in made["status"]


def test_the_next_transition_is_written_in_utc() -> None:
    """Two profiles with starts in different zones could not be compared in a table."""
    made = profile(version("1.30.1", LIFE))
    made["spec"]["kubernetes"]["versions"][0]["lifecycle"][2]["startTime"] = "2025-06-01T02:00:00.5+02:00"
    written(made, "2025-04-01")
    assert made["status"]["nextTransition"]["startTime"] == "2025-06-01T00:00:00.500000Z"


def test_each_stage_that_starts_is_one_event() -> None:
    """The Events of a profile would not say when a version changed, or would say it repeatedly."""
    made = profile(version("1.30.1", LIFE), images={"ubuntu": [version("1.0.0", LIFE)]})
    assert written(made, "2025-01-01").events == ()
    preview = "the stage preview started at 2025-02-01T00:00:00Z"
    assert notes(written(made, "2025-02-01")) == [f"Kubernetes 1.30.1: {preview}", f"ubuntu 1.0.0: {preview}"]
    assert written(made, "2025-02-02").events == ()


def test_no_stage_is_left_out_while_no_controller_runs() -> None:
    """A stage that started and ended during an outage would have no Event."""
    made = profile(version("1.30.1", LIFE))
    written(made, "2025-02-01")
    assert notes(written(made, "2025-07-01")) == [
        "Kubernetes 1.30.1: the stage supported started at 2025-03-01T00:00:00Z",
        "Kubernetes 1.30.1: the stage deprecated started at 2025-06-01T00:00:00Z",
    ]


def test_a_stage_that_never_was_the_last_one_has_no_event() -> None:
    """An Event would report a stage in which the version never was."""
    made = profile(version("1.30.1", (("preview", None), ("supported", "2025-03-01"), ("deprecated", "2025-03-01"))))
    written(made, "2025-02-01")
    assert notes(written(made, "2025-03-01")) == [
        "Kubernetes 1.30.1: the stage deprecated started at 2025-03-01T00:00:00Z"
    ]


def test_stages_from_before_an_object_have_no_events() -> None:
    """A profile that is applied with its history, or restored, would write an Event for each stage of the past."""
    made = profile(version("1.30.1", LIFE))
    made["metadata"]["creationTimestamp"] = "2025-03-02T00:00:00Z"
    assert written(made, "2025-04-01").events == ()
    made["spec"]["kubernetes"]["versions"].append(version("1.31.0", LIFE))
    assert written(made, "2025-05-01").events == ()
    assert len(written(made, "2025-06-01").events) == 2


def test_a_stage_that_started_before_the_first_status_is_an_event() -> None:
    """A stage would have no Event if it starts between the creation of a profile and its first status."""
    made = profile(version("1.30.1", LIFE))
    made["metadata"]["creationTimestamp"] = "2025-02-28T00:00:00Z"
    assert notes(written(made, "2025-03-01")) == [
        "Kubernetes 1.30.1: the stage supported started at 2025-03-01T00:00:00Z"
    ]


def test_a_version_that_goes_back_has_no_event() -> None:
    """An author who postpones a stage would read that an earlier one started."""
    made = profile(version("1.30.1", LIFE))
    written(made, "2025-07-01")
    made["spec"]["kubernetes"]["versions"] = [version("1.30.1", (*LIFE[:2], ("deprecated", "2025-09-01")))]
    assert written(made, "2025-07-02").events == ()
    assert notes(written(made, "2025-09-01")) == [
        "Kubernetes 1.30.1: the stage deprecated started at 2025-09-01T00:00:00Z"
    ]


def test_a_child_reports_its_own_stages_only() -> None:
    """A stage of a CloudProfile would be reported again by each of its hundreds of NamespacedCloudProfiles."""
    parent = profile(version("1.30.1", LIFE), version("1.29.0", LIFE))
    own = {"parent": {"name": "a"}, "kubernetes": {"versions": [version("1.30.1", (("deprecated", "2025-08-01"),))]}}
    child: dict[str, Any] = {"metadata": {"name": "b"}, "spec": own}
    written(child, "2025-05-01", parent)
    assert child["status"]["nextTransition"]["description"] == "Kubernetes 1.29.0 deprecated"
    assert written(child, "2025-06-01", parent).events == ()
    assert notes(written(child, "2025-08-01", parent)) == [
        "Kubernetes 1.30.1: the stage deprecated started at 2025-08-01T00:00:00Z"
    ]


def test_events_are_bounded() -> None:
    """A profile whose thousands of versions change at once would keep a worker and the API server busy with Events."""
    made = profile(images={"ubuntu": [version(f"1.0.{number}", LIFE) for number in range(250)]})
    written(made, "2025-04-01")
    events = written(made, "2025-06-01").events
    assert len(events) == 25
    assert events[-1] == ObjectEvent(
        "Normal", "StageStarted", "226 more stages started: see the classifications in the status"
    )
