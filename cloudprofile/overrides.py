"""What a NamespacedCloudProfile's entry for a version makes of the parent's entry. Pure.

GEP-32, "NamespacedCloudProfile": an override names only the stages that it moves. A stage of the parent that would
then be out of order moves along: one of lower rank never starts after an overridden stage, one of higher rank never
before it. So the result is always in order, whatever the parent does to its stages later.

No override brings a stage that the parent lacks, but for one: ``expired`` (GEP-25: extending, or setting, the
expiration date). A parent without lifecycle has the stages that its plain fields stand for, if only ``supported``. An
override in the plain form, ``expirationDate``, replaces the parent's date as GEP-25 says, and leaves a lifecycle alone:
validation refuses an entry that has both.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from datetime import datetime
from typing import Any

from restow.cloudprofile.lifecycle import Classification, parse_time
from restow.cloudprofile.parts import Object

__all__ = ["foreign_stages", "overridden", "written_stages"]


def written_stages(version: Object) -> list[Object]:
    """Return the stages of a version as JSON, those that the plain fields stand for included; never empty."""
    if lifecycle := version.get("lifecycle"):
        return list(lifecycle)
    leading = {"classification": version.get("classification") or Classification.SUPPORTED.value}
    if expiration := version.get("expirationDate"):
        return [leading, {"classification": Classification.EXPIRED.value, "startTime": expiration}]
    return [leading]


def foreign_stages(base: Object, override: Object) -> list[int]:
    """Return the places of stages in an override's lifecycle that the parent's version lacks and cannot be given."""
    known = {_classification(stage) for stage in written_stages(base)} | {Classification.EXPIRED}
    stages = override.get("lifecycle") or ()
    return [place for place, stage in enumerate(stages) if _classification(stage) not in known]


def overridden(base: Object, override: Object) -> dict[str, Any]:
    """Return the parent's version as an override changes it.

    Raises:
        ValueError: a stage's classification or time is none.
    """
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
    return kept | {"lifecycle": _merged(written_stages(base), moved)}


def _merged(base: Iterable[Object], moved: Iterable[Object]) -> list[dict[str, Any]]:
    anchors = {_classification(stage): stage for stage in moved}
    stages = {_classification(stage): stage for stage in base}
    stages = {name: {**stages.get(name, {}), **anchors.get(name, {})} for name in {**stages, **anchors}}
    order = sorted(stages)
    starts = {name: (anchors.get(name) or stages[name]).get("startTime") for name in order}
    _lower(starts, order, anchors)
    _raise(starts, order)
    return [_starting(stages[name], starts[name]) for name in order]


_Starts = dict[Classification, str | None]


def _lower(starts: _Starts, order: Sequence[Classification], anchors: Container[Classification]) -> None:
    """Let no stage of the parent start after an overridden one that ranks above it."""
    ceilings: list[str | None] = []
    for name in reversed(order):
        if name in anchors:
            ceilings = [starts[name]]
        else:
            starts[name] = min([starts[name], *ceilings], key=_time)


def _raise(starts: _Starts, order: Sequence[Classification]) -> None:
    """Let no stage start before one that ranks below it."""
    floor = None
    for name in order:
        floor = starts[name] = max(starts[name], floor, key=_time)


def _time(start: str | None) -> tuple[bool, datetime | None]:
    """Return a sort key for a start: none is before all."""
    return (False, None) if start is None else (True, parse_time(start))


def _starting(stage: Object, start: str | None) -> dict[str, Any]:
    stage = {field: value for field, value in stage.items() if field != "startTime"}
    return stage if start is None else {**stage, "startTime": start}


def _classification(stage: Object) -> Classification:
    return Classification(stage.get("classification") or Classification.SUPPORTED)
