"""The conversion between a version's plain fields of v1beta1 and its lifecycle of v1beta2. Pure.

Plain fields (a dict by ``classification``, ``expirationDate`` and, in a manifest of the wrong version, ``lifecycle``)
represent one leading stage and an expiration. The stash keeps the rest of a lifecycle. In a CloudProfile a version
without classification is ``supported`` (GEP-32: the old fields function as before), so an expiration makes two stages.
In a NamespacedCloudProfile it makes only the stage that it moves: an override is sparse, and the other stages are the
parent's.

v1beta1 shows a classification that follows from the lifecycle and from the status of the version, None if the status
does not list it. A status can be older than the lifecycle: a classification that the lifecycle never has does not
count. Then, as before the first reconcile, the leading stages without a start count. Nothing here raises, whatever
the values are: one object that cannot be converted fails a whole LIST.

An edit of the plain fields, if a stash holds the lifecycle:

- a classification that names one of the lifecycle's stages changes nothing: v1beta1 shows it, now or when a pipeline's
  file was written, and only v1beta2 can change when a version moves from stage to stage;
- a classification that the lifecycle lacks becomes the leading stage, without a start, and the stored stages that rank
  later follow;
- an expiration added, moved or removed adds, moves or removes the ``expired`` stage, and stages that would start after
  it are removed; ``restow.cloudprofile.conversions.oldclients`` restores them once the expiration is later or gone;
- a field that equals the shown one changes nothing.

``edit_warnings`` warns the client if the result may differ from what it expects.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from restow.cloudprofile.versions.lifecycle import Classification, InvalidTime, parse_time
from restow.conversion import ABSENT

CLASSIFICATION: Final = "classification"
EXPIRATION: Final = "expirationDate"
LIFECYCLE: Final = "lifecycle"

#: The date that v1beta1 shows for an ``expired`` stage without a start, because it cannot omit the date: the zero time.
EPOCH: Final = "1970-01-01T00:00:00Z"

_SHOWN: Final = frozenset({Classification.PREVIEW, Classification.SUPPORTED, Classification.DEPRECATED})

Fields = Mapping[str, Any]
Stage = Mapping[str, Any]
Stages = Sequence[Stage]


def is_at_wrong_version(fields: Fields) -> bool:
    """Return whether fields of v1beta1 are only a lifecycle, which converting moves to the right version for good."""
    return fields.keys() == {LIFECYCLE} and bool(stages_of(fields[LIFECYCLE]))


def _fields(lifecycle: Any, status: Any = ABSENT) -> dict[str, str]:
    """Return the fields that v1beta1 shows for a lifecycle.

    An expired version has the classification of the stage before, because ``expirationDate`` shows the expiration.
    """
    stages = stages_of(lifecycle)
    shown = current(stages, status) if stages else ""
    if shown == Classification.EXPIRED:
        names = [name_of(stage) for stage in stages]
        shown = next((name for name in reversed(names[: names.index(shown)]) if name in _SHOWN), "")
    return {**({CLASSIFICATION: shown} if shown in _SHOWN else {}), **_dates(stages)}


def _dates(lifecycle: Any) -> dict[str, str]:
    for stage in stages_of(lifecycle):
        if name_of(stage) == Classification.EXPIRED:
            return {EXPIRATION: text(stage.get("startTime")) or EPOCH}
    return {}


def current(stages: Stages, status: Any) -> str:
    """Return the classification of a version with these stages, as far as the object shows it."""
    names = [name_of(stage) for stage in stages]
    begun = max((index for index, stage in enumerate(stages) if not stage.get("startTime")), default=-1)
    if status in names[max(begun, 0) :]:
        return str(status)
    return names[begun] if begun >= 0 else Classification.UNAVAILABLE.value


def stages_of(lifecycle: Any) -> list[Any]:
    """Return the stages of a lifecycle; a value that is not a list of objects has none."""
    if not isinstance(lifecycle, list) or not all(isinstance(stage, dict) for stage in lifecycle):
        return []
    return lifecycle


def name_of(stage: Stage) -> str:
    """Return a stage's classification; a stage without one is ``supported``."""
    return text(stage.get("classification")) or Classification.SUPPORTED.value


def text(value: Any) -> str:
    """Return a string unchanged, and an empty string for any other value."""
    return value if isinstance(value, str) else ""


