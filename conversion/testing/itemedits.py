"""Edits of the items of lists without keys, as clients make them at a version that does not show all of an item.

An edit changes, inserts, copies, removes or moves items of one list of the object as it is shown. Each edit comes with
the expected result of the way back: the same edit of the original object, in which every item still has its hidden
fields. So an edit changes only fields that no rule converts: a field that both versions have, or one that no schema
declares. Items that look the same cannot be distinguished, and are not edited where that matters.

Lists whose rules hide whole items (``hide``) are left out, because an author's function decides which items these are.

Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from restow.conversion.model.fieldpath import Steps, dig, parse
from restow.conversion.model.values import Json, canonical
from restow.conversion.rules.protocol import Rule, everywhere
from restow.conversion.rules.sides import Side
from restow.conversion.rules.unions import discriminators, flattened, in_force

_MARK: Final = "zzEdited"


@dataclass(frozen=True, slots=True)
class ItemEdit:
    """An edit: ``name`` for messages, ``shown`` is the object that the client sends, ``expected`` the expected result.

    ``added`` is the place in the result of an item that the edit adds; nothing is expected of this item.
    """

    name: str
    shown: Json
    expected: Json
    added: Steps | None = None

    def without_added(self, obj: Json) -> Json:
        """Return the result of the edit without the item that the edit added."""
        if self.added is None:
            return obj
        changed: Json = _changed(obj, self.added[:-1], partial(_without, index=int(self.added[-1])))
        return changed


def has_keyless_lists(rules: Sequence[Rule]) -> bool:
    """Return whether some rule converts the items of a list without keys."""
    return any(rule.is_keyless for rule in everywhere(rules))


def item_edits(obj: Json, shown: Json, rules: Sequence[Rule], side: Side) -> Iterator[ItemEdit]:
    """Yield edits of an object; ``shown`` is the object at the version of ``side``, ``rules`` connect both versions."""
    for rule, ours, theirs in _lists(obj, shown, rules, side, (), ()):
        yield from _Edits(obj, shown, rule, ours, theirs).all()


def _lists(
    obj: Any, shown: Any, rules: Sequence[Rule], side: Side, ours: Steps, theirs: Steps
) -> Iterator[tuple[Rule, Steps, Steps]]:
    """Yield the lists without keys that both objects have, with the place of each."""
    other: Side = "hub" if side == "spoke" else "spoke"
    for rule in in_force(rules, obj, other):
        if rule.container is None or "hide" in rule.functions:
            continue
        here, there = parse(rule.claims(other)[0]), parse(rule.claims(side)[0])
        inner, outer = dig(obj, here), dig(shown, there)
        if type(inner) is not type(outer) or not isinstance(inner, dict | list):
            continue
        at, to = ours + here, theirs + there
        if rule.container == "object":
            yield from _lists(inner, outer, rule.contained, side, at, to)
            continue
        steps = _steps(inner, outer, rule)
        if isinstance(inner, list) and not rule.key_names("hub") and len(steps) == len(inner):
            yield rule, at, to
        for step in steps:
            yield from _lists(inner[step], outer[step], rule.contained, side, (*at, step), (*to, step))


def _steps(inner: Any, outer: Any, rule: Rule) -> list[Any]:
    """Return the steps to the objects that two containers have in common."""
    if (rule.container == "list") != isinstance(inner, list) or len(inner) != len(outer):
        return []
    steps = range(len(inner)) if isinstance(inner, list) else inner
    return [step for step in steps if isinstance(inner[step], dict) and isinstance(outer[step], dict)]


@dataclass(frozen=True, slots=True)
class _Edits:
    """The edits of one list, which has the place ``ours`` in ``obj`` and ``theirs`` in ``shown``."""

    obj: Json
    shown: Json
    rule: Rule
    ours: Steps
    theirs: Steps

    def all(self) -> Iterator[ItemEdit]:
        looks = [canonical(item) for item in self._items(self.shown, self.theirs)]
        every = range(len(looks))
        for index in every:
            yield self._edit(f"an edit of item {index}", partial(self._edited, indices={index}))
            yield self._inserted(index, "an insertion before", {_MARK: "inserted"})
            if looks.count(looks[index]) == 1:
                yield self._inserted(index + 1, "a copy of", self._items(self.shown, self.theirs)[index])
                yield self._edit(f"the removal of item {index}", partial(_without, index=index))
        if every:
            yield self._inserted(len(looks), "an insertion before", {_MARK: "inserted"})
            yield self._edit("an edit of all items", partial(self._edited, indices={*every}))
        if len(every) > 1 and len(set(looks)) == len(looks):
            yield self._edit("the items in reverse order", lambda items: items[::-1])
            yield self._edit("the first item at the end", lambda items: [*items[1:], items[0]])

    @staticmethod
    def _items(obj: Json, place: Steps) -> list[Json]:
        items: Any = obj
        for step in place:
            items = items[step]
        return list(items)

    def _edit(self, name: str, change: Callable[[list[Json]], list[Json]]) -> ItemEdit:
        return ItemEdit(
            self._named(name), _changed(self.shown, self.theirs, change), _changed(self.obj, self.ours, change)
        )

    def _inserted(self, index: int, name: str, item: Json) -> ItemEdit:
        shown = _changed(self.shown, self.theirs, lambda items: [*items[:index], item, *items[index:]])
        return ItemEdit(self._named(f"{name} item {index}"), shown, self.obj, (*self.ours, index))

    def _named(self, name: str) -> str:
        return f"{name} of /{'/'.join(map(str, self.theirs))}"

    def _edited(self, items: list[Json], indices: set[int]) -> list[Json]:
        """Change a field of some items that means the same in both versions."""
        return [{**item, **self._new(index)} if index in indices else item for index, item in enumerate(items)]

    def _new(self, index: int) -> Json:
        """Return a new value for the first such field that an item has in both objects, else an undeclared field."""
        ours, theirs = (self._items(*each)[index] for each in ((self.obj, self.ours), (self.shown, self.theirs)))
        for name, value in theirs.items():
            if isinstance(value, str) and ours.get(name) == value and name not in self._touched():
                return {name: f"{value} {_MARK}"}
        return {_MARK: "edited"}

    def _touched(self) -> set[str]:
        """Return the fields of an item that rules claim or read."""
        inner = tuple(flattened(self.rule.contained))
        reads = (text for each in inner for text in each.reads if text[0] != "$")
        claims = (text for each in inner for text in (*each.spoke, *each.hub))
        return {parse(text)[0] for text in (*reads, *claims, *discriminators(self.rule.contained))}


def _without(items: list[Json], index: int) -> list[Json]:
    return items[:index] + items[index + 1 :]


def _changed(value: Any, place: Steps, change: Callable[[list[Json]], list[Json]]) -> Any:
    """Return a value with the list at a place changed."""
    if not place:
        return change(value)
    changed = _changed(value[place[0]], place[1:], change)
    if isinstance(value, dict):
        return {**value, place[0]: changed}
    index = int(place[0])
    return [*value[:index], changed, *value[index + 1 :]]
