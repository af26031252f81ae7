"""Runs lenses in generated code: the forward function, the stash, the check by the inverse, reads from the root.

A lens never loses anything silently: a value that its inverse would not restore becomes a stash entry with the value
that is shown instead. Its functions are the author's; whatever they raise becomes a `RuleFailed` that names only the
rule.

A read from the root (`$.status.images[].versions[].phase`) inside of `each("spec.images", [each("versions", …)])` is
the phase of the item with the keys of this version in the item with the keys of this image. The lists are indexed once
per object.

Pure.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from restow.conversion.model.errors import ObjectError, RuleFailed, ValueBeyondLimits, note_kept
from restow.conversion.model.fieldpath import Path, dig
from restow.conversion.model.values import ABSENT, Json, alike, is_json, same
from restow.conversion.rules.functions import has_limits, is_constant_read
from restow.conversion.rules.lens import Lens, Packing
from restow.conversion.rules.protocol import claimed_paths
from restow.conversion.rules.sides import Direction, Side
from restow.conversion.rules.standard.enums import Admitted
from restow.conversion.rules.standard.shapes import computing
from restow.conversion.stash.entries import failed_entry, is_kept_failure, is_shown
from restow.crds import Schema, pruned_paths
from restow.crds.schema import schema_at
from restow.crds.types import fits, violations

#: The bound of integers of 32 bits.
NARROW: Final = 2**31


@dataclass(frozen=True, slots=True)
class LensStep:
    """A lens compiled for one direction; called by generated code. See ``rules.pair`` for the contract.

    ``paths`` and ``schemas`` are those of the target's leaves; ``back`` is the stash address of the losses of the other
    direction. ``trusts``: the stash is trusted, because the inverse depends on more than its argument. It can check the
    result of the forward function (for an object without anything to read), but no value of the stash or of a merge.
    ``nulls``: the functions are also called with null. ``is_standard``: the result of a merge must be shown as the
    edit; otherwise the edit is converted as it is. ``keeps``: a value that fails goes to the stash as it is, and
    ``stand_in`` (packed) is shown instead: the defaults of the target's schema, which the API server fills in anyway.
    ``has_limits``: so does a value that an expression cannot take.

    All functions take the reads of this direction as further arguments: going up, only those of metadata.
    """

    label: str
    forward: Callable[..., Any]
    inverse: Callable[..., Any] | None
    merge: Callable[..., Any] | None
    takes: Packing
    gives: Packing
    leaves: tuple[str, ...]
    names: frozenset[str]
    paths: tuple[Path, ...]
    schemas: tuple[Schema | None, ...]
    back: str
    trusts: bool
    nulls: bool
    forget: Callable[..., bool] | None
    is_standard: bool
    keeps: bool
    has_limits: bool
    stand_in: Any

    @classmethod
    def of(
        cls,
        lens: Lens,
        direction: Direction,
        paths: tuple[Path, ...],
        schemas: tuple[Schema | None, Schema | None],
        back: str,
    ) -> LensStep:
        """Compile a lens; ``paths`` are those of the target side, ``schemas`` those of the source and the target."""
        source_schema, schema = schemas
        upward = direction == "up"
        forward, inverse = (lens.up, lens.inverse_of_up) if upward else (lens.down, _inverse_of_down(lens))
        if lens.standard is not None:
            source_paths = claimed_paths(lens, "spoke" if upward else "hub")
            forward = _shown_by(forward, schema, paths)
            inverse = _shown_by(inverse, source_schema, source_paths)
        if lens.standard is not None and lens.standard.must_fit == ("hub" if upward else "spoke"):
            forward = partial(_fitting, forward, schema_at(schema, paths[0]), lens.standard.passes)
        elif lens.standard is not None and lens.standard.must_fit is not None:
            place = claimed_paths(lens, lens.standard.must_fit)[0]
            inverse = partial(_fitting, inverse, schema_at(source_schema, place), lens.standard.passes)
        sides: tuple[Side, Side] = ("hub", "spoke") if upward else ("spoke", "hub")
        forward, inverse = _admitted(forward, lens, sides[0]), _admitted(inverse, lens, sides[1])
        leaves, gives = (lens.hub, lens.hub_packing) if upward else (lens.spoke, lens.spoke_packing)
        found = tuple(schema_at(schema, path) for path in paths)
        return cls(
            label=lens.label,
            forward=forward,
            inverse=inverse if lens.is_checked(direction) else None,
            merge=_merge(lens, direction),
            takes=lens.packing("spoke" if upward else "hub"),
            gives=gives,
            leaves=leaves,
            names=frozenset(leaves),
            paths=paths,
            schemas=found,
            back=back,
            trusts=upward and lens.reads_hub,
            nulls=lens.nulls
            or lens.tables is not None
            or lens.singleton is not None
            or not lens.spoke_packing == lens.hub_packing == "value",
            forget=lens.forget if upward else None,
            is_standard=lens.standard is not None,
            keeps=lens.on_error == "keep",
            has_limits=has_limits(lens),
            stand_in=_stand_in(gives, leaves, paths, found),
        )

    def __call__(self, value: Any, kept: Json | None, around: tuple[bool, ...], *reads: Any) -> tuple[Any, Json | None]:
        """Return the target's value, packed, and the entry for the stash if something would be lost.

        ``around``: whether each object around the target's first leaf is in the source.
        """
        entry = self._entry(kept, value, around) if kept else None
        if entry is not None and is_kept_failure(entry):
            if alike(entry.get("shown", ABSENT), value):
                return _given(entry.get("is", ABSENT), self.gives), None
            entry = None  # an edit takes precedence, and the author's merge does not know about failures
        if entry is not None and alike(entry.get("shown", ABSENT), value):
            target = _given(entry.get("is", ABSENT), self.gives)
            if not self._shows(target, value, reads):
                target = ABSENT if value is ABSENT else self._made(value, *reads)
        elif value is ABSENT and (entry is None or self.merge is None or self.takes == "value"):
            target = ABSENT
        elif entry is not None and self.merge is not None:
            edited = {} if value is ABSENT else value
            target = self.checked(self.merge(edited, entry.get("shown", ABSENT), entry.get("is", ABSENT), *reads))
            if self.is_standard and not self._shows(target, value, reads):
                target = ABSENT if value is ABSENT else self.forward(value)
        else:
            target = self._made(value, *reads)
        if self.inverse is None or (self.trusts and entry is not None):
            return target, None
        if target is ABSENT:
            back: Any = ABSENT
        elif target is None and not self.nulls:
            back = None
        else:
            back = _given(self.inverse(target, *reads), self.takes)
        if same(back, value) or (self.forget is not None and value is not ABSENT and self.forget(value, *reads)):
            return target, None
        lost = {} if value is ABSENT else {"is": value}
        return target, lost if target is ABSENT else {**lost, "shown": target}

    def _made(self, value: Any, *reads: Any) -> Any:
        """Return the function's result for a value. Null stays null, because a typical function raises for it."""
        if value is None and not self.nulls:
            return None
        target = self.checked(self.forward(value, *reads))
        if self.keeps and target is not ABSENT and not is_json(target):
            raise no_json(self.label)
        return target

    def kept(self, error: Exception | SystemExit, value: Any, place: str, *reads: Any) -> tuple[Any, Json | None]:
        """Return the value to show if a function raised, and the entry that keeps the original value.

        If the function raised only because of the stash or a merge, the value is converted as it is. If only the check
        by the inverse raised, the result is shown, because it is unknown whether it loses something.
        """
        note_kept(failure(error, self.label, place, unasked=not self.keeps))
        if value is ABSENT:
            return ABSENT, None
        if isinstance(error, ValueBeyondLimits):  # so it is for every attempt
            target = copy.deepcopy(self.stand_in)
            return target, failed_entry(value, target, self.label)
        with suppress(Exception, SystemExit):
            return self(value, None, (), *reads)
        try:
            target = self._made(value, *reads)
        except (Exception, SystemExit):  # noqa: BLE001 an author's function
            target = copy.deepcopy(self.stand_in)
        return target, failed_entry(value, target, self.label)

    def _shows(self, target: Any, value: Any, reads: tuple[Any, ...]) -> bool:
        """Return whether the stashed value really appears as the given value: any client may write the stash."""
        if self.inverse is None or self.trusts or target is ABSENT:
            return True
        try:
            return alike(_given(self.inverse(target, *reads), self.takes), value)
        except (Exception, SystemExit):  # noqa: BLE001 an author's function, given a made-up value
            return False

    def _entry(self, kept: Json, value: Any, around: tuple[bool, ...]) -> Json | None:
        entry = kept.get(self.back)
        if not isinstance(entry, dict) or (value is ABSENT and not is_shown(entry, around)):
            return None
        if "is" in entry:
            value = entry["is"]
            if self.gives == "value":
                return entry if fits(value, self.schemas[0]) else None
            if not isinstance(value, dict) or self._undeclared(value):
                return None
            values = self.unpacked(value)
            if not all(each is ABSENT or fits(each, schema) for each, schema in zip(values, self.schemas, strict=True)):
                return None
        return entry

    def checked(self, target: Any) -> Any:
        """Return a function's result for a group, ABSENT if it is empty.

        Raises:
            RuleFailed: the value is no object, or has a field that the rule does not claim.
        """
        if self.gives == "value" or target is ABSENT:
            return target
        if not isinstance(target, dict):
            reason = f"{self.label} must return an object, not a {type(target).__name__}"
            raise RuleFailed(reason, rule=self.label)
        if self._undeclared(target):
            reason = f"{self.label} returned a field that it does not claim"
            raise RuleFailed(reason, rule=self.label)
        return target or ABSENT

    def _undeclared(self, target: Json) -> bool:
        if self.gives == "leaves":
            return not target.keys() <= self.names
        return _has_more(target, self.paths)

    def unpacked(self, target: Any) -> tuple[Any, ...]:
        """Return the values of the target's leaves, ABSENT for a missing one."""
        if target is ABSENT:
            return (ABSENT,) * len(self.paths)
        if self.gives == "leaves":
            return tuple(target.get(leaf, ABSENT) for leaf in self.leaves)
        return tuple(dig(target, path) for path in self.paths)


