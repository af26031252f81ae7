"""The stages that an early ``expirationDate`` displaces, and that come back when it is later or gone. Pure.

A client of v1beta1 can give a version a date, and stages that would start after the date contradict it. GEP-32 resolves
a contradiction for as long as it lasts and forgets nothing. So the stages leave the lifecycle, and the stash keeps them
in a section of its own, by version: ``{"of": lifecycle, "stages": […]}``. They count while the version has the
lifecycle that the edit left, so a client of v1beta2 that changes the lifecycle discards them.

Admission calls this at the hub, because it has the lifecycle before and after the edit. Conversions pass the section
on.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from restow.cloudprofile.conversions.lifecycle import (
    LIFECYCLE,
    Stages,
    name_of,
    rank_of,
    stages_of,
    starts_after,
    text,
)
from restow.cloudprofile.objects import (
    GROUP,
    NAMESPACED_CLOUD_PROFILE,
    Object,
    VersionKey,
    image_versions,
    kubernetes_versions,
    machine_images,
    spec_of,
    versions_by_key,
)
from restow.cloudprofile.versions.lifecycle import Classification
from restow.conversion import Graph
from restow.conversion.stash.annotation import section, with_section

_SECTION: Final = "displaced"
_OF: Final = "of"
_STAGES: Final = "stages"


def with_displaced(graph: Graph, old: Object, new: Object) -> Object:
    """Return a profile of v1beta2 with the stages that are no longer displaced; its stash keeps those that are.

    ``old`` is the stored profile, ``new`` the profile that a client of v1beta1 wants to store.

    Raises:
        UnknownKind: the graph does not convert this kind.
    """
    kind = graph.kind(GROUP, new["kind"])
    before, records = versions_by_key(spec_of(old)), section(dict(old), kind.stash_key, _SECTION)
    leads = "" if new["kind"] == NAMESPACED_CLOUD_PROFILE else Classification.SUPPORTED.value
    lifecycles: dict[VersionKey, Stages] = {}
    kept: dict[str, Any] = {}
    for key, version in versions_by_key(spec_of(new)).items():
        was, becomes = stages_of(before.get(key, {}).get(LIFECYCLE)), stages_of(version.get(LIFECYCLE))
        place = _place(key)
        lifecycle, displaced = _divided(was, becomes, _recorded(records.get(place), was), leads)
        if lifecycle != becomes:
            lifecycles[key] = lifecycle
        if displaced:
            kept[place] = {_OF: lifecycle, _STAGES: displaced}
    if kept != section(dict(new), kind.stash_key, _SECTION):
        new = with_section(dict(new), kind.stash_key, _SECTION, kept, kind.stash_budget)
    return {**new, "spec": _with_lifecycles(spec_of(new), lifecycles)} if lifecycles else new


def _place(key: VersionKey) -> str:
    image, version = key
    return f".spec.machineImages[{image}].versions[{version}]" if image else f".spec.kubernetes.versions[{version}]"


def _recorded(record: Any, lifecycle: Stages) -> Stages:
    """Return the stages of a record that counts; any client may have edited it."""
    return stages_of(record.get(_STAGES)) if isinstance(record, dict) and record.get(_OF) == lifecycle else []


def _divided(was: Stages, becomes: Stages, displaced: Stages, leads: str) -> tuple[Stages, Stages]:
    """Return the lifecycle that an edit leaves, and the stages that are displaced then.

    ``leads`` is the classification of a version without a lifecycle, empty for an override.
    """
    if was == becomes:
        return becomes, displaced
    ends = next((text(stage.get("startTime")) for stage in becomes if name_of(stage) == Classification.EXPIRED), "")
    names = {name_of(stage) for stage in becomes}
    missing = [stage for stage in was if name_of(stage) not in names and starts_after(stage, ends)]
    others = [stage for stage in (*missing, *displaced) if name_of(stage) not in names]
    first = leads if not becomes else "" if becomes[0].get("startTime") else name_of(becomes[0])
    if first and first not in {name_of(stage) for stage in was}:
        # The client named a stage that the lifecycle lacks: it leads, and only stages that rank later follow.
        others = [stage for stage in others if rank_of(name_of(stage)) > rank_of(first)]
    back = [stage for stage in others if not starts_after(stage, ends)]
    if back:
        leading = [] if becomes or not leads else [{"classification": leads}]
        becomes = sorted([*leading, *becomes, *back], key=lambda stage: rank_of(name_of(stage)))
    return becomes, [stage for stage in others if starts_after(stage, ends)]


def _with_lifecycles(spec: Object, lifecycles: Mapping[VersionKey, Stages]) -> Object:
    def changed(image: str, version: Object) -> Object:
        lifecycle = lifecycles.get((image, version.get("version") or ""))
        return version if lifecycle is None else {**version, LIFECYCLE: lifecycle}

    spec = {**spec}
    if versions := kubernetes_versions(spec):
        spec["kubernetes"] = {**spec["kubernetes"], "versions": [changed("", each) for each in versions]}
    if images := machine_images(spec):
        spec["machineImages"] = [
            {**image, "versions": [changed(image.get("name") or "", each) for each in image_versions(image)]}
            if image_versions(image)
            else image
            for image in images
        ]
    return spec
