"""Hostile manifests: whole objects of the three kinds, at both versions, with values that no client should send.

Each manifest is a whole object of which up to three places, drawn from a seed, hold something else: a value of another
type, an extreme value, or another part of the object. Half of them replace a stored object. A stored object is whole,
or in one of eight cases damaged too, as one that was stored before a schema knew the field.
"""

from __future__ import annotations

import copy
import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from restow.cloudprofile.profiles.rendering import render
from tests.cloudprofile.served import GROUP, HUB, OLD, at_version

__all__ = ["PARENTS", "HostileRequest", "hostile", "whole"]

Document = dict[str, Any]
Place = tuple[str | int, ...]

_DAY: Final = "2031-01-01T00:00:00Z"
_STAGES: Final = [{"classification": "supported"}, {"classification": "expired", "startTime": _DAY}]
_VERSIONS: Final = [
    {
        "version": "1.31.1",
        "lifecycle": [{"classification": "preview"}, {"classification": "supported", "startTime": _DAY}],
    },
    {"version": "1.31.0"},
    {"version": "1.30.0", "lifecycle": _STAGES},
]
_IMAGES: Final = [
    {
        "name": "ubuntu",
        "updateStrategy": "minor",
        "versions": [
            {
                "version": "1.0.0",
                "lifecycle": _STAGES,
                "cri": [{"name": "containerd", "containerRuntimes": [{"type": "gvisor"}]}],
                "architectures": ["amd64"],
                "capabilityFlavors": [{"architecture": ["amd64"], "network": ["fast"]}],
                "kubeletVersionConstraint": ">= 1.29",
                "inPlaceUpdates": {"supported": True, "minVersionForUpdate": "0.9.0"},
            },
            {"version": "1.1.0", "cri": [{"name": "containerd"}], "capabilityFlavors": [{"architecture": ["amd64"]}]},
        ],
    }
]
_MACHINE_TYPE: Final = {
    "name": "large",
    "cpu": "2",
    "gpu": "0",
    "memory": "8Gi",
    "usable": True,
    "architecture": "amd64",
    "capabilities": {"architecture": ["amd64"], "network": ["fast"]},
    "storage": {"class": "standard", "type": "fast", "minSize": "10Gi"},
}
_VOLUME_TYPE: Final = {"name": "fast", "class": "premium", "minSize": "10Gi", "usable": True}
_CLOUD_PROFILE: Final = {
    "type": "local",
    "kubernetes": {"versions": _VERSIONS},
    "machineImages": _IMAGES,
    "machineTypes": [_MACHINE_TYPE],
    "volumeTypes": [_VOLUME_TYPE],
    "regions": [
        {
            "name": "here",
            "zones": [{"name": "a", "unavailableMachineTypes": ["small"], "unavailableVolumeTypes": ["slow"]}],
            "labels": {"tier": "one"},
            "accessRestrictions": [{"name": "eu"}],
        }
    ],
    "machineCapabilities": [
        {"name": "architecture", "values": ["amd64", "arm64"]},
        {"name": "network", "values": ["fast", "slow"]},
    ],
    "seedSelector": {
        "matchLabels": {"a": "b"},
        "matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}],
        "providerTypes": ["*"],
    },
    "bastion": {"machineImage": {"name": "ubuntu", "version": "1.0.0"}, "machineType": {"name": "large"}},
    "limits": {"maxNodesTotal": 100},
    "controlPlane": {"allowZonePinning": True},
    "providerConfig": {"any": ["thing"]},
}
_OVERRIDE: Final = [{"classification": "expired", "startTime": "2032-01-01T00:00:00Z"}]
_NAMESPACED: Final = {
    "parent": {"kind": "CloudProfile", "name": "parent"},
    "kubernetes": {"versions": [{"version": "1.30.0", "lifecycle": _OVERRIDE}]},
    "machineImages": [
        {"name": "ubuntu", "updateStrategy": "patch", "versions": [{"version": "1.0.0", "lifecycle": _OVERRIDE}]},
        {**_IMAGES[0], "name": "own"},
    ],
    "machineTypes": [{**_MACHINE_TYPE, "name": "own"}],
    "volumeTypes": [{**_VOLUME_TYPE, "name": "own"}],
    "limits": {"maxNodesTotal": 50},
    "providerConfig": {"any": ["thing"]},
}
_SHOOT: Final = {
    "cloudProfile": {"kind": "CloudProfile", "name": "parent"},
    "kubernetes": {"version": "1.31.0"},
    "region": "here",
    "accessRestrictions": [{"name": "eu"}],
    "controlPlane": {"zones": ["a"]},
    "maintenance": {
        "autoUpdate": {"kubernetesVersion": True, "machineImageVersion": True},
        "timeWindow": {"begin": "220000+0100", "end": "230000+0100"},
    },
    "provider": {
        "type": "local",
        "workers": [
            {
                "name": "pool",
                "kubernetes": {"version": "1.31.0"},
                "machine": {
                    "type": "large",
                    "architecture": "amd64",
                    "image": {"name": "ubuntu", "version": "1.0.0"},
                },
                "cri": {"name": "containerd", "containerRuntimes": [{"type": "gvisor"}]},
                "minimum": 1,
                "maximum": 2,
                "updateStrategy": "AutoRollingUpdate",
                "volume": {"type": "fast", "size": "20Gi"},
                "zones": ["a"],
            }
        ],
    },
    "networking": {"type": "x"},
}
_SPECS: Final = {"CloudProfile": _CLOUD_PROFILE, "NamespacedCloudProfile": _NAMESPACED, "Shoot": _SHOOT}


