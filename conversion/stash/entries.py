"""The entry that one rule leaves in the stash, and how it is read again: the slow paths of generated code.

An entry is a dict under the path of the field that the other version cannot express, in terms of the field's own
version:

- a leaf: `{"is": value}`, without `is` if the field was absent. For fields that functions converted, `shown` is the
  value that the other version showed instead (or absent): if it has changed, a later edit takes precedence;
- a leaf whose rule failed, with ``on_error="keep"``: `failed` is the rule. Its value counts as long as the object
  shows the same value as then, and no function checks it;
- an object on the way to claimed fields that the plain way back would change: also a leaf, whose value is `{}`, null or
  absent;
- a list: `{"items": […]}`, see ``restow.conversion.stash.items``;
- a map: `{"values": {key: {…}}}`;
- a field that is implied around other rules: the entries of that layer, under its address (`hub .spec`);
- a union, under its own address (`?.spec.type`): `{"branch": name, "inside": {…}}`, the losses of that branch's rules;
  the name is null for no branch. The entry counts only for objects of this branch. `shown` is the branch that the
  other version showed instead, if it did not show this one; while it does, the object still belongs to this branch;
- an object with rules of its own: `{"inside": {…}}`, where `left` says what the other version had if the whole content
  came from the stash: an empty object (true) or none (false).

`gone` is the second guard: the number of objects around the field that the other version did not show. An entry counts
only while the next object outwards, which was shown, still exists: removing an object removes its hidden content.

Reading checks everything, because any client may have edited the annotation. An entry of a wrong shape is ignored.

Pure.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from typing import Any, Final

from restow.conversion.model.values import ABSENT, Json
from restow.crds import Schema
from restow.crds.types import fits

Kept = Mapping[str, Any] | None

_IS: Final = "is"
_GONE: Final = "gone"
_INSIDE: Final = "inside"
_BRANCH: Final = "branch"
_SHOWN: Final = "shown"
_LEFT: Final = "left"
_VALUES: Final = "values"
_FAILED: Final = "failed"


def leaf(value: Any, around: Sequence[bool] = ()) -> Json:
    """Return the entry of a field; ``around``: whether each object around it is shown, innermost first."""
    return with_gone({} if value is ABSENT else {_IS: value}, around)


def failed_entry(value: Any, target: Any, rule: str) -> Json:
    """Return the entry of a value whose rule failed, and of the value that the other version shows instead."""
    entry: Json = {_IS: value, _FAILED: rule}
    return entry if target is ABSENT else {**entry, _SHOWN: target}


def is_kept_failure(entry: Json) -> bool:
    """Return whether an entry keeps a value whose rule failed."""
    return isinstance(entry.get(_FAILED), str)


def with_gone(entry: Json, around: Sequence[bool]) -> Json:
    """Return an entry with its second guard (``gone``)."""
    gone = next((index for index, shown in enumerate(around) if shown), len(around))
    return {**entry, _GONE: gone} if gone else entry


def is_shown(entry: Json, around: Sequence[bool]) -> bool:
    """Return whether the objects around a field are still present as they were shown when its entry was made."""
    gone = entry.get(_GONE, 0)
    if gone.__class__ is not int or gone < 0:
        return False
    return bool(gone >= len(around) or around[gone])


def kept_leaf(kept: Kept, path: str, schema: Schema | None) -> Json | None:
    """Return the entry of a field if it has the right shape, and a value that the schema can hold."""
    entry = kept.get(path) if kept else None
    if not isinstance(entry, dict) or not fits(entry.get(_IS), schema):
        return None
    return entry


def note(source: Any, *, required: bool) -> Json | None:
    """Return the entry of an object that other fields fill, or None if the plain way back leaves it as it was.

    ``required``: whether the schema of its own version requires the object.
    """
    if isinstance(source, dict):
        return None if required else {_IS: {}}
    if source is ABSENT:
        return {} if required else None
    return {_IS: source}


def emptied(kept: Kept, path: str, schema: Schema | None, *, required: bool) -> Any:
    """Return the result for an object that lost all its fields: ``{}``, ABSENT, or the value in the stash."""
    entry = kept_leaf(kept, path, schema)
    if entry is None:
        return {} if required else ABSENT
    noted = entry.get(_IS, ABSENT)
    return {} if isinstance(noted, dict) else noted


def stays(source: Any, kept: Kept, path: str, schema: Schema | None, *, required: bool, bare: bool) -> bool:
    """Return whether an object of the source also exists in the target even if nothing is left in it.

    ``bare``: whether an empty object may pass unchanged.
    """
    if not isinstance(source, dict):
        return False
    if not source:
        return bare
    return isinstance(emptied(kept, path, schema, required=required), dict)


def kept_layer(kept: Kept, address: str) -> Kept:
    """Return the entries for one implied field around other rules."""
    layer = kept.get(address) if kept else None
    return layer if isinstance(layer, dict) else None


def kept_inside(kept: Kept, path: str) -> Kept:
    """Return the entries for the fields of one object."""
    return _section(kept, path, _INSIDE)


def hidden_inside(kept: Kept, path: str, around: Sequence[bool]) -> Any:
    """Return the object that only the stash knows: ``{}`` to be filled, or ABSENT."""
    entry = kept.get(path) if kept else None
    if not isinstance(entry, dict) or not isinstance(entry.get(_INSIDE), dict) or not is_shown(entry, around):
        return ABSENT
    return {}


def left_inside(kept: Kept, path: str, *, natural: bool) -> Any:
    """Return the result for an object in which its inner rules left nothing: ``{}`` or ABSENT."""
    entry = kept.get(path) if kept else None
    left = entry.get(_LEFT) if isinstance(entry, dict) else None
    return {} if (left if isinstance(left, bool) else natural) else ABSENT


def without_dropped(source: Any, dropped: Mapping[str, Any]) -> Any:
    """Return ``{}`` for an object of which the way back restores nothing, since rules drop all of its fields.

    ``dropped``: the dropped fields by name; the value is a mapping of the same kind for an object with rules of its
    own, and None for a field that is dropped as a whole. Everything else is returned as it is.
    """
    return {} if isinstance(source, dict) and _is_dropped(source, dropped) else source


def _is_dropped(fields: Json, dropped: Mapping[str, Any]) -> bool:
    for name, value in fields.items():
        if name not in dropped:
            return False
        inner = dropped[name]
        if inner is not None and not (isinstance(value, dict) and value and _is_dropped(value, inner)):
            return False
    return True


def inside(lost: Json, source: Any, target: Any, around: Sequence[bool], *, required: bool) -> Json | None:
    """Return the entry of an object with rules of its own, or None if nothing must be kept.

    ``source`` and ``target`` are the object before and after, ABSENT where it is missing; ``lost`` holds the losses of
    its rules. ``required``: whether the schema of its own version requires the object.
    """
    entry: Json = {_INSIDE: lost} if lost or (target is ABSENT and source is not ABSENT) else {}
    if target and not source and (source is not ABSENT) is not required:
        entry[_LEFT] = source is not ABSENT
    return with_gone(entry, around) if entry else None


def branch_entry(branch: str | None, shown: str | None, lost: Json | None) -> Json:
    """Return the entry of a union: the object's branch, the branch that the other version shows, and the losses."""
    entry: Json = {_BRANCH: branch, _INSIDE: lost or {}}
    return entry if shown == branch else {**entry, _SHOWN: shown}


def kept_branch(kept: Kept, path: str, shown: str | None, names: Container[str]) -> tuple[str | None, Kept]:
    """Return the branch of an object that shows the branch ``shown``, and the entries for its rules."""
    entry = kept.get(path) if kept else None
    if not isinstance(entry, dict) or _BRANCH not in entry or entry.get(_SHOWN, entry[_BRANCH]) != shown:
        return shown, None
    branch = entry[_BRANCH]
    if branch is not None and not (isinstance(branch, str) and branch in names):
        return shown, None
    return branch, _section(kept, path, _INSIDE)


def kept_values(kept: Kept, path: str) -> Mapping[str, Json]:
    """Return the entries for the values of a map, by key."""
    values = _section(kept, path, _VALUES) or {}
    return {key: entry for key, entry in values.items() if isinstance(entry, dict)}


def _section(kept: Kept, path: str, name: str) -> Json | None:
    entry = kept.get(path) if kept else None
    section = entry.get(name) if isinstance(entry, dict) else None
    return section if isinstance(section, dict) else None
