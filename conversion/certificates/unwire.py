"""Removes a webhook: the CRDs that call it return to the strategy None, and restow's objects for it are deleted.

A CRD that names a removed webhook blocks its objects, their namespaces and the garbage collector of the whole cluster,
so call this before an uninstall. ``unwire`` writes only after a proof that no object needs the webhook (`need`).

A running server would wire its CRDs again within a second. ``unwire`` therefore sets the annotation
``restow.dev/unwired`` on the CRD, and running servers leave such a CRD alone (`ca.targets`).

Rights: get and patch on the customresourcedefinitions, list and get on their objects; for ``remove_server`` list on the
customresourcedefinitions and on webhook configurations, delete on the latter, get and delete on the server's two
Secrets, list and delete on Leases of its namespace, and those of ``callers``.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

import msgspec

from restow.conversion.certificates.apply import read_crd, read_definition, resource_of
from restow.conversion.certificates.callers import CONFIGURATIONS, SECRETS, obstacles
from restow.conversion.certificates.need import MayBeStored, webhook_need
from restow.conversion.certificates.wiring.clientconfig import Address, Service, address_in, is_same_server
from restow.conversion.certificates.wiring.configuration import is_alone_ours
from restow.conversion.certificates.wiring.crd import (
    UNWIRED,
    Definition,
    composite_of,
    foreign_webhook,
    merge_patch,
    resource_of_definition,
)
from restow.conversion.certificates.wiring.fieldmanagers import FIELD_MANAGER, MANAGED_BY
from restow.conversion.model.errors import WiringRefused
from restow.crds import Crd
from restow.crds.conversionrules import CONVERSION_RULES
from restow.kube import Cluster, PatchType, Resource
from restow.kube.clock import SYSTEM_CLOCK
from restow.kube.errors import Conflict, Forbidden, Invalid, KubeError, NotFound
from restow.kube.resources import LEASES, qualified_name

_log = logging.getLogger(__name__)

_ATTEMPTS: Final = 8
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

    Unlike the wiring, this is a merge patch: it also removes fields that Helm or another manager wrote.

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
    for _ in range(_ATTEMPTS):
        crd, claims = await read_crd(cluster, name), ""
        live: Crd | Definition = crd
        if composite := composite or composite_of(crd.document):
            live = definition = await read_definition(cluster, name, composite)
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
        if dry_run:
            return Unwired(changed=True, notes=notes)
        stamp = now().isoformat(timespec="milliseconds")
        metadata = {"uid": live.uid, "resourceVersion": live.resource_version, "annotations": {UNWIRED: stamp}}
        body = {"metadata": metadata, "spec": {"conversion": {"strategy": "None", "webhook": None}}}
        try:
            await cluster.patch(
                resource_of_definition(composite),
                name,
                msgspec.json.encode(body),
                patch_type=PatchType.MERGE,
                params={"fieldManager": FIELD_MANAGER},
                metadata_only=True,
            )
        except Conflict:
            continue
        _log.info("%s: conversion strategy None", name)
        return Unwired(changed=True, notes=notes)
    raise WiringRefused(f"{name} was changed by another writer at each of {_ATTEMPTS} attempts to unwire it")


def names(live: Crd | Definition, server: Address) -> bool:
    """Return whether a CRD, or an XRD, calls the webhook at an address, and no other project's on the same host."""
    address = address_in(live.webhook)
    return address is not None and is_same_server(address, server) and foreign_webhook(live, server) is None


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
    params = {"fieldManager": manager} if manager else {}
    for _ in range(_ATTEMPTS):
        live = await read_definition(cluster, name, composite)
        if not names(live, server):
            return False
        metadata = {"uid": live.uid, "resourceVersion": live.resource_version}
        body = {"metadata": metadata, "spec": {"conversion": merge_patch(live.conversion, former)}}
        resource, encoded = resource_of_definition(composite), msgspec.json.encode(body)
        try:
            await cluster.patch(resource, name, encoded, patch_type=PatchType.MERGE, params=params, metadata_only=True)
        except Conflict:
            continue
        except Invalid as error:
            raise WiringRefused(f"the API server does not take what {name} had before: {error.findings}") from error
        _log.info("%s: its former spec.conversion is put back", name)
        return True
    raise WiringRefused(f"{name} was changed by another writer at each of {_ATTEMPTS} attempts to put it back")


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
