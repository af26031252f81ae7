"""Find versions in the inventories of GitOps and packaging controllers: Flux, Argo CD, OLM, Crossplane.

The controllers write these fields from a repository or a package, so users have to change the version there. The
fields are those of their CRDs: ``status.inventory.entries`` of Flux (``id`` is ``namespace_name_group_kind``, ``v`` the
version), ``status.resources`` and ``status.operationState.syncResult`` of Argo CD, ``spec.customresourcedefinitions``
of OLM (whose ``requirementStatus`` says "CRD version not served"), and ``spec.versions`` of Crossplane's
CompositeResourceDefinition. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, TypeAlias

from restow.kube.resources import Object, qualified_name
from restow.migrator.references.readers.mentions import Steps, object_name, pointer_of
from restow.migrator.references.reference import Effect, Reference, ReferenceKind, SoughtVersion, same_effect

Versions = Iterable[SoughtVersion]

_FLUX: Final = same_effect(
    "Flux looks the object up at this version when it leaves the repository, does not find it, and does not "
    "delete it; while the manifest itself is at this version, every reconciliation fails.",
    "commit the manifest at another version (restow convert): the next reconciliation writes the inventory",
)
_ARGO_CD: Final = same_effect(
    "Argo CD cannot compare or sync a manifest at this version (no matches for kind).",
    "commit the manifest at another version (restow convert): the next refresh writes the status",
)
_ARGO_CD_HISTORY: Final = same_effect(
    "Nothing fails: it is the result of the last sync.",
    "the next sync writes it",
    stands=False,
)
_OLM: Final = same_effect(
    "OLM reports this requirement as not met (CRD version not served), and the ClusterServiceVersion is no "
    "longer Succeeded.",
    "publish a bundle whose ClusterServiceVersion names another version, and upgrade to it first",
)
_CROSSPLANE: Final = Effect(
    unserved="Crossplane writes the CRD from this definition, and serves the version again.",
    removed="Crossplane writes the CRD from this definition, and adds the version again.",
    advice="change the version in the CompositeResourceDefinition, not in the CRD",
)


TRACKED: Final[Mapping[tuple[str, Steps], tuple[str, Effect]]] = {
    ("applications.argoproj.io", ("status", "resources")): ("resource", _ARGO_CD),
    ("applications.argoproj.io", ("status", "operationState", "syncResult", "resources")): (
        "result of the last sync of",
        _ARGO_CD_HISTORY,
    ),
    ("applications.argoproj.io", ("operation", "sync", "resources")): ("operation to sync", _ARGO_CD),
}
"""The lists of ``{group, version, kind, name}`` that a controller writes by itself, and what their items are."""


_Entry: TypeAlias = tuple[SoughtVersion, Steps, str]
"""A version, the place that names it, and what is there."""


def _flux(obj: Object, versions: Versions) -> Iterator[_Entry]:
    for index, entry in enumerate(_items(_at(obj, "status", "inventory", "entries"))):
        parts = str(entry.get("id") or "").split("_")
        if len(parts) != 4:
            continue
        namespace, name, group, kind = parts
        for of in versions:
            if (group, kind, entry.get("v")) == (of.group, of.kind, of.version):
                what = f"inventory entry of {kind} {qualified_name(namespace, name.replace('__', ':'))}"
                yield of, ("status", "inventory", "entries", index, "v"), what


def _olm(obj: Object, versions: Versions) -> Iterator[_Entry]:
    for section in ("owned", "required"):
        steps = ("spec", "customresourcedefinitions", section)
        for index, entry in enumerate(_items(_at(obj, *steps))):
            for of in versions:
                if (entry.get("name"), entry.get("version")) == (of.crd, of.version):
                    yield of, (*steps, index, "version"), f"{section} CRD {of.crd}"


def _crossplane(obj: Object, versions: Versions) -> Iterator[_Entry]:
    kinds = [_at(obj, "spec", section, "kind") for section in ("names", "claimNames")]
    for of in versions:
        if _at(obj, "spec", "group") != of.group or of.kind not in kinds:
            continue
        for index, entry in enumerate(_items(_at(obj, "spec", "versions"))):
            if entry.get("name") == of.version:
                yield of, ("spec", "versions", index), f"the definition that {of.crd} is made from"


_READERS: Final[Mapping[str, tuple[ReferenceKind, Effect, Callable[[Object, Versions], Iterator[_Entry]]]]] = {
    "kustomizations.kustomize.toolkit.fluxcd.io": (ReferenceKind.FLUX, _FLUX, _flux),
    "helmreleases.helm.toolkit.fluxcd.io": (ReferenceKind.FLUX, _FLUX, _flux),
    "clusterserviceversions.operators.coreos.com": (ReferenceKind.OLM, _OLM, _olm),
    "compositeresourcedefinitions.apiextensions.crossplane.io": (ReferenceKind.CROSSPLANE, _CROSSPLANE, _crossplane),
}
"""The readers by the name of the CRD of the objects, for spellings that no other project uses."""

INVENTORIES: Final = frozenset(_READERS) | {resource for resource, _ in TRACKED}
"""The resources that are inventories."""


def inventory_references(resource: str, obj: Object, versions: Versions) -> Iterator[Reference]:
    """Yield the versions that an inventory names in a spelling of its own; none for other resources."""
    if (found := _READERS.get(resource)) is None:
        return
    kind, effect, entries = found
    namespace, name = object_name(obj)
    for of, steps, what in entries(obj, versions):
        yield Reference(kind, of, resource, namespace, name, pointer_of(steps), what, effect)


def _at(obj: Any, *steps: str) -> Any:
    for step in steps:
        obj = obj.get(step) if isinstance(obj, dict) else None
    return obj


def _items(value: Any) -> list[dict[str, Any]]:
    return [each if isinstance(each, dict) else {} for each in value] if isinstance(value, list) else []
