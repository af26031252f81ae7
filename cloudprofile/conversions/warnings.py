"""Warnings for clients of v1beta1 whose edit has another effect on a lifecycle than they may expect. Pure.

Only conversion decides what an edit means (``restow.cloudprofile.conversions.lifecycle``), and it cannot report that;
an admission step can. The step has to be registered for v1beta1 itself (matchPolicy Exact), and to see the object as
the client sent it. At v1beta2 no trace is left of a classification that had no effect, nor after the step that restores
the stash. So this is a mutating step that changes nothing and runs before the restoring step.
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
from restow.cloudprofile.objects import Object, VersionKey, spec_of, version_name, versions_by_key
from restow.conversion import Graph

_OLD: Final = "core.gardener.cloud/v1beta1"
_HUB: Final = "core.gardener.cloud/v1beta2"


def edit_warnings(graph: Graph, old: dict[str, Any], sent: dict[str, Any]) -> list[str]:
    """Return a warning for each version of a profile whose result its client may not expect.

    ``old`` is the stored object, at any version. ``sent`` is the object that a client of v1beta1 wants to store, with
    or without the stash (which a mutating step restores). Objects of other versions and kinds get no warnings.

    Raises:
        ObjectError: a rule fails on one of the objects, or the kind has no such version.
    """
    if sent.get("apiVersion") != _OLD or sent.get("kind") not in {"CloudProfile", "NamespacedCloudProfile"}:
        return []
    key = graph.kind("core.gardener.cloud", sent["kind"]).stash_key
    stored = graph.convert(old, _HUB)
    became = graph.convert(_with_stash(sent, graph.convert(old, _OLD), key), _HUB)
    status = {"status": stored["status"]} if "status" in stored else {}
    shown = graph.convert({**_without_status(became), **status}, _OLD)
    read, before, after, written = (versions_by_key(spec_of(each)) for each in (shown, stored, became, sent))
    return [
        warning
        for key, version in written.items()
        for warning in _of_version(version_name(key), version, read.get(key), before.get(key, {}), after.get(key, {}))
    ]


def unseen_warning(key: VersionKey) -> str:
    """Return the warning about a version that a client of v1beta1 left out and that stays (``with_unseen``)."""
    return f"{version_name(key)} stays: v1beta1 has not always shown it; delete it at v1beta2, or once it has expired"


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
        yield f"{place}: set aside until expirationDate is later or removed: {', '.join(lost)}"


def _with_stash(sent: dict[str, Any], shown: dict[str, Any], key: str) -> dict[str, Any]:
    """Return the sent object with the stash of the stored one, unless it has its own."""
    if key in _annotations(sent) or key not in _annotations(shown):
        return sent
    annotations = {**_annotations(sent), key: _annotations(shown)[key]}
    return {**sent, "metadata": {**(sent.get("metadata") or {}), "annotations": annotations}}


def _annotations(obj: dict[str, Any]) -> dict[str, Any]:
    return (obj.get("metadata") or {}).get("annotations") or {}


def _without_status(obj: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in obj.items() if name != "status"}
