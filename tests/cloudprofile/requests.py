"""Cases of the tables as requests to an API server with the CRDs of the family.

The objects of the tables come from unit tests and have only the fields that a rule reads. This module fills in the
other fields that the schema requires, and changes nothing else: names, quantities of machine types, a namespace. A
Shoot of a case about images finds its Kubernetes version and machine types in its profile.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from tests.cloudprofile.cases import Case, now_of
from tests.cloudprofile.served import GROUP, HUB, OLD, Answer, ApiServer, at_version, field_names, version_of

__all__ = [
    "answer_to",
    "as_stored",
    "complete",
    "image_kept",
    "image_versions_kept",
    "kept_by_request",
    "kubernetes_kept",
    "offering",
    "profile_with",
    "server_of",
    "versions_as_stored",
    "whole",
    "written",
]

Document = dict[str, Any]

_QUANTITIES = {"cpu": "1", "gpu": "0", "memory": "1Gi"}
_STORAGE = {"class": "standard", "type": "default"}


def complete(obj: Document, kind: str) -> Document:
    """Return an object of a case with the fields that the schema requires of every object."""
    made = copy.deepcopy(obj)
    spec = made.setdefault("spec", {})
    made.setdefault("metadata", {})
    if kind == "CloudProfile":
        spec.setdefault("kubernetes", {})
    else:
        made["metadata"] = {"namespace": "ns", **(made.get("metadata") or {})}
        made["metadata"].setdefault("namespace", "ns")
    for index, worker in enumerate((spec.get("provider") or {}).get("workers") or ()):
        worker.setdefault("name", f"unnamed-{index}")
    for machine_type in spec.get("machineTypes") or ():
        machine_type |= {**_QUANTITIES, **machine_type}
        if storage := machine_type.get("storage"):
            machine_type["storage"] = {**_STORAGE, **storage}
    for image in spec.get("machineImages") or ():
        for version in image.get("versions") or ():
            if update := version.get("inPlaceUpdates"):
                version["inPlaceUpdates"] = {"supported": True, **update}
    return made


def written(obj: Document, kind: str, version: str | None = None) -> Document:
    """Return an object of a case at the version of its fields, or at the given one."""
    return {**complete(obj, kind), "apiVersion": f"{GROUP}/{version or version_of(obj)}", "kind": kind}


_KINDS = {
    "cloudprofiles": ("cloudProfiles", "CloudProfile"),
    "namespacedcloudprofiles": ("namespacedCloudProfiles", "NamespacedCloudProfile"),
    "shoots": ("shoots", "Shoot"),
}


def server_of(case: Case, existing: Mapping[str, Iterable[Document]] | None = None, **users: set[str]) -> ApiServer:
    """Return a server with the objects of a case at its time.

    ``existing`` replaces objects of the case; ``users`` are users with their custom verbs.
    """
    held = {**(case["input"].get("existing") or {}), **(existing or {})}
    return ApiServer(
        now_of(case),
        {
            plural: [_named(written(obj, kind)) for obj in held.get(name) or ()]
            for plural, (name, kind) in _KINDS.items()
        },
        **users,
    )


def _named(obj: Document) -> Document:
    """Return an object with a name, which every stored object has."""
    return {**obj, "metadata": {"name": "unnamed", **(obj.get("metadata") or {})}}


def answer_to(
    server: ApiServer, kind: str, new: Document | None, old: Document | None = None, **options: Any
) -> Answer:
    """Return the answer to a client that creates an object of a case, or replaces another one by it."""
    version = version_of(new or {}, old or {})
    sent = written(new or {}, kind, version)
    return (
        server.create(sent, **options) if old is None else server.update(sent, written(old, kind, version), **options)
    )


def offering(profile: Document, shoots: Iterable[Document | None], *, machines: bool = True) -> Document:
    """Return a profile of a case with the other parts that Shoots need, in the status of a rendered one.

    ``machines``: whether to add their machine types too.
    """
    made = copy.deepcopy(profile)
    if "parent" in (made.get("spec") or {}):
        if rendered := (made.get("status") or {}).get("cloudProfileSpec"):
            _offer(rendered, shoots, machines=machines)
    else:
        _offer(made.setdefault("spec", {}), shoots, machines=machines)
    return made


def _offer(spec: Document, shoots: Iterable[Document | None], *, machines: bool) -> None:
    used = [each["spec"] for each in shoots if each]
    pools = [pool["machine"] for each in used for pool in (each.get("provider") or {}).get("workers") or ()]
    if not (spec.get("kubernetes") or {}).get("versions"):
        numbers = dict.fromkeys((each.get("kubernetes") or {}).get("version") or _KUBERNETES for each in used)
        spec["kubernetes"] = {"versions": [{"version": number} for number in numbers]}
    if machines and not spec.get("machineTypes"):
        types = dict.fromkeys(machine.get("type") for machine in pools)
        spec["machineTypes"] = [{"name": name} for name in types if name]
    if not spec.get("machineImages"):
        spec["machineImages"] = [{"name": _IMAGE["name"], "versions": [{"version": _IMAGE["version"]}]}]


_KUBERNETES = "1.30.0"
_IMAGE = {"name": "unnamed-image", "version": "1.0.0"}


def whole(shoot: Document) -> Document:
    """Return a Shoot of a case that is not about versions, with versions filled in."""
    made = copy.deepcopy(shoot)
    made["spec"].setdefault("kubernetes", {}).setdefault("version", _KUBERNETES)
    for pool in (made["spec"].get("provider") or {}).get("workers") or ():
        pool["machine"].setdefault("image", dict(_IMAGE))
    return made


def as_stored(spec: Document) -> Document:
    """Return the spec of a case's profile as stored, by conversion alone.

    Conversion keeps a whole lifecycle in an object of v1beta1, although the schema refuses it.
    """
    sent = {"apiVersion": f"{GROUP}/{OLD}", "kind": "CloudProfile", "metadata": {"name": "p"}, "spec": spec}
    stored: Document = at_version(copy.deepcopy(sent), HUB)["spec"]
    return stored


def versions_as_stored(versions: list[Document]) -> list[Document]:
    """Return Kubernetes versions of a case as stored, by conversion alone."""
    stored: list[Document] = as_stored({"kubernetes": {"versions": versions}})["kubernetes"]["versions"]
    return stored


def profile_with(spec: Document) -> Document:
    """Return a CloudProfile with the spec of a case, and the other parts that a profile needs.

    The profile is at the version in which the case is written, or at the hub if one of its versions has stages and
    another one the fields of v1beta1.
    """
    made = {"kubernetes": {"versions": [{"version": _KUBERNETES}]}, **copy.deepcopy(spec)}
    flavors = [
        flavor
        for image in made.get("machineImages") or ()
        for version in image.get("versions") or ()
        for flavor in version.get("capabilityFlavors") or ()
    ]
    if flavors and "machineCapabilities" not in made:
        names = dict.fromkeys(name for flavor in flavors for name in flavor)
        values = {name: [value for flavor in flavors for value in flavor.get(name, ())] for name in names}
        made["machineCapabilities"] = [
            {"name": name, "values": list(dict.fromkeys(listed))}
            for name, listed in ({"architecture": ["amd64"]} | values).items()
        ]
    profile = written({"metadata": {"name": "p"}, "spec": made}, "CloudProfile")
    if not {"classification", "expirationDate"} & set(field_names(made)) or version_of(made) == OLD:
        return profile
    return at_version({**profile, "apiVersion": f"{GROUP}/{OLD}"}, HUB)


def kept_by_request(spec: Document, now: datetime) -> Document:
    """Return the spec of a case's CloudProfile as stored after a request that edits another part of it.

    The request is an update, because a profile may be older than the rules for added versions.
    """
    profile = profile_with(spec)
    edited = {**profile, "spec": {**profile["spec"], "limits": {"maxNodesTotal": 1000}}}
    answer = ApiServer(now).update(edited, profile)
    assert answer.stored is not None, answer.refusal
    stored: Document = answer.stored["spec"]
    return stored


def kubernetes_kept(versions: list[Document], now: datetime) -> list[Document]:
    """Return Kubernetes versions of a case as stored after a request."""
    kept: list[Document] = kept_by_request({"kubernetes": {"versions": versions}}, now)["kubernetes"]["versions"]
    return kept


def image_kept(image: Document, now: datetime) -> Document:
    """Return a machine image of a case as stored after a request; an image without versions is not sent."""
    if not image.get("versions"):
        return image
    (kept,) = kept_by_request({"machineImages": [image]}, now)["machineImages"]
    found: Document = kept
    return found


def image_versions_kept(versions: list[Document], now: datetime) -> list[Document]:
    """Return versions of a machine image of a case as stored after a request."""
    kept: list[Document] = image_kept({"name": "img", "versions": versions}, now)["versions"]
    return kept
