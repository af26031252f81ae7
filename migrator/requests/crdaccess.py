"""Requests about the CRD itself: read and list it, prune ``status.storedVersions``, write annotations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from restow.crds import Crd, CrdError
from restow.kube.cluster import Cluster, PatchType, Reply
from restow.kube.errors import BadReply, Conflict, Forbidden, KubeError, NotFound, OutcomeUnknown
from restow.kube.pager import list_names, list_pages
from restow.kube.resources import CRDS, Resource
from restow.kube.retry import with_retries, without_retries
from restow.kube.suggestions import did_you_mean
from restow.kube.watchevents import Item
from restow.migrator.model.callbacks import MigrationRefused
from restow.migrator.ownership.entries import FIELD_MANAGER

DELETED = "{name} was deleted during the run, and its objects with it: there is nothing left to migrate"

_PAGE = 50  # a CRD can be a megabyte


async def read_crd(cluster: Cluster, name: str) -> Crd:
    """Read one CRD, with retries during outages (``restow.kube.retry``).

    Raises:
        MigrationRefused: the CRD does not exist, or the user may not read it.
        KubeError: the API server cannot be reached.
    """
    try:
        reply = await with_retries(cluster).get(CRDS, name)
    except NotFound as error:
        advice = did_you_mean(name, await known_names(cluster, CRDS))
        advice = advice or "give its full name, <plural>.<group> (kubectl get crds)"
        msg = f"there is no CRD {name!r} on {cluster.host}: {advice}"
        raise MigrationRefused(msg) from error
    except Forbidden as error:
        msg = f"no permission to get {CRDS.describe(name=name)}: {error.message}"
        raise MigrationRefused(msg) from error
    return _crd_of(reply)


async def crd_resource_version(cluster: Cluster, name: str) -> str:
    """Return the resourceVersion that a CRD has now; a cheap read, by which a change is noticed.

    Raises:
        KubeError: the CRD cannot be read.
    """
    reply = await with_retries(cluster).get(CRDS, name, metadata_only=True)
    return reply.decode(_head).metadata.resource_version


class _Metadata(msgspec.Struct, frozen=True, rename="camel"):
    resource_version: str = ""


class _Head(msgspec.Struct, frozen=True):
    metadata: _Metadata


_head = msgspec.json.Decoder(_Head)


def item_crd(item: Item) -> Crd:
    """Return the CRD of a watch event.

    Raises:
        CrdError: the CRD is malformed.
    """
    return Crd.from_document(item.json() | _TYPE)


def _crd_of(reply: Reply) -> Crd:
    """Return the CRD of an answer.

    Raises:
        BadReply: the answer is something else, as of a proxy; that is no reason to refuse the CRD.
        CrdError: the CRD is malformed.
    """
    document = reply.json()
    if not isinstance(document, dict) or document.get("kind") != _TYPE["kind"]:
        raise BadReply("the API server answered with success, and with something else than a CRD")
    return Crd.from_document(document)


async def known_names(cluster: Cluster, resource: Resource) -> list[str]:
    """Return the names of all objects of a resource, for a suggestion; none if they cannot be listed."""
    try:
        return await list_names(without_retries(cluster), resource)
    except KubeError:
        return []


async def deleted(cluster: Cluster, crd: Crd) -> str:
    """Return a sentence if the CRD was deleted since it was read, else empty, also if it cannot be read."""
    try:
        found = _crd_of(await with_retries(cluster).get(CRDS, crd.name))
    except NotFound:
        return DELETED.format(name=crd.name)
    except (KubeError, CrdError):
        return ""
    if found.uid != crd.uid:
        return f"{crd.name} was deleted during the run, and created again: run again to migrate its objects"
    return ""


async def list_crds(cluster: Cluster) -> list[Crd]:
    """Read all CRDs, sorted by name.

    Raises:
        MigrationRefused: the user may not list them.
        KubeError: the API server cannot be reached.
    """
    crds: list[Crd] = []
    try:
        async for page in list_pages(with_retries(cluster), CRDS, limit=_PAGE):
            crds += [Crd.from_document(item | _TYPE) for item in page]
    except Forbidden as error:
        msg = f"no permission to list {CRDS.full_name}: {error.message}. Give the full names of the CRDs instead"
        raise MigrationRefused(msg) from error
    return sorted(crds, key=lambda crd: crd.name)


_TYPE = {"apiVersion": CRDS.api_version, "kind": "CustomResourceDefinition"}
"""The type of a CRD, because items in a list of built-in resources lack it."""


async def patch_stored_versions(cluster: Cluster, crd: Crd, versions: Sequence[str], *, dry_run: bool = False) -> Crd:
    """Set ``status.storedVersions``, if the CRD has not changed since it was read.

    With ``dry_run``, nothing is stored.

    Raises:
        Conflict: another client wrote the CRD meanwhile. An ``OutcomeUnknown`` means that no answer came and this write
            may have been carried out. In both cases, read the CRD again and decide again.
        KubeError: the API server refuses the write for another reason, or cannot be reached.
    """
    body = {"metadata": {"resourceVersion": crd.resource_version}, "status": {"storedVersions": list(versions)}}
    reply = await with_retries(cluster).patch(
        CRDS,
        crd.name,
        msgspec.json.encode(body),
        patch_type=PatchType.MERGE,
        subresource="status",
        params=_params(dry_run=dry_run),
    )
    return _crd_of(reply)


def _params(*, dry_run: bool) -> dict[str, str]:
    return {"fieldManager": FIELD_MANAGER} | ({"dryRun": "All"} if dry_run else {})


async def annotate(
    cluster: Cluster, crd: Crd, annotations: Mapping[str, str | None], *, unchanged: bool = False, dry_run: bool = False
) -> str:
    """Write annotations of a CRD (None removes one); return the API server's message if it refuses, else empty.

    Args:
        cluster: the API server.
        crd: the CRD as read.
        annotations: the values by name.
        unchanged: whether to write only if the CRD has not changed since it was read.
        dry_run: whether to store nothing.

    Raises:
        Conflict: with ``unchanged``, another client wrote the CRD meanwhile; an ``OutcomeUnknown`` means that no answer
            came and this write may have been carried out.
    """
    if all(crd.annotations.get(name) == value for name, value in annotations.items()):
        return ""
    metadata: dict[str, object] = {"annotations": annotations}
    if unchanged:
        metadata["resourceVersion"] = crd.resource_version
    body, cluster = msgspec.json.encode({"metadata": metadata}), with_retries(cluster)
    params = _params(dry_run=dry_run)
    while True:
        try:
            await cluster.patch(CRDS, crd.name, body, patch_type=PatchType.MERGE, params=params, metadata_only=True)
        except OutcomeUnknown:
            if unchanged:
                raise
            # The second write has the same content. The cluster's patience limits the attempts.
        except Conflict:
            if unchanged:
                raise
            return f"{crd.name} was written by others at the same moment"
        except KubeError as error:
            return error.said
        else:
            return ""
