"""``unavailable`` as a written stage, which GEP-32 lists: admission, conversion, status and chart agree."""

from __future__ import annotations

from typing import Any

import pytest

from restow.cloudprofile.profiles.reconciliation import decide_status
from restow.cloudprofile.versions.chart import ChartWindow, rows_of
from restow.cloudprofile.versions.lifecycle import Classification, next_transition_of, parse_time
from tests.cloudprofile.conversions.family import stage
from tests.cloudprofile.served import HUB, OLD, ApiServer, at_version
from tests.cloudprofile.validation.test_supported import profile

NOW = parse_time("2025-03-01T00:00:00Z")
LATER = parse_time("2030-06-01T00:00:00Z")
WRITTEN = {"version": "1.32.0", "lifecycle": [stage("unavailable"), stage("preview", "2030-01-01")]}
IMPLIED = {"version": "1.32.0", "lifecycle": [stage("preview", "2030-01-01")]}
EXPIRES = {"version": "1.32.0", "lifecycle": [*WRITTEN["lifecycle"], stage("expired", "2031-01-01")]}


def stored(version: dict[str, Any], now: Any = NOW) -> dict[str, Any]:
    """Return a stored profile with the version, and with its status."""
    answer = ApiServer(NOW).create(profile(HUB, {"version": "1.31.0"}, version))
    assert answer.allowed, answer.refusal
    found = answer.at(HUB)
    return {**found, "status": dict(decide_status(found, now).patch)}


def shown(obj: dict[str, Any]) -> dict[str, dict[str, Any]]:
    listed = at_version(obj, OLD)["spec"]["kubernetes"]["versions"]
    return {each["version"]: {name: value for name, value in each.items() if name != "version"} for each in listed}


@pytest.mark.parametrize("version", [WRITTEN, EXPIRES, {"version": "1.32.0", "lifecycle": [stage("unavailable")]}])
def test_it_is_admitted_and_comes_back(version: dict[str, Any]) -> None:
    """Admission would refuse a stage that the schema and the documentation list."""
    found = stored(version)
    assert found["spec"]["kubernetes"]["versions"][1] == version
    assert "1.32.0" not in shown(found)
    assert at_version(at_version(found, OLD), HUB) == found


def test_it_means_what_no_stage_means() -> None:
    """The same plan, written in two ways, would have two meanings."""
    for now in (NOW, LATER):
        written, implied = stored(WRITTEN, now), stored(IMPLIED, now)
        assert written["status"] == implied["status"]
        assert shown(written) == shown(implied)
    assert shown(stored(WRITTEN, LATER))["1.32.0"] == {"classification": "preview"}
    assert next_transition_of(stored(WRITTEN)["spec"], NOW) == parse_time("2030-01-01T00:00:00Z")
    window = ChartWindow(NOW, LATER)
    charts = [[row.segments for row in rows_of(stored(each)["spec"], window)] for each in (WRITTEN, IMPLIED)]
    assert charts[0] == charts[1]


@pytest.mark.parametrize(
    ("stages", "field"),
    [
        ([stage("preview"), stage("unavailable", "2030-01-01")], "lifecycle[1].classification"),
        ([stage("unavailable"), stage("unavailable", "2030-01-01")], "lifecycle[1].classification"),
    ],
)
def test_it_comes_first(stages: list[dict[str, str]], field: str) -> None:
    """A version in use would become unavailable."""
    answer = ApiServer(NOW).create(profile(HUB, {"version": "1.32.0", "lifecycle": stages}))
    assert [each.field for each in answer.findings] == [f"spec.kubernetes.versions[0].{field}"], answer.refusal


def test_it_is_no_classification_of_v1beta1() -> None:
    """v1beta1 would show clients a classification that they do not know."""
    version = {"version": "1.32.0", "classification": "unavailable"}
    answer = ApiServer(NOW).create(profile(OLD, version))
    assert "spec.kubernetes.versions[0].classification" in [each.field for each in answer.findings]


def test_a_version_in_the_open_does_not_become_unavailable() -> None:
    """A version that is already available could become unavailable, which Gardener forbids."""
    old = profile(HUB, {"version": "1.32.0", "lifecycle": [stage("preview")]})
    new = profile(HUB, WRITTEN)
    answer = ApiServer(NOW).update(new, old)
    assert [each.field for each in answer.findings] == ["spec.kubernetes.versions[0]"], answer.refusal


def child(*stages: dict[str, str]) -> dict[str, Any]:
    """Return a project that moves stages of the version."""
    metadata = {"name": "b", "namespace": "ns"}
    override = {"version": "1.32.0", "lifecycle": list(stages)}
    spec = {"parent": {"kind": "CloudProfile", "name": "a"}, "kubernetes": {"versions": [override]}}
    return {**profile(HUB), "kind": "NamespacedCloudProfile", "metadata": metadata, "spec": spec}


def test_a_project_may_move_it_where_its_parent_has_it() -> None:
    """A project could not move this stage like the others, or could add it, which GEP-32 forbids."""
    override = child(stage("unavailable"), stage("preview", "2029-01-01"))
    server = ApiServer(NOW, {"cloudprofiles": [profile(HUB, {"version": "1.31.0"}, WRITTEN)]})
    answer = server.create(override)
    assert answer.allowed, answer.refusal
    hidden = {
        **answer.at(HUB),
        "status": {"kubernetes": {"versions": [{"version": "1.32.0", "classification": "unavailable"}]}},
    }
    assert at_version(hidden, OLD)["spec"]["kubernetes"]["versions"] == []
    assert at_version(at_version(hidden, OLD), HUB) == hidden
    other = ApiServer(NOW, {"cloudprofiles": [profile(HUB, {"version": "1.31.0"}, IMPLIED)]})
    assert [each.field for each in other.create(override).findings] == [
        "spec.kubernetes.versions[0].lifecycle[0].classification"
    ]


def test_the_order_has_it_first() -> None:
    """Parts of restow would disagree on the order of classifications."""
    assert next(iter(Classification)) is Classification.UNAVAILABLE