def _stand_in(gives: Packing, leaves: Sequence[str], paths: Sequence[Path], schemas: Sequence[Schema | None]) -> Any:
    """Return the defaults, packed, that API servers fill in if a rule returns nothing; ABSENT without a default."""
    defaults = [schema.default if schema is not None and schema.has_default else ABSENT for schema in schemas]
    if gives == "value":
        return defaults[0]
    if gives == "tree":
        return tree(paths, *defaults)
    present = zip(leaves, defaults, strict=True)
    return {leaf: value for leaf, value in present if value is not ABSENT} or ABSENT


def no_json(rule: str) -> RuleFailed:
    """Return the error for a function that returned a value that JSON cannot represent."""
    return RuleFailed(f"{rule} returned what JSON cannot represent", rule=rule)


def _merge(lens: Lens, direction: Direction) -> Callable[..., Any] | None:
    """Return the function that decides edits of the source side, None if edits are converted as they are."""
    if lens.standard is not None:
        return lens.standard.merge.get(direction)
    upward = direction == "up"
    return lens.merge if lens.may_lose("down" if upward else "up") and (upward or not lens.reads_hub) else None


def _admitted(function: Callable[..., Any], lens: Lens, side: Side) -> Callable[..., Any]:
    return Admitted(function, lens.admitted[side]) if side in lens.admitted else function


