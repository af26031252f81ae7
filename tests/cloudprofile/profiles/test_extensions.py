"""A NamespacedCloudProfile cannot withdraw an extension that its Shoots rely on, in whichever form it is written."""

from __future__ import annotations

from typing import Any

import pytest

from restow.cloudprofile.versions.lifecycle import parse_time
from tests.cloudprofile.conversions.family import stage
from tests.cloudprofile.hostile import PARENTS, whole
from tests.cloudprofile.served import GROUP, HUB, OLD, Answer, ApiServer
from tests.cloudprofile.validation.test_supported import profile

NOW = parse_time("2026-06-01T00:00:00Z")
PAST, EXTENDED = "2026-01-01T00:00:00Z", "2030-01-01T00:00:00Z"
ENDED = [stage("supported"), stage("deprecated", "2025-01-01"), stage("expired", "2026-01-01")]
PARENT = profile(
    HUB,
    {"version": "1.31.0"},
    {"version": "1.30.5", "lifecycle": ENDED},
    images=({"version": "1.0.0", "lifecycle": ENDED}, {"version": "2.0.0"}),
)
SHOOT = {
    "apiVersion": f"{GROUP}/{HUB}",
    "kind": "Shoot",
    "metadata": {"name": "s", "namespace": "ns"},
    "spec": {
        "cloudProfile": {"kind": "NamespacedCloudProfile", "name": "b"},
        "kubernetes": {"version": "1.30.5"},
        "provider": {
            "workers": [{"name": "w", "machine": {"type": "t", "image": {"name": "ubuntu", "version": "1.0.0"}}}]
        },
    },
}


def child(at: str, kubernetes: Any, image: Any) -> dict[str, Any]:
    """Return the NamespacedCloudProfile with its two entries; None omits an entry."""
    spec: dict[str, Any] = {"parent": {"kind": "CloudProfile", "name": "a"}}
    if kubernetes is not None:
        spec["kubernetes"] = {"versions": [{"version": "1.30.5", **kubernetes}]}
    if image is not None:
        spec["machineImages"] = [{"name": "ubuntu", "versions": [{"version": "1.0.0", **image}]}]
    metadata = {"name": "b", "namespace": "ns"}
    return {"apiVersion": f"{GROUP}/{at}", "kind": "NamespacedCloudProfile", "metadata": metadata, "spec": spec}


FAR = {OLD: {"expirationDate": EXTENDED}, HUB: {"lifecycle": [stage("expired", "2030-01-01")]}}


def withdrawn(at: str, kubernetes: Any, image: Any, *, used: bool = True) -> Answer:
    """Return the answer to a change of the extension of both versions."""
    held = {"cloudprofiles": [PARENT], "shoots": [SHOOT] if used else []}
    return ApiServer(NOW, held).update(child(at, kubernetes, image), child(at, FAR[at], FAR[at]))


DEPRECATED = {"lifecycle": [stage("deprecated", "2025-06-01")]}
KUBERNETES: dict[str, tuple[str, Any]] = {
    "removed": (HUB, None),
    "removed at v1beta1": (OLD, None),
    "another stage of the parent": (HUB, DEPRECATED),
    "an earlier stage of the parent": (HUB, {"lifecycle": [stage("supported", "2024-01-01")]}),
    "the end of the parent": (HUB, {"lifecycle": [stage("expired", "2026-01-01")]}),
    "the end of the parent at v1beta1": (OLD, {"expirationDate": PAST}),
}
IMAGE: dict[str, tuple[str, Any]] = {
    **KUBERNETES,
    "nothing": (HUB, {}),
    "nothing at v1beta1": (OLD, {}),
}


@pytest.mark.parametrize(("at", "entry"), KUBERNETES.values(), ids=KUBERNETES)
def test_a_kubernetes_version_in_use_does_not_expire(at: str, entry: Any) -> None:
    """Shoots would suddenly be updated by force, and get no new worker pools."""
    answer = withdrawn(at, entry, FAR[at])
    assert not answer.allowed
    assert all(each.field.startswith("spec.kubernetes.versions") for each in answer.findings), answer.refusal
    assert "1.30.5" in answer.refusal


