"""Edits of clients of v1beta1, which do not see all of a profile: what stays, and what they are warned of. Pure.

Only conversion decides what an edit means (``restow.cloudprofile.conversions.lifecycle``). Admission calls these
functions, because it has the lifecycle before and after the edit, a clock, and a way to warn.

*Displaced stages.* An early ``expirationDate`` contradicts stages that would start after it. GEP-32 resolves a
contradiction for as long as it lasts. So the stages leave the lifecycle and come back when the date is later or gone;
until then the stash keeps them in a section of its own, by version: ``{"of": lifecycle, "stages": […]}``. They count
while the version has the lifecycle that the edit left, so a client of v1beta2 that changes the lifecycle discards them.

*Unseen versions.* v1beta1 hides a version until the status says that it has begun, so a client that replaces a list
can remove a version that it never saw. A request does not show what its client has read, or when. So the rule asks
only the stored object and the clock:

- a version that v1beta1 shows from its beginning is removed, because every client has seen it;
- a version that v1beta1 can have hidden, because no stage of it but ``unavailable`` lacks a start, stays until it has
  expired and is shown as such. An override is hidden if that is also true of the rendered version;
- if its whole image is removed, which the client has seen, only a version that can be used stays, and its image.

*Warnings* are for edits whose effect on a lifecycle differs from what their client may expect. ``edit_warnings`` needs
the object as the client sent it: at v1beta2, and after the step that restores the stash, no trace is left of a
classification that had no effect.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from datetime import datetime
from typing import Any, Final

from restow.cloudprofile.conversions.lifecycle import (
    CLASSIFICATION,
    EXPIRATION,
    LIFECYCLE,
    OVERRIDE,
    VERSION,
    Stages,
    name_of,
    rank_of,
    stages_of,
    starts_after,
    text,
)
from restow.cloudprofile.objects import (
    CLOUD_PROFILE,
    GROUP,
    HUB,
    NAMESPACED_CLOUD_PROFILE,
    OLD,
    Object,
    VersionKey,
    by_name,
    image_versions,
    kubernetes_versions,
    machine_images,
    spec_of,
    version_name,
    versions_by_key,
    with_versions,
)
from restow.cloudprofile.versions.lifecycle import Classification, classification_or_none
from restow.conversion import ABSENT, Graph
from restow.conversion.reviews.admissionsteps import annotated, annotations_of, with_status_of
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
    form = OVERRIDE if new["kind"] == NAMESPACED_CLOUD_PROFILE else VERSION
    lifecycles: dict[VersionKey, Stages] = {}
    kept: dict[str, Any] = {}
    for key, version in versions_by_key(spec_of(new)).items():
        was, becomes = stages_of(before.get(key, {}).get(LIFECYCLE)), stages_of(version.get(LIFECYCLE))
        place = _place(key)
        lifecycle, displaced = _divided(was, becomes, _recorded(records.get(place), was), form.unnamed)
        if lifecycle != becomes:
            lifecycles[key] = lifecycle
        if displaced:
            kept[place] = {_OF: lifecycle, _STAGES: displaced}
    if kept != section(dict(new), kind.stash_key, _SECTION):
        new = with_section(dict(new), kind.stash_key, _SECTION, kept, kind.stash_budget)
    if not lifecycles:
        return new

    def changed(key: VersionKey, version: Object) -> Object:
        return {**version, LIFECYCLE: lifecycles[key]} if key in lifecycles else version

    return {**new, "spec": with_versions(spec_of(new), changed)}


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


def with_unseen(old: Object, new: Object, now: datetime) -> tuple[Object, tuple[VersionKey, ...]]:
    """Return a profile of v1beta2 with the versions that its author cannot mean to remove, and their keys.

    ``old`` is the stored profile with its status, ``new`` the profile that a client of v1beta1 wants to store.
    """
    stay = tuple(_staying(old, spec_of(new), now))
    return ({**new, "spec": _with_versions(spec_of(new), spec_of(old), stay)} if stay else new), stay


def _staying(old: Object, after: Object, now: datetime) -> Iterator[VersionKey]:
    status = old.get("status") or {}
    is_override = old.get("kind") == NAMESPACED_CLOUD_PROFILE
    form = OVERRIDE if is_override else VERSION
    whole = versions_by_key(status.get("cloudProfileSpec") or {}) if is_override else versions_by_key(spec_of(old))
    says = {key: each.get("classification") for key, each in versions_by_key(status).items()}
    kept, images = versions_by_key(after), by_name(machine_images(after))
    for key, version in versions_by_key(spec_of(old)).items():
        if key in kept or key not in whole or not VERSION.hides(whole[key], ABSENT):
            continue
        if not form.hides(version, Classification.UNAVAILABLE):
            continue
        classification = classification_or_none(whole[key], now)
        if key[0] and key[0] not in images:
            stays = classification is not None and classification.is_active
        else:
            stays = classification is not Classification.EXPIRED or form.hides(version, says.get(key, ABSENT))
        if stays:
            yield key


def _with_versions(spec: Object, before: Object, stay: Collection[VersionKey]) -> Object:
    """Return a spec with further versions of the spec before, each behind the one that it followed there."""
    of_image: dict[str, set[str]] = {}
    for image, version in stay:
        of_image.setdefault(image, set()).add(version)
    changed = {**spec}
    if versions := of_image.pop("", None):
        listed = _merged(kubernetes_versions(spec), kubernetes_versions(before), versions, "version")
        changed["kubernetes"] = {**(spec.get("kubernetes") or {}), "versions": listed}
    if of_image:
        sources = by_name(machine_images(before))
        bare = [{**image, "versions": []} for image in sources.values()]
        images = _merged(machine_images(spec), bare, of_image, "name")
        for index, image in enumerate(images):
            if (name := image.get("name") or "") in of_image:
                listed = _merged(image_versions(image), image_versions(sources[name]), of_image[name], "version")
                images[index] = {**image, "versions": listed}
        changed["machineImages"] = images
    return changed


def _merged(items: Sequence[Object], before: Sequence[Object], stay: Collection[str], key: str) -> list[Any]:
    """Return a list with further items of the list before, each behind the nearest item that it followed there."""
    merged, place = list(items), 0
    for item in before:
        at = next((index for index, each in enumerate(merged) if each.get(key) == item.get(key)), None)
        if at is not None:
            place = at + 1
        elif item.get(key) in stay:
            merged.insert(place, item)
            place += 1
    return merged


_HUB: Final = f"{GROUP}/{HUB}"
_OLD: Final = f"{GROUP}/{OLD}"


def edit_warnings(graph: Graph, old: dict[str, Any], sent: dict[str, Any]) -> list[str]:
    """Return a warning for each version of a profile whose result its client may not expect.

    ``old`` is the stored object, at any version. ``sent`` is the object that a client of v1beta1 wants to store, with
    or without the stash (which a mutating step restores). Objects of other versions and kinds get no warnings.

    Raises:
        ObjectError: a rule fails on one of the objects, or the kind has no such version.
    """
    if sent.get("apiVersion") != _OLD or sent.get("kind") not in {CLOUD_PROFILE, NAMESPACED_CLOUD_PROFILE}:
        return []
    key = graph.kind(GROUP, sent["kind"]).stash_key
    stored = graph.convert(old, _HUB)
    stash = annotations_of(graph.convert(old, _OLD)).get(key)
    restored = sent if stash is None or key in annotations_of(sent) else annotated(sent, key, stash)
    became = graph.convert(restored, _HUB)
    shown = graph.convert(with_status_of(stored, became), _OLD)
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


def unclassified(graph: Graph, profile: Object) -> frozenset[VersionKey]:
    """Return the versions of a CloudProfile of v1beta2 that have a stage ``supported`` that no client wrote.

    Conversion gives that stage to a version of v1beta1 that has an ``expirationDate`` and no ``classification``; its
    stash records that. Gardener counts such a version as supported, but refuses no other version because of it.

    Raises:
        ObjectError: a rule fails on the profile.
    """
    key = graph.kind(GROUP, CLOUD_PROFILE).stash_key
    if key not in annotations_of(dict(profile)):
        return frozenset()
    shown = versions_by_key(spec_of(graph.convert(dict(profile), _OLD)))
    return frozenset(
        key
        for key, version in versions_by_key(spec_of(profile)).items()
        if key in shown
        and not shown[key].get(CLASSIFICATION)
        and any(name_of(stage) == Classification.SUPPORTED for stage in stages_of(version.get(LIFECYCLE)))
    )
