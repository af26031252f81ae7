"""A version's plain fields of v1beta1 and its lifecycle of v1beta2, each made from the other. Pure.

Plain fields (a dict by ``classification``, ``expirationDate`` and, of a manifest that is at the wrong version,
``lifecycle``) say one leading stage and an expiration. What a lifecycle has beyond that is the stash's matter.

In a CloudProfile a version that names no classification is ``supported`` (GEP-32: the old fields function as before),
so an expiration makes two stages. In a NamespacedCloudProfile it makes the one stage that it moves: an override is
sparse, and its other stages are the parent's.

What is shown follows from the lifecycle and from what the status says of the version, None where it says nothing. A
status can be older than the lifecycle: what no time can make of the lifecycle does not count. Then, as before the first
reconcile, the leading stages do, those without a start.

Nothing here raises, whatever the values are: one object that cannot be converted fails a whole LIST.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from restow.cloudprofile.lifecycle import Classification
from restow.conversion import ABSENT

__all__ = [
    "CLASSIFICATION",
    "EPOCH",
    "EXPIRATION",
    "LIFECYCLE",
    "current",
    "dates_of_lifecycle",
    "fields_of_lifecycle",
    "is_at_wrong_version",
    "is_unavailable",
    "lifecycle_of_override",
    "lifecycle_of_version",
    "name_of",
    "stages_of",
    "text",
]

CLASSIFICATION: Final = "classification"
EXPIRATION: Final = "expirationDate"
LIFECYCLE: Final = "lifecycle"

#: When an ``expired`` stage without a start began: the zero time, which v1beta1 cannot leave out.
EPOCH: Final = "1970-01-01T00:00:00Z"

_SHOWN: Final = frozenset({Classification.PREVIEW, Classification.SUPPORTED, Classification.DEPRECATED})

Fields = Mapping[str, Any]
Stage = Mapping[str, Any]


def lifecycle_of_version(fields: Fields) -> Any:
    """Return the lifecycle that the fields of a CloudProfile's version mean, ABSENT if none."""
    return _lifecycle(fields, leading=Classification.SUPPORTED)


def lifecycle_of_override(fields: Fields) -> Any:
    """Return the stages that the fields of a NamespacedCloudProfile's version mean, ABSENT if none."""
    return _lifecycle(fields, leading=None)


def _lifecycle(fields: Fields, *, leading: Classification | None) -> Any:
    if written := stages_of(fields.get(LIFECYCLE, ABSENT)):
        return written
    named, expiration = text(fields.get(CLASSIFICATION)), text(fields.get(EXPIRATION))
    first = named or (leading.value if leading and expiration else "")
    stages: list[dict[str, str]] = [{"classification": first}] if first else []
    if expiration and named != Classification.EXPIRED.value:
        stages.append({"classification": Classification.EXPIRED.value, "startTime": expiration})
    return stages or ABSENT


def is_at_wrong_version(fields: Fields) -> bool:
    """Say whether fields of v1beta1 are a lifecycle and nothing else: converting puts that right, once and for all."""
    return fields.keys() == {LIFECYCLE} and bool(stages_of(fields[LIFECYCLE]))


def fields_of_lifecycle(lifecycle: Any, status: Any = ABSENT) -> dict[str, str]:
    """Return what v1beta1 shows of a lifecycle.

    An expired version is shown as the stage before it, for ``expirationDate`` says the rest.
    """
    stages = stages_of(lifecycle)
    shown = current(stages, status) if stages else ""
    if shown == Classification.EXPIRED:
        names = [name_of(stage) for stage in stages]
        shown = next((name for name in reversed(names[: names.index(shown)]) if name in _SHOWN), "")
    return {**({CLASSIFICATION: shown} if shown in _SHOWN else {}), **dates_of_lifecycle(stages)}


def dates_of_lifecycle(lifecycle: Any, _status: Any = ABSENT) -> dict[str, str]:
    """Return what v1beta1 shows of a lifecycle where it has no classification: the Kubernetes versions of overrides."""
    for stage in stages_of(lifecycle):
        if name_of(stage) == Classification.EXPIRED:
            return {EXPIRATION: text(stage.get("startTime")) or EPOCH}
    return {}


def current(stages: Sequence[Stage], status: Any) -> str:
    """Return the classification of a version with these stages, as far as the object tells."""
    names = [name_of(stage) for stage in stages]
    begun = max((index for index, stage in enumerate(stages) if not stage.get("startTime")), default=-1)
    if status in names[max(begun, 0) :]:
        return str(status)
    return names[begun] if begun >= 0 else Classification.UNAVAILABLE.value


def is_unavailable(version: Mapping[str, Any], status: Any) -> bool:
    """Say whether a CloudProfile's version cannot be used yet: v1beta1 has no word for that, and hides it."""
    stages = stages_of(version.get(LIFECYCLE))
    return bool(stages) and current(stages, status) == Classification.UNAVAILABLE


def stages_of(lifecycle: Any) -> list[Any]:
    """Return the stages of a lifecycle; none of what is no such list."""
    if not isinstance(lifecycle, list) or not all(isinstance(stage, dict) for stage in lifecycle):
        return []
    return lifecycle


def name_of(stage: Stage) -> str:
    """Return a stage's classification; one that names none is ``supported``."""
    return text(stage.get("classification")) or Classification.SUPPORTED.value


def text(value: Any) -> str:
    """Return a text as it is, and nothing for anything else."""
    return value if isinstance(value, str) else ""
