"""Rules inside of list items, map values, or one object.

Pure.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, Final

from restow.conversion.model.fieldpath import Path, dig, parse, shown
from restow.conversion.model.values import ABSENT
from restow.conversion.rules.cel import FunctionOrExpression, as_function
from restow.conversion.rules.functions import FallibleRule, check_functions, check_reads
from restow.conversion.rules.known import Function
from restow.conversion.rules.protocol import (
    ANY_NODE,
    Container,
    Counterpart,
    Defect,
    Lift,
    Loss,
    Node,
    OnError,
    Rule,
    SchemaQuestions,
    Surroundings,
    check_reason,
    claimed_paths,
    counterpart,
    declared,
    inside_path,
    paths_of,
    ungrouped,
)
from restow.conversion.rules.sides import Direction, Side, opposite
from restow.crds import ANY, Schema
from restow.crds.paths import ROOT
from restow.crds.schema import schema_at


@dataclass(frozen=True, slots=True, kw_only=True)
class Again:
    """A place inside of a scope where its rules apply again: the path on either side, and the container there."""

    spoke: str
    hub: str
    container: Container


@dataclass(frozen=True, slots=True, kw_only=True)
class ScopedRules(FallibleRule):
    """Rules inside of every item of a list, every value of a map, or one object.

    ``acknowledge`` is the reason why the items of a list need no ``keys``. ``recurse`` names the places inside where
    the same rules apply again, to any depth.
    """

    container: Container = field()
    rules: tuple[Rule, ...] = field(default=())
    keys: tuple[str, ...] | None = None
    hide: Function | None = None
    merge: Function | None = None
    acknowledge: str | None = None
    recurse: tuple[Again, ...] = ()
    is_again: bool = False

    @property
    def recursions(self) -> tuple[ScopedRules, ...]:
        """This rule at the places where it applies again, one level further in."""
        return tuple(
            replace(
                self,
                spoke=(place.spoke,),
                hub=(place.hub,),
                container=place.container,
                is_again=True,
            )
            for place in self.recurse
        )

    def without_recursion(self) -> Rule:
        """Return the rule for one level."""
        return replace(self, recurse=())

    def with_contained(self, rules: tuple[Rule, ...]) -> Rule:
        """Return the rule with other rules inside."""
        return self if rules == self.rules else replace(self, rules=rules)

    def inside(self, around: Surroundings, number: int) -> Surroundings:  # noqa: ARG002
        """Return the surroundings of the rules inside: one more list, and no branches."""
        lists = around.lists + (self.container == "list")
        return Surroundings(around.spoke, lists, around.is_again or bool(self.recurse))

    def inner_place(self, side: Side, around: str) -> str:
        """Return the path that the rules inside apply to: a list's items, a map's values."""
        return inside_path(self.container, shown(parse(self.named(side)[0]), around))

    def inner_schema(self, side: Side, schema: Schema | None) -> Schema | None:
        """Return the schema of what the rules inside apply to."""
        schema = schema_at(schema, parse(self.named(side)[0]))
        if schema is None or self.container == "object":
            return schema
        return schema.items if self.container == "list" else schema.values

    @property
    def failing(self) -> tuple[str, ...]:
        """The names of the rule in failures: its label, or the function that raised."""
        return (*((self.label,) if self.recurse else ()), *(f"{self.label} {name}" for name in self.functions))

    def check(self, around: Surroundings) -> Iterator[Defect]:
        """Yield the defects of the functions, the reads, the keys, the reason and the places of recursion."""
        yield from check_functions(self, hide=self.hide, merge=self.merge)
        yield from check_reads(self, self.reads, self.inside(around, 0))
        yield from self.check_keys()
        yield from check_reason(self, self.acknowledge)

    def counterpart(self, path: Path, side: Side) -> Counterpart | None:
        """Return the other end of the scope, or where the rules inside of one object have the rest of the path."""
        (here,), (there,) = claimed_paths(self, side), claimed_paths(self, opposite(side))
        rest = path[len(here) :]
        if not rest:
            return Counterpart(there, (self,))
        if self.container != "object":
            return None
        inner = counterpart(self.inner, rest, side)
        return Counterpart((*there, *inner.path), (self, *inner.rules)) if inner.path else inner

    def fitted(self, spoke: Schema | None, hub: Schema | None) -> Rule:  # noqa: ARG002 the keys are the hub's
        """Return the rule with the list-map keys of the hub where its author left them out; none without a schema."""
        if self.keys is not None or self.container != "list":
            return self
        schema = schema_at(hub, parse(self.hub[0]))
        return replace(self, keys=() if schema is None else schema.list_keys)

    def key_names(self, side: Side) -> tuple[str, ...]:
        """Return the fields that identify an item, by their names on that side: only a rename may convert them."""
        keys = self.keys or ()
        if side == "hub":
            return keys
        renamed = {parse(rule.hub[0])[-1]: parse(rule.spoke[0])[-1] for rule in self.rules if rule.name == "rename"}
        return tuple(renamed.get(key, key) for key in keys)

    def check_keys(self) -> Iterator[Defect]:
        """Yield the rules inside that change the keys of the items."""
        rules = ungrouped(self.rules)
        moves = [rule for rule in rules if rule.moves]
        for inner in (each for rule in rules for each in rule.obeyed() if each not in moves):
            for key in self.keys or ():
                if key in inner.claims("hub"):
                    problem = f"{inner.label} changes the key {key} that identifies the items"
                    fix = "A key can be renamed, nothing else"
                    yield Defect(problem, fix, "hub", parse(self.hub[0]), is_inside=True)

    def entered(self, spoke: Schema, hub: Schema) -> tuple[Rule, ...]:
        """Return the inner rules, and those that apply again, as long as a schema describes something there.

        A schema is finite, so its innermost level may lack the field; the first level may not.
        """
        again = []
        for each in self.recursions:
            ends = schema_at(spoke, parse(each.spoke[0])), schema_at(hub, parse(each.hub[0]))
            is_last = self.is_again and ends == (None, None)
            if not is_last and any(end is not ANY for end in ends):
                again.append(each)
        return (*self.rules, *again)

    def advice_inside(self, other: Rule, rest: Path) -> str:
        """Return that the other rule, or its rules, belong into this one."""
        if other.label == self.label:
            return f"Write the rules of both into one rules.{self.name}"
        return f"Write {other.label} in the rules of {self.label}, with paths from there on" if rest else ""

    def image(self, index: int, sources: Sequence[Node | None], lift: Lift) -> Node:  # noqa: ARG002
        """Return the node of the spoke's field, with what the rules make of its content."""
        (source,) = sources
        if source is None:
            return dict(ANY_NODE)
        if self.container == "object":
            return lift(source, self._described(source))
        below = "items" if self.container == "list" else "additionalProperties"
        inner = source.get(below) or ANY_NODE
        image = {**source, below: lift(inner, self._described(inner))}
        keys = "x-kubernetes-list-map-keys"
        if keys in source:
            renamed = {rule.spoke[0]: rule.hub[0] for rule in self.rules if rule.moves}
            image[keys] = [renamed.get(key, key) for key in source[keys]]
        return image

    def _described(self, node: Node) -> tuple[Rule, ...]:
        """Return the rules inside, and those that apply again where the node describes something."""
        return (*self.rules, *(each for each in self.recursions if _is_described(node, parse(each.spoke[0]))))

    def contents(self, obj: Any, side: Side) -> Iterable[Any]:
        """Return the items of the list, the values of the map, or the object."""
        found = dig(obj, parse(self.named(side)[0]))
        if self.container == "object":
            return () if found is ABSENT else (found,)
        return found if isinstance(found, list) else found.values() if isinstance(found, dict) else ()

    def paired(self, one: Any, other: Any, change: Callable[[Any, Any], Any]) -> Any:
        """Return a list, map or object with its items, values or itself changed; unlike lists stay as they are."""
        if self.container == "object":
            return change(one, other)
        if isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
            return [change(*pair) for pair in zip(one, other, strict=True)]
        if isinstance(one, dict) and isinstance(other, dict):
            return {key: change(one.get(key), value) for key, value in other.items()}
        return other

    @property
    def contained(self) -> tuple[Rule, ...]:
        """The rules inside, without those that apply again."""
        return self.rules

    @property
    def reason(self) -> str:
        """Why the items of a list need no keys."""
        return self.acknowledge or ""

    @property
    def functions(self) -> Mapping[str, Function]:
        """The author's functions for hidden items."""
        given = {"hide": self.hide, "merge": self.merge}
        return {name: each for name, each in given.items() if each is not None}

    @property
    def ties(self) -> bool:
        """Whether a function decides by a whole item if the spoke shows it."""
        return self.hide is not None

    def ask(self, schemas: SchemaQuestions) -> None:
        """Ask for the content."""
        schemas.inside(self, self.container)

    def loss(self, direction: Direction) -> Loss:
        """Return that the stash keeps hidden items; the rules inside have losses of their own."""
        return Loss.STASHED if direction == "down" and self.hide is not None else Loss.LOSSLESS

    def shows_what_fits(self, side: Side) -> bool:
        """Return whether a rule inside of one object shows only some values."""
        return self.container == "object" and any(each.shows_what_fits(side) for each in self.rules)


