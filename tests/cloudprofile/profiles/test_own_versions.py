"""Versions of a NamespacedCloudProfile that its parent lacks: they are whole, at both versions of the API."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from restow.cloudprofile.profiles.reconciliation import decide_namespaced_status
from restow.cloudprofile.versions.lifecycle import parse_time
from tests.cloudprofile.conversions.family import stage
from tests.cloudprofile.served import HUB, OLD, Answer, ApiServer, at_version
from tests.cloudprofile.test_documents import GEP_25_NAMESPACED, GEP_25_PARENT
from tests.memory.custom import apply_merge_patch

NOW = parse_time("2024-02-08T00:00:00Z")
LATER = parse_time("2030-09-01T00:00:00Z")
DATE = "2030-08-08T23:59:59Z"
COMPLETE = {"architectures": ["amd64"], "cri": [{"name": "containerd"}]}


def gep_25(**fields: Any) -> dict[str, Any]:
    """Return the manifest of GEP-25 with a future date, and other fields in its own image version."""
    made: dict[str, Any] = copy.deepcopy(GEP_25_NAMESPACED)
    made["spec"]["machineImages"][0]["versions"] = [{"version": "16.4", **fields}]
    return made


def images_of(obj: dict[str, Any]) -> Any:
    return obj["spec"]["machineImages"]


def server(*parents: dict[str, Any], now: Any = NOW) -> ApiServer:
    return ApiServer(now, {"cloudprofiles": parents or (GEP_25_PARENT,)})


def reconciled(stored: dict[str, Any], parent: dict[str, Any], now: Any = NOW) -> dict[str, Any]:
    """Return a stored NamespacedCloudProfile with the status that its controller writes."""
    decided = decide_namespaced_status(stored, at_version(parent, HUB), now)
    made: dict[str, Any] = apply_merge_patch(stored, {"status": dict(decided.patch)})
    return made


def rendered(obj: dict[str, Any], number: str = "16.4") -> dict[str, Any] | None:
    """Return an image version of a rendered profile, None if it is missing."""
    (image,) = obj["status"]["cloudProfileSpec"]["machineImages"]
    return next((version for version in image["versions"] if version["version"] == number), None)


def classified(obj: dict[str, Any], number: str = "16.4") -> str:
    (image,) = obj["status"]["machineImages"]
    found: str = {each["version"]: each["classification"] for each in image["versions"]}[number]
    return found


@pytest.mark.parametrize("fields", [{}, COMPLETE], ids=["as in GEP-25", "complete"])
def test_an_expiration_date_alone_is_supported_until_then(fields: dict[str, Any]) -> None:
    """GEP-25's own manifest would make an image that a project adds unavailable, and hide it at v1beta1."""
    answer = server().create(gep_25(expirationDate=DATE, **fields))
    assert answer.allowed, answer.refusal
    assert images_of(answer.at(OLD)) == images_of(gep_25(expirationDate=DATE, **fields))
    stored = reconciled(answer.at(HUB), GEP_25_PARENT)
    assert classified(stored) == "supported"
    found = rendered(stored)
    assert found is not None
    assert found["lifecycle"] == [stage("supported"), {"classification": "expired", "startTime": DATE}]
    shown = rendered(at_version(stored, OLD))
    assert shown is not None
    assert shown["expirationDate"] == DATE
    assert classified(reconciled(answer.at(HUB), GEP_25_PARENT, LATER)) == "expired"


def test_it_means_the_same_written_at_v1beta2() -> None:
    """A stored object would mean different things, depending on the version that its author used."""
    sent = at_version(gep_25(expirationDate=DATE), HUB)
    answer = server().create(sent)
    assert answer.allowed, answer.refusal
    assert images_of(answer.at(HUB)) == images_of(sent)
    assert classified(reconciled(answer.at(HUB), GEP_25_PARENT)) == "supported"


def updated(answer: Answer, **fields: Any) -> Answer:
    """Return the answer to a pipeline of v1beta1 that sends its file with other fields in the own version."""
    parent_status = reconciled(answer.at(HUB), GEP_25_PARENT)
    return server().update(gep_25(**fields), parent_status)


@pytest.mark.parametrize("before", [{"classification": "supported"}, {"classification": "preview"}, {}])
def test_an_old_client_may_take_its_classification_back(before: dict[str, Any]) -> None:
    """A file that no longer has the classification would be refused because the version would become unavailable."""
    answer = server().create(gep_25(expirationDate=DATE, **before))
    assert answer.allowed, answer.refusal
    after = updated(answer, expirationDate=DATE)
    assert after.allowed, after.refusal
    assert classified(reconciled(after.at(HUB), GEP_25_PARENT)) == "supported"
    assert images_of(after.at(OLD)) == images_of(gep_25(expirationDate=DATE))


def with_version(parent: dict[str, Any], **fields: Any) -> dict[str, Any]:
    """Return GEP-25's parent with the project's version in its image."""
    made = copy.deepcopy(parent)
    made["spec"]["machineImages"][0]["versions"].append({"version": "16.4", **fields})
    return made


def test_it_becomes_an_override_when_the_parent_gains_the_version() -> None:
    """A project that only set a date would lose the parent's stages when the parent adds the version."""
    answer = server().create(gep_25(expirationDate=DATE))
    parent = with_version(GEP_25_PARENT, classification="preview")
    stored = reconciled(answer.at(HUB), parent)
    found = rendered(stored)
    assert found is not None
    assert found["lifecycle"] == [stage("preview"), {"classification": "expired", "startTime": DATE}]
    assert classified(stored) == "preview"


@pytest.mark.parametrize(
    "stages", [[stage("preview"), stage("supported", "2024-03-01")], [stage("expired", "2031-01-01")]]
)
def test_a_project_goes_on_once_its_parent_has_the_version_too(stages: list[dict[str, str]]) -> None:
    """Stages that only the project has would block every later change of its profile, whatever it changes."""
    sent = at_version(gep_25(), HUB)
    sent["spec"]["machineImages"][0]["versions"][0]["lifecycle"] = stages
    first = server().create(sent)
    assert first.allowed, first.refusal
    parent = with_version(GEP_25_PARENT)
    stored = reconciled(first.at(HUB), parent)
    changed = copy.deepcopy(stored)
    changed["spec"]["limits"] = {"maxNodesTotal": 3}
    answer = server(parent).update(changed, stored)
    assert answer.allowed, answer.refusal


def test_it_is_whole_again_when_the_parent_has_lost_the_version() -> None:
    """The project's Shoots would lose a version that the parent removed in spite of the protection."""
    parent = with_version(GEP_25_PARENT, classification="deprecated", expirationDate="2025-01-01T00:00:00Z")
    answer = server(parent).create(gep_25(expirationDate=DATE))
    assert answer.allowed, answer.refusal
    assert classified(reconciled(answer.at(HUB), parent)) == "deprecated"
    assert classified(reconciled(answer.at(HUB), GEP_25_PARENT)) == "supported"


def test_a_lifecycle_of_its_own_is_not_completed() -> None:
    """A project could not announce an image that becomes available later."""
    sent = at_version(gep_25(), HUB)
    sent["spec"]["machineImages"][0]["versions"][0]["lifecycle"] = [
        stage("preview", "2029-01-01"),
        stage("expired", "2031-01-01"),
    ]
    stored = reconciled(server().create(sent).at(HUB), GEP_25_PARENT)
    assert classified(stored) == "unavailable"
    assert rendered(at_version(stored, OLD)) is None
