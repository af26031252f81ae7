"""Decides which fields an object that defines a kind lacks for conversion by a webhook.

Such an object is a CRD, or a CompositeResourceDefinition (XRD) of Crossplane. Both have the same ``spec.conversion``.
Crossplane copies that of an XRD into the CRDs that it makes of it, again and again, so restow writes the XRD and leaves
those CRDs alone. Source: Crossplane v2.0.2, `internal/xcrd/crd.go` (``Conversion: xrd.Spec.Conversion``) and
`internal/controller/apiextensions/definition`. A process that wires thousands of kinds keeps a ``Definition`` of each,
without the schemas, which are nearly all of a CRD.

If the manifest has `spec.conversion` (as it should, so that no moment is without it), restow writes `caBundle` alone;
Helm, Flux or Argo CD keep the rest.

A webhook that restow did not write is another project's, whoever wrote it and by whichever operation. restow never
changes it, unless ``Wiring.replaces`` has the very ``spec.conversion`` that is there. That one is replaced whole, by a
merge patch: an apply cannot remove the fields of others.

Pure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from restow.conversion.certificates.wiring.clientconfig import (
    NO_BUNDLE,
    Address,
    Bundle,
    address_in,
    address_of,
    assembled,
    bundle_in,
    leaves,
    name_of,
)
from restow.conversion.certificates.wiring.fieldmanagers import (
    CONFIG,
    FieldManagers,
    Leaves,
    Path,
    WebhookFields,
    WiringPlan,
    foreign_paths,
    injected,
    injector_of,
    rival_at,
)
from restow.conversion.model.errors import WiringRefused
from restow.crds import Crd
from restow.crds.composites import XRD_GROUP, XRD_KIND
from restow.kube.resources import CRDS, Resource, merge_patch

UNWIRED: Final = "restow.dev/unwired"
"""The annotation of a CRD that ``unwire`` returned to the strategy None: the time, in ISO 8601. A server that was
running then does not wire the CRD again; a server that starts later does."""

_CRD: Final = ("apiextensions.k8s.io/v1", "CustomResourceDefinition")

#: Crossplane's CompositeResourceDefinitions, at the version that its releases 1 and 2 both serve.
COMPOSITES: Final = Resource(XRD_GROUP, "v1", "compositeresourcedefinitions", namespaced=False)

_CONFIG: Final = ("webhook", CONFIG)
_REVIEW_VERSIONS: Final = ("webhook", "conversionReviewVersions")
_REVIEWS: Final = frozenset({"v1", "v1beta1"})


@dataclass(frozen=True, slots=True)
class Definition:
    """An object with ``spec.conversion``.

    ``managed_fields`` are reduced to that field and the times. ``claims`` names the CRD of the claims that a
    CompositeResourceDefinition offers, which gets the same ``spec.conversion``; empty if it offers none.
    """

    api_version: str
    kind: str
    name: str
    uid: str
    generation: int
    resource_version: str
    annotations: Mapping[str, str]
    managed_fields: Sequence[Mapping[str, Any]]
    conversion: Mapping[str, Any]
    claims: str = ""

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> Definition:
        """Read a document as an API server returned it; list items have no kind, and are CRDs."""
        metadata, spec = document["metadata"], document.get("spec") or {}
        return cls(
            api_version=document.get("apiVersion") or _CRD[0],
            kind=document.get("kind") or _CRD[1],
            name=metadata["name"],
            uid=metadata.get("uid") or "",
            generation=metadata.get("generation") or 0,
            resource_version=metadata.get("resourceVersion") or "",
            annotations=metadata.get("annotations") or {},
            managed_fields=tuple(map(_reduced, metadata.get("managedFields") or ())),
            conversion=spec.get("conversion") or {},
            claims=f"{plural}.{spec.get('group')}" if (plural := (spec.get("claimNames") or {}).get("plural")) else "",
        )

    @property
    def strategy(self) -> Literal["None", "Webhook"]:
        """The conversion strategy; None if there is none."""
        return "Webhook" if self.conversion.get("strategy") == "Webhook" else "None"

    @property
    def webhook(self) -> Mapping[str, Any] | None:
        """The raw ``spec.conversion.webhook``; None with strategy None."""
        found = self.conversion.get("webhook")
        return found if self.strategy == "Webhook" and isinstance(found, Mapping) else None

    @property
    def managers(self) -> FieldManagers:
        """The managers of the fields of ``spec.conversion``."""
        return FieldManagers(self.managed_fields, "spec", "conversion")

    @property
    def is_composite(self) -> bool:
        """Whether it is Crossplane's CompositeResourceDefinition."""
        return self.kind == XRD_KIND


