"""The content of this benchmark's cluster: one CloudProfile, NamespacedCloudProfiles on it, and Shoots. Pure.

Each NamespacedCloudProfile moves the end of one Kubernetes version and of one image version. Every second Shoot uses a
NamespacedCloudProfile, the others the CloudProfile itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from restow.cloudprofile.objects import CLOUD_PROFILE, GROUP, HUB, NAMESPACED_CLOUD_PROFILE, RESOURCES, SHOOT

__all__ = [
    "FULL",
    "PARENT",
    "QUICK",
    "USUAL",
    "Sizes",
    "changed_profile",
    "children",
    "profile",
    "shoot",
    "shoots",
    "stored",
]

Json = dict[str, Any]

PARENT: Final = "large"
_NAMESPACE: Final = "default"
_MADE: Final = "2026-01-01T00:00:00Z"
_MINORS: Final = 10
_IMAGES: Final = 20
_LATEST: Final = [
    {"classification": "supported"},
    {"classification": "deprecated", "startTime": "2098-01-01T00:00:00Z"},
]
_FORMER: Final = [
    {"classification": "supported"},
    {"classification": "deprecated", "startTime": "2025-01-01T00:00:00Z"},
    {"classification": "expired", "startTime": "2099-01-01T00:00:00Z"},
]
_EXPIRING: Final = [
    {"classification": "supported"},
    {"classification": "expired", "startTime": "2099-01-01T00:00:00Z"},
]
_LATER: Final = [{"classification": "expired", "startTime": "2099-06-01T00:00:00Z"}]
_ONE_IN: Final = 10
"""One image version in this number has a lifecycle; the API server stores at most 1.5 MiB of an object."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """The number of versions in the CloudProfile, and of objects that use it."""

    kubernetes: int
    images: int
    children: int
    shoots: int

    def __str__(self) -> str:
        """Return the sizes as text."""
        return (
            f"{self.kubernetes} Kubernetes versions and {self.images:,} image versions, {self.children:,} "
            f"NamespacedCloudProfiles, {self.shoots:,} Shoots"
        )


FULL: Final = Sizes(250, 4_000, 1_000, 5_000)
"""An API server of Kubernetes 1.37 used 19 GB before all statuses were rendered, on a machine with 24 GB."""
USUAL: Final = Sizes(250, 1_000, 20, 1_000)
QUICK: Final = Sizes(20, 40, 5, 10)


def profile(sizes: Sizes) -> Json:
    """Return the CloudProfile."""
    return _object(CLOUD_PROFILE, PARENT, 0, _spec(sizes, "2099-01-01T00:00:00Z"))


def changed_profile(sizes: Sizes) -> Json:
    """Return the CloudProfile with a changed spec: the last image version ends later."""
    return _spec(sizes, "2099-03-01T00:00:00Z")


def children(sizes: Sizes) -> Iterator[Json]:
    """Yield the NamespacedCloudProfiles."""
    for number in range(sizes.children):
        kubernetes = _kubernetes(sizes)[number % sizes.kubernetes]["version"]
        spec = {
            "parent": {"kind": CLOUD_PROFILE, "name": PARENT},
            "kubernetes": {"versions": [{"version": kubernetes, "lifecycle": _LATER}]},
            "machineImages": [{"name": "image-0", "versions": [{"version": "1000.0.0", "lifecycle": _LATER}]}],
        }
        yield _object(NAMESPACED_CLOUD_PROFILE, f"project-{number}", 1 + number, spec)


def shoots(sizes: Sizes) -> Iterator[Json]:
    """Yield the Shoots."""
    for number in range(sizes.shoots):
        own = number % 2 == 0 and sizes.children
        yield shoot(sizes, number, f"project-{number % sizes.children}" if own else "")


def shoot(sizes: Sizes, number: int, child: str = "") -> Json:
    """Return a Shoot of a NamespacedCloudProfile, or of the CloudProfile."""
    worker = {
        "name": "pool",
        "machine": {"type": "t", "image": {"name": "image-1", "version": f"{1000 + number % _per_image(sizes)}.0.0"}},
        "minimum": 1,
        "maximum": 3,
        "zones": ["here-a"],
    }
    spec = {
        "cloudProfile": {"kind": NAMESPACED_CLOUD_PROFILE if child else CLOUD_PROFILE, "name": child or PARENT},
        "region": "here",
        "kubernetes": {"version": _kubernetes(sizes)[number % sizes.kubernetes]["version"]},
        "provider": {"type": "local", "workers": [worker]},
        "maintenance": {"timeWindow": {"begin": "220000+0000", "end": "230000+0000"}},
    }
    return _object(SHOOT, f"shoot-{number}", 100_000 + number, spec)


def stored(obj: Json) -> tuple[str, Json]:
    """Return the key of an object in etcd, and its stored form."""
    metadata = obj["metadata"]
    place = "/".join(part for part in (metadata.get("namespace"), metadata["name"]) if part)
    return f"/registry/{GROUP}/{RESOURCES[obj['kind']].plural}/{place}", obj


def _spec(sizes: Sizes, last_end: str) -> Json:
    images = []
    for image in range(_IMAGES):
        versions: list[Json] = []
        for number in range(_per_image(sizes)):
            version: Json = {"version": f"{1000 + number}.0.0", "architectures": ["amd64"]}
            if number % _ONE_IN == 0:
                version["lifecycle"] = _EXPIRING
            versions.append(version)
        images.append({"name": f"image-{image}", "updateStrategy": "major", "versions": versions})
    end = {"classification": "expired", "startTime": last_end}
    images[-1]["versions"][0]["lifecycle"] = [{"classification": "supported"}, end]
    return {
        "type": "local",
        "regions": [{"name": "here", "zones": [{"name": "here-a"}]}],
        "machineTypes": [{"name": "t", "cpu": "1", "gpu": "0", "memory": "1Gi", "architecture": "amd64"}],
        "kubernetes": {"versions": _kubernetes(sizes)},
        "machineImages": images,
    }


def _per_image(sizes: Sizes) -> int:
    return sizes.images // _IMAGES


def _kubernetes(sizes: Sizes) -> list[Json]:
    """Return the versions; of each minor, the last one is supported."""
    patches = sizes.kubernetes // _MINORS
    return [
        {"version": f"1.{25 + minor}.{patch}", "lifecycle": _LATEST if patch == patches - 1 else _FORMER}
        for minor in range(_MINORS)
        for patch in range(patches)
    ]


def _object(kind: str, name: str, number: int, spec: Json) -> Json:
    metadata: Json = {
        "name": name,
        "uid": f"00000000-0000-4000-8000-{number:012x}",
        "generation": 1,
        "creationTimestamp": _MADE,
    }
    if RESOURCES[kind].namespaced:
        metadata["namespace"] = _NAMESPACE
    if kind != SHOOT:
        metadata["finalizers"] = ["gardener"]
    return {"apiVersion": f"{GROUP}/{HUB}", "kind": kind, "metadata": metadata, "spec": spec}
