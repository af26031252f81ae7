"""The parts of a profile or Shoot, whether they are there or not. Pure.

Objects come as JSON dicts, spec and all below it may be missing or null: these accessors give empty ones then.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from restow.kube import resources

__all__ = [
    "Object",
    "by_name",
    "by_version",
    "expirable_versions",
    "image_versions",
    "is_deleting",
    "kubernetes_versions",
    "machine_images",
    "qualified_name",
    "spec_of",
    "workers",
]

Object: TypeAlias = Mapping[str, Any]
"""A JSON object."""


def spec_of(obj: Object) -> Object:
    """Return an object's spec."""
    return obj.get("spec") or {}


def kubernetes_versions(spec: Object) -> Sequence[Object]:
    """Return the Kubernetes versions of a profile's spec."""
    return (spec.get("kubernetes") or {}).get("versions") or ()


def machine_images(spec: Object) -> Sequence[Object]:
    """Return the machine images of a profile's spec."""
    return spec.get("machineImages") or ()


def image_versions(image: Object) -> Sequence[Object]:
    """Return the versions of a machine image."""
    return image.get("versions") or ()


def expirable_versions(spec: Object) -> Iterator[Object]:
    """Yield every version of a profile's spec, of Kubernetes and of all images."""
    yield from kubernetes_versions(spec)
    for image in machine_images(spec):
        yield from image_versions(image)


def workers(shoot: Object) -> Sequence[Object]:
    """Return the worker pools of a Shoot."""
    return (spec_of(shoot).get("provider") or {}).get("workers") or ()


def by_name(items: Iterable[Object]) -> dict[str, Object]:
    """Return list items by their ``name``; of equal ones the last."""
    return {item.get("name") or "": item for item in items}


def by_version(versions: Iterable[Object]) -> dict[str, Object]:
    """Return versions by their ``version``, as spelled; of equal ones the last."""
    return {version.get("version") or "": version for version in versions}


def qualified_name(obj: Object) -> str:
    """Return ``namespace/name`` of a namespaced object."""
    metadata = obj.get("metadata") or {}
    return resources.qualified_name(metadata.get("namespace"), metadata.get("name"))


def is_deleting(obj: Object) -> bool:
    """Whether the deletion of an object has been asked for."""
    return bool((obj.get("metadata") or {}).get("deletionTimestamp"))