def _reduced(entry: Mapping[str, Any]) -> Mapping[str, Any]:
    spec = (entry.get("fieldsV1") or {}).get("f:spec")
    if spec is None:
        return {**entry, "fieldsV1": {}}
    kept = {"f:conversion": spec["f:conversion"]} if "f:conversion" in spec else {}
    return {**entry, "fieldsV1": {"f:spec": kept}}


def composite_of(document: Mapping[str, Any]) -> str:
    """Return the apiVersion for writes to the CompositeResourceDefinition that controls a CRD; empty if none does.

    It is the version of ``COMPOSITES``, whatever the owner reference names: a definition that offers claims is invalid
    at v2, so no write would succeed there. The owner reference has the definition's name. The CRD of a composite kind
    has the same name, the CRD of a claim does not.
    """
    for owner in document["metadata"].get("ownerReferences") or ():
        group = str(owner.get("apiVersion") or "").partition("/")[0]
        if (group, owner.get("kind")) == (XRD_GROUP, XRD_KIND) and owner.get("controller"):
            return COMPOSITES.api_version
    return ""


def resource_of_definition(api_version: str = "") -> Resource:
    """Return the resource of CompositeResourceDefinitions at an apiVersion; without one that of CRDs."""
    if not api_version:
        return CRDS
    return Resource(XRD_GROUP, api_version.partition("/")[2], COMPOSITES.plural, namespaced=False)


@dataclass(frozen=True, slots=True)
class Wiring:
    """The address and certificates of a webhook for its CRDs.

    Attributes:
        bundle: certificates that verify the webhook's own certificate.
        address: the webhook's address; None for the address that the CRD already has.
        dropped: certificates that must not be in the bundle any more.
        replaces: the ``spec.conversion`` with another project's webhook that may be replaced, whole; None for none.
    """

    bundle: Bundle = NO_BUNDLE
    address: Address | None = None
    dropped: Bundle = NO_BUNDLE
    replaces: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class ForeignWebhook:
    """A webhook in a CRD, or an XRD, that restow did not write.

    Attributes:
        crd: the name of the object.
        address: its address; None for a malformed one.
        managers: the field managers that wrote the address, as far as they are known.
        appliers: those of them that apply it (server-side apply).
        injector: the annotation by which cert-manager writes its CA bundle; empty for none.
    """

    crd: str
    address: Address | None
    managers: tuple[str, ...] = ()
    appliers: tuple[str, ...] = ()
    injector: str = ""

    def __str__(self) -> str:
        where = "a malformed address" if self.address is None else str(self.address)
        wrote = f", which {' and '.join(self.managers)} wrote" if self.managers else ""
        return f"{self.crd} names the webhook at {where}{wrote}: restow did not write it, and does not replace it"

    @property
    def obstacle(self) -> str:
        """Why it could not be replaced although that is asked for; empty if it could."""
        if self.appliers:
            by = " and ".join(self.appliers)
            return f"{self}. The next apply by {by} would bring it back: take spec.conversion out of that manifest"
        if self.injector:
            return (
                f"{self}. cert-manager would write its CA bundle into the wiring: take the annotation {self.injector} "
                "out of the CRD first"
            )
        return ""

    @property
    def refusal(self) -> str:
        """That it is not replaced, and what to do."""
        if self.obstacle:
            return self.obstacle
        asked = "" if self.address is None else f", or have ConversionRules say spec.takeOver: {name_of(self.address)}"
        return f"{self}. Take spec.conversion out of the CRD{asked}"