def _fitting(function: Callable[..., Any], schema: Schema | None, passes: bool, value: Any) -> Any:
    """Return a function's result, ABSENT if the schema cannot hold all of it.

    Without ``passes``, a value that the function leaves unchanged is not checked.
    """
    target = function(value)
    if (target is value and not passes) or target is ABSENT or schema is None:
        return target
    is_held = next(violations(target, schema), None) is None and not pruned_paths(target, schema)
    return target if is_held else ABSENT


def _shown_by(function: Callable[..., Any], schema: Schema | None, paths: Sequence[Path]) -> Callable[..., Any]:
    """Return a standard rule's function for a version that shows its results.

    Where no schema says what the version can show, a text with a template passes unchanged, whatever the field's type.
    """
    if schema is None and not any(path[0] == "metadata" for path in paths):
        return function
    shown = computing(function)
    field = schema_at(schema, paths[0]) if len(paths) == 1 else None
    return shown if field is None or not is_narrow(field) else partial(_narrow, shown)


def is_narrow(field: Schema) -> bool:
    """Return whether a field holds integers of 32 bits."""
    return field.node.get("type") == "integer" and field.node.get("format") == "int32"


def _narrow(function: Callable[..., Any], value: Any) -> Any:
    target = function(value)
    if target is value or target.__class__ is not int or -NARROW <= target < NARROW:
        return target
    otherwise = getattr(function, "otherwise", None)
    return ABSENT if otherwise is None else otherwise


