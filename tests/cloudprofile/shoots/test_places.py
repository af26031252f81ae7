"""Shoots against the machines, volumes, regions and zones of their profile, sent as requests at both versions."""

from __future__ import annotations

import copy
from datetime import UTC, datetime
from typing import Any

import pytest

from restow.cloudprofile.validation.formats import quantity_of
from tests.cloudprofile.served import HUB, OLD, Answer, ApiServer

NOW = datetime(2025, 3, 1, tzinfo=UTC)
GROUP = "core.gardener.cloud"
ARM = {"name": "arm", "cpu": "1", "gpu": "0", "memory": "1Gi", "architecture": "arm64"}
PROFILE = {
    "apiVersion": f"{GROUP}/{HUB}",
    "kind": "CloudProfile",
    "metadata": {"name": "a"},
    "spec": {
        "type": "local",
        "kubernetes": {"versions": [{"version": "1.33.1"}]},
        "machineImages": [{"name": "ubuntu", "versions": [{"version": "1.0.0", "architectures": ["amd64", "arm64"]}]}],
        "machineTypes": [
            {"name": "small", "cpu": "1", "gpu": "0", "memory": "1Gi"},
            {"name": "large", "cpu": "1", "gpu": "0", "memory": "1Gi"},
            {"name": "retired", "cpu": "1", "gpu": "0", "memory": "1Gi", "usable": False},
            {
                "name": "disky",
                "cpu": "1",
                "gpu": "0",
                "memory": "1Gi",
                "storage": {"class": "standard", "type": "fast", "minSize": "100Gi"},
            },
            ARM,
        ],
        "volumeTypes": [
            {"name": "fast", "class": "premium", "minSize": "20Gi"},
            {"name": "slow", "class": "standard"},
            {"name": "old", "class": "standard", "usable": False},
        ],
        "regions": [
            {
                "name": "here",
                "accessRestrictions": [{"name": "eu"}],
                "zones": [
                    {"name": "a", "unavailableMachineTypes": ["large"], "unavailableVolumeTypes": ["slow"]},
                    {"name": "b"},
                ],
            },
            {"name": "bare"},
        ],
    },
}


def shoot(version: str, **changes: Any) -> dict[str, Any]:
    """Return a Shoot with one pool, with changes of its spec by name, and of its pool by ``pool_`` and the name."""
    pool: dict[str, Any] = {
        "name": "w",
        "machine": {
            "type": changes.pop("type", "small"),
            "architecture": changes.pop("architecture", "amd64"),
            "image": {"name": "ubuntu", "version": "1.0.0"},
        },
        "minimum": 1,
        "maximum": 2,
    }
    pool |= {name.removeprefix("pool_"): changes.pop(name) for name in list(changes) if name.startswith("pool_")}
    spec = {
        "cloudProfile": {"kind": "CloudProfile", "name": "a"},
        "region": "here",
        "kubernetes": {"version": "1.33.1"},
        "provider": {"type": changes.pop("provider", "local"), "workers": [pool]},
        **changes,
    }
    metadata = {"name": "s", "namespace": "ns"}
    return {"apiVersion": f"{GROUP}/{version}", "kind": "Shoot", "metadata": metadata, "spec": spec}


def sent(new: dict[str, Any], old: dict[str, Any] | None = None) -> Answer:
    """Return the answer to a request."""
    server = ApiServer(NOW, {"cloudprofiles": [PROFILE]})
    return server.create(new) if old is None else server.update(new, old)


POOL = "spec.provider.workers[0]"
REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "machine type": (
        {"type": "huge"},
        f'{POOL}.machine.type: Unsupported value: "huge": supported values: "disky", "large", "small"',
    ),
    "unusable machine type": (
        {"type": "retired"},
        f'{POOL}.machine.type: Invalid value: "retired": machine type "retired" is unusable, supported types are',
    ),
    "machine type of another architecture": (
        {"type": "arm"},
        f'{POOL}.machine.type: Invalid value: "arm": machine type "arm" does not support CPU architecture "amd64"',
    ),
    "machine type that a zone lacks": (
        {"type": "large", "pool_zones": ["b", "a"]},
        f'{POOL}.machine.type: Invalid value: "large": machine type "large" is unavailable in at least one zone',
    ),
    "volume type": (
        {"pool_volume": {"type": "odd", "size": "50Gi"}},
        f'{POOL}.volume.type: Unsupported value: "odd": supported values: "fast", "slow"',
    ),
    "unusable volume type": (
        {"pool_volume": {"type": "old", "size": "50Gi"}},
        f'{POOL}.volume.type: Invalid value: "old": volume type "old" is unusable',
    ),
    "volume type that a zone lacks": (
        {"pool_volume": {"type": "slow", "size": "50Gi"}, "pool_zones": ["a"]},
        f'{POOL}.volume.type: Invalid value: "slow": volume type "slow" is unavailable in at least one zone',
    ),
    "small volume": (
        {"pool_volume": {"type": "fast", "size": "10240Mi"}},
        f'{POOL}.volume.size: Invalid value: "10240Mi": size must be >= 20Gi',
    ),
    "volume too small for the machine": (
        {"type": "disky", "pool_volume": {"type": "fast", "size": "50Gi"}},
        f'{POOL}.volume.size: Invalid value: "50Gi": size must be >= 100Gi',
    ),
    "region": ({"region": "away"}, 'spec.region: Unsupported value: "away": supported values: "here", "bare"'),
    "zone": ({"pool_zones": ["z"]}, f'{POOL}.zones[0]: Unsupported value: "z": supported values: "a", "b"'),
    "zone twice": ({"pool_zones": ["b", "b"]}, f'{POOL}.zones[1]: Duplicate value: "b"'),
    "zone of a region without": (
        {"region": "bare", "pool_zones": ["a"]},
        f'{POOL}.zones[0]: Invalid value: "bare": this region does not support availability zones',
    ),
    "provider": (
        {"provider": "aws"},
        'spec.provider.type: Invalid value: "aws": provider type in shoot must equal provider type of referenced Cloud',
    ),
    "access restriction": (
        {"accessRestrictions": [{"name": "us"}]},
        'spec.accessRestrictions[0]: Unsupported value: "us": supported values: "eu"',
    ),
    "zones of the control plane": (
        {"controlPlane": {"zones": ["a"]}},
        "spec.controlPlane.zones: Forbidden: spec.controlPlane.zones can only be set when the CloudProfile has",
    ),
}


