"""NamespacedCloudProfiles: sparse overrides, and the rendered spec in the status."""

from __future__ import annotations

from typing import Any

import pytest

from restow.cloudprofile.conversions import edit_warnings
from restow.cloudprofile.profiles.rendering import render
from restow.cloudprofile.versions.lifecycle import status_of
from tests.cloudprofile.conversions.family import (
    STASH,
    V1BETA1,
    conversions,
    down,
    moment,
    profile,
    replaced,
    spec_with,
    stage,
    up,
    without_stash,
)

PARENT = spec_with(
    v1_27_0={},
    v1_28_0=[stage("preview"), stage("supported", "2024-12-01")],
    v1_18_0=[stage("supported"), stage("deprecated", "2022-01-01"), stage("expired", "2022-06-01")],
    v2_0_0=[stage("preview", "2036-02-07")],
)


def project(spec: dict[str, Any], day: str | None = None) -> dict[str, Any]:
    """Return a NamespacedCloudProfile of v1beta2, reconciled on a day or never."""
    made = profile(spec, kind="NamespacedCloudProfile")
    if day is None:
        return made
    rendered = render(PARENT, spec)
    return {**made, "status": {"cloudProfileSpec": rendered, **status_of(rendered, moment(day))}}


def images(**fields: Any) -> dict[str, Any]:
    return {"machineImages": [{"name": "suse", "versions": [{"version": "1", **fields}]}]}


def first(obj: dict[str, Any]) -> dict[str, Any]:
    spec = obj["spec"]
    item = (spec["kubernetes"] if "kubernetes" in spec else spec["machineImages"][0])["versions"][0]
    return {name: value for name, value in item.items() if name != "version"}


DATE = {"expirationDate": "2025-01-01T00:00:00Z"}


@pytest.mark.parametrize("spec", [spec_with(v1_28_0=DATE), images(**DATE)])
def test_an_expiration_is_exactly_one_stage(spec: dict[str, Any]) -> None:
    """An invented stage would move the parent's stage, because an override names every stage that it moves."""
    old = profile(spec, version=V1BETA1, kind="NamespacedCloudProfile")
    new = up(old)
    assert first(new) == {"lifecycle": [stage("expired", "2025-01-01")]}
    assert (new["metadata"], down(new)) == ({"name": "p"}, old)


def test_a_version_of_its_own_has_a_classification() -> None:
    """Image versions that a project adds would lose the classification that they have in a CloudProfile."""
    old = profile(images(classification="preview", **DATE), version=V1BETA1, kind="NamespacedCloudProfile")
    new = up(old)
    assert first(new) == {"lifecycle": [stage("preview"), stage("expired", "2025-01-01")]}
    assert (new["metadata"], down(new)) == ({"name": "p"}, old)


SHOWN: list[Any] = [
    pytest.param(spec_with(v1_28_0=[stage("supported", "2025-12-01")]), {}, id="a-move-cannot-be-said"),
    pytest.param(spec_with(v1_28_0=[stage("supported")]), {}, id="kubernetes-has-no-classification-there"),
    pytest.param(
        spec_with(v1_18_0=[stage("supported", "2022-01-01"), stage("expired", "2025-01-01")]), DATE, id="only-the-date"
    ),
    pytest.param(
        spec_with(v1_18_0=[stage("expired")]), {"expirationDate": "1970-01-01T00:00:00Z"}, id="expired-since-ever"
    ),
]


@pytest.mark.parametrize("day", [None, "2025-06-01"])
@pytest.mark.parametrize(("spec", "fields"), SHOWN)
def test_overrides_are_shown_sparsely(spec: dict[str, Any], fields: dict[str, Any], day: str | None) -> None:
    """v1beta1 would show fields of the parent as if they were part of the override."""
    stored = project(spec, day)
    shown = down(stored)
    assert first(shown) == fields
    assert up(shown) == stored


def test_an_override_of_an_unavailable_version_is_hidden() -> None:
    """v1beta1 would show an override of a hidden version, or hide one before the first reconcile."""
    spec = spec_with(v2_0_0=[stage("preview", "2035-01-01"), stage("expired", "2040-01-01")])
    assert down(project(spec, "2025-06-01"))["spec"] == {"kubernetes": {"versions": []}}
    assert down(project(spec, "2036-06-01"))["spec"] == spec_with(v2_0_0={"expirationDate": "2040-01-01T00:00:00Z"})
    assert down(project(spec))["spec"] == spec_with(v2_0_0={"expirationDate": "2040-01-01T00:00:00Z"})
    for stored in (project(spec, "2025-06-01"), project(spec)):
        assert up(down(stored)) == stored


