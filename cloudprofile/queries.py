"""Live queries to the API server for a profile, its children and its Shoots, for which a cache may be too old.

The server selects the objects, and lists are read in pages. Only the fields that the rules need are kept. Each query
raises KubeError if the API server refuses a request or cannot be reached.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import msgspec

from restow.cloudprofile.objects import (
    CLOUD_PROFILE,
    NAMESPACED_CLOUD_PROFILE,
    NAMESPACED_CLOUD_PROFILES,
    RESOURCES,
    SHOOTS,
    Object,
    ProfileReference,
    parent_of,
)
from restow.cloudprofile.validation.formats import subdomain_fault
from restow.kube.cluster import Cluster
from restow.kube.errors import NotFound
from restow.kube.pager import ObjectList, Table, list_tables, list_typed_pages

_SHOOTS_PAGE: Final = 500
_SPECS_PAGE: Final = 250
_WHOLE_PAGE: Final = 50  # a NamespacedCloudProfile has up to a megabyte, nearly all of it status
_SPEC_COLUMN: Final = "Spec"


class _ShootSpec(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    cloud_profile: dict[str, Any] | None = None
    kubernetes: dict[str, Any] | None = None
    provider: dict[str, Any] | None = None


class _Metadata(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    name: str = ""
    namespace: str = ""
    deletion_timestamp: str | None = None


class _Shoot(msgspec.Struct, frozen=True):
    metadata: _Metadata
    spec: _ShootSpec = _ShootSpec()


class NamedObject(msgspec.Struct, frozen=True):
    """The metadata of an object that the rules need."""

    metadata: _Metadata


class _Profile(msgspec.Struct, frozen=True):
    metadata: _Metadata
    spec: dict[str, Any] = {}


_shoots: Final = msgspec.json.Decoder(ObjectList[_Shoot])
_profiles: Final = msgspec.json.Decoder(ObjectList[_Profile])
_tables: Final = msgspec.json.Decoder(Table[NamedObject])
_spec: Final = msgspec.json.Decoder(dict[str, Any])


async def find_profile(cluster: Cluster, reference: ProfileReference) -> Object | None:
    """Return a profile, read from the API server, or None if it does not exist.

    A reference of another kind, or with a name that no object can have, refers to nothing and costs no request.
    """
    if reference.kind not in {CLOUD_PROFILE, NAMESPACED_CLOUD_PROFILE} or subdomain_fault(reference.name):
        return None
    resource = RESOURCES[reference.kind]
    try:
        reply = await cluster.get(resource, reference.name, reference.namespace or None)
    except NotFound as error:
        if error.names(resource.plural, reference.name):
            return None
        raise
    found: Object = reply.json()
    return found


async def children_of(cluster: Cluster, parent: str) -> list[Object]:
    """List the NamespacedCloudProfiles of a CloudProfile, without their statuses.

    The API server cannot list specs alone. But the CRD declares the spec as a column, and a list as a table contains
    that column as JSON. So the server sends a kilobyte of each object instead of half a megabyte. If the server has
    another CRD without the column, the whole objects are read.
    """
    selector = _selector({"spec.parent.name": parent})
    found: list[Object] = []
    async for table in list_tables(cluster, NAMESPACED_CLOUD_PROFILES, _tables, limit=_SPECS_PAGE, params=selector):
        read = read_specs(table, parent)
        if read is None:
            pages = list_typed_pages(cluster, NAMESPACED_CLOUD_PROFILES, _profiles, limit=_WHOLE_PAGE, params=selector)
            return [msgspec.to_builtins(item) async for page in pages for item in page]
        found += read
    return found


def read_specs(table: Table[NamedObject], parent: str) -> list[Object] | None:
    """Return the objects of a table with their specs, None if a row does not show the spec of a child of ``parent``."""
    column = table.column(_SPEC_COLUMN)
    found: list[Object] = []
    for row in table.rows or ():
        try:
            spec = _spec.decode(row.cells[column]) if column is not None else {}
        except (msgspec.DecodeError, TypeError, IndexError):
            return None
        if parent_of({"spec": spec}).name != parent:
            return None
        found.append({"metadata": msgspec.to_builtins(row.object.metadata), "spec": spec})
    return found


async def shoots_of(cluster: Cluster, reference: ProfileReference) -> list[Object]:
    """List the Shoots that use a profile, with their versions and worker pools."""
    fields = {"spec.cloudProfile.name": reference.name, "spec.cloudProfile.kind": reference.kind}
    return await _list_shoots(cluster, fields, reference.namespace or None)


async def shoots_of_family(cluster: Cluster, parent: str, children: Iterable[Object]) -> list[Object]:
    """List the Shoots that use a CloudProfile and, if it has children, those of all NamespacedCloudProfiles.

    There may be a thousand children, so one list for all of them replaces one list for each.
    """
    found = await shoots_of(cluster, ProfileReference(CLOUD_PROFILE, parent))
    if any(True for _ in children):
        found += await _list_shoots(cluster, {"spec.cloudProfile.kind": NAMESPACED_CLOUD_PROFILE}, None)
    return found


async def _list_shoots(cluster: Cluster, fields: dict[str, str], namespace: str | None) -> list[Object]:
    pages = list_typed_pages(cluster, SHOOTS, _shoots, namespace, limit=_SHOOTS_PAGE, params=_selector(fields))
    return [msgspec.to_builtins(item) async for page in pages for item in page]


def _selector(fields: dict[str, str]) -> dict[str, str]:
    return {"fieldSelector": ",".join(f"{field}={value}" for field, value in fields.items())}
