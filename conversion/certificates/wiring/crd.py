"""Decides what a CRD lacks for conversion by a webhook, and whether it may return to the strategy None.

restow writes only what differs, and owns only what it wrote: with a manifest that carries `spec.conversion` (as it
should, so that no moment is without it) that is `caBundle` alone; Helm, Flux or Argo CD keep the rest. A CRD on which
cert-manager injects the bundle keeps that: two writers of one field would rebuild the watch caches for ever.

Certificates that are in a CRD's bundle already stay, in their order, unless they are to be dropped: a replica may still
serve by them.

A CRD that names a webhook which is gone can neither be read nor deleted at other versions than its storage version, and
its namespaces hang. With the strategy None the server only renames apiVersion: that is right where nothing has to be
converted at all, and corrupts objects where something would have been.

Pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

from restow.conversion.certificates.wiring.clientconfig import (
    NO_BUNDLE,
    Address,
    Bundle,
    BundleError,
    address_of,
    is_same_server,
)
from restow.conversion.certificates.wiring.fieldmanagers import appliers, is_ours, sole_owner
from restow.conversion.model.errors import WiringRefused
from restow.conversion.model.values import Json
from restow.crds import Crd, Version, sort_versions
from restow.crds.paths import ROOT, field_path, items_path, values_path

__all__ = [
    "CrdWiringPlan",
    "Wiring",
    "bundle_of",
    "injector_of",
    "plan_wiring",
    "rival_of",
    "why_not_none",
]


_CA_BUNDLE: Final = ("webhook", "clientConfig", "caBundle")
_REVIEW_VERSIONS: Final = ("webhook", "conversionReviewVersions")
_REVIEWS: Final = frozenset({"v1", "v1beta1"})
_INJECTIONS: Final = ("inject-ca-from", "inject-ca-from-secret", "inject-apiserver-ca")

Leaves = Mapping[tuple[str, ...], Any]


@dataclass(frozen=True, slots=True)
class Wiring:
    """How CRDs should find their webhook.

    Attributes:
        bundle: certificates by which the webhook's own verifies.
        address: where it is; None for where the CRD says already.
        dropped: certificates that must not be in the bundle any more.
    """

    bundle: Bundle = NO_BUNDLE
    address: Address | None = None
    dropped: Bundle = NO_BUNDLE


@dataclass(frozen=True, slots=True)
class CrdWiringPlan:
    """What is due for one CRD.

    Attributes:
        address, bundle: by what the API server will call the webhook, to be tried before anything is written.
        body: what to apply; None where nothing is due.
        notes: what a person should know, each a sentence.
        rival: the webhook of another installation of restow that the CRD names now, if it does.
        removes: whether certificates are taken out of the bundle.
    """

    address: Address
    bundle: Bundle
    body: Json | None
    notes: tuple[str, ...] = ()
    rival: Address | None = None
    removes: bool = False


def plan_wiring(crd: Crd, wiring: Wiring) -> CrdWiringPlan:
    """Compare a CRD, as just read, with what it should say.

    Raises:
        WiringRefused: the CRD names no webhook and ``wiring`` has no address, cert-manager injects into a CRD without
        the
            strategy Webhook, or another manager applies one of the fields.
    """
    injector, notes = injector_of(crd.annotations), []
    present, problem = _present_bundle(crd)
    if problem:
        notes.append(f"{crd.name}: {problem}; it is replaced")
    bundle = (present - wiring.dropped) | (wiring.bundle - wiring.dropped)
    if injector:
        notes.append(f"{crd.name} has the annotation {injector}: cert-manager writes its caBundle, restow does not")
        bundle = present
    address = wiring.address or _own_address(crd)
    live = dict(_leaves((crd.document.get("spec") or {}).get("conversion") or {}))
    wanted = _wanted(live, address) | ({} if injector else _wanted_bundle(live, bundle, present))
    changes = {path: value for path, value in wanted.items() if live.get(path) != value}
    stale = _stale(live, wanted)
    if not changes and not stale:
        return CrdWiringPlan(address, bundle, None, tuple(notes))
    if injector and crd.strategy != "Webhook":
        raise WiringRefused(
            f"{crd.name} has the annotation {injector}, but not the strategy Webhook: put spec.conversion into its "
            "manifest, without caBundle; cert-manager fills that in"
        )
    _check_owners(crd, changes, stale)
    kept = {
        path: value for path, value in wanted.items() if path in changes or is_ours(crd.managed_fields, _field(path))
    }
    removes = not bundle >= present
    return CrdWiringPlan(address, bundle, _body(crd, kept), tuple(notes), rival_of(crd, address), removes)


def rival_of(crd: Crd, address: Address) -> Address | None:
    """Return the address of another server that a restow wrote into the CRD; None if there is none.

    Every restow writes under one name, so that a restow whose Service moved can go on. Who the other one is, and
    whether it is still there, only its webhook can tell.
    """
    try:
        live = address_of((crd.webhook or {}).get("clientConfig") or {})
    except ValueError:
        return None
    if is_same_server(live, address):
        return None
    paths = (("webhook", "clientConfig", *path) for path in live.fields)
    return live if any(is_ours(crd.managed_fields, _field(path)) for path in paths) else None


def bundle_of(crd: Crd) -> Bundle:
    """Return the bundle that the CRD has now; an unreadable one is empty."""
    return _present_bundle(crd)[0]


def injector_of(annotations: Mapping[str, str]) -> str:
    """Return the annotation by which cert-manager injects an object's bundle; empty if it does not."""
    names = (f"cert-manager.io/{name}" for name in _INJECTIONS)
    return next((name for name in names if name in annotations), "")