def _is_described(node: Node, path: Path) -> bool:
    for name in path:
        node = (node.get("properties") or {}).get(name) or {}
    return bool(node)


@declared
def each(
    spoke: str,
    rules: Sequence[Rule],
    *,
    hub: str | None = None,
    key: str | Sequence[str] | None = None,
    hide: FunctionOrExpression | None = None,
    merge: FunctionOrExpression | None = None,
    reads: str | Sequence[str] = (),
    acknowledge: str | None = None,
    recurse: Sequence[str] | Mapping[str, str] = (),
    on_error: OnError | None = None,
) -> Rule:
    """Apply rules to every item of a list of objects; paths of ``rules`` start at the item.

    ``key`` names the hub's fields that identify an item (a list-map's keys; taken from the CRD if omitted). The stash
    finds an item by these fields, never by position.

    In a list without keys, and for an item that has none of them, the stash finds an unchanged item by its visible
    fields, and an edited item by its neighbours: if the number of items between two known items is unchanged, they
    count as the same items. Where items are edited and inserted or removed next to each other, the match is ambiguous,
    and their hidden fields are lost and counted. ``freeze`` with a CRD therefore requires a key if ``rules`` keep
    something in the stash; ``acknowledge`` is the reason why a list needs none.

    ``hide(item)`` returns whether the spoke does not show a hub item; the stash keeps the item and its position. The
    function gets the values of ``reads`` as further arguments, as in ``pair``. A hidden item survives the removal of
    the list itself: a client that saw none of the items cannot tell an empty list from no list.

    ``merge(item, hidden)`` is called if an edit of the spoke gives an item the key of a hidden one. It gets the edited
    item, already converted to the hub, and returns the result. Without it the edit replaces the hidden item.

    ``recurse`` names fields of an item in which the same rules apply again, to any depth: ``each("spec.routes", […],
    recurse=["routes"])`` for a tree of routes. ``"routes[]"`` is a list of such objects, ``"routes{}"`` a map of them,
    ``"routes."`` one such object, and ``"routes"`` the same container as that of the rule. Give a mapping from the
    spoke's paths to the hub's if these differ. An object with more than 100 such levels fails, and the error names it.

    ``on_error`` applies to the functions of this rule, not to ``rules``. With "keep" an item for which ``hide`` raises
    is hidden, an edit takes precedence if ``merge`` raises, and everything deeper than 100 levels passes unchanged.
    """
    keys = (key,) if isinstance(key, str) else None if key is None else tuple(key)
    return ScopedRules(
        container="list",
        spoke=(spoke,),
        hub=(hub or spoke,),
        rules=tuple(rules),
        keys=keys,
        hide=as_function(hide),
        merge=as_function(merge, ("item", "hidden")),
        reads=(reads,) if isinstance(reads, str) else tuple(reads),
        acknowledge=acknowledge,
        recurse=_again(recurse, "list"),
        on_error=on_error,
    )


