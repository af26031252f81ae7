"""The manifests of GEP-32, GEP-25 and Gardener, and all edge cases that the schemas accept, converted both ways."""

from __future__ import annotations

from typing import Any

import pytest

from restow.conversion.testing import Laws
from restow.crds.types import violations
from tests.apiserver.profile_documents import (
    GEP_25,
    GEP_32,
    GEP_32_BEFORE,
    gardener_manifest,
    load,
    table,
)
from tests.cloudprofile.conversions.family import (
    GROUP,
    V1BETA1,
    V1BETA2,
    conversions,
    crd_of,
    down,
    stage,
    up,
)
from tests.upstream.files import GARDENER


def check_both_ways(obj: dict[str, Any]) -> dict[str, Any]:
    """Check the laws for one object; return it at the other version."""
    laws = Laws(conversions().kind(GROUP, obj["kind"]))
    other = "v1beta2" if obj["apiVersion"] == V1BETA1 else "v1beta1"
    laws.round_trip(obj, other)
    laws.determinism(obj, other)
    converted = laws.convert(obj, other)
    version = crd_of(obj["kind"]).version(other)
    assert version is not None
    assert list(violations(converted, version.schema)) == []
    return converted


def test_classifications_as_they_are_written_today() -> None:
    """The plain versions of GEP-32, "Motivation" would need a stash, or change their meaning at v1beta2."""
    new = check_both_ways(load(GEP_32_BEFORE))
    assert new["metadata"] == {"name": "local"}
    assert [version["lifecycle"] for version in new["spec"]["kubernetes"]["versions"]] == [
        [stage("supported"), stage("expired", "2024-06-01")],
        [stage("deprecated")],
        [stage("supported")],
    ]


@pytest.mark.parametrize("name", GEP_32)
def test_lifecycles_as_they_are_proposed(name: str) -> None:
    """GEP-32's manifests would lose stages at v1beta1, or could not be lifted from the wrong version."""
    wrong = load(GEP_32[name])
    right = {**wrong, "apiVersion": V1BETA2}
    check_both_ways(right)
    assert up(wrong) == right


def test_the_proposals_override_is_shown_sparsely() -> None:
    """v1beta1 would show stages of GEP-32's override ("NamespacedCloudProfile") that have no field, or lose them."""
    shown = down({**load(GEP_32["namespaced"]), "apiVersion": V1BETA2})
    assert shown["spec"]["kubernetes"]["versions"] == [{"version": "1.28.0"}, {"version": "1.18.0"}]


@pytest.mark.parametrize("name", GEP_25)
def test_the_manifests_of_namespaced_profiles(name: str) -> None:
    """GEP-25's manifests, written at v1beta1, would change in a round trip, or a plain date would need a stash."""
    old = load(GEP_25[name])
    new = check_both_ways(old)
    if name == "namespaced":
        stages = [{"classification": "expired", "startTime": "2024-06-06T01:02:03Z"}]
        assert new["spec"]["kubernetes"]["versions"] == [{"version": "1.28.6", "lifecycle": stages}]
        assert new["metadata"] == old["metadata"], "an override of a date alone needs no stash"


@pytest.mark.parametrize("name", GARDENER)
def test_gardeners_manifests(name: str) -> None:
    """A real manifest with many fields that conversion does not touch would lose one of them."""
    check_both_ways(gardener_manifest(name))


EDGES = table("cloudprofile_taken.yaml")


@pytest.mark.parametrize("api_version", [V1BETA1, V1BETA2])
@pytest.mark.parametrize("name", EDGES)
def test_every_edge(name: str, api_version: str) -> None:
    """An object that the API server accepts would lose data at the other version, or have wrong types there."""
    edge = EDGES[name]
    if edge.get("at", api_version.rpartition("/")[2]) == api_version.rpartition("/")[2]:
        obj = {"apiVersion": api_version, "kind": edge["kind"], "metadata": {"name": "edge"}, "spec": edge["spec"]}
        check_both_ways(obj)
