"""Writes the wiring: webhooks and CA bundles into CRDs, and webhook configurations of admission.

Every write is a server-side apply of only the fields that differ, conditional on the object as it was read. Before a
write, the webhook that the API server would call is probed (`probe`). Nothing is written if nothing changes: any change
of a CRD's spec makes the API server rebuild all watch caches of the CRD, and convert all its objects again. With the
failure policy Fail, a configuration whose webhook does not answer stops every write to its resources.

Rights: get and patch on the customresourcedefinitions; get, patch and create (list and watch to notice changes at once)
on the mutatingwebhookconfigurations and validatingwebhookconfigurations (server-side apply creates by a patch, so that
create may also be granted by name).
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from restow.conversion.certificates.probe import HookProbe, Probe, probe, probe_hook
from restow.conversion.certificates.wiring.clientconfig import NO_BUNDLE, Bundle, address_of
from restow.conversion.certificates.wiring.configuration import is_alone_ours, plan_configuration
from restow.conversion.certificates.wiring.crd import (
    UNWIRED,
    CrdWiringPlan,
    Definition,
    Wiring,
    plan_wiring,
    resource_of_definition,
)
from restow.conversion.certificates.wiring.fieldmanagers import FIELD_MANAGER
from restow.conversion.model.errors import WiringRefused
from restow.conversion.model.values import Json
from restow.crds import Crd
from restow.kube import Cluster, PatchType, Resource
from restow.kube.errors import Conflict, Forbidden, Invalid, NotFound
from restow.kube.resources import CRDS

_log = logging.getLogger(__name__)

_ATTEMPTS: Final = 8


@dataclass(frozen=True, slots=True)
class Wired:
    """A wired CRD; ``changed`` is true if that took a write."""

    crd: Crd
    changed: bool
    notes: tuple[str, ...] = ()


async def wire(cluster: Cluster, name: str, wiring: Wiring, *, composite: str = "", probe: Probe = probe) -> Wired:
    """Make a CRD call the webhook, once the webhook answers.

    ``composite`` is the apiVersion of the CompositeResourceDefinition from which Crossplane makes the CRD. If it is
    set, the CompositeResourceDefinition is written, and Crossplane copies it.

    Raises:
        WiringRefused: the CRD does not exist or names another project's webhook, or its annotations or another manager
            of its fields forbid the wiring.
        NotAnswering: an API server would reject the webhook's answer, or there is none; try again later.
        KubeError: the API server refuses a request, or cannot be reached.
    """
    for _ in range(_ATTEMPTS):
        crd = await read_crd(cluster, name)
        plan = plan_wiring(await read_definition(cluster, name, composite) if composite else crd, wiring)
        if plan.body is None:
            return Wired(crd, changed=False, notes=plan.notes)
        await probe(crd, plan.address, plan.bundle)
        try:
            written = await _apply_crd(cluster, name, plan, resource_of_definition(composite))
        except Conflict:
            continue  # another client wrote it meanwhile: read it again
        if UNWIRED in (written["metadata"].get("annotations") or {}):
            await _drop_mark(cluster, resource_of_definition(composite), name)
        return Wired(crd if composite else Crd.from_document(written), changed=True, notes=plan.notes)
    raise WiringRefused(
        f"{name} was changed by another writer at each of {_ATTEMPTS} attempts to wire it; see its managers"
    )


async def read_crd(cluster: Cluster, name: str) -> Crd:
    """Read a CRD.

    Raises:
        WiringRefused: the cluster has no such CRD.
        CrdError: the CRD is malformed.
        KubeError: the API server refuses a request, or cannot be reached.
    """
    try:
        return Crd.from_document((await cluster.get(CRDS, name)).json())
    except NotFound as error:
        raise WiringRefused(f"there is no CRD {name} on {cluster.host}: install it before its webhook") from error


async def read_definition(cluster: Cluster, name: str, composite: str = "") -> Definition:
    """Read the parts of a CRD, or of Crossplane's CompositeResourceDefinition, that the wiring needs.

    Raises:
        WiringRefused: the cluster has no such object.
        KubeError: the API server refuses a request, or cannot be reached.
    """
    resource = resource_of_definition(composite)
    try:
        return Definition.of((await cluster.get(resource, name)).json())
    except NotFound as error:
        kind = "CompositeResourceDefinition" if composite else "CRD"
        raise WiringRefused(f"there is no {kind} {name} on {cluster.host}: install it before its webhook") from error


async def _apply_crd(cluster: Cluster, name: str, plan: CrdWiringPlan, resource: Resource) -> Json:
    # Forced, because the server counts defaults (strategy None) as fields of the manager that created the CRD. The
    # caller has checked at this very resourceVersion that no other manager applies these fields.
    params = {"fieldManager": FIELD_MANAGER} | ({} if plan.is_merge_patch else {"force": "true"})
    patch_type = PatchType.MERGE if plan.is_merge_patch else PatchType.APPLY
    body = msgspec.json.encode(plan.body)
    try:
        reply = await cluster.patch(resource, name, body, patch_type=patch_type, params=params)
    except Invalid as error:
        raise WiringRefused(f"the API server does not take the wiring of {name}: {error.findings}") from error
    certificates = "1 CA certificate" if len(plan.bundle) == 1 else f"{len(plan.bundle)} CA certificates"
    _log.info("%s: wired to %s with %s", name, plan.address, certificates)
    written: Json = reply.json()
    return written


async def _drop_mark(cluster: Cluster, resource: Resource, name: str) -> None:
    """Remove the mark of an earlier ``unwire``, which would be taken for a current one."""
    body = msgspec.json.encode({"metadata": {"annotations": {UNWIRED: None}}})
    params = {"fieldManager": FIELD_MANAGER}
    await cluster.patch(resource, name, body, patch_type=PatchType.MERGE, params=params, metadata_only=True)


_GROUP: Final = "admissionregistration.k8s.io"
_RESOURCES: Final = {
    kind: Resource(_GROUP, "v1", f"{kind.lower()}s", namespaced=False)
    for kind in ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")
}


async def install(
    cluster: Cluster,
    wanted: Mapping[str, Any],
    bundle: Bundle,
    dropped: Bundle = NO_BUNDLE,
    *,
    probe: HookProbe = probe_hook,
) -> bool:
    """Install or update a webhook configuration once its webhooks answer; return whether it changed.

    Args:
        cluster: the API server.
        wanted: the document, each webhook with its address and without ``caBundle``.
        bundle, dropped: certificates that the bundles must contain, and that they must not contain.
        probe: called for each webhook before anything is written.

    Raises:
        WiringRefused: another manager owns the configuration, or applies another address or CA bundle.
        NotAnswering: a webhook does not answer, or an API server would reject its answer; try again later.
        KubeError: the API server refuses a request, or cannot be reached.
    """
    name = f"{wanted['kind']} {wanted['metadata']['name']}"
    for _ in range(_ATTEMPTS):
        live = await read_configuration(cluster, wanted)
        plan = plan_configuration(wanted, live, bundle, dropped)
        if plan.body is None:
            return False
        for address, trusted in plan.calls:
            await probe(address, trusted)
        try:
            await _apply_configuration(cluster, plan.body, name, force=live is not None)
        except Conflict:
            continue  # another client wrote it meanwhile: read it again
        _log.info("%s: %s", name, "installed" if live is None else "brought up to date")
        return True
    raise WiringRefused(
        f"{name} was changed by another writer at each of {_ATTEMPTS} attempts to write it; see its managers"
    )


async def remove_configuration(cluster: Cluster, wanted: Mapping[str, Any], former: str = "") -> str:
    """Remove a configuration; return a sentence if the user has to delete it, else an empty text.

    It is removed only if restow alone wrote it, and if all of its webhooks are at the same server.

    Rights: get and delete on its name.

    Args:
        cluster: the API server.
        wanted: the document.
        former: the name that an earlier release gave it, to remove that configuration. Call this after the new one is
            installed: until then the old one is needed.

    Raises:
        KubeError: the API server refuses a request, or cannot be reached.
    """
    kind, name = wanted["kind"], former or wanted["metadata"]["name"]
    named = {**wanted, "metadata": {"name": name}}
    try:
        live = await read_configuration(cluster, named)
    except Forbidden as error:
        # a configuration of an earlier release most likely does not exist: rights are granted by name
        return "" if former else f"{kind} {name} may be there, and is not needed any more: delete it ({error})"
    if live is None:
        return ""
    server = address_of(wanted["webhooks"][0]["clientConfig"])
    if not is_alone_ours(live, server):
        return ""
    metadata = live["metadata"]
    conditions = {"uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"]}
    try:
        await cluster.delete(resource_of(kind), name, body=msgspec.json.encode({"preconditions": conditions}))
    except (NotFound, Conflict):
        return ""
    except Forbidden as error:
        return f"{kind} {name}{' of an earlier release' if former else ''} is not needed any more: delete it ({error})"
    _log.info("%s %s is removed", kind, name)
    return ""


def resource_of(kind: str) -> Resource:
    """Return the resource of a kind of webhook configuration."""
    return _RESOURCES[kind]


async def read_configuration(cluster: Cluster, wanted: Mapping[str, Any]) -> Json | None:
    """Read the configuration of the same kind and name; None if there is none.

    Raises:
        KubeError: the API server refuses a request, or cannot be reached.
    """
    try:
        live: Json = (await cluster.get(_RESOURCES[wanted["kind"]], wanted["metadata"]["name"])).json()
    except NotFound:
        return None
    return live


async def _apply_configuration(cluster: Cluster, body: Json, name: str, *, force: bool) -> None:
    # Forced over plain updates of address and bundle. At this very resourceVersion no other manager applies them, and
    # the body has no other field that another manager set.
    params = {"fieldManager": FIELD_MANAGER, "force": "true" if force else "false"}
    try:
        await cluster.patch(
            _RESOURCES[body["kind"]],
            body["metadata"]["name"],
            msgspec.json.encode(body),
            patch_type=PatchType.APPLY,
            params=params,
        )
    except Invalid as error:
        raise WiringRefused(f"the API server does not take the {name}: {error.findings}") from error
