"""The conversions under test, and objects of the family to convert."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import cache
from typing import Any

from restow.cloudprofile.conversions import graph, with_displaced, with_unseen
from restow.cloudprofile.versions.lifecycle import status_of
from restow.conversion import Graph
from restow.conversion.reviews.admission import AdmissionRequest, GroupVersionKind, GroupVersionResource
from restow.conversion.reviews.admissionsteps import restore_stash
from restow.crds import Crd
from restow.crds.cloudprofiles import documents

__all__ = [
    "GROUP",
    "STASH",
    "V1BETA1",
    "V1BETA2",
    "at_time",
    "conversions",
    "crd_of",
    "down",
    "moment",
    "profile",
    "replaced",
    "spec_with",
    "stage",
    "up",
    "without_stash",
]

GROUP = "core.gardener.cloud"
V1BETA1, V1BETA2 = f"{GROUP}/v1beta1", f"{GROUP}/v1beta2"
STASH = f"{GROUP}/conversion-stash"


@cache
def crds() -> dict[str, Crd]:
    return {crd.kind: crd for crd in map(Crd.from_document, documents().values())}


def crd_of(kind: str) -> Crd:
    """Return the CRD of a kind, as applied to a server."""
    return crds()[kind]


@cache
def conversions() -> Graph:
    """Return the conversions, checked against the CRDs."""
    return graph(crds().values())


def up(obj: dict[str, Any]) -> dict[str, Any]:
    return conversions().convert(obj, V1BETA2)


def down(obj: dict[str, Any]) -> dict[str, Any]:
    return conversions().convert(obj, V1BETA1)


def moment(day: str) -> datetime:
    return datetime.fromisoformat(day).replace(tzinfo=UTC)


def stage(classification: str, day: str | None = None) -> dict[str, str]:
    return {"classification": classification, **({"startTime": f"{day}T00:00:00Z"} if day else {})}


def spec_with(**versions: Any) -> dict[str, Any]:
    """Return a spec with Kubernetes versions; ``v1_28_0=[...]`` gives one its lifecycle, a dict its other fields."""
    items = []
    for name, says in versions.items():
        fields = {"lifecycle": says} if isinstance(says, list) else says
        items.append({"version": name.removeprefix("v").replace("_", "."), **fields})
    return {"kubernetes": {"versions": items}}


def profile(spec: dict[str, Any], *, version: str = V1BETA2, kind: str = "CloudProfile", **more: Any) -> dict[str, Any]:
    return {"apiVersion": version, "kind": kind, "metadata": {"name": "p"}, "spec": spec, **more}


def at_time(obj: dict[str, Any], now: datetime) -> dict[str, Any]:
    """Return a CloudProfile of v1beta2 with the status that its reconciler writes at a time."""
    return {**obj, "status": status_of(obj["spec"], now)}


def without_stash(obj: dict[str, Any]) -> dict[str, Any]:
    annotations = {name: text for name, text in obj["metadata"].get("annotations", {}).items() if name != STASH}
    metadata = {name: value for name, value in obj["metadata"].items() if name != "annotations"}
    return {**obj, "metadata": {**metadata, "annotations": annotations} if annotations else metadata}


def replaced(stored: dict[str, Any], sent: dict[str, Any], now: datetime | None = None) -> dict[str, Any]:
    """Return the object that an API server stores when a client of v1beta1 replaces one, the restored stash included.

    With a time, also what admission restores of versions and stages that v1beta1 does not show.
    """
    request = AdmissionRequest(
        uid="u",
        kind=GroupVersionKind(GROUP, "v1beta2", stored["kind"]),
        resource=GroupVersionResource(),
        operation="UPDATE",
        request_kind=GroupVersionKind(GROUP, "v1beta1", stored["kind"]),
        object=up(sent),
        old_object=stored,
    )
    admitted = dict(up(sent))
    for operation in restore_stash(conversions(), request, stored_status=True).patch:
        admitted = _patched(admitted, operation["path"].split("/")[1:], operation)
    if now is not None:
        complete, _ = with_unseen(stored, admitted, now)
        admitted = dict(with_displaced(conversions(), stored, complete))
    # The server converts to the request's version, keeps the stored status, and encodes at the storage version.
    at_request = {name: value for name, value in down(admitted).items() if name != "status"}
    shown = down(stored)
    return up({**at_request, **({"status": shown["status"]} if "status" in shown else {})})


def _patched(obj: dict[str, Any], path: list[str], operation: dict[str, Any]) -> dict[str, Any]:
    name, *rest = [step.replace("~1", "/").replace("~0", "~") for step in path[:1]] + path[1:]
    if rest:
        return {**obj, name: _patched(obj[name], rest, operation)}
    others = {key: value for key, value in obj.items() if key != name}
    return others if operation["op"] == "remove" else {**others, name: operation["value"]}
