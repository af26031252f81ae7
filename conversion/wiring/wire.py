"""Puts a webhook into CRDs, keeps its CA bundle there, and takes it out again.

Every write is a server-side apply of only what differs, made conditional on the CRD as it was read; what the API server
would call is tried first (``probe``). Nothing is written where nothing changes: any change of the spec makes the API
server rebuild all watch caches of the CRD, and convert all its objects again.

Rights: get and patch on the customresourcedefinitions.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import msgspec

from restow.conversion.wiring.address import Address
from restow.conversion.wiring.bundle import Bundle
from restow.conversion.wiring.errors import Refused
from restow.conversion.wiring.fallback import why_not_none
from restow.conversion.wiring.ownership import FIELD_MANAGER
from restow.conversion.wiring.plan import Plan, Wiring, plan_wiring
from restow.conversion.wiring.probe import probe
from restow.crds import Crd
from restow.kube import Cluster, PatchType
from restow.kube.errors import Conflict, Invalid, NotFound
from restow.kube.resources import CRDS

__all__ = ["Probe", "Wired", "read_crd", "unwire", "wire"]

_log = logging.getLogger(__name__)

_ATTEMPTS = 8

Probe = Callable[[Crd, Address, Bundle], Awaitable[None]]
"""Tries a webhook for a CRD; raises NotAnswering."""


@dataclass(frozen=True, slots=True)
class Wired:
    """A CRD that says what it should; ``changed`` tells whether it had to be written for that."""

    crd: Crd
    changed: bool
    notes: tuple[str, ...] = ()


async def wire(cluster: Cluster, name: str, wiring: Wiring, *, probe: Probe = probe) -> Wired:
    """Make a CRD call the webhook, once the webhook answers.

    Raises:
        Refused: the CRD, or another manager of its fields, stands against it.
        NotAnswering: the webhook does not answer as it must; try again later.
        KubeError: the API server cannot be asked.
    """
    for _ in range(_ATTEMPTS):
        crd = await read_crd(cluster, name)
        plan = plan_wiring(crd, wiring)
        if plan.body is None:
            return Wired(crd, changed=False, notes=plan.notes)
        await probe(crd, plan.address, plan.bundle)
        try:
            return Wired(await _apply(cluster, name, plan), changed=True, notes=plan.notes)
        except Conflict:
            continue  # written meanwhile: look again
    raise Refused(f"{name} was changed by somebody else at each of {_ATTEMPTS} attempts to wire it; see its managers")


async def unwire(cluster: Cluster, name: str) -> bool:
    """Set the conversion strategy None, as before an uninstall; return whether that was a change.

    This is a merge patch, unlike the wiring: what Helm or others put there has to go too.

    Raises:
        Refused: objects would be read or written wrongly without the webhook.
        KubeError: the API server cannot be asked.
    """
    for _ in range(_ATTEMPTS):
        crd = await read_crd(cluster, name)
        if crd.strategy == "None":
            return False
        reason = why_not_none(crd)
        if reason:
            raise Refused(reason)
        body = {
            "metadata": {"uid": crd.uid, "resourceVersion": crd.resource_version},
            "spec": {"conversion": {"strategy": "None", "webhook": None}},
        }
        try:
            await cluster.patch(
                CRDS,
                name,
                msgspec.json.encode(body),
                patch_type=PatchType.MERGE,
                params={"fieldManager": FIELD_MANAGER},
                metadata_only=True,
            )
        except Conflict:
            continue
        _log.info("%s: conversion strategy None", name)
        return True
    raise Refused(f"{name} was changed by somebody else at each of {_ATTEMPTS} attempts to unwire it")


async def read_crd(cluster: Cluster, name: str) -> Crd:
    """Read a CRD.

    Raises:
        Refused: there is none.
        CrdError: it is malformed.
        KubeError: the API server refuses a request, or cannot be reached.
    """
    try:
        return Crd.from_document((await cluster.get(CRDS, name)).json())
    except NotFound as error:
        raise Refused(f"there is no CRD {name} on {cluster.host}: install it before its webhook") from error


async def _apply(cluster: Cluster, name: str, plan: Plan) -> Crd:
    # Forced, because the server counts defaults (strategy None) as fields of whoever created the CRD; that no other
    # manager applies these fields was checked on this very resourceVersion.
    params = {"fieldManager": FIELD_MANAGER, "force": "true"}
    body = msgspec.json.encode(plan.body)
    try:
        reply = await cluster.patch(CRDS, name, body, patch_type=PatchType.APPLY, params=params)
    except Invalid as error:
        raise Refused(f"the API server does not take the wiring of {name}: {error.findings}") from error
    _log.info("%s: wired to %s with %d CA certificates", name, plan.address, len(plan.bundle))
    return Crd.from_document(reply.json())
