"""Rendering: laws, and special cases."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given

from restow.cloudprofile.capabilities import architectures_of, defaulted, definitions_of, in_form_of, in_step
from restow.cloudprofile.objects import by_name, image_versions, kubernetes_versions, machine_images, placed_versions
from restow.cloudprofile.profiles.rendering import render
from tests.cloudprofile.strategies import profile_specs, project_specs

_PARENT = {"parent": {"kind": "CloudProfile", "name": "parent"}}


@given(parent=profile_specs)
def test_without_overrides_the_parent_is_rendered(parent: dict[str, Any]) -> None:
    """A project without overrides would offer something else than its parent."""
    assert render(parent, _PARENT) == parent
    assert render(parent, {**_PARENT, "kubernetes": {"versions": []}, "machineImages": []}) == parent


@given(parent=profile_specs, project=project_specs)
def test_the_parents_entries_come_first(parent: dict[str, Any], project: dict[str, Any]) -> None:
    """Entries would be lost, duplicated or moved when a project is edited."""
    rendered = render(parent, project)
    assert _names(kubernetes_versions(rendered)) == _names(kubernetes_versions(parent))
    for section in ("machineImages", "machineTypes", "volumeTypes"):
        ours, theirs = _names(parent.get(section, ())), _names(project.get(section, ()))
        assert _names(rendered.get(section, ())) == list(dict.fromkeys([*ours, *theirs]))
    for image in machine_images(rendered):
        ours, theirs = (
            _names(image_versions(by_name(machine_images(spec)).get(image["name"], {}))) for spec in (parent, project)
        )
        assert _names(image_versions(image)) == list(dict.fromkeys([*ours, *theirs]))


def _names(items: Any) -> list[str]:
    return [item.get("name") or item["version"] for item in items]


@given(parent=profile_specs, project=project_specs)
def test_sections_that_are_not_the_projects_are_the_parents(parent: dict[str, Any], project: dict[str, Any]) -> None:
    """A project would change regions or the provider's configuration, which only its parent may set."""
    rendered = render(parent, project)
    for section in {*parent, *rendered} - {*project}:
        assert rendered[section] == parent[section]
    assert rendered.get("providerConfig") == parent.get("providerConfig")


@given(parent=profile_specs, project=project_specs)
def test_nothing_is_changed_in_place(parent: dict[str, Any], project: dict[str, Any]) -> None:
    """Rendering would change a profile in a controller's cache."""
    before = copy.deepcopy((parent, project))
    rendered = render(parent, project)
    defaulted(rendered)
    in_step(parent, None)
    in_step(rendered, parent)
    assert (parent, project) == before


@given(parent=profile_specs, project=project_specs)
def test_rendering_is_repeatable(parent: dict[str, Any], project: dict[str, Any]) -> None:
    """The status would change with every reconcile."""
    assert render(parent, project) == render(copy.deepcopy(parent), copy.deepcopy(project))


@given(parent=profile_specs, project=project_specs)
def test_touched_sections_say_every_architecture(parent: dict[str, Any], project: dict[str, Any]) -> None:
    """A reader that knows only the plain fields would find machines without architecture."""
    rendered = render(parent, project)
    if project.get("machineTypes"):
        assert all(machine_type["architecture"] for machine_type in rendered["machineTypes"])
    if project.get("machineImages"):
        assert all(version["architectures"] for image in machine_images(rendered) for version in image_versions(image))


@given(spec=profile_specs)
def test_defaults_are_complete_and_settle(spec: dict[str, Any]) -> None:
    """A profile would be refused for missing defaults of Gardener, or would change each time they are filled in."""
    filled = defaulted(spec)
    assert defaulted(filled) == filled
    assert len(list(placed_versions(filled))) == len(list(placed_versions(spec)))
    for image in machine_images(filled):
        assert image["updateStrategy"]
        for version in image_versions(image):
            assert version["cri"]
            assert version.get("architectures") or definitions_of(spec)
    if definitions_of(spec):  # its capabilities give the architectures then
        assert [item.get("architecture") for item in filled.get("machineTypes", ())] == [
            item.get("architecture") for item in spec.get("machineTypes", ())
        ]


@pytest.mark.parametrize(
    ("parent", "project", "expected"),
    [
        ("-----END CERTIFICATE-----", "-----BEGIN", "-----END CERTIFICATE-----\n-----BEGIN"),
        ("-----END CERTIFICATE-----\n", "-----BEGIN", "-----END CERTIFICATE-----\n-----BEGIN"),
        (None, "-----BEGIN", "-----BEGIN"),
        ("parent", None, "parent"),
    ],
)
def test_bundles_stay_readable(parent: str | None, project: str | None, expected: str) -> None:
    """Two certificates would be joined on one line, and neither would be trusted."""
    assert render({"caBundle": parent}, {"caBundle": project})["caBundle"] == expected


def test_an_images_lifecycle_is_overridden_like_that_of_kubernetes() -> None:
    """An image's expiration could only be extended in the plain form."""
    parent = {
        "machineImages": [{"name": "a", "versions": [{"version": "1.0", "cri": ["x"], "architectures": ["arm64"]}]}]
    }
    expired = {"classification": "expired", "startTime": "2025-01-01T00:00:00Z"}
    project = {"machineImages": [{"name": "a", "versions": [{"version": "1.0", "lifecycle": [expired]}]}]}
    (version,) = render(parent, project)["machineImages"][0]["versions"]
    assert version == {
        "version": "1.0",
        "cri": ["x"],
        "architectures": ["arm64"],
        "lifecycle": [{"classification": "supported"}, expired],
    }