def foreign_webhook(live: Crd | Definition, address: Address) -> ForeignWebhook | None:
    """Return the webhook that is there if it is at another address than this one, and restow did not write it."""
    crd = _definition(live)
    managers = crd.managers.below("webhook")
    paths = foreign_paths(crd.webhook, address, managers)
    if not paths:
        return None
    return ForeignWebhook(
        crd.name,
        address_in(crd.webhook),
        tuple(dict.fromkeys(name for path in paths for name in managers.others(path))),
        tuple(dict.fromkeys(name for path in paths for name in managers.appliers(path))),
        "" if crd.is_composite else injector_of(crd.annotations),
    )


def plan_wiring(live: Crd | Definition, wiring: Wiring) -> WiringPlan:
    """Compare a CRD, or Crossplane's CompositeResourceDefinition, as just read, with the wanted wiring.

    Raises:
        WiringRefused: the CRD names no webhook and ``wiring`` has no address, or names another project's webhook;
            cert-manager injects into a CRD without the strategy Webhook, or another manager applies one of the fields.
    """
    crd = _definition(live)
    injector = "" if crd.is_composite else injector_of(crd.annotations)
    address = wiring.address or _own_address(crd)
    foreign = foreign_webhook(crd, address)
    if foreign is not None and (foreign.obstacle or crd.conversion != wiring.replaces):
        raise WiringRefused(foreign.refusal)
    present, problem = bundle_in(crd.webhook if foreign is None else None)
    said = dict(leaves(crd.conversion))
    fields = WebhookFields(
        said,
        _wanted(said, address),
        config=_CONFIG,
        managers=crd.managers,
        present=present,
        bundle=wiring.bundle,
        dropped=wiring.dropped,
        injector=injector,
    )
    notes = (*([f"{crd.name}: {problem}; it is replaced"] if problem else []), *injected(crd.name, injector))
    calls = ((address, fields.bundle),)
    if not fields.is_due:
        return WiringPlan(calls, None, notes)
    if injector and crd.strategy != "Webhook":
        raise WiringRefused(
            f"{crd.name} has the annotation {injector}, but not the strategy Webhook: put spec.conversion into its "
            "manifest, without caBundle; cert-manager fills that in"
        )

    def spoken(path: Path) -> str:
        return f"{'.'.join(('spec.conversion', *path))} of {crd.name}"

    fields.check(spoken, may_remove=lambda path: foreign is not None or crd.managers.wrote(path))
    left = {} if foreign is not None else {path: value for path, value in said.items() if path not in fields.stale}
    merged = foreign is not None or not all(map(crd.managers.sole_owner, fields.stale))
    conversion = merge_patch(crd.conversion, assembled(left | fields.wanted)) if merged else assembled(fields.applied)
    body = {
        "apiVersion": crd.api_version,
        "kind": crd.kind,
        "metadata": {"name": crd.name, "uid": crd.uid, "resourceVersion": crd.resource_version},
        "spec": {"conversion": conversion},
    }
    rival = rival_at(crd.webhook, address, crd.managers.below("webhook"))
    return WiringPlan(calls, body, notes, () if rival is None else ((rival, present),), fields.removes, merged)


def _definition(live: Crd | Definition) -> Definition:
    return Definition.of(live.document) if isinstance(live, Crd) else live


def bundle_of(crd: Crd | Definition) -> Bundle:
    """Return the bundle that the CRD has now; an unreadable one is empty."""
    return bundle_in(crd.webhook)[0]


def _own_address(crd: Definition) -> Address:
    if crd.webhook is None:
        raise WiringRefused(
            f"{crd.name} has the conversion strategy None: say where its webhook is, or put spec.conversion with the "
            "strategy Webhook into its manifest"
        )
    try:
        return address_of(crd.webhook.get("clientConfig") or {})
    except ValueError as error:
        raise WiringRefused(f"{crd.name} does not say where its webhook is: {error}") from error


def _wanted(live: Leaves, address: Address) -> Leaves:
    versions = live.get(_REVIEW_VERSIONS)
    understood = isinstance(versions, list) and not _REVIEWS.isdisjoint(versions)
    return {
        ("strategy",): "Webhook",
        **{(*_CONFIG, *path): value for path, value in address.fields.items()},
        _REVIEW_VERSIONS: versions if understood else ["v1"],
    }