def whole(kind: str, version: str, name: str = "hostile") -> Document:
    """Return a whole object, of which admission has nothing to say."""
    metadata = {"name": name, "labels": {"a": "b"}, "annotations": {"a": "b"}}
    if kind != "CloudProfile":
        metadata["namespace"] = "default"
    obj = {"apiVersion": f"{GROUP}/{HUB}", "kind": kind, "metadata": metadata, "spec": copy.deepcopy(_SPECS[kind])}
    return at_version(obj, version)


PARENTS: Final = (
    whole("CloudProfile", HUB, "parent"),
    whole("NamespacedCloudProfile", HUB, "child")
    | {"status": {"cloudProfileSpec": render(_CLOUD_PROFILE, _NAMESPACED)}},
)
"""The profiles that the objects refer to."""


@dataclass(frozen=True)
class HostileRequest:
    """A request that creates an object, or replaces ``old``."""

    seed: int
    new: Document
    old: Document | None


def hostile(seeds: range, *, damaged: bool = True) -> Iterator[HostileRequest]:
    """Yield a request for each seed; ``damaged`` lets some of the stored objects be damaged too."""
    for seed in seeds:
        draw = random.Random(seed)
        kind, version = draw.choice(tuple(_SPECS)), draw.choice((OLD, HUB))
        new, old = whole(kind, version), None
        if draw.random() < _HALF:
            old = whole(kind, version)
            if damaged and draw.random() < _FEW:
                _damage(old, draw)
        if kind == "Shoot" and draw.random() < _HALF:
            new["spec"] |= {"cloudProfile": {"kind": "NamespacedCloudProfile", "name": "child"}}
            new["spec"].pop("cloudProfileName", None)
        for _ in range(draw.choice((1, 1, 2, 3))):
            _damage(new, draw)
        yield HostileRequest(seed, new, old)


_HALF, _FEW = 0.5, 0.25


def _damage(obj: Document, draw: random.Random) -> None:
    """Put something hostile at one place below the spec, the metadata or the status of an object."""
    part = draw.choice(("spec", "spec", "spec", "spec", "spec", "spec", "metadata", "status"))
    obj.setdefault(part, {})
    places = [place for place in _places(obj) if place[0] == part]
    *way, last = draw.choice(places)
    at: Any = obj
    for step in way:
        at = at[step]
    match draw.randrange(8):
        case 0:
            del at[last]
        case 1:
            at[last] = copy.deepcopy(_at(obj, draw.choice(places)))
        case 2 if isinstance(at[last], list) and at[last]:
            at[last].append(copy.deepcopy(draw.choice(at[last])))
        case 3 if isinstance(at[last], dict):
            at[last][draw.choice(_NAMES)] = copy.deepcopy(draw.choice(_VALUES))
        case _:
            at[last] = copy.deepcopy(draw.choice(_VALUES))


def _at(obj: Document, place: Place) -> Any:
    at: Any = obj
    for step in place:
        at = at[step]
    return at


def _places(value: Any, place: Place = ()) -> Iterator[Place]:
    """Yield the places in an object, each before those below it; its version, kind and name stay."""
    steps: list[tuple[str | int, Any]] = []
    if isinstance(value, dict):
        steps = list(value.items())
    elif isinstance(value, list):
        steps = list(enumerate(value))
    for step, child in steps:
        below = (*place, step)
        if below not in _KEPT:
            yield below
        yield from _places(child, below)


_KEPT: Final = frozenset({("apiVersion",), ("kind",), ("metadata",), ("metadata", "name"), ("metadata", "namespace")})

_STASH: Final = f"{GROUP}/conversion-stash"
_NAMES: Final = (
    "",
    "name",
    "version",
    "lifecycle",
    "classification",
    "expirationDate",
    "zones",
    "versions",
    "caBundle",
    "é",
    _STASH,
)

_VALUES: Final[tuple[Any, ...]] = (
    None,
    True,
    False,
    0,
    -1,
    1.5,
    1.31,
    2**70,
    1e300,
    "",
    "x",
    "é",
    "\u0000",
    "1",
    "1.31",
    "v1.0.0",
    "1.0.0-rc.1",
    "9" * 5000,
    f"1.{'9' * 5000}",
    "1e99999999999",
    "-1",
    "1Gi",
    "0001-01-01T00:00:00Z",
    "0001-01-01T00:00:00+14:00",
    "9999-12-31T23:59:59-12:00",
    "2025-02-30T00:00:00Z",
    "expired",
    "unavailable",
    "ubuntu",
    "-----BEGIN CERTIFICATE-----\né\n-----END CERTIFICATE-----",
    '{"v":1}',
    [],
    {},
    [None],
    [[]],
    [{}],
    [True],
    ["a", "a"],
    [{"name": "a"}],
    [{"name": ["a"]}],
    [{"version": {"version": "1.0.0"}}],
    [{"version": "1.31.0", "lifecycle": [{"startTime": "0001-01-01T00:00:00Z"}]}],
    [{"classification": "preview", "startTime": "0001-01-01T00:00:00Z"}],
    [{"classification": "supported", "startTime": "0001-01-01T00:00:00+14:00"}],
    {"name": "a"},
    {"": {}},
    {"a": {"a": {"a": None}}},
    [[[[[["deep"]]]]]],
)
