"""Rendering: the CloudProfile that a NamespacedCloudProfile and its parent make together. Pure.

The result is the content of ``status.cloudProfileSpec`` (GEP-25, "Rendering"). It follows from the two specs alone. The
parent's entries come first and keep their places, additions follow. A machine type or volume type of the
NamespacedCloudProfile replaces the parent's of the same name. Kubernetes versions cannot be added; image versions and
images can.

Sections that the NamespacedCloudProfile does not touch are the parent's, unchanged. In images and machine types that it
touches the architectures are filled in, so that readers need not know capabilities. ``providerConfig`` is the
parent's: only a provider's extension can merge it.

A version that both have is overridden (GEP-32, "NamespacedCloudProfile"): an override names only the stages that it
moves. A stage of the parent that would then be out of order moves with it: a stage of lower rank never starts after an
overridden stage, a stage of higher rank never before it. So the result is always in order, whatever the parent does to
its stages later. An override cannot add a stage that the parent lacks, except ``expired`` (GEP-25: extending, or
setting, the expiration date). A parent without lifecycle has the stages that its plain fields stand for, at least
``supported``. An override in the plain form, ``expirationDate``, replaces the parent's date as GEP-25 defines, and
does not change a lifecycle: validation refuses an entry that has both.

An image version that the parent lacks is whole. An expiration date of v1beta1 becomes a lifecycle with the single stage
``expired``, because conversion does not know the parent. That stage only gives the end of a version: of the parent's
version if there is one, otherwise of a version that is ``supported`` until then (``completed``). Read as a whole
lifecycle, it would describe a version that can never be used. Rendering knows the parent, so it decides, at each
reconcile: the stored object means the same at both versions, and stays right when the parent adds or removes the
version.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from restow.cloudprofile.capabilities import definitions_of, fill_architectures, in_form_of
from restow.cloudprofile.objects import Object, by_name, by_version, image_versions, kubernetes_versions, machine_images
from restow.cloudprofile.versions.lifecycle import Classification, classification_of, parse_time, written_stages


def foreign_stages(base: Object, override: Object) -> list[int]:
    """Return the indices of an override's stages that the parent's version lacks and that an override cannot add."""
    known = {classification_of(stage) for stage in written_stages(base)} | {Classification.EXPIRED}
    stages = override.get("lifecycle") or ()
    return [place for place, stage in enumerate(stages) if classification_of(stage) not in known]


def overridden(base: Object, override: Object) -> dict[str, Any]:
    """Return the parent's version as an override changes it."""
    if override.get("lifecycle"):
        return _with_stages_moved(base, override)
    changed = {field: value for field, value in base.items() if field != "expirationDate"}
    if expiration := override.get("expirationDate"):
        changed["expirationDate"] = expiration
    return changed


def _with_stages_moved(base: Object, override: Object) -> dict[str, Any]:
    foreign = set(foreign_stages(base, override))
    moved = [stage for place, stage in enumerate(override["lifecycle"]) if place not in foreign]
    if not moved:
        return dict(base)
    kept = {field: value for field, value in base.items() if field not in {"classification", "expirationDate"}}
    return kept | {"lifecycle": _merged_stages(written_stages(base), moved)}


def _merged_stages(base: Iterable[Object], moved: Iterable[Object]) -> list[dict[str, Any]]:
    anchors = {classification_of(stage): stage for stage in moved}
    stages = {classification_of(stage): stage for stage in base}
    stages = {name: {**stages.get(name, {}), **anchors.get(name, {})} for name in {**stages, **anchors}}
    order = sorted(stages)
    starts = {name: (anchors.get(name) or stages[name]).get("startTime") for name in order}
    _lower(starts, order, anchors)
    _raise(starts, order)
    return [_starting(stages[name], starts[name]) for name in order]


_Starts = dict[Classification, str | None]


def _lower(starts: _Starts, order: Sequence[Classification], anchors: Container[Classification]) -> None:
    """Move each stage of the parent so that it does not start after an overridden stage that ranks above it."""
    ceilings: list[str | None] = []
    for name in reversed(order):
        if name in anchors:
            ceilings = [starts[name]]
        else:
            starts[name] = min([starts[name], *ceilings], key=_time)


def _raise(starts: _Starts, order: Sequence[Classification]) -> None:
    """Move each stage so that it does not start before one that ranks below it."""
    floor = None
    for name in order:
        floor = starts[name] = max(starts[name], floor, key=_time)