@pytest.mark.parametrize(
    ("override", "date"),
    [({"expirationDate": "2031-01-01T00:00:00Z"}, "2031-01-01T00:00:00Z"), ({}, None)],
    ids=["another date", "no date"],
)
def test_an_expiration_date_of_an_override_replaces_the_parents(override: dict[str, Any], date: str | None) -> None:
    """A version of the deprecated form would expire when the parent says, and the project's date would be nowhere."""
    version = {"version": "1.30.0", "classification": "supported", "expirationDate": "2030-01-01T00:00:00Z"}
    other = {"version": "1.31.0", "expirationDate": "2032-01-01T00:00:00Z"}
    image = {"name": "linux", "versions": [version]}
    parent = {"kubernetes": {"versions": [version, other]}, "machineImages": [image]}
    ours = [{"version": "1.30.0", **override}]
    project = {**_PARENT, "kubernetes": {"versions": ours}, "machineImages": [{"name": "linux", "versions": ours}]}
    rendered = render(parent, project)
    assert kubernetes_versions(rendered)[1] == other
    for found in (kubernetes_versions(rendered)[0], image_versions(machine_images(rendered)[0])[0]):
        assert found.get("expirationDate") == date and ("expirationDate" in found) is (date is not None)
        assert found["classification"] == "supported"


def test_sections_without_versions_get_none() -> None:
    """An empty list would be written into the status, which another writer's schema may refuse."""
    project = {**_PARENT, "kubernetes": {"versions": [{"version": "1.30.0"}]}, "machineImages": [{"name": "own"}]}
    rendered = render({"kubernetes": {}}, project)
    assert rendered["kubernetes"] == {} and machine_images(rendered) == [{"name": "own"}]


@pytest.mark.parametrize(("maximum", "expected"), [(0, 9), (1, 1), (12, 12)])
def test_the_projects_limit_of_nodes_counts_if_it_has_one(maximum: int, expected: int) -> None:
    """A project that is limited to one node would get the parent's limit."""
    project = {**_PARENT, "limits": {"maxNodesTotal": maximum}}
    assert render({"limits": {"maxNodesTotal": 9}}, project)["limits"] == {"maxNodesTotal": expected}


def test_a_flavor_without_architecture_has_all_that_are_defined() -> None:
    """An image whose flavors name no architecture would fit no machine."""
    definitions = {"architecture": ["amd64", "arm64"], "gpu": ["yes"]}
    assert architectures_of({"capabilityFlavors": [{"gpu": ["yes"]}]}, definitions) == ["amd64", "arm64"]
    assert architectures_of({"capabilityFlavors": [{"architecture": ["arm64"]}]}, definitions) == ["arm64"]
    assert architectures_of({}, {}) == ["amd64"]


def test_capabilities_come_and_go_with_their_definitions() -> None:
    """A profile that starts or stops defining capabilities would contradict itself."""
    plain = {
        "machineImages": [
            {"name": "a", "versions": [{"version": "1.0", "architectures": ["arm64"]}, {"version": "2.0"}]}
        ],
        "machineTypes": [{"name": "t", "architecture": "arm64"}, {"name": "u"}],
    }
    defined = {**plain, "machineCapabilities": [{"name": "architecture", "values": ["amd64", "arm64"]}]}
    told = in_step(defined, plain)
    flavors = [version["capabilityFlavors"] for version in told["machineImages"][0]["versions"]]
    assert flavors == [[{"architecture": ["arm64"]}], [{"architecture": ["amd64"]}]]
    assert [item["capabilities"]["architecture"] for item in told["machineTypes"]] == [["arm64"], ["amd64"]]
    undefined = {key: value for key, value in told.items() if key != "machineCapabilities"}
    bare = in_step(undefined, told)
    assert [version["architectures"] for version in bare["machineImages"][0]["versions"]] == [["arm64"], ["amd64"]]
    assert not any("capabilityFlavors" in version for version in bare["machineImages"][0]["versions"])
    assert bare["machineTypes"] == [{"name": "t", "architecture": "arm64"}, {"name": "u", "architecture": "amd64"}]


def test_an_override_stays_one_in_the_other_form() -> None:
    """Converting an override to its parent's form would turn it into a version of its own."""
    override = {"machineImages": [{"name": "a", "versions": [{"version": "1.0", "expirationDate": "x"}]}]}
    assert in_form_of(override, {"architecture": ["amd64", "arm64"]}) == override
    assert in_form_of(override, {}) == override


def test_one_architecture_needs_no_telling_apart() -> None:
    """Every machine of a profile with only one architecture would have to name it."""
    single = {
        "machineCapabilities": [{"name": "architecture", "values": ["arm64"]}],
        "machineImages": [{"name": "a", "versions": [{"version": "1.0"}]}],
        "machineTypes": [{"name": "t"}],
    }
    told = in_step(single, None)
    assert told["machineTypes"] == [{"name": "t", "architecture": "arm64"}]
    assert told["machineImages"][0]["versions"] == [{"version": "1.0", "architectures": ["arm64"]}]