def _present_bundle(crd: Crd) -> tuple[Bundle, str]:
    config = (crd.webhook or {}).get("clientConfig") or {}
    try:
        return Bundle.from_base64(str(config.get("caBundle") or "")), ""
    except BundleError as error:
        return NO_BUNDLE, str(error)


def _own_address(crd: Crd) -> Address:
    if crd.webhook is None:
        raise WiringRefused(
            f"{crd.name} has the conversion strategy None: say where its webhook is, or put spec.conversion with the "
            "strategy Webhook into its manifest"
        )
    try:
        return address_of(crd.webhook.get("clientConfig") or {})
    except ValueError as error:
        raise WiringRefused(f"{crd.name} does not say where its webhook is: {error}") from error


def _wanted(live: Leaves, address: Address) -> dict[tuple[str, ...], Any]:
    wanted: dict[tuple[str, ...], Any] = {("strategy",): "Webhook"}
    wanted |= {("webhook", "clientConfig", *path): value for path, value in address.fields.items()}
    versions = live.get(_REVIEW_VERSIONS)
    understood = isinstance(versions, list) and not _REVIEWS.isdisjoint(versions)
    return wanted | {_REVIEW_VERSIONS: versions if understood else ["v1"]}


def _wanted_bundle(live: Leaves, bundle: Bundle, present: Bundle) -> dict[tuple[str, ...], Any]:
    if not bundle:
        return {}
    return {_CA_BUNDLE: live[_CA_BUNDLE] if present.matches(bundle) else bundle.base64}


def _stale(live: Leaves, wanted: Leaves) -> list[tuple[str, ...]]:
    """Return the leaves of the address that are not wanted: a url where a service is wanted, say."""
    return [path for path in live if path[:2] == _CA_BUNDLE[:2] and path != _CA_BUNDLE and path not in wanted]


def _check_owners(crd: Crd, changes: Leaves, stale: list[tuple[str, ...]]) -> None:
    for path in (*changes, *stale):
        managers = appliers(crd.managed_fields, _field(path))
        if managers:
            raise WiringRefused(
                f"{'.'.join(('spec.conversion', *path))} of {crd.name} is applied by {' and '.join(managers)} with "
                "another value: take it out of that manifest, or correct it there"
            )
    for path in stale:
        if not sole_owner(crd.managed_fields, _field(path)):
            raise WiringRefused(
                f"{crd.name} has {'.'.join(('spec.conversion', *path))}, which restow did not write and does not "
                "remove: take it out of the CRD first"
            )


def _field(path: tuple[str, ...]) -> tuple[str, ...]:
    """A path below ``spec.conversion`` as managedFields spell it."""
    return ("f:spec", "f:conversion", *(f"f:{name}" for name in path))


def _body(crd: Crd, leaves: Leaves) -> Json:
    conversion: Json = {}
    for path, value in leaves.items():
        node = conversion
        for name in path[:-1]:
            node = node.setdefault(name, {})
        node[path[-1]] = value
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": crd.name, "uid": crd.uid, "resourceVersion": crd.resource_version},
        "spec": {"conversion": conversion},
    }


def _leaves(node: Mapping[str, Any], path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    for name, value in node.items():
        if isinstance(value, Mapping):
            yield from _leaves(value, (*path, name))
        else:
            yield (*path, name), value


_PROSE = frozenset({"description", "title", "example", "externalDocs"})


def why_not_none(crd: Crd) -> str:
    """Return why the strategy None would be wrong, as a sentence; empty where it is safe.

    It is safe if only one version is served and stored, or if the schemas of all that are, are the same but for prose.
    (What a webhook does between equal schemas cannot be seen here.)
    """
    stored = {*crd.stored_versions, crd.storage.name}
    unknown = sort_versions(name for name in stored if crd.version(name) is None)
    if unknown:
        return f"{crd.name} may hold objects stored at {unknown[0]}, which it does not have any more"
    names = sort_versions({*stored, *crd.served})
    for left, right in pairwise([version for name in names if (version := crd.version(name)) is not None]):
        place = _first_difference(left, right)
        if place:
            return (
                f"{crd.name} needs its webhook: {place} differs between {left.name} and {right.name}. Migrate its "
                f"objects to {crd.storage.name} (restow migrate {crd.name}) and stop serving the other versions first"
            )
    return ""


def _first_difference(left: Version, right: Version) -> str:
    return next(_differences(left.schema.node, right.schema.node, ROOT), "")


def _differences(left: Any, right: Any, path: str) -> Iterator[str]:
    """Yield where two schema nodes differ, the first place first."""
    if not isinstance(left, Mapping) or not isinstance(right, Mapping):
        if left != right:
            yield path
        return
    for name in dict.fromkeys((*left, *right)):
        if name in _PROSE:
            continue
        ours, theirs = left.get(name), right.get(name)
        if name == "properties":
            yield from _differing_fields(ours or {}, theirs or {}, path)
        elif name == "items":
            yield from _differences(ours, theirs, items_path(path))
        elif name == "additionalProperties":
            yield from _differences(ours, theirs, values_path(path))
        elif ours != theirs:
            yield path


def _differing_fields(left: Mapping[str, Any], right: Mapping[str, Any], path: str) -> Iterator[str]:
    for name in dict.fromkeys((*left, *right)):
        below = field_path(path, name)
        if name not in left or name not in right:
            yield below
        else:
            yield from _differences(left[name], right[name], below)
