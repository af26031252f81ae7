"""Removes a webhook: the CRDs that call it return to the strategy None, and restow's objects for it are deleted.

A CRD that names a removed webhook blocks its objects, their namespaces and the garbage collector of the whole cluster,
so call this before an uninstall. ``unwire`` writes only after a proof that no object needs the webhook
(``webhook_need``).

With the strategy None an API server changes only the apiVersion of an object. This is right for objects that are stored
and read at one version. If there are more versions, it is right for objects that have the same content at each of them.
Schemas do not show this, because a webhook may convert between equal schemas, for example units. Therefore each object
is read at each version, by a GET: an API server answers a LIST from its watch cache, whose objects were converted when
they were written. ``status.storedVersions`` does not show where objects are stored, because every client may trim it.
The caller passes the proof that a migration leaves (``MayBeStored``).

A running server would wire its CRDs again within a second. ``unwire`` therefore sets the annotation
``restow.dev/unwired`` on the CRD, and running servers leave such a CRD alone (`ca.targets`).

A server is called at the Service or URL that it is given by, and at a URL with a DNS name of that Service. Nothing
relates any other URL to a Service, but its CA bundle shows whose certificate the API server expects there.

Rights: get and patch on the customresourcedefinitions, list and get on their objects. For ``remove_server`` list on the
customresourcedefinitions, on webhook configurations and optionally on compositeresourcedefinitions, delete on webhook
configurations, get and delete on the server's two Secrets, list and delete on Leases of its namespace.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import logging
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, TypeAlias

import msgspec

from restow.conversion.certificates.apply import read_crd, read_definition, resource_of, until_written
from restow.conversion.certificates.wiring.clientconfig import (
    NO_BUNDLE,
    Address,
    Bundle,
    BundleError,
    Service,
    address_in,
    bundle_in,
    names_server,
)
from restow.conversion.certificates.wiring.configuration import is_alone_ours
from restow.conversion.certificates.wiring.crd import (
    COMPOSITES,
    UNWIRED,
    Definition,
    composite_of,
    foreign_webhook,
    resource_of_definition,
)
from restow.conversion.certificates.wiring.fieldmanagers import FIELD_MANAGER, MANAGED_BY
from restow.conversion.explain.model import leaves
from restow.conversion.model.errors import WiringRefused
from restow.conversion.model.fieldpath import pointer
from restow.conversion.model.values import ABSENT, same
from restow.crds import Crd
from restow.crds.conversionrules import CONVERSION_RULES
from restow.kube import Cluster, PatchType, Resource
from restow.kube.clock import SYSTEM_CLOCK
from restow.kube.errors import ApiError, Forbidden, Invalid, KubeError, NotFound, first_error
from restow.kube.pager import list_pages
from restow.kube.resources import CRDS, LEASES, SECRETS, merge_patch, qualified_name

_log = logging.getLogger(__name__)

MayBeStored: TypeAlias = Callable[[Crd], Sequence[str]]
"""Returns the versions at which objects of a CRD may be stored: ``restow.migrator.may_be_stored``."""

_ATTEMPTS: Final = 8  # to read an object at two versions at one resourceVersion
_OBJECTS: Final = 250  # of a page
_AT_ONCE: Final = 8
_NAMED: Final = 5  # the most objects that a reason names


@dataclass(frozen=True, slots=True)
class WebhookNeed:
    """Whether the objects of a CRD need its webhook.

    Attributes:
        reason: why they need it, or why this is not known, a sentence without its full stop; empty if none needs it.
        notes: the consequences of the strategy None, each a sentence.
    """

    reason: str = ""
    notes: tuple[str, ...] = ()


async def webhook_need(cluster: Cluster, crd: Crd, may_be_stored: MayBeStored) -> WebhookNeed:
    """Return whether the objects of a CRD that was just read need its webhook.

    The answer holds for the CRD as read: a write that relies on it needs the CRD's resourceVersion as precondition.

    Raises:
        KubeError: the API server refuses a request, or cannot be reached.
    """
    stored = may_be_stored(crd)
    if {crd.storage.name, *crd.served, *stored} == {crd.storage.name}:
        return WebhookNeed()
    try:
        hidden = next((version for version in stored if version not in crd.served), "")
        if hidden and (not crd.served or await _has_objects(cluster, crd)):
            return WebhookNeed(_unproved(crd, hidden))
        if len(crd.served) < 2:
            return WebhookNeed()
        return await _compare(cluster, crd, stored)
    except ApiError as error:
        if "conversion webhook for " not in error.said and "(re)initializing" not in error.said:
            raise
        return WebhookNeed(
            f"it is not known whether objects of {crd.name} need its webhook, because it does not convert them: "
            f"{error}. Repair the webhook, and try again"
        )


async def _has_objects(cluster: Cluster, crd: Crd) -> bool:
    return bool((await cluster.list_page(crd.resource_at(crd.served[0]), params={"limit": "1"})).json()["items"])


def _unproved(crd: Crd, hidden: str) -> str:
    if hidden == crd.storage.name:
        return f"{crd.name} does not serve its storage version {hidden}, so its objects cannot be compared: serve it"
    return (
        f"objects of {crd.name} may be stored at {hidden}, which cannot be read: run restow migrate {crd.name}, which "
        f"stores them at {crd.storage.name} and leaves a proof"
    )


async def _compare(cluster: Cluster, crd: Crd, stored: Sequence[str]) -> WebhookNeed:
    """Compare each object at each version at which it may be stored with the same object at the other versions."""
    number = 0
    for source in [version for version in crd.served if version in stored] or crd.served[:1]:
        number = 0
        async for page in list_pages(cluster, crd.resource_at(source), limit=_OBJECTS):
            number += len(page)
            for other in (version for version in crd.served if version != source):
                if found := await _differences(cluster, crd, source, other, page):
                    return WebhookNeed(_needed(crd, source, other, found, proved=len(stored) == 1))
    note = (
        f"no object of {crd.name} differs between {', '.join(crd.served)}; {number} "
        f"{'was' if number == 1 else 'were'} read. Objects that clients write from now on are not converted: stop "
        f"serving {', '.join(version for version in crd.served if version != crd.storage.name)}"
    )
    return WebhookNeed(notes=(note,))


def _needed(crd: Crd, source: str, other: str, found: Sequence[str], *, proved: bool) -> str:
    named = ", ".join(found[:_NAMED]) + (", …" if len(found) > _NAMED else "")
    drop = source if other == crd.storage.name else other
    return (
        f"{crd.name} needs its webhook: objects differ between {source} and {other} ({named}). "
        f"{'S' if proved else f'Run restow migrate {crd.name}, and s'}top serving {drop}: restow ready {crd.name} "
        f"--drop {drop} says whether it may go"
    )


async def _differences(
    cluster: Cluster, crd: Crd, source: str, other: str, page: Sequence[Mapping[str, Any]]
) -> list[str]:
    """Return the objects of a page that differ at another version, each with its first difference."""
    turns = asyncio.Semaphore(_AT_ONCE)

    async def compare(obj: Mapping[str, Any]) -> str:
        async with turns:
            return await _difference(cluster, crd, source, other, obj)

    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(compare(obj)) for obj in page]
    except ExceptionGroup as errors:
        raise first_error(errors) from None
    return [difference for task in tasks if (difference := task.result())]


async def _difference(cluster: Cluster, crd: Crd, source: str, other: str, obj: Mapping[str, Any]) -> str:
    """Return an object's name and first difference; empty if it is the same at both versions, or gone."""
    namespace, name = obj["metadata"].get("namespace"), obj["metadata"]["name"]
    for _ in range(_ATTEMPTS):
        try:
            found = (await cluster.get(crd.resource_at(other), name, namespace)).json()
            if found["metadata"]["resourceVersion"] != obj["metadata"]["resourceVersion"]:
                obj = (await cluster.get(crd.resource_at(source), name, namespace)).json()
                continue
        except NotFound as error:
            if error.names(crd.plural, name):
                return ""
            raise  # the version itself is not served
        left, right = (dict(leaves(_content(each))) for each in (obj, found))
        for place in dict.fromkeys((*left, *right)):
            if not same(left.get(place, ABSENT), right.get(place, ABSENT)):
                return f"{qualified_name(namespace, name)} at {pointer(place)}"
        return ""
    return f"{qualified_name(namespace, name)}, which is written too often to be compared"