def test_a_date_that_a_client_of_v1beta1_wrote_is_never_hidden() -> None:
    """A date that a client wrote would vanish as soon as the version turns out to be unavailable."""
    stored = project(spec_with(v2_0_0=[stage("expired", "2040-01-01")]), "2025-06-01")
    assert {"version": "2.0.0", "classification": "unavailable"} in stored["status"]["kubernetes"]["versions"]
    assert down(stored)["spec"] == spec_with(v2_0_0={"expirationDate": "2040-01-01T00:00:00Z"})


def test_an_image_version_of_its_own_grows_old() -> None:
    """v1beta1 would show a project's own version with a classification other than in the project's own status."""
    spec = images(lifecycle=[stage("preview"), stage("deprecated", "2025-03-01"), stage("expired", "2025-09-01")])
    assert first(down(project(spec, "2025-04-01"))) == {
        "classification": "deprecated",
        "expirationDate": "2025-09-01T00:00:00Z",
    }


def test_the_rendered_spec_is_shown_as_a_cloud_profile() -> None:
    """Clients of v1beta1 would read a rendered profile without the current classification of each version."""
    stored = project(spec_with(v1_18_0=[stage("expired", "2030-01-01")]), "2025-06-01")
    shown = down(stored)
    assert shown["status"]["cloudProfileSpec"]["kubernetes"]["versions"] == [
        {"version": "1.27.0"},
        {"version": "1.28.0", "classification": "supported"},
        {"version": "1.18.0", "classification": "deprecated", "expirationDate": "2030-01-01T00:00:00Z"},
    ]
    assert shown["status"]["kubernetes"] == stored["status"]["kubernetes"]
    assert up(shown) == stored


MOVED = [stage("supported", "2022-01-01"), stage("deprecated", "2024-06-01"), stage("expired", "2025-01-01")]
EDITS: list[Any] = [
    pytest.param(DATE, MOVED, [], id="as-shown"),
    pytest.param(
        {"expirationDate": "2025-06-01T00:00:00Z"}, [*MOVED[:2], stage("expired", "2025-06-01")], [], id="moved"
    ),
    pytest.param(
        {"expirationDate": "2024-01-01T00:00:00Z"},
        [MOVED[0], stage("expired", "2024-01-01")],
        ["Kubernetes 1.18.0: set aside until expirationDate is later or removed: deprecated"],
        id="moved-before-a-stage",
    ),
    pytest.param({}, MOVED[:2], [], id="removed"),
]


@pytest.mark.parametrize(("fields", "lifecycle", "warnings"), EDITS)
def test_edits_move_the_date_and_nothing_else(fields: dict[str, Any], lifecycle: Any, warnings: list[str]) -> None:
    """An edit of a date at v1beta1 would move other stages of the override, with or without the stash."""
    stored = project(spec_with(v1_18_0=MOVED), "2024-07-01")
    shown = down(stored)
    assert STASH in shown["metadata"]["annotations"]
    sent = {**shown, "spec": spec_with(v1_18_0=fields)}
    expected = {**stored, "spec": spec_with(v1_18_0=lifecycle)}
    assert up(sent) == expected
    assert replaced(stored, without_stash(sent)) == expected
    assert edit_warnings(conversions(), stored, sent) == warnings


def test_a_move_of_no_visible_stage_survives() -> None:
    """A date added at v1beta1 would remove a moved stage that v1beta1 cannot show."""
    stored = project(spec_with(v1_28_0=[stage("supported", "2025-12-01")]), "2025-06-01")
    shown = down(stored)
    sent = {**shown, "spec": spec_with(v1_28_0={"expirationDate": "2026-06-01T00:00:00Z"})}
    moved = spec_with(v1_28_0=[stage("supported", "2025-12-01"), stage("expired", "2026-06-01")])
    assert up(sent)["spec"] == moved
    assert replaced(stored, without_stash(sent))["spec"] == moved
