"""The profile of a Shoot: ``cloudProfileName`` with ``cloudProfile``, and ``cloudProfile`` alone."""

from __future__ import annotations

from typing import Any

import pytest

from tests.cloudprofile.conversions.family import STASH, V1BETA1, V1BETA2, down, up

NAMED = {"kind": "CloudProfile", "name": "p"}
OTHER = {"kind": "CloudProfile", "name": "q"}
PROJECT = {"kind": "NamespacedCloudProfile", "name": "p"}


def shoot(version: str, **spec: Any) -> dict[str, Any]:
    return {"apiVersion": version, "kind": "Shoot", "metadata": {"name": "s"}, "spec": {**spec, "region": "r"}}


SAME: list[Any] = [
    pytest.param({"cloudProfileName": "p", "cloudProfile": NAMED}, {"cloudProfile": NAMED}, id="cloud-profile"),
    pytest.param({"cloudProfile": PROJECT}, {"cloudProfile": PROJECT}, id="namespaced"),
    pytest.param({}, {}, id="a-part-without"),
    pytest.param({"cloudProfile": {"name": "p"}}, {"cloudProfile": {"name": "p"}}, id="a-part-of-it"),
]


@pytest.mark.parametrize(("old", "new"), SAME)
def test_what_is_the_same(old: dict[str, Any], new: dict[str, Any]) -> None:
    """The two fields for a CloudProfile at v1beta1 would need a stash, or differ from Gardener's."""
    assert up(shoot(V1BETA1, **old)) == shoot(V1BETA2, **new)
    assert down(shoot(V1BETA2, **new)) == shoot(V1BETA1, **old)


KEPT: list[Any] = [
    pytest.param({"cloudProfileName": "p"}, NAMED, id="the-name-alone"),
    pytest.param({"cloudProfile": NAMED}, NAMED, id="the-reference-alone"),
    pytest.param({"cloudProfileName": "p", "cloudProfile": OTHER}, OTHER, id="which-disagree"),
    pytest.param({"cloudProfileName": "p", "cloudProfile": PROJECT}, PROJECT, id="of-different-kinds"),
    pytest.param({"cloudProfileName": "p", "cloudProfile": {"kind": "CloudProfile"}}, NAMED, id="without-the-name"),
]


@pytest.mark.parametrize(("old", "new"), KEPT)
def test_what_a_client_wrote_is_what_it_reads(old: dict[str, Any], new: dict[str, Any]) -> None:
    """A field would appear or vanish by itself, and every apply would be a change."""
    stored = up(shoot(V1BETA1, **old))
    assert stored["spec"] == {"cloudProfile": new, "region": "r"}
    assert down(stored) == shoot(V1BETA1, **old)


def test_a_move_at_the_hub_is_shown_whole() -> None:
    """The stash of an older reference would hide the newer one."""
    stored = up(shoot(V1BETA1, cloudProfileName="p"))
    assert STASH in stored["metadata"]["annotations"]
    moved = {**stored, "spec": {**stored["spec"], "cloudProfile": PROJECT}}
    assert down(moved) == shoot(V1BETA1, cloudProfile=PROJECT)
    moved = {**stored, "spec": {**stored["spec"], "cloudProfile": OTHER}}
    assert down(moved) == shoot(V1BETA1, cloudProfileName="q", cloudProfile=OTHER)


def test_what_v1beta2_refuses_is_not_lost_before_it_can() -> None:
    """A webhook of v1beta1 would drop the field silently before the schema of v1beta2 can refuse it."""
    wrong = shoot(V1BETA2, cloudProfileName="p")
    assert up(down(wrong)) == wrong
