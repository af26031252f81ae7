"""Warnings for clients of v1beta1 whose edit a lifecycle does not take over as they may expect. Pure.

Conversion alone decides what an edit means (``restow.cloudprofile.conversions.lifecycle``), and cannot report it; a
step of admission can. That step has to be registered for v1beta1 itself (matchPolicy Exact), and to see the object as
it was sent: at v1beta2 a classification that was not taken over has left no trace, nor has it after the step that
restores the stash. So it is a mutating step that changes nothing, and comes before that one.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from restow.cloudprofile.conversions.lifecycle import (
    CLASSIFICATION,
    EXPIRATION,
    LIFECYCLE,
    name_of,
    stages_of,
    starts_after,
)
from restow.cloudprofile.objects import Object, by_version, image_versions, kubernetes_versions, machine_images, spec_of
from restow.conversion import Graph

__all__ = ["edit_warnings"]


_OLD: Final = "core.gardener.cloud/v1beta1"
_HUB: Final = "core.gardener.cloud/v1beta2"


def edit_warnings(graph: Graph, old: dict[str, Any], sent: dict[str, Any]) -> list[str]:
    """Return a warning for each version of a profile that will not be as its client may think.

    ``old`` is the stored object, at any version; ``sent`` is what a client of v1beta1 wants in its place, with or
    without the stash (which the mutating step restores); of anything else there are no warnings.

    Raises:
        ObjectError: a rule fails on one of the objects, or the kind has no such version.
    """
    if sent.get("apiVersion") != _OLD or sent.get("kind") not in {"CloudProfile", "NamespacedCloudProfile"}:
        return []
    key = graph.kind("core.gardener.cloud", sent["kind"]).stash_key
    stored = graph.convert(old, _HUB)
    became = graph.convert(_with_stash(sent, graph.convert(old, _OLD), key), _HUB)
    status = {"status": stored["status"]} if "status" in stored else {}
    read = _versions(graph.convert({**_without_status(became), **status}, _OLD))
    before, after = _versions(stored), _versions(became)
    return [
        warning
        for place, version in _versions(sent).items()
        for warning in _of_version(place, version, read.get(place), before.get(place, {}), after.get(place, {}))
    ]


def _of_version(place: str, sent: Object, read: Object | None, before: Object, after: Object) -> Iterator[str]:
    if read is None:
        yield f"{place} stays hidden: no stage of its lifecycle has started; change lifecycle at v1beta2"
    elif sent.get(CLASSIFICATION) and sent[CLASSIFICATION] != read.get(CLASSIFICATION):
        named = read.get(CLASSIFICATION) or "its own"
        yield f"{place}: classification stays {named}, by its lifecycle; change lifecycle at v1beta2"
    kept = {name_of(stage) for stage in stages_of(after.get(LIFECYCLE))}
    lost = [
        name_of(stage)
        for stage in stages_of(before.get(LIFECYCLE))
        if name_of(stage) not in kept and starts_after(stage, sent.get(EXPIRATION) or "")
    ]
    if lost:
        yield f"{place}: removed from its lifecycle, for starting after expirationDate: {', '.join(lost)}"


def _versions(obj: Object) -> dict[str, Object]:
    """Return all versions of a profile by the places that warnings name."""
    spec = spec_of(obj)
    found = {f"Kubernetes {name}": version for name, version in by_version(kubernetes_versions(spec)).items()}
    for image in machine_images(spec):
        versions = by_version(image_versions(image))
        found |= {f"{image.get('name') or ''} {name}": version for name, version in versions.items()}
    return found


def _with_stash(sent: dict[str, Any], shown: dict[str, Any], key: str) -> dict[str, Any]:
    """Return what was sent with the stash that the object has, if it came without one."""
    if key in _annotations(sent) or key not in _annotations(shown):
        return sent
    annotations = {**_annotations(sent), key: _annotations(shown)[key]}
    return {**sent, "metadata": {**(sent.get("metadata") or {}), "annotations": annotations}}


def _annotations(obj: dict[str, Any]) -> dict[str, Any]:
    return (obj.get("metadata") or {}).get("annotations") or {}


def _without_status(obj: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in obj.items() if name != "status"}