@pytest.mark.parametrize("version", [OLD, HUB])
@pytest.mark.parametrize(("changes", "refused"), REFUSED.values(), ids=REFUSED)
def test_what_the_profile_does_not_offer_is_forbidden(changes: dict[str, Any], refused: str, version: str) -> None:
    """A Shoot would be admitted with machines, volumes or places that do not exist."""
    answer = sent(shoot(version, **copy.deepcopy(changes)))
    assert refused in answer.refusal
    assert answer.code == 403
    assert answer.refusal.startswith('Shoot "ns/s" is forbidden: ')


@pytest.mark.parametrize("version", [OLD, HUB])
@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"type": "arm", "architecture": "arm64"},
        {"pool_zones": ["a", "b"]},
        {"pool_volume": {"type": "fast", "size": "20Gi"}, "pool_zones": ["a"]},
        {"type": "disky", "pool_volume": {"type": "slow", "size": "1Gi"}},
        {"accessRestrictions": [{"name": "eu"}]},
    ],
)
def test_what_the_profile_offers_is_allowed(changes: dict[str, Any], version: str) -> None:
    """A rule that refuses too much would keep users from the offer of their profile."""
    answer = sent(shoot(version, **copy.deepcopy(changes)))
    assert answer.allowed, answer.refusal


def test_what_a_shoot_has_it_keeps() -> None:
    """A Shoot could not be changed any more once its machine type, zone or volume type has left the profile."""
    had = {"type": "gone", "pool_zones": ["z"], "pool_volume": {"type": "gone", "size": "1Gi"}, "region": "gone"}
    old = shoot(HUB, **copy.deepcopy(had))
    answer = sent(shoot(HUB, **copy.deepcopy(had), purpose="testing"), old)
    assert answer.allowed, answer.refusal
    moved = shoot(HUB, **(copy.deepcopy(had) | {"pool_zones": ["y"]}))
    assert "zones[0]" in sent(moved, old).refusal


def test_machine_types_of_a_project_bind_its_shoots() -> None:
    """A project that adds a machine type, GEP-25's first use case, could not use it, or could use any other."""
    child = {
        "apiVersion": f"{GROUP}/{HUB}",
        "kind": "NamespacedCloudProfile",
        "metadata": {"name": "b", "namespace": "ns"},
        "spec": {"parent": {"kind": "CloudProfile", "name": "a"}},
        "status": {"cloudProfileSpec": {**PROFILE["spec"], "machineTypes": [*PROFILE["spec"]["machineTypes"][:1]]}},
    }
    server = ApiServer(NOW, {"cloudprofiles": [PROFILE], "namespacedcloudprofiles": [child]})
    reference = {"kind": "NamespacedCloudProfile", "name": "b"}
    assert server.create(shoot(HUB, cloudProfile=reference)).allowed
    refused = server.create(shoot(HUB, cloudProfile=reference, type="large")).refusal
    assert f'{POOL}.machine.type: Unsupported value: "large": supported values: "small"' in refused


def test_a_profile_that_says_nothing_asks_nothing() -> None:
    """GEP-25's Shoot, which names no region, would be refused although its profile has none."""
    spec = {name: value for name, value in PROFILE["spec"].items() if name not in {"regions", "type", "volumeTypes"}}
    server = ApiServer(NOW, {"cloudprofiles": [{**PROFILE, "spec": spec}]})
    new = shoot(HUB)
    del new["spec"]["region"]
    assert server.create(new).allowed


@pytest.mark.parametrize(("less", "more"), [("1Gi", "1100M"), ("999m", 1), ("10240Mi", "20Gi"), (".5Ki", 513)])
def test_quantities_compare_as_numbers(less: object, more: object) -> None:
    """A volume of 10240Mi would count as larger than one of 20Gi."""
    first, second = quantity_of(less), quantity_of(more)
    assert first is not None
    assert second is not None
    assert first < second
