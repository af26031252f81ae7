"""Resources of the API, addressed by group, version and plural, without discovery.

A CRD already names its group, versions, plural and scope. Therefore restow needs no discovery request, and has no
discovery cache that could be stale just after a CRD changed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias
from urllib.parse import quote

__all__ = [
    "CONFIG_MAPS",
    "CRDS",
    "ENDPOINT_SLICES",
    "EVENTS",
    "LEASES",
    "NAMESPACES",
    "SELF_SUBJECT_ACCESS_REVIEWS",
    "SUBJECT_ACCESS_REVIEWS",
    "Object",
    "Resource",
    "merge_patch",
    "qualified_name",
]

Object: TypeAlias = Mapping[str, Any]
"""A Kubernetes object as decoded JSON."""


def qualified_name(namespace: object, name: object) -> str:
    """Return the displayed name of an object: ``namespace/name``, or only the name without a namespace.

    The types are ``object`` because a handwritten manifest may have a number in place of a string.
    """
    return "/".join([str(part) for part in (namespace, name) if part])


@dataclass(frozen=True, slots=True)
class Resource:
    """One resource at one version: ``Resource("example.com", "v1", "widgets", namespaced=True)``."""

    group: str
    version: str
    plural: str
    namespaced: bool

    @property
    def api_version(self) -> str:
        """``group/version``, or ``version`` alone for the core group."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def full_name(self) -> str:
        """``plural.group``, as in messages and names of CRDs."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    def path(self, namespace: str | None = None, name: str | None = None, subresource: str | None = None) -> str:
        """Return the request path, already percent-encoded.

        A namespaced resource without ``namespace`` means all namespaces, which is possible only for a collection.
        """
        path = f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        if self.namespaced and namespace is not None:
            path += f"/namespaces/{quote(namespace, safe='')}"
        elif self.namespaced and name is not None:
            msg = f"{self.full_name} {name!r} is namespaced: a namespace is needed to address it"
            raise ValueError(msg)
        path += f"/{self.plural}"
        if name is not None:
            path += f"/{quote(name, safe='')}"
        return path if subresource is None else f"{path}/{subresource}"

    def describe(self, namespace: str | None = None, name: str | None = None, subresource: str | None = None) -> str:
        """Return the name for messages: ``widgets.example.com/status namespace/name``."""
        what = self.full_name + (f"/{subresource}" if subresource else "")
        if name is None:
            return f"{what} in {namespace}" if namespace else what
        return f"{what} {qualified_name(namespace, name)}"


CRDS = Resource("apiextensions.k8s.io", "v1", "customresourcedefinitions", namespaced=False)
NAMESPACES = Resource("", "v1", "namespaces", namespaced=False)
CONFIG_MAPS = Resource("", "v1", "configmaps", namespaced=True)
ENDPOINT_SLICES = Resource("discovery.k8s.io", "v1", "endpointslices", namespaced=True)
EVENTS = Resource("events.k8s.io", "v1", "events", namespaced=True)
SECRETS = Resource("", "v1", "secrets", namespaced=True)
LEASES = Resource("coordination.k8s.io", "v1", "leases", namespaced=True)
SELF_SUBJECT_ACCESS_REVIEWS = Resource("authorization.k8s.io", "v1", "selfsubjectaccessreviews", namespaced=False)
SUBJECT_ACCESS_REVIEWS = Resource("authorization.k8s.io", "v1", "subjectaccessreviews", namespaced=False)


def merge_patch(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    """Return the JSON merge patch (RFC 7386) that turns an object without nulls into another; empty if they are equal.

    It replaces whole lists, and cannot distinguish a null in ``after`` from a removed field.
    """
    gone = {name: None for name in before if name not in after}
    return gone | {
        name: merge_patch(before[name], value)
        if isinstance(value, Mapping) and isinstance(before.get(name), Mapping)
        else value
        for name, value in after.items()
        if name not in before or before[name] != value
    }
