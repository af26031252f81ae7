"""Writes the wiring: webhooks and CA bundles into CRDs, and webhook configurations of admission.

Every write is a server-side apply of only the fields that differ, conditional on the object as it was read. Before a
write, the webhook that the API server would call is probed (`probe`). Nothing is written if nothing changes: any change
of a CRD's spec makes the API server rebuild all watch caches of the CRD, and convert all its objects again. With the
failure policy Fail, a configuration whose webhook does not answer stops every write to its resources.

``WiredCrd`` and ``WiredConfiguration`` describe the objects that are wired; ``write_wiring`` writes either.

Rights: get and patch on the customresourcedefinitions; get, patch and create (list and watch to notice changes at once)
on the mutatingwebhookconfigurations and validatingwebhookconfigurations (server-side apply creates by a patch, so that
create may also be granted by name).
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final, Generic, TypeVar

import msgspec

from restow.conversion.certificates.probe import HookProbe, Probe, probe, probe_hook
from restow.conversion.certificates.wiring.clientconfig import NO_BUNDLE, Address, Bundle, address_in, address_of
from restow.conversion.certificates.wiring.configuration import bundles_of, is_alone_ours, plan_configuration
from restow.conversion.certificates.wiring.crd import (
    UNWIRED,
    Definition,
    Wiring,
    bundle_of,
    plan_wiring,
    resource_of_definition,
)
from restow.conversion.certificates.wiring.fieldmanagers import FIELD_MANAGER, WiringPlan, injector_of
from restow.conversion.model.errors import WiringRefused
from restow.conversion.model.values import Json
from restow.crds import Crd
from restow.kube import Cluster, PatchType, Resource
from restow.kube.clock import SYSTEM_CLOCK
from restow.kube.errors import Conflict, Forbidden, Invalid, NotFound
from restow.kube.resources import CRDS

_log = logging.getLogger(__name__)

_ATTEMPTS: Final = 8
_FRESH: Final = timedelta(minutes=1)  # for how long a probe that passed is not repeated

_T = TypeVar("_T")
_Live = TypeVar("_Live")

Document = Mapping[str, Any]


async def until_written(name: str, doing: str, attempt: Callable[[], Awaitable[_T]]) -> _T:
    """Return the result of an attempt that reads an object and writes it; repeat it while others write in between.

    ``doing`` names the change, for example ``unwire it``.

    Raises:
        WiringRefused: other writers change the object without pause.
    """
    for _ in range(_ATTEMPTS):
        try:
            return await attempt()
        except Conflict:
            continue  # another client wrote it meanwhile: read it again
    raise WiringRefused(
        f"{name} was changed by another writer at each of {_ATTEMPTS} attempts to {doing}; see its managers"
    )


class WiredObject(ABC, Generic[_Live]):
    """An object that names webhooks: what is wanted of it, and how it is read.

    ``live`` are the parts of the object that the wiring needs. The methods raise WiringError if the object does not
    exist, must not be wired, or its webhook does not answer, and KubeError for requests.

    Attributes:
        name: the object's name in messages.
        object_name: the name of the object itself.
        resource: its resource.
    """

    name: str
    object_name: str
    resource: Resource

    @abstractmethod
    async def read(self, cluster: Cluster) -> _Live:
        """Read the object."""

    @abstractmethod
    def parse(self, document: Document) -> _Live:
        """Return the needed parts of a document."""

    @abstractmethod
    def plan(self, live: _Live, bundle: Bundle, dropped: Bundle) -> WiringPlan:
        """Compare the object with the wanted wiring."""

    @abstractmethod
    def bundles(self, live: _Live) -> tuple[Bundle, ...]:
        """Return the bundles that verify this webhook and that restow has to keep."""

    @abstractmethod
    def history(self, live: _Live) -> tuple[str, int, Sequence[Document]]:
        """Return uid, generation and managedFields."""

    @abstractmethod
    async def probe(self, cluster: Cluster, address: Address, bundle: Bundle, *, again: bool = False) -> None:
        """Call the webhook at an address as an API server would.

        Unless ``again`` is set, a probe that just passed need not be repeated.
        """

    @abstractmethod
    def rivalry(self, rival: Address) -> str:
        """Return that another restow, whose webhook answers, keeps the object."""

    def mark_of(self, _live: _Live) -> str:
        """Return the mark of the ``unwire`` that ended the wiring; empty if the object was not unwired."""
        return ""


class WiredCrd(WiredObject[Definition]):
    """A CRD.

    Args:
        name: its name.
        address: the address of its webhook; None for the address that the CRD already has.
        composite: the apiVersion of the CompositeResourceDefinition from which Crossplane makes the CRD. If it is set,
            the CompositeResourceDefinition is read and written, and the CRD, which Crossplane keeps, is not.
        replaces: the ``spec.conversion`` with another project's webhook that may be replaced.
        probe: probes the webhook.
        now: the time.
    """

    def __init__(
        self,
        name: str,
        address: Address | None,
        *,
        composite: str = "",
        replaces: Document | None = None,
        probe: Probe = probe,
        now: Callable[[], datetime] = SYSTEM_CLOCK.now,
    ) -> None:
        self.name = self.object_name = name
        self.resource = resource_of_definition(composite)
        self._composite = composite
        self._address = address
        self._replaces = replaces
        self._probe = probe
        self._now = now
        self._answered: tuple[object, datetime] | None = None

    async def read(self, cluster: Cluster) -> Definition:
        return await read_definition(cluster, self.name, self._composite)

    def parse(self, document: Document) -> Definition:
        return Definition.of(document)

    def plan(self, live: Definition, bundle: Bundle, dropped: Bundle) -> WiringPlan:
        return plan_wiring(live, Wiring(bundle, self._address, dropped, self._replaces))

    def bundles(self, live: Definition) -> tuple[Bundle, ...]:
        """API servers verify this webhook by the bundle of a CRD that names it; an injector keeps its own bundle."""
        injected = injector_of(live.annotations) and not self._composite
        ours = self._address is None or address_in(live.webhook) == self._address
        return (bundle_of(live),) if live.webhook is not None and ours and not injected else ()

    def history(self, live: Definition) -> tuple[str, int, Sequence[Document]]:
        return live.uid, live.generation, live.managed_fields

    async def probe(self, cluster: Cluster, address: Address, bundle: Bundle, *, again: bool = False) -> None:
        """As above. An undone CRD is down until it is written, so the same probe is not repeated for a minute."""
        crd = await read_crd(cluster, self.name)
        asked = (address, bundle, crd.uid, crd.served, crd.storage.name)
        answered, at = self._answered or (None, self._now())
        if again or answered != asked or self._now() - at >= _FRESH:
            await self._probe(crd, address, bundle)
            self._answered = (asked, self._now())

    def rivalry(self, rival: Address) -> str:
        return (
            f"{self.name} is wired to {rival} by another restow, whose webhook answers: end that one, or take "
            "the CRD out of what is served here"
        )

    def mark_of(self, live: Definition) -> str:
        return live.annotations.get(UNWIRED, "") if live.strategy == "None" else ""


class WiredConfiguration(WiredObject[Document | None]):
    """A webhook configuration, installed if it is missing: None stands for a missing one.

    Args:
        wanted: its document, each webhook with its address and without ``caBundle``.
        probe: probes the webhooks.
    """

    def __init__(self, wanted: Document, *, probe: HookProbe = probe_hook) -> None:
        self.object_name = wanted["metadata"]["name"]
        self.name = f"{wanted['kind']} {self.object_name}"
        self.resource = resource_of(wanted["kind"])
        self._wanted = wanted
        self._probe = probe

    async def read(self, cluster: Cluster) -> Document | None:
        return await read_configuration(cluster, self._wanted)

    def parse(self, document: Document) -> Document:
        return document

    def plan(self, live: Document | None, bundle: Bundle, dropped: Bundle) -> WiringPlan:
        return plan_configuration(self._wanted, live, bundle, dropped)

    def bundles(self, live: Document | None) -> tuple[Bundle, ...]:
        return () if live is None else bundles_of(self._wanted, live)

    def history(self, live: Document | None) -> tuple[str, int, Sequence[Document]]:
        metadata = (live or {}).get("metadata") or {}
        return metadata.get("uid") or "", metadata.get("generation") or 0, metadata.get("managedFields") or ()

    async def probe(
        self,
        cluster: Cluster,  # noqa: ARG002 - the signature of WiredObject.probe
        address: Address,
        bundle: Bundle,
        *,
        again: bool = False,  # noqa: ARG002
    ) -> None:
        await self._probe(address, bundle)

    def rivalry(self, rival: Address) -> str:
        return (
            f"{self.name} is kept by another restow, whose webhook at {rival} answers: end that one, or have "
            "only one of both keep a configuration of this name"
        )


@dataclass(frozen=True, slots=True)
class Wired(Generic[_Live]):
    """A wired object.

    Attributes:
        live: the parts of the object that the wiring reads, as they are now.
        changed: whether that took a write.
        removes: whether the write removed certificates.
        notes: remarks for a person, each a sentence.
    """

    live: _Live
    changed: bool
    removes: bool = False
    notes: tuple[str, ...] = ()


async def wire(
    cluster: Cluster, name: str, wiring: Wiring, *, composite: str = "", probe: Probe = probe
) -> Wired[Definition]:
    """Make a CRD call the webhook, once the webhook answers; see ``write_wiring``.

    ``composite`` is the apiVersion of the CompositeResourceDefinition from which Crossplane makes the CRD. If it is
    set, the CompositeResourceDefinition is written, and Crossplane copies it.
    """
    crd = WiredCrd(name, wiring.address, composite=composite, replaces=wiring.replaces, probe=probe)
    return await write_wiring(cluster, crd, wiring.bundle, wiring.dropped)


async def write_wiring(
    cluster: Cluster, wired: WiredObject[_Live], bundle: Bundle, dropped: Bundle = NO_BUNDLE
) -> Wired[_Live]:
    """Write what is due for an object, once the webhooks that it will name answer.

    Raises:
        WiringRefused: the object does not exist or names another project's webhook, or its annotations or another
            manager of its fields forbid the wiring.
        NotAnswering: an API server would reject the webhook's answer, or there is none; try again later.
        KubeError: the API server refuses a request, or cannot be reached.
    """

    async def attempt() -> Wired[_Live]:
        live = await wired.read(cluster)
        plan = wired.plan(live, bundle, dropped)
        if plan.body is None:
            return Wired(live, changed=False, notes=plan.notes)
        for address, trusted in plan.calls:
            await wired.probe(cluster, address, trusted)
        written = await _apply(cluster, wired, plan, plan.body)
        if UNWIRED in (written["metadata"].get("annotations") or {}):
            await _drop_mark(cluster, wired)
        return Wired(wired.parse(written), changed=True, removes=plan.removes, notes=plan.notes)

    return await until_written(wired.name, "wire it", attempt)


async def _apply(cluster: Cluster, wired: WiredObject[Any], plan: WiringPlan, body: Json) -> Json:
    # Forced, because the server counts defaults (strategy None) as fields of the manager that created the object, and
    # plain updates of address and bundle as theirs. The caller has checked at this very resourceVersion that no other
    # manager applies these fields. An object that is to be created has none: another one of its name is in conflict.
    forced = {"force": "true" if "resourceVersion" in body["metadata"] else "false"}
    try:
        reply = await cluster.patch(
            wired.resource,
            wired.object_name,
            msgspec.json.encode(body),
            patch_type=PatchType.MERGE if plan.is_merge_patch else PatchType.APPLY,
            params={"fieldManager": FIELD_MANAGER} | ({} if plan.is_merge_patch else forced),
        )
    except Invalid as error:
        raise WiringRefused(f"the API server does not take the wiring of {wired.name}: {error.findings}") from error
    addresses = " and ".join(dict.fromkeys(str(address) for address, _ in plan.calls))
    number = len({certificate for _, bundle in plan.calls for certificate in bundle.certificates})
    _log.info("%s: wired to %s with %d CA certificate%s", wired.name, addresses, number, "" if number == 1 else "s")
    written: Json = reply.json()
    return written


async def _drop_mark(cluster: Cluster, wired: WiredObject[Any]) -> None:
    """Remove the mark of an earlier ``unwire``, which would be taken for a current one."""
    body = msgspec.json.encode({"metadata": {"annotations": {UNWIRED: None}}})
    params = {"fieldManager": FIELD_MANAGER}
    await cluster.patch(
        wired.resource, wired.object_name, body, patch_type=PatchType.MERGE, params=params, metadata_only=True
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


_GROUP: Final = "admissionregistration.k8s.io"
_RESOURCES: Final = {
    kind: Resource(_GROUP, "v1", f"{kind.lower()}s", namespaced=False)
    for kind in ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")
}


async def remove_configuration(cluster: Cluster, wanted: Mapping[str, Any]) -> str:
    """Remove a configuration; return a sentence if the user has to delete it, else an empty text.

    It is removed only if restow alone wrote it, and if all of its webhooks are at the same server.

    Rights: get and delete on its name.

    Raises:
        KubeError: the API server refuses a request, or cannot be reached.
    """
    kind, name = wanted["kind"], wanted["metadata"]["name"]
    try:
        live = await read_configuration(cluster, wanted)
    except Forbidden as error:
        return f"{kind} {name} may be there, and is not needed any more: delete it ({error})"
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
        return f"{kind} {name} is not needed any more: delete it ({error})"
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