def _time(start: str | None) -> tuple[bool, datetime | None]:
    """Return a sort key for a start; a missing start sorts first."""
    return (False, None) if start is None else (True, parse_time(start))


def _starting(stage: Object, start: str | None) -> dict[str, Any]:
    stage = {field: value for field, value in stage.items() if field != "startTime"}
    return stage if start is None else {**stage, "startTime": start}


_OWN_FIELDS = ("architectures", "capabilityFlavors", "classification", "cri", "kubeletVersionConstraint")
_END_OF_CERTIFICATE = "-----END CERTIFICATE-----"


def is_own_version(version: Object) -> bool:
    """Return whether an image version of a NamespacedCloudProfile is its own, not an override of the parent's."""
    return any(version.get(field) for field in _OWN_FIELDS)


def completed(version: Object) -> Object:
    """Return a version that is not an override; one with only the stage ``expired`` gets ``supported`` before it."""
    stages = version.get("lifecycle") or ()
    if [stage.get("classification") for stage in stages] != [Classification.EXPIRED]:
        return version
    return {**version, "lifecycle": [{"classification": Classification.SUPPORTED.value}, *stages]}


def render(parent: Object, namespaced: Object) -> dict[str, Any]:
    """Return the CloudProfile spec that a NamespacedCloudProfile's spec and its parent's spec make together."""
    rendered = dict(parent)
    project = in_form_of(namespaced, definitions_of(parent))
    if overrides := by_version(kubernetes_versions(project)):
        rendered |= _kubernetes(parent, overrides)
    if images := machine_images(project):
        rendered["machineImages"] = _merged(machine_images(parent), images, by_name, _image, _own_image)
    for section in ("machineTypes", "volumeTypes"):
        if items := project.get(section):
            rendered[section] = [*(by_name(parent.get(section) or ()) | by_name(items)).values()]
    _fill(rendered, project)
    if bundle := project.get("caBundle"):
        rendered["caBundle"] = _joined(parent.get("caBundle") or "", bundle)
    if (limits := project.get("limits")) is not None:
        rendered["limits"] = _limits(parent.get("limits") or {}, limits)
    return rendered


def _kubernetes(parent: Object, overrides: Mapping[str, Object]) -> dict[str, Any]:
    versions = [
        overridden(version, overrides[name]) if (name := version.get("version") or "") in overrides else version
        for version in kubernetes_versions(parent)
    ]
    return {"kubernetes": {**parent["kubernetes"], "versions": versions}} if versions else {}


def _merged(
    base: Sequence[Object],
    additions: Sequence[Object],
    keyed: Callable[[Sequence[Object]], dict[str, Object]],
    both: Callable[[Object, Object], Object],
    alone: Callable[[Object], Object],
) -> list[Object]:
    """Return the items of two lists; ``both`` merges items with equal keys, at the place of the first."""
    merged = keyed(base)
    for key, item in keyed(additions).items():
        merged[key] = both(merged[key], item) if key in merged else alone(item)
    return list(merged.values())


def _own_image(image: Object) -> Object:
    versions = image_versions(image)
    return {**image, "versions": [completed(version) for version in versions]} if versions else image


def _image(base: Object, image: Object) -> Object:
    changed = dict(base)
    if strategy := image.get("updateStrategy"):
        changed["updateStrategy"] = strategy
    if versions := image_versions(image):
        changed["versions"] = _merged(image_versions(base), versions, by_version, _image_version, completed)
    return changed


def _image_version(base: Object, version: Object) -> Object:
    return completed(version) if is_own_version(version) else overridden(base, version)


def _fill(rendered: dict[str, Any], project: Object) -> None:
    """Fill in the architectures of the sections that the project touches."""
    filled = fill_architectures(rendered)
    for section in ("machineImages", "machineTypes"):
        if project.get(section):
            rendered[section] = filled[section]


def _joined(parent: str, project: str) -> str:
    """Return both bundles in one, with a line break after the parent's last certificate if it has none."""
    return f"{parent}\n{project}" if parent.endswith(_END_OF_CERTIFICATE) else parent + project


def _limits(parent: Object, project: Object) -> Object:
    maximum = project.get("maxNodesTotal") or 0
    return {**parent, "maxNodesTotal": maximum} if maximum > 0 else dict(parent)
