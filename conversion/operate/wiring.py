"""The gate Wired: whether API servers call this webhook, and the end of these calls after the rules are deleted.

All replicas write the wiring in the same way (``restow.conversion.certificates``). For most kinds it is in the CRD. If
Crossplane makes the CRD from a CompositeResourceDefinition (XRD), Crossplane writes the XRD's ``spec.conversion`` into
the CRD at each of its reconciles. restow then writes the XRD, and only reads the CRD.

Two admission steps come with the conversions of a kind. ``RESTORING`` restores stashes that clients drop. ``REFUSING``
refuses writes of values that a rule could not convert, and would keep (``onError: keep``). Each kind has webhook
configurations of its own, ``<step>.<crd>``, so that adding or removing a kind does not touch another one. The replicas
keep them as they keep the CRD's wiring; the leader checks that they exist, and removes them at the end.

Another project's webhook is replaced only if ``spec.takeOver`` names it. The record has its ``spec.conversion`` before
the first replica may write, and the replicas replace exactly that one. It is put back when the rules are deleted.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final

import msgspec

from restow.conversion.certificates import NotAnswering, WiringRefused, unwire
from restow.conversion.certificates.apply import read_configuration, read_definition, remove_configuration
from restow.conversion.certificates.probe import probe
from restow.conversion.certificates.unwire import MayBeStored, names, put_back, webhook_need
from restow.conversion.certificates.wiring.clientconfig import (
    NO_BUNDLE,
    Address,
    address_in,
    address_named,
    bundle_in,
    is_named,
    name_of,
)
from restow.conversion.certificates.wiring.configuration import bundles_of, plan_configuration
from restow.conversion.certificates.wiring.crd import Definition, composite_of, foreign_webhook, resource_of_definition
from restow.conversion.certificates.wiring.documents import configuration_document, refusal_webhook, stash_webhook
from restow.conversion.certificates.wiring.fieldmanagers import injector_of
from restow.conversion.compile.graph import Graph
from restow.conversion.model.errors import WiringProblem
from restow.conversion.model.values import Json
from restow.conversion.operate import gates
from restow.conversion.operate.gates import Gate
from restow.conversion.operate.revisions import LOST, Former, RevisionRecord, StepState
from restow.conversion.operate.workers import KindsWorkers
from restow.conversion.reviews.admission import AdmissionRequest, AdmissionResponse
from restow.conversion.server.admission import AdmissionStep, RefuseKept, RestoreStash
from restow.crds import Crd, CrdError
from restow.kube import Cluster
from restow.kube.errors import ApiError, NotFound
from restow.kube.resources import CRDS

_log = logging.getLogger(__name__)

_YET: Final = "is not written yet"
_UNWRITTEN: Final = f"spec.conversion of the {{}} {_YET}"

At = Callable[[str], Address]
"""Returns the address of the webhook for a path."""

Obstacle = Callable[[str], WiringProblem | None]
"""Returns why this process could not write the object of a name; None if it could, or has not tried."""


class WiringGate:
    """Checks the wiring of CRDs.

    Args:
        cluster: the API server.
        at: returns the address of the webhook for a path.
        may_be_stored: ``restow.migrator.may_be_stored``.
        obstacle: returns why this process could not write the CRD or webhook configuration of a name; None if it could,
            or has not tried. All replicas have the same rights.
    """

    def __init__(
        self, cluster: Cluster, at: At, may_be_stored: MayBeStored, obstacle: Obstacle = lambda _name: None
    ) -> None:
        self._cluster = cluster
        self._at = at
        self._may_be_stored = may_be_stored
        self._obstacle = obstacle
        self._probed: dict[str, tuple[str, tuple[tuple[str, int], ...]]] = {}

    def is_ours(self, live: Crd | Definition) -> bool:
        """Return whether a CRD, or an XRD, names this webhook."""
        return live.strategy == "Webhook" and names(live, self._at(f"/convert/{live.name}"))

    async def claim_of(self, crd: Crd) -> Crd | str | None:
        """Return the CRD of the claims for a composite kind of Crossplane, which has the same spec.conversion.

        None if there are no claims; a sentence if the CRD cannot have rules, or not yet.

        Raises:
            KubeError: the API server refuses a request, or cannot be reached.
        """
        version = composite_of(crd.document)
        if not version:
            return None
        owner = str(_controller(crd.document).get("name"))
        if owner != crd.name:
            return (
                f"{crd.name} is the claim of the CompositeResourceDefinition {owner}, and has its spec.conversion: "
                "name the composite kind in spec.target, and its rules convert the claims too"
            )
        try:
            document = (await self._cluster.get(resource_of_definition(version), owner)).json()
        except NotFound:
            return f"the CompositeResourceDefinition {owner}, from which Crossplane makes the CRD, is gone"
        claims = (document.get("spec") or {}).get("claimNames") or {}
        if not claims:
            return None
        name = f"{claims.get('plural')}.{crd.group}"
        the_claim = f"the CustomResourceDefinition {name} of the claim {claims.get('kind')}"
        try:
            claim = Crd.from_document((await self._cluster.get(CRDS, name)).json())
        except NotFound:
            return f"{the_claim} is missing: Crossplane makes it"
        except CrdError as error:
            return str(error)
        if not composite_of(claim.document) or _controller(claim.document).get("uid") != document["metadata"]["uid"]:
            return f"{the_claim} is not made from the CompositeResourceDefinition {owner}: give the claim another name"
        return claim

    async def taking_over(self, crd: Crd, record: RevisionRecord, named: str) -> tuple[str, Gate | None]:
        """Return what the wiring replaces, for ``RevisionRecord.former``, and the gate that closes if it must not.

        ``named`` is ``spec.takeOver`` of the rules; empty if they have none.

        Raises:
            KubeError: the API server refuses a request, or cannot be reached.
        """
        composite = composite_of(crd.document)
        live = await read_definition(self._cluster, crd.name, composite) if composite else Definition.of(crd.document)
        foreign = foreign_webhook(live, self._at(f"/convert/{crd.name}"))
        remembered = record.former
        if (former := Former.read(remembered)) is not None:
            permitted = foreign is None and _names(named, address_in(former.conversion.get("webhook")))
            remembered = msgspec.structs.replace(former, permitted=permitted).text
        if foreign is None:
            lost = named and not record.former and not record.wired and self.is_ours(live)
            return LOST if lost else remembered, None
        if not foreign.obstacle and _names(named, foreign.address):
            return Former(dict(live.conversion), next(iter(foreign.managers), ""), permitted=True).text, None
        said = foreign.refusal
        if named and foreign.address is not None and not foreign.obstacle:
            there = name_of(foreign.address)
            said = f"{foreign}. spec.takeOver says {named}: say {there} there, if that is the one to replace"
        # A replica may just have replaced it, by the permission that ends now: what it replaced is not forgotten.
        return remembered, self._closed(crd, gates.FOREIGN_WEBHOOK, said)

    async def pass_(self, crds: Sequence[Crd], record: RevisionRecord, hub: str) -> Gate:
        """Check whether the API server calls this webhook, and whether objects can be read at every version.

        ``crds`` are the CRD and, for a composite kind with claims, that of the claims.

        Raises:
            KubeError: the API server refuses a request, or cannot be reached.
        """
        crd = crds[0]
        if record.composite:
            live = await read_definition(self._cluster, crd.name, record.composite)
            if not self._names_us(live):
                return self._unwritten(crd, crd.name, "Wiring", _UNWRITTEN.format("CompositeResourceDefinition"))
            if waits := [each.name for each in crds if not self._names_us(each, crd.name)]:
                said = (
                    "the CompositeResourceDefinition names the webhook; Crossplane has not copied that into the CRD yet"
                )
                return self._closed(crd, "WaitingForCrossplane", f"{said}: {' and '.join(waits)}")
        elif not self._names_us(crd):
            return self._unwritten(crd, crd.name, "Wiring", _UNWRITTEN.format("CustomResourceDefinition"))
        # With the uid: a CRD that was deleted and created again may have the same generation, and other objects.
        probed = (record.active, tuple((each.uid, each.generation) for each in crds))
        if self._probed.get(crd.name) != probed:
            if unread := await self._unread(crds):
                return Gate(gates.WIRED, False, "NotAnswering", unread)
            self._probed[crd.name] = probed
        kinds = " and ".join(each.kind for each in crds)
        said = f"the API server converts {kinds} at {', '.join(crd.served)} by this webhook"
        if former := Former.read(record.former):
            address = address_in(former.conversion.get("webhook"))
            said = f"{said}, in place of the one at {address}, which comes back when the rules go"
        for step in STEPS:
            if record.steps.get(step.name) is StepState.WANTED:
                configuration = step.configuration_of(crds, hub, self._at)
                if missing := await why_not_called(self._cluster, configuration):
                    return self._unwritten(crd, f"{step.name}.{crd.name}", step.missing, missing)
                said = f"{said}, and {step.said}"
        return Gate(gates.WIRED, True, "Wired", said)

    async def _unread(self, crds: Sequence[Crd]) -> str:
        """List an object at every version; return the first failure as a sentence, empty if there is none."""
        for crd in crds:
            for version in crd.served:
                try:
                    await self._cluster.list_page(crd.resource_at(version), params={"limit": "1"})
                except ApiError as error:
                    return f"objects of {crd.name} do not read at {version}: {error}"
        return ""

    async def is_named(self, crd: Crd, record: RevisionRecord) -> bool:
        """Return whether the CRD, or its XRD, names this webhook.

        Raises:
            KubeError: the API server refuses a request, or cannot be reached.
        """
        if self.is_ours(crd) or not record.composite:
            return self.is_ours(crd)
        return self.is_ours(await read_definition(self._cluster, crd.name, record.composite))

    async def end_step(self, step: RulesStep, crds: Sequence[Crd], hub: str) -> None:
        """Remove the webhook configuration of a step, if restow alone wrote it.

        Raises:
            KubeError: the API server refuses a request, or cannot be reached.
        """
        await remove(self._cluster, step.configuration_of(crds, hub, self._at))

    async def needed(self, crds: Sequence[Crd], record: RevisionRecord, named: str) -> str:
        """Return why the CRDs need the webhook, as a sentence; empty if none does.

        Unlike ``unwire``, this compares no objects: rules serve clients that will write at any served version. A
        webhook that was taken over converts again once it is put back, if it answers. ``named`` is ``spec.takeOver``.

        Raises:
            KubeError: the API server refuses a request, or cannot be reached.
        """
        if (former := Former.read(record.former)) is not None:
            return await _why_silent(crds[0], former)
        if record.former and named:
            return (
                f"{named} was taken over, perhaps, and the record of what was there is lost: write the former "
                f"spec.conversion into {crds[0].name}, or take takeOver out of the rules"
            )
        for crd in crds:
            if others := [version for version in crd.served if version != crd.storage.name]:
                return (
                    f"{crd.name} serves {', '.join(crd.served)}, which the webhook converts. Run restow migrate "
                    f"{crd.name}, and stop serving {', '.join(others)}"
                )
            if reason := (await webhook_need(self._cluster, crd, self._may_be_stored)).reason:
                return reason
        return ""

    async def undo(self, crd: Crd, record: RevisionRecord) -> None:
        """Put back what was taken over; else set the strategy None, if the objects do not need the webhook.

        Raises:
            WiringRefused: objects would be read or written wrongly without the webhook.
            KubeError: the API server refuses a request, or cannot be reached.
        """
        if (former := Former.read(record.former)) is not None:
            server = self._at(f"/convert/{crd.name}")
            by, composite = former.manager, record.composite
            await put_back(self._cluster, crd.name, former.conversion, server, manager=by, composite=composite)
            return
        await unwire(self._cluster, crd.name, self._may_be_stored, composite=record.composite)

    def _names_us(self, live: Crd | Definition, path: str = "") -> bool:
        has_bundle = bool(((live.webhook or {}).get("clientConfig") or {}).get("caBundle"))
        return has_bundle and address_in(live.webhook) == self._at(f"/convert/{path or live.name}")

    def _unwritten(self, crd: Crd, name: str, reason: str, said: str) -> Gate:
        """Return the gate while an object does not call the webhook, with what keeps this process from writing it."""
        obstacle = self._obstacle(name)
        why = "; the log of a replica says why"
        if obstacle is not None:
            why = f": {gates.with_advice(obstacle.said) if obstacle.lacks_right else obstacle.said}"
            reason = gates.FORBIDDEN if obstacle.lacks_right else reason
        return self._closed(crd, reason, f"{said}{why if said.endswith(_YET) else ''}")

    def _closed(self, crd: Crd, reason: str, said: str) -> Gate:
        self._probed.pop(crd.name, None)
        return Gate(gates.WIRED, False, reason, said)


def _names(named: str, address: Address | None) -> bool:
    """Return whether a ``spec.takeOver`` names an address."""
    try:
        return bool(named) and address is not None and is_named(address, address_named(named))
    except ValueError:
        return False


async def _why_silent(crd: Crd, former: Former) -> str:
    """Return why the webhook of a former conversion does not convert, as a sentence; empty if it does."""
    webhook = former.conversion.get("webhook")
    if (address := address_in(webhook)) is None:
        return ""
    try:
        await probe(crd, address, bundle_in(webhook)[0])
    except NotAnswering as error:
        return f"{name_of(address)} was taken over, and would come back, but {error}"
    return ""


def _controller(document: Mapping[str, Any]) -> Mapping[str, Any]:
    owners: Sequence[Mapping[str, Any]] = document["metadata"].get("ownerReferences") or ()
    return next((each for each in owners if each.get("controller")), {})


@dataclass(frozen=True, slots=True, eq=False)
class RulesStep:
    """A step that comes with the conversions of a kind.

    Attributes:
        name: the name of the step.
        path: the path at which it is served.
        configuration: the kind of its webhook configuration.
        missing: the reason of the gate Wired while API servers do not call it.
        said: the effect of the step, as a clause about API servers.
        webhook: makes the webhook of a CRD from the address of the step and the hub.
        decides: makes the admission step from the conversions, and from what converts elsewhere.
    """

    name: str
    path: str
    configuration: str
    missing: str
    said: str
    webhook: Callable[[Address, Crd, str], dict[str, Any]]
    decides: Callable[[Graph, Sequence[Crd], KindsWorkers | None], AdmissionStep]

    def configuration_of(self, crds: Sequence[Crd], hub: str, at: Callable[[str], Address]) -> Json:
        """Return the webhook configuration of a kind, and of its claims, without CA bundle.

        ``at`` returns the address of the webhook for a path.
        """
        name = f"{self.name}.{crds[0].name}"
        return configuration_document(self.configuration, name, (self.webhook(at(self.path), crd, hub) for crd in crds))

    def is_for(self, graph: Graph, crds: Sequence[Crd]) -> bool:
        """Return whether the conversions of these kinds need the step."""
        return self is not REFUSING or any(graph.kind(crd.group, crd.kind).keeps for crd in crds)


RESTORING: Final = RulesStep(
    "conversion-stash",
    "/mutate/conversion-stash",
    "MutatingWebhookConfiguration",
    "StashesNotRestored",
    "has it restore stashes",
    stash_webhook,
    lambda graph, crds, workers: RestoreStash(graph, crds, None if workers is None else workers.restore),
)
REFUSING: Final = RulesStep(
    "refuse-unconvertible",
    "/admit/refuse-unconvertible",
    "ValidatingWebhookConfiguration",
    "WritesNotRefused",
    "has it refuse values that a rule could not convert",
    refusal_webhook,
    lambda graph, _crds, workers: workers.refuse if workers else RefuseKept(graph),
)
STEPS: Final = (RESTORING, REFUSING)


class KindsStep:
    """A step for the kinds that this process converts; requests about others pass."""

    def __init__(self, of: RulesStep) -> None:
        self.of = of
        self._own: dict[str, AdmissionStep] = {}
        self._steps: dict[tuple[str, str], AdmissionStep] = {}
        self._suspended: set[str] = set()

    def serve(self, crds: Sequence[Crd], graph: Graph, workers: KindsWorkers | None = None) -> None:
        """Decide by the conversions of a kind, and of its claims, from the next request on.

        A kind that has conversions of its own is no claim of another one.
        """
        self.withdraw(crds[0].name)
        step = self._own[crds[0].name] = self.of.decides(graph, crds, workers)
        self._steps[crds[0].group, crds[0].kind] = step
        for claim in crds[1:]:
            self._steps.setdefault((claim.group, claim.kind), step)

    def suspend(self, crd: str) -> None:
        """Refuse requests about a kind, by which this process cannot decide: they must not pass undecided."""
        self.withdraw(crd)
        self._suspended.add(crd)

    def withdraw(self, crd: str) -> None:
        """Let requests about a kind pass."""
        self._suspended.discard(crd)
        step = self._own.pop(crd, None)
        self._steps = {kind: each for kind, each in self._steps.items() if each is not step}

    async def __call__(self, request: AdmissionRequest, /) -> AdmissionResponse:
        """Return the verdict, with the patch of a step that patches."""
        step = self._steps.get((request.kind.group, request.kind.kind))
        if step is not None:
            return await step(request)
        crd = f"{request.resource.resource}.{request.resource.group}"
        if crd not in self._suspended:
            return AdmissionResponse()
        said = f"this replica of restow cannot compile the active conversion rules of {crd}; try again"
        return AdmissionResponse(allowed=False, message=said, code=HTTPStatus.SERVICE_UNAVAILABLE)


async def why_not_called(cluster: Cluster, wanted: Mapping[str, Any]) -> str:
    """Return why API servers do not call the step of a configuration, as a sentence; empty if they do.

    Raises:
        KubeError: the API server refuses a request, or cannot be reached.
    """
    name = f"the {wanted['kind']} {wanted['metadata']['name']}"
    live = await read_configuration(cluster, wanted)
    if live is not None:
        try:
            due = plan_configuration(wanted, live, NO_BUNDLE).body is not None
        except WiringRefused as error:
            return str(error)
        if not due and (injector_of(live["metadata"].get("annotations") or {}) or all(bundles_of(wanted, live))):
            return ""
    return f"{name} {_YET}"


async def remove(cluster: Cluster, wanted: Mapping[str, Any]) -> None:
    """Remove the configuration, if restow alone wrote it; an obstacle is logged.

    Raises:
        KubeError: the API server cannot be reached.
    """
    if kept := await remove_configuration(cluster, wanted):
        _log.warning("%s", kept)