@dataclass(frozen=True, slots=True)
class VersionForm:
    """How v1beta1 shows the versions of a list, and what an edit of them means.

    Attributes:
        unnamed: the classification of a version that names none; empty in an override, whose other stages are the
            parent's.
        is_classified: whether v1beta1 shows a classification.
    """

    unnamed: str
    is_classified: bool = True

    def lifecycle(self, fields: Fields) -> Any:
        """Return the stages that the plain fields stand for, ABSENT if none."""
        if written := stages_of(fields.get(LIFECYCLE, ABSENT)):
            return written
        named, expiration = text(fields.get(CLASSIFICATION)), text(fields.get(EXPIRATION))
        first = named or (self.unnamed if expiration else "")
        stages: list[dict[str, str]] = [{"classification": first}] if first else []
        if expiration and named != Classification.EXPIRED.value:
            stages.append({"classification": Classification.EXPIRED.value, "startTime": expiration})
        return stages or ABSENT

    def fields(self, lifecycle: Any, status: Any = ABSENT) -> dict[str, str]:
        """Return the fields that v1beta1 shows for a lifecycle."""
        return _fields(lifecycle, status) if self.is_classified else _dates(lifecycle)

    def hides(self, version: Mapping[str, Any], status: Any) -> bool:
        """Return whether v1beta1 hides a version for want of a classification, because it cannot be used yet.

        The stages of an override do not show that, because those of the parent are missing; the status does. The one
        stage that v1beta1 itself can write is always shown, so that a client reads back what it wrote.
        """
        stages = stages_of(version.get(LIFECYCLE))
        if not stages or current(stages, status) != Classification.UNAVAILABLE:
            return False
        is_said = status == Classification.UNAVAILABLE and self.lifecycle(_dates(stages)) != stages
        return bool(self.unnamed) or is_said

    def edited(self, edited: Fields, shown: Any, kept: Any) -> Any:
        """Return the lifecycle after an edit, ABSENT if none is left.

        ``edited`` are the fields as sent, ``shown`` the fields as shown to the client (ABSENT if none were), ``kept``
        is the stored lifecycle.
        """
        stages: Stages = stages_of(kept)
        if stages_of(edited.get(LIFECYCLE)) or not stages:
            return self.lifecycle(edited)
        named, was_named = (text(fields.get(CLASSIFICATION)) for fields in (edited, shown or {}))
        if named != was_named:
            stages = _led_by(named or self.unnamed, stages)
        expiration, was_expiration = (text(fields.get(EXPIRATION)) for fields in (edited, shown or {}))
        if expiration != was_expiration:
            stages = _expiring(expiration, stages)
        return list(stages) or ABSENT

    def reappeared(self, version: Mapping[str, Any], hidden: Mapping[str, Any]) -> dict[str, Any]:
        """Return the version that a client of v1beta1 sent, merged with the hidden version of the same name.

        v1beta1 did not show the hidden version to the client, so what it sent is an edit of the hidden lifecycle, like
        a pipeline's fixed file.
        """
        lifecycle = self.edited(_fields(version.get(LIFECYCLE)), ABSENT, hidden.get(LIFECYCLE))
        others = {name: value for name, value in version.items() if name != LIFECYCLE}
        return others if lifecycle is ABSENT else {**others, LIFECYCLE: lifecycle}


VERSION: Final = VersionForm(Classification.SUPPORTED.value)
OVERRIDE: Final = VersionForm("")


def _led_by(classification: str, stages: Stages) -> Stages:
    if not classification or classification in {name_of(stage) for stage in stages}:
        return stages
    later = [stage for stage in stages if rank_of(name_of(stage)) > rank_of(classification)]
    return [{"classification": classification}, *later]


def _expiring(expiration: str, stages: Stages) -> Stages:
    expired = next((stage for stage in stages if name_of(stage) == Classification.EXPIRED), {})
    others = [stage for stage in stages if name_of(stage) != Classification.EXPIRED]
    if not expiration:
        return others
    before = [stage for stage in others if not starts_after(stage, expiration)]
    return [*before, {**expired, "classification": Classification.EXPIRED.value, "startTime": expiration}]


def starts_after(stage: Mapping[str, Any], time: str) -> bool:
    """Return whether a stage starts after a time; False if either is not a time."""
    start, limit = _parsed(stage.get("startTime")), _parsed(time)
    return start is not None and limit is not None and start > limit


def _parsed(time: Any) -> datetime | None:
    try:
        return parse_time(time) if isinstance(time, str) else None
    except InvalidTime:
        return None


def rank_of(name: str) -> int:
    """Return the rank of a classification in a lifecycle; -1 for an unknown one."""
    try:
        return Classification(name).rank
    except ValueError:
        return -1