@declared
def each_value(
    spoke: str,
    rules: Sequence[Rule],
    *,
    hub: str | None = None,
    recurse: Sequence[str] | Mapping[str, str] = (),
) -> Rule:
    """Apply rules to every value of a map (additionalProperties); paths of ``rules`` start at the value.

    ``recurse`` is as in ``each``.
    """
    return ScopedRules(
        container="map", spoke=(spoke,), hub=(hub or spoke,), rules=tuple(rules), recurse=_again(recurse, "map")
    )


@declared
def inside(
    spoke: str,
    rules: Sequence[Rule],
    *,
    hub: str | None = None,
    recurse: Sequence[str] | Mapping[str, str] = (),
) -> Rule:
    """Apply rules inside of one object, which may move as a whole; paths of ``rules`` start there.

    ``recurse`` is as in ``each``: ``inside("spec.route", […], recurse=["routes[]"])`` for a route that has routes.
    """
    return ScopedRules(
        container="object", spoke=(spoke,), hub=(hub or spoke,), rules=tuple(rules), recurse=_again(recurse, "object")
    )


_MARKS: Final[Mapping[str, Container]] = {"[]": "list", "{}": "map", ".": "object"}


def _again(recurse: Sequence[str] | Mapping[str, str], container: Container) -> tuple[Again, ...]:
    pairs = recurse if isinstance(recurse, Mapping) else {text: text for text in paths_of(recurse)}
    return tuple(_place(spoke, hub, container) for spoke, hub in pairs.items())