@pytest.mark.parametrize(("at", "entry"), IMAGE.values(), ids=IMAGE)
def test_an_image_version_in_use_does_not_expire(at: str, entry: Any) -> None:
    """The machines of Shoots would suddenly be replaced by force."""
    answer = withdrawn(at, FAR[at], entry)
    assert not answer.allowed
    assert all(each.field.startswith("spec.machineImages") for each in answer.findings), answer.refusal
    assert "1.0.0" in answer.refusal


def test_the_refusal_says_who_and_what_to_do() -> None:
    """A user would not know which Shoot blocks the change."""
    answer = withdrawn(HUB, DEPRECATED, DEPRECATED)
    assert [each.field for each in answer.findings] == [
        "spec.kubernetes.versions[0].lifecycle",
        "spec.machineImages[0].versions[0].lifecycle",
    ]
    assert "would expire at once, and is still in use by shoot 'ns/s'" in answer.refusal


ALLOWED: dict[str, tuple[str, Any]] = {
    "another date": (OLD, {"expirationDate": "2029-01-01T00:00:00Z"}),
    "a date that is near": (HUB, {"lifecycle": [stage("expired", "2026-06-02")]}),
    "another stage next to it": (
        HUB,
        {"lifecycle": [stage("deprecated", "2028-01-01"), stage("expired", "2030-01-01")]},
    ),
}


@pytest.mark.parametrize(("at", "entry"), ALLOWED.values(), ids=ALLOWED)
def test_an_extension_can_be_changed(at: str, entry: Any) -> None:
    """A project could not plan the end of a version that it uses."""
    answer = withdrawn(at, entry, entry)
    assert answer.allowed, answer.refusal


def test_an_unused_extension_can_be_withdrawn() -> None:
    """A project could not remove an extension that no Shoot uses."""
    answer = withdrawn(HUB, DEPRECATED, None, used=False)
    assert answer.allowed, answer.refusal


@pytest.mark.parametrize(("at", "field"), [(OLD, "expirationDate"), (HUB, "lifecycle")])
@pytest.mark.parametrize("is_new", [True, False])
def test_an_override_says_something(at: str, field: str, is_new: bool) -> None:
    """An entry that moves no stage would look like an extension, or be refused by a field of the other version."""
    server = ApiServer(NOW, {"cloudprofiles": [PARENTS[0]]})
    empty, old = whole("NamespacedCloudProfile", at), whole("NamespacedCloudProfile", at)
    del empty["spec"]["machineImages"][0]["versions"][0][field]
    answer = server.create(empty) if is_new else server.update(empty, old)
    assert f"spec.machineImages[0].versions[0].{field}: Required value" in answer.refusal
    other = {**empty, "spec": {**empty["spec"], "limits": {"maxNodesTotal": 60}}}
    kept = server.update(other, empty)
    assert kept.allowed, "what is stored like that blocks no other change"
    assert any('the override of version "1.0.0" changes nothing' in warning for warning in kept.warnings)


@pytest.mark.parametrize(("at", "field"), [(OLD, "expirationDate"), (HUB, "lifecycle")])
def test_a_date_in_the_past_is_named_as_its_client_writes_it(at: str, field: str) -> None:
    """A client of v1beta1 would look for a lifecycle, which its version does not have."""
    ended = whole("NamespacedCloudProfile", at)
    version = ended["spec"]["kubernetes"]["versions"][0]
    past = "2020-01-01T00:00:00Z"
    version[field] = past if at == OLD else [{"classification": "expired", "startTime": past}]
    answer = ApiServer(NOW, {"cloudprofiles": [PARENTS[0]]}).update(ended, whole("NamespacedCloudProfile", at))
    assert f"spec.kubernetes.versions[0].{field}: Invalid value" in answer.refusal