def _content(obj: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a webhook may convert; only the labels and annotations of metadata are."""
    content = {name: value for name, value in obj.items() if name not in ("apiVersion", "kind", "metadata")}
    metadata = obj["metadata"]
    return content | {"metadata": {each: metadata.get(each) or {} for each in ("labels", "annotations")}}


_LEASE_NAMES: Final = "restow-"


@dataclass(frozen=True, slots=True)
class Unwired:
    """The result of ``unwire``.

    Attributes:
        changed: whether the CRD was written; False if its strategy was None already.
        notes: consequences of the change, each a sentence.
    """

    changed: bool
    notes: tuple[str, ...] = ()


@dataclass(slots=True)
class Removal:
    """The result of ``remove_server``.

    Attributes:
        removed: the objects that it removed, each ``<kind> <namespace>/<name>``.
        kept: the objects that it left and the reasons, each a sentence.
    """

    removed: list[str] = field(default_factory=list)
    kept: list[str] = field(default_factory=list)


async def unwire(
    cluster: Cluster,
    name: str,
    may_be_stored: MayBeStored,
    *,
    composite: str = "",
    although_needed: bool = False,
    dry_run: bool = False,
    now: Callable[[], datetime] = SYSTEM_CLOCK.now,
) -> Unwired:
    """Return a CRD to the conversion strategy None, as before an uninstall.

    Args:
        cluster: the API server.
        name: the name of the CRD.
        may_be_stored: ``restow.migrator.may_be_stored``.
        composite: the apiVersion of the CompositeResourceDefinition from which Crossplane makes the CRD. If it is set,
            the CompositeResourceDefinition is written, and Crossplane copies it. If it is empty, the owner reference of
            the CRD decides which of the two is written.
        although_needed: skip the proof. Objects are then read without the fields that their version does not declare,
            and each write at such a version stores that loss. It frees a namespace whose webhook is gone for good.
        dry_run: read, and write nothing.
        now: the time, for the annotation.

    Raises:
        WiringRefused: there is no such CRD, or objects would be read or written wrongly without the webhook.
        CrdError: the CRD is malformed.
        KubeError: the API server refuses a request, or cannot be reached.
    """

    async def attempt() -> Unwired:
        crd, by, claims = await read_crd(cluster, name), composite, ""
        live: Crd | Definition = crd
        if by := by or composite_of(crd.document):
            live = definition = await read_definition(cluster, name, by)
            # After the definition, whose resourceVersion is the precondition of the write.
            crd, claims = await read_crd(cluster, name), definition.claims
        if live.strategy == "None":
            return Unwired(changed=False)
        await _check_rules(cluster, crd)
        notes: tuple[str, ...] = ()
        if not although_needed:
            for each in (crd, *([await read_crd(cluster, claims)] if claims else [])):
                need = await webhook_need(cluster, each, may_be_stored)
                if need.reason:
                    raise WiringRefused(need.reason)
                notes += need.notes
        if not dry_run:
            stamp = now().isoformat(timespec="milliseconds")
            metadata = {"uid": live.uid, "resourceVersion": live.resource_version, "annotations": {UNWIRED: stamp}}
            conversion = {"strategy": "None", "webhook": None}
            await _merge(cluster, resource_of_definition(by), name, metadata, conversion, FIELD_MANAGER)
            _log.info("%s: conversion strategy None", name)
        return Unwired(changed=True, notes=notes)

    return await until_written(name, "unwire it", attempt)


async def _merge(
    cluster: Cluster,
    resource: Resource,
    name: str,
    metadata: Mapping[str, Any],
    conversion: Mapping[str, Any],
    manager: str,
) -> None:
    """Write a part of ``spec.conversion``: a merge patch also removes fields that other managers wrote."""
    await cluster.patch(
        resource,
        name,
        msgspec.json.encode({"metadata": metadata, "spec": {"conversion": conversion}}),
        patch_type=PatchType.MERGE,
        params={"fieldManager": manager} if manager else {},
        metadata_only=True,
    )


def names(live: Crd | Definition, server: Address) -> bool:
    """Return whether a CRD, or an XRD, calls the webhook at an address, and no other project's on the same host."""
    address = address_in(live.webhook)
    return address is not None and address.server == server.server and foreign_webhook(live, server) is None


async def put_back(
    cluster: Cluster, name: str, former: Mapping[str, Any], server: Address, *, manager: str = "", composite: str = ""
) -> bool:
    """Put back the ``spec.conversion`` that a takeover replaced, in one write; return whether it was written.

    Nothing is written unless the CRD still calls the webhook at the address ``server``.

    Args:
        cluster: the API server.
        name: the name of the CRD.
        former: the whole ``spec.conversion``.
        server: the address that took over.
        manager: the field manager that had written it, and owns its fields again; the client's name if it is empty.
        composite: as for ``unwire``.

    Raises:
        WiringRefused: there is no such CRD, the API server does not take the former conversion any more, or other
            writers change the CRD without pause.
        KubeError: the API server refuses a request, or cannot be reached.
    """

    async def attempt() -> bool:
        live = await read_definition(cluster, name, composite)
        if not names(live, server):
            return False
        metadata = {"uid": live.uid, "resourceVersion": live.resource_version}
        conversion = merge_patch(live.conversion, former)
        try:
            await _merge(cluster, resource_of_definition(composite), name, metadata, conversion, manager)
        except Invalid as error:
            raise WiringRefused(f"the API server does not take what {name} had before: {error.findings}") from error
        _log.info("%s: its former spec.conversion is put back", name)
        return True

    return await until_written(name, "put it back", attempt)


async def _check_rules(cluster: Cluster, crd: Crd) -> None:
    """Raise WiringRefused if ConversionRules of the cluster keep the CRD wired, because they would wire it again."""
    try:
        rules = (await cluster.list_page(CONVERSION_RULES)).json()["items"]
    except (NotFound, Forbidden):
        return  # the cluster has none, or this user may not see them
    for each in rules:
        target = (each.get("spec") or {}).get("target") or {}
        leaving = "deletionTimestamp" in each["metadata"]  # the operator that handles the deletion unwires the CRD
        if not leaving and (target.get("group"), target.get("kind")) == (crd.group, crd.kind):
            name = each["metadata"]["name"]
            raise WiringRefused(
                f"{crd.name} is wired by the ConversionRules {name}: delete these (kubectl delete conversionrules "
                f"{name}); their operator unwires the CRD then, where that is safe"
            )


CONFIGURATIONS: Final = ("ValidatingWebhookConfiguration", "MutatingWebhookConfiguration")
_DEFINITIONS: Final = 100  # of a page


async def crds_of(cluster: Cluster, server: Address) -> tuple[str, ...]:
    """Return the names of the CRDs that call a server, whatever the path.

    Raises:
        KubeError: the API server refuses a request, or cannot be reached.
    """
    found = [(each.name, address_in(each.webhook)) async for each in _definitions(cluster, CRDS)]
    return tuple(name for name, address in found if address is not None and names_server(address, server))


async def obstacles(
    cluster: Cluster, server: Address, namespace: str, secret: str, *, unwired: Collection[str] = ()
) -> tuple[str, ...]:
    """Return what keeps the objects of a server in use, as sentences: who still calls it, or trusts its CA.

    Webhook configurations that restow alone wrote for this server do not count, because they go with it.

    Args:
        cluster: the API server.
        server: the server's address; the path does not matter.
        namespace, secret: the namespace and the name of the Secret with its certificate; empty if there is none.
        unwired: CRDs, and webhook configurations, that do not count, because they are about to be unwired or removed.

    Raises:
        KubeError: the API server refuses a request, or cannot be reached.
    """
    authorities = await _authorities(cluster, namespace, f"{secret}-ca") if secret else NO_BUNDLE
    here: list[str] = []
    elsewhere: dict[str, list[str]] = {}
    async for name, webhook in _webhooks(cluster, server, unwired):
        address = address_in(webhook)
        if address is not None and names_server(address, server):
            here.append(name)
        elif address is not None and bundle_in(webhook)[0] & authorities:
            elsewhere.setdefault(_flag(address), []).append(name)
    found = [f"the {server} is still called by {_listed(here)}: unwire or delete these first"] if here else []
    for flag, names in elsewhere.items():
        found.append(
            f"{_listed(names)}, at {flag}, rely on the CA in the Secret {qualified_name(namespace, secret)}-ca, which "
            f"would be removed: run restow unwire --server {flag} instead, or add --keep-server"
        )
    return tuple(found)


async def _webhooks(
    cluster: Cluster, server: Address, unwired: Collection[str]
) -> AsyncIterator[tuple[str, Mapping[str, Any] | None]]:
    """Yield each webhook that stays, with the name of its object."""
    async for crd in _definitions(cluster, CRDS):
        if crd.name not in unwired:
            yield f"the CRD {crd.name}", crd.webhook
    try:
        async for each in _definitions(cluster, COMPOSITES):
            if not {each.name, each.claims} & {*unwired}:
                yield f"the CompositeResourceDefinition {each.name}", each.webhook
    except (NotFound, Forbidden):
        pass  # without Crossplane there are none; the CRDs that it makes of them name the same webhook
    for kind in CONFIGURATIONS:
        for live in (await cluster.list_page(resource_of(kind))).json()["items"]:
            if not is_alone_ours(live, server) and live["metadata"]["name"] not in unwired:
                for hook in live.get("webhooks") or ():
                    yield f"the {kind} {live['metadata']['name']}", hook


async def _definitions(cluster: Cluster, resource: Resource) -> AsyncIterator[Definition]:
    """Yield the definitions that are converted by a webhook."""
    async for page in list_pages(cluster, resource, limit=_DEFINITIONS):
        for each in map(Definition.of, page):
            if each.webhook is not None:
                yield each


async def _authorities(cluster: Cluster, namespace: str, name: str) -> Bundle:
    """Return all CA certificates of a Secret; none if it cannot be read, because then it is not removed either."""
    try:
        data = (await cluster.get(SECRETS, name, namespace)).json().get("data") or {}
    except (NotFound, Forbidden):
        return NO_BUNDLE
    found = NO_BUNDLE
    for key, text in data.items():
        if key.endswith(".crt"):
            try:
                found |= Bundle.from_pem(base64.b64decode(text))
            except (BundleError, binascii.Error):
                continue
    return found


def _flag(address: Address) -> str:
    """Return the value of ``--server`` for an address."""
    if isinstance(address, Service):
        return qualified_name(address.namespace, address.name)
    host = f"[{address.host}]" if ":" in address.host else address.host
    return f"https://{host}:{address.port}"


def _listed(names: list[str]) -> str:
    return ", ".join(dict.fromkeys(names))


async def remove_server(
    cluster: Cluster,
    server: Address,
    namespace: str = "",
    secret: str = "",
    *,
    unwired: Collection[str] = (),
    dry_run: bool = False,
) -> Removal:
    """Remove restow's objects for a server that no CRD calls any more.

    These are webhook configurations of which restow alone wrote all webhooks, if all are at this server; the Secrets of
    its certificate and its CA, if they have restow's label; and the released Leases of restow in its namespace. While
    another object calls the server or relies on its CA (``obstacles``), nothing is removed.

    Args:
        cluster: the API server.
        server: the server's address; the path does not matter.
        namespace, secret: the namespace of its Secrets and Leases, and the name of the Secret with its certificate; by
            default those of the Service. For a URL both are needed; otherwise Secrets and Leases stay.
        unwired: CRDs that do not count, because they are about to be unwired.
        dry_run: read, and remove nothing.

    Raises:
        KubeError: the API server cannot be reached.
    """
    done = Removal()
    try:
        await _remove(cluster, server, done, namespace, secret, unwired, dry_run=dry_run)
    except Forbidden as error:
        done.kept.append(f"what restow keeps for the {server} stays: {error}")
    return done


async def _remove(
    cluster: Cluster,
    server: Address,
    done: Removal,
    namespace: str,
    secret: str,
    unwired: Collection[str],
    *,
    dry_run: bool,
) -> None:
    if isinstance(server, Service):
        namespace, secret = namespace or server.namespace, secret or server.name
    done.kept += await obstacles(cluster, server, namespace, secret, unwired=unwired)
    if done.kept:
        return
    for kind in CONFIGURATIONS:
        for live in (await cluster.list_page(resource_of(kind))).json()["items"]:
            if is_alone_ours(live, server):
                await _delete(cluster, resource_of(kind), kind, live["metadata"], done, dry_run=dry_run)
    if namespace and secret:
        for name in (secret, f"{secret}-ca"):
            await _remove_secret(cluster, namespace, name, done, dry_run=dry_run)
        await _remove_leases(cluster, namespace, done, dry_run=dry_run)


async def _remove_secret(cluster: Cluster, namespace: str, name: str, done: Removal, *, dry_run: bool) -> None:
    label, value = MANAGED_BY
    try:
        metadata = (await cluster.get(SECRETS, name, namespace, metadata_only=True)).json()["metadata"]
    except NotFound:
        return
    except Forbidden as error:
        done.kept.append(f"the Secret {namespace}/{name} could not be looked at: {error}")
        return
    if (metadata.get("labels") or {}).get(label) != value:
        done.kept.append(f"the Secret {namespace}/{name} lacks the label {label}={value}: another owner made it")
        return
    await _delete(cluster, SECRETS, "Secret", metadata, done, dry_run=dry_run)


async def _remove_leases(cluster: Cluster, namespace: str, done: Removal, *, dry_run: bool) -> None:
    try:
        leases = (await cluster.list_page(LEASES, namespace)).json()["items"]
    except Forbidden as error:
        done.kept.append(f"the Leases of {namespace} could not be looked at: {error}")
        return
    for lease in leases:
        name, holder = lease["metadata"]["name"], (lease.get("spec") or {}).get("holderIdentity")
        if not name.startswith(_LEASE_NAMES):
            continue
        if holder:
            done.kept.append(f"the Lease {namespace}/{name} is held by {holder}: a process of restow still runs")
        else:
            await _delete(cluster, LEASES, "Lease", lease["metadata"], done, dry_run=dry_run)


async def _delete(
    cluster: Cluster, resource: Resource, kind: str, metadata: Mapping[str, Any], done: Removal, *, dry_run: bool
) -> None:
    """Delete an object as it was read; an object that another writer changed meanwhile stays."""
    namespace, name = metadata.get("namespace"), metadata["name"]
    what = f"{kind} {qualified_name(namespace, name)}"
    conditions = {"uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"]}
    try:
        if not dry_run:
            body = msgspec.json.encode({"preconditions": conditions})
            await cluster.delete(resource, name, namespace, body=body)
    except NotFound:
        return
    except KubeError as error:
        if error.out_of_reach:
            raise
        done.kept.append(f"the {what} stays: {error}")
        return
    _log.info("%s is %s", what, "to be removed" if dry_run else "removed")
    done.removed.append(what)