def _inverse_of_down(lens: Lens) -> Callable[..., Any]:
    """Return the function going up with the reads of going down, of which it gets only those of metadata."""
    return partial(_with_metadata, lens) if lens.reads_hub else lens.up


def _with_metadata(lens: Lens, value: Any, *read: Any) -> Any:
    known = zip(lens.reads, read, strict=True)
    return lens.up(value, *(each for text, each in known if is_constant_read(text)))


def tree(paths: Sequence[Path], *values: Any) -> Any:
    """Return an object with these values at these paths; ABSENT if there are none."""
    root: Json = {}
    for path, value in zip(paths, values, strict=True):
        if value is not ABSENT:
            place = root
            for name in path[:-1]:
                place = place.setdefault(name, {})
            place[path[-1]] = value
    return root or ABSENT


def failure(error: Exception | SystemExit, rule: str, place: str, *, unasked: bool = False) -> RuleFailed:
    """Return the error for a rule that failed at a place. It leaves out the function's message, which may show values.

    An author who wants to give a reason raises ``ObjectError`` with it.
    """
    if isinstance(error, RuleFailed):
        return error.under(place)
    reason = error.reason if isinstance(error, ObjectError) else f"{rule} raised {type(error).__name__}"
    failed = RuleFailed(reason, rule=rule, pointer=place, unasked=unasked)
    failed.__cause__ = error
    return failed


def too_deep(rule: str, levels: int) -> RuleFailed:
    """Return the error for an object that is nested more deeply than a rule applies again."""
    reason = f"{rule} applies to {levels} levels, and the object has more of them: make it less deep"
    return RuleFailed(reason, rule=rule)


def _given(value: Any, packing: Packing) -> Any:
    return ABSENT if packing != "value" and value == {} else value


def _has_more(value: Any, paths: Sequence[Path]) -> bool:
    """Return whether an object has a field that is neither at nor below one of the paths."""
    if () in paths:
        return False
    if not isinstance(value, dict) or not paths:
        return True
    return any(_has_more(child, [path[1:] for path in paths if path[0] == name]) for name, child in value.items())


def indexed(value: Any, steps: Sequence[Path], keys: Sequence[Sequence[str]]) -> Any:
    """Return the values at a read's place by the keys of the items on the way; of equal keys the first one counts."""
    value = dig(value, steps[0])
    if not keys:
        return value
    index: dict[Any, Any] = {}
    for item in value if isinstance(value, list) else ():
        key = _key(item, keys[0])
        if key is not None:
            index.setdefault(key, indexed(item, steps[1:], keys[1:]))
    return index


def found(index: Any, items: Sequence[tuple[Any, Sequence[str]]]) -> Any:
    """Return the indexed value for a list item; ``items`` are the enclosing items and itself, with their key fields."""
    for item, keys in items:
        index = index.get(_key(item, keys), ABSENT) if isinstance(index, dict) else ABSENT
    return index


def placed(value: Any, steps: Sequence[Path], items: Sequence[tuple[Any, Sequence[str]]]) -> tuple[str | int, ...]:
    """Return the place of such a read's value, with the indexes of the items; empty if there is no value."""
    place: tuple[str | int, ...] = steps[0]
    value = dig(value, steps[0])
    for path, (item, keys) in zip(steps[1:], items, strict=False):
        key, others = _key(item, keys), value if isinstance(value, list) else ()
        index = next((index for index, other in enumerate(others) if key and _key(other, keys) == key), None)
        if index is None:
            return ()
        place, value = (*place, index, *path), dig(others[index], path)
    return () if value is ABSENT else place


def _key(item: Any, keys: Sequence[str]) -> Any:
    """Return the key of an item, None if it has none: keys are scalars, and at least one of them must be present."""
    if not keys or not isinstance(item, dict):
        return None
    if len(keys) == 1:
        value = item.get(keys[0])
        return None if isinstance(value, dict | list) else value
    values = tuple([item.get(key) for key in keys])
    if any(isinstance(value, dict | list) for value in values) or all(value is None for value in values):
        return None
    return values
