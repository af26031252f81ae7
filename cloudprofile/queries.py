"""Live queries to the API server: a profile, its children, the Shoots that use it. A cache may be too old for these.

The server selects, and lists are read in pages. Only the fields that the rules need are kept.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from restow.cloudprofile.objects import (
    CLOUD_PROFILE,
    NAMESPACED_CLOUD_PROFILE,
    NAMESPACED_CLOUD_PROFILES,
    SHOOTS,
    Object,
    ProfileReference,
    resource_of,
)
from restow.kube.cluster import Cluster
from restow.kube.errors import NotFound

__all__ = [
    "children_of",
    "find_profile",
    "shoots_of",
    "shoots_of_family",
]


_PAGE = "500"


class _PageMeta(msgspec.Struct, frozen=True):
    continue_: str = msgspec.field(name="continue", default="")


class _ShootSpec(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    cloud_profile: dict[str, Any] | None = None
    kubernetes: dict[str, Any] | None = None
    provider: dict[str, Any] | None = None


class _ShootMetadata(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    name: str = ""
    namespace: str = ""
    deletion_timestamp: str | None = None


class _Shoot(msgspec.Struct, frozen=True):
    metadata: _ShootMetadata
    spec: _ShootSpec = _ShootSpec()


class _Shoots(msgspec.Struct, frozen=True):
    metadata: _PageMeta
    items: list[_Shoot] = []


class _Profiles(msgspec.Struct, frozen=True):
    metadata: _PageMeta
    items: list[dict[str, Any]] = []


_shoots = msgspec.json.Decoder(_Shoots)
_profiles = msgspec.json.Decoder(_Profiles)


async def find_profile(cluster: Cluster, reference: ProfileReference) -> Object | None:
    """Read a profile; None if there is none.

    Raises:
        KubeError: the API server refuses a request, or cannot be reached.
    """
    resource = resource_of(reference.kind)
    if not reference.name:
        return None
    try:
        reply = await cluster.get(resource, reference.name, reference.namespace or None)
    except NotFound as error:
        if error.names(resource.plural, reference.name):
            return None
        raise
    found: Object = reply.json()
    return found


async def children_of(cluster: Cluster, parent: str) -> list[Object]:
    """List the NamespacedCloudProfiles of a CloudProfile.

    Raises:
        KubeError: the API server refuses a request, or cannot be reached.
    """
    found: list[Object] = []
    token = ""
    while True:
        params = _page({"spec.parent.name": parent}, token)
        page = (await cluster.list_page(NAMESPACED_CLOUD_PROFILES, params=params)).decode(_profiles)
        found += page.items
        if not (token := page.metadata.continue_):
            return found


async def shoots_of(cluster: Cluster, reference: ProfileReference) -> list[Object]:
    """List the Shoots that use a profile, with their versions and worker pools.

    Raises:
        KubeError: the API server refuses a request, or cannot be reached.
    """
    fields = {"spec.cloudProfile.name": reference.name, "spec.cloudProfile.kind": reference.kind}
    return await _list_shoots(cluster, fields, reference.namespace or None)


async def shoots_of_family(cluster: Cluster, parent: str, children: Iterable[Object]) -> list[Object]:
    """List the Shoots that use a CloudProfile, and if it has children, those of all NamespacedCloudProfiles.

    One list for all children, rather than one each: there may be a thousand.

    Raises:
        KubeError: the API server refuses a request, or cannot be reached.
    """
    found = await shoots_of(cluster, ProfileReference(CLOUD_PROFILE, parent))
    if any(True for _ in children):
        found += await _list_shoots(cluster, {"spec.cloudProfile.kind": NAMESPACED_CLOUD_PROFILE}, None)
    return found


async def _list_shoots(cluster: Cluster, fields: dict[str, str], namespace: str | None) -> list[Object]:
    found: list[Object] = []
    token = ""
    while True:
        page = (await cluster.list_page(SHOOTS, namespace, params=_page(fields, token))).decode(_shoots)
        found += [msgspec.to_builtins(item) for item in page.items]
        if not (token := page.metadata.continue_):
            return found


def _page(fields: dict[str, str], token: str) -> dict[str, str]:
    selector = ",".join(f"{field}={value}" for field, value in fields.items())
    return {"fieldSelector": selector, "limit": _PAGE} | ({"continue": token} if token else {})
