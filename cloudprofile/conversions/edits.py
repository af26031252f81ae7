"""What an edit of a version's plain fields at v1beta1 makes of a lifecycle that says more than they do. Pure.

The rules, where a stash holds the lifecycle:

- a classification that names one of its stages leaves it alone: that was shown, now or when a pipeline's file was
  written, and how a version moves from stage to stage is a matter of v1beta2;
- one that it lacks leads, without a start, and the stored stages that rank later follow;
- an expiration added, moved or removed adds, moves or removes the ``expired`` stage; stages that would start after it
  go;
- what is as it was shown changes nothing.

``edit_warnings`` tells the client where that is not what it may have meant.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from restow.cloudprofile.conversions.fields import (
    CLASSIFICATION,
    EXPIRATION,
    LIFECYCLE,
    fields_of_lifecycle,
    lifecycle_of_override,
    lifecycle_of_version,
    name_of,
    stages_of,
    text,
)
from restow.cloudprofile.lifecycle import Classification, InvalidTime, parse_time
from restow.conversion import ABSENT

__all__ = ["edited_override", "edited_version", "reappeared_override", "reappeared_version", "starts_after"]

Fields = Mapping[str, Any]
Stages = Sequence[Mapping[str, Any]]


def edited_version(edited: Fields, shown: Any, kept: Any) -> Any:
    """Return the lifecycle of a CloudProfile's version after an edit, ABSENT if none is left.

    ``edited`` are the fields as sent, ``shown`` as they were shown (ABSENT if none were), ``kept`` is the stored
    lifecycle. A version that names no classification any more is ``supported``.
    """
    if stages_of(edited.get(LIFECYCLE)) or not stages_of(kept):
        return lifecycle_of_version(edited)
    return _edited(edited, shown or {}, stages_of(kept), unnamed=Classification.SUPPORTED.value)


def edited_override(edited: Fields, shown: Any, kept: Any) -> Any:
    """Return the stages of a NamespacedCloudProfile's version after an edit; what it does not name stays as it was."""
    if stages_of(edited.get(LIFECYCLE)) or not stages_of(kept):
        return lifecycle_of_override(edited)
    return _edited(edited, shown or {}, stages_of(kept), unnamed="")


def reappeared_version(version: Mapping[str, Any], hidden: Mapping[str, Any]) -> dict[str, Any]:
    """Return the version that a client of v1beta1 sent without knowing that a hidden one has its name.

    It was shown nothing of it: so this is an edit of the hidden lifecycle, as a pipeline's fixed file makes one.
    """
    edited = fields_of_lifecycle(version.get(LIFECYCLE))
    return _with_lifecycle(version, edited_version(edited, ABSENT, hidden.get(LIFECYCLE)))


def reappeared_override(version: Mapping[str, Any], hidden: Mapping[str, Any]) -> dict[str, Any]:
    """Return the override that a client of v1beta1 sent without knowing of the hidden one."""
    edited = fields_of_lifecycle(version.get(LIFECYCLE))
    return _with_lifecycle(version, edited_override(edited, ABSENT, hidden.get(LIFECYCLE)))


def _with_lifecycle(version: Mapping[str, Any], lifecycle: Any) -> dict[str, Any]:
    others = {name: value for name, value in version.items() if name != LIFECYCLE}
    return others if lifecycle is ABSENT else {**others, LIFECYCLE: lifecycle}


def _edited(edited: Fields, shown: Fields, kept: Stages, *, unnamed: str) -> Any:
    stages = kept
    named, was_named = (text(fields.get(CLASSIFICATION)) for fields in (edited, shown))
    if named != was_named:
        stages = _led_by(named or unnamed, stages)
    expiration, was_expiration = (text(fields.get(EXPIRATION)) for fields in (edited, shown))
    if expiration != was_expiration:
        stages = _expiring(expiration, stages)
    return list(stages) or ABSENT


def _led_by(classification: str, stages: Stages) -> Stages:
    if not classification or classification in {name_of(stage) for stage in stages}:
        return stages
    later = [stage for stage in stages if _rank(name_of(stage)) > _rank(classification)]
    return [{"classification": classification}, *later]


def _expiring(expiration: str, stages: Stages) -> Stages:
    expired = next((stage for stage in stages if name_of(stage) == Classification.EXPIRED), {})
    others = [stage for stage in stages if name_of(stage) != Classification.EXPIRED]
    if not expiration:
        return others
    before = [stage for stage in others if not starts_after(stage, expiration)]
    return [*before, {**expired, "classification": Classification.EXPIRED.value, "startTime": expiration}]


def starts_after(stage: Mapping[str, Any], time: str) -> bool:
    """Say whether a stage starts after a time; of what is no time nobody can say so."""
    start, limit = _parsed(stage.get("startTime")), _parsed(time)
    return start is not None and limit is not None and start > limit


def _parsed(time: Any) -> datetime | None:
    try:
        return parse_time(time) if isinstance(time, str) else None
    except InvalidTime:
        return None


def _rank(name: str) -> int:
    try:
        return Classification(name).rank
    except ValueError:
        return -1