def _place(spoke: str, hub: str, container: Container) -> Again:
    mark = next((mark for mark in _MARKS if spoke.endswith(mark)), "")
    return Again(spoke=spoke.removesuffix(mark), hub=hub.removesuffix(mark), container=_MARKS.get(mark, container))


_WILD: Final = re.compile(r"(\*\*|\*)")
_REGEX: Final = {"**": ".*", "*": r"[^.\[\]{}]*"}


@dataclass(frozen=True, slots=True)
class Keyless:
    """Lists of the hub whose items need no keys; ``acknowledge`` is the reason why edits of these lists do no harm.

    Lists are named by path or pattern. A path is written as ``restow check`` writes it: ``spec.pools[].taints``,
    ``spec.selector{}.values``. In a pattern ``*`` stands for the rest of a name, and ``**`` for any fields, items and
    values: ``spec.template.**``.
    """

    lists: tuple[str, ...]
    acknowledge: str

    def __init__(self, lists: str | Sequence[str], *, acknowledge: str) -> None:
        names = (lists,) if isinstance(lists, str) else tuple(lists)
        object.__setattr__(self, "lists", names)
        object.__setattr__(self, "acknowledge", acknowledge)

    def covering(self, path: str) -> str:
        """Return the pattern that covers a list, by its path as ``restow check`` writes it; empty if none does."""
        return next((text for text in self.lists if _pattern(text).fullmatch(path)), "")


@cache
def _pattern(text: str) -> re.Pattern[str]:
    parts = _WILD.split(text if text.startswith((".", "[")) else f".{text}")
    return re.compile("".join(_REGEX.get(part) or re.escape(part) for part in parts), re.DOTALL)


def lists_of(rules: Sequence[Rule], around: str = ROOT) -> Iterable[tuple[str, ScopedRules]]:
    """Yield the rules of lists, to any depth, each with the path of its list in the hub."""
    for rule in rules:
        inside = rule.inner_place("hub", around)
        if isinstance(rule, ScopedRules) and rule.container == "list":
            yield shown(parse(rule.hub[0]), around), rule
        yield from lists_of(rule.contained, inside)


def with_keyless(rules: Sequence[Rule], reasons: dict[str, str], around: str = ROOT) -> tuple[Rule, ...]:
    """Return the rules; those of lists get the reasons that ``reasons`` holds by the lists' paths in the hub."""

    def completed(rule: Rule) -> Rule:
        inside = rule.inner_place("hub", around)
        if isinstance(rule, ScopedRules) and rule.is_keyless and rule.acknowledge is None:
            rule = replace(rule, acknowledge=reasons.get(shown(parse(rule.hub[0]), around)))
        return rule.with_contained(with_keyless(rule.contained, reasons, inside))

    return tuple(map(completed, rules))
