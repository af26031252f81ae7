"""Drafts the rules between two versions from their schemas: rules for certain cases, open questions for the rest.

A draft accounts for every field. A field for which no rule is certain is kept in the stash, which loses nothing, and is
reported as an open question with a possible rule. So a draft may be incomplete, but is never silently wrong. The check
reports the required fields whose absence needs a meaning, and the lists whose items need keys.
Pure.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Final

from restow.conversion import rules
from restow.conversion.definition.likely import Field, Likely, bare, likely
from restow.conversion.definition.names import are_one_name, likeness, words
from restow.conversion.definition.suggestions import python_source
from restow.conversion.model.fieldpath import Path, shown, starts_with
from restow.conversion.rules.protocol import Container, Rule, inside_path
from restow.conversion.rules.sides import Side
from restow.crds import Schema
from restow.crds.paths import ROOT

_IMPLICIT: Final = frozenset({"apiVersion", "kind", "metadata"})
#: Words that mark a field as the former form of another one.
_OLD: Final = re.compile(r"deprecated|legacy|old|former|v[0-9]+((alpha|beta)[0-9]*)?")
_SCOPES: Final[Mapping[Container, Callable[..., Rule]]] = {
    "list": rules.each,
    "map": rules.each_value,
    "object": rules.inside,
}
#: How deep inside of an object that only one version has a moved field is looked for.
_DEEPEST: Final = 3
#: The share of common fields from which two objects with different names may be the same object.
_SHARED: Final = 0.5
_CLOSE: Final = 0.1


@dataclass(frozen=True, slots=True)
class DraftedRule:
    """A rule, and the reason why it was drafted. ``inner`` are the drafts of the rules inside of it."""

    rule: Rule
    why: str
    inner: tuple[DraftedRule, ...] = ()


@dataclass(frozen=True, slots=True)
class Question:
    """A question for the author: the place, the question, and the rule to use if the answer is yes."""

    place: str
    text: str
    rule: str = ""

    def __str__(self) -> str:
        proposed = f" If so, write {self.rule}." if self.rule else ""
        return f"{self.place}: {self.text}.{proposed}"


@dataclass(frozen=True, slots=True)
class RulesDraft:
    """The drafted rules between two versions, and the open questions."""

    rules: tuple[DraftedRule, ...]
    questions: tuple[Question, ...]


def drafted(spoke: Schema, hub: Schema, *, names: tuple[str, str]) -> RulesDraft:
    """Draft the rules between two versions; ``names`` are those of the spoke and of the hub."""
    scope = _Scope(names, (ROOT, ROOT))
    scope.compare(spoke, hub, ())
    scope.pair()
    return RulesDraft(tuple(scope.rules), tuple(scope.questions))


@dataclass(slots=True)
class _Scope:
    """One object under comparison, with its inner objects; lists and maps have scopes of their own.

    ``around`` are its places in both versions. ``ours`` and ``theirs`` are the fields that only one version has,
    ``common`` those that both have at the same place.
    """

    names: tuple[str, str]
    around: tuple[str, str]
    rules: list[DraftedRule] = field(default_factory=list)
    questions: list[Question] = field(default_factory=list)
    ours: list[Field] = field(default_factory=list)
    theirs: list[Field] = field(default_factory=list)
    common: list[tuple[Field, Field]] = field(default_factory=list)

    def compare(self, spoke: Schema, hub: Schema, at: Path) -> None:
        """Compare the fields of two objects that correspond to each other."""
        for name, schema in spoke.properties.items():
            if spoke.is_root and name in _IMPLICIT:
                continue
            other = hub.properties.get(name)
            one = Field((*at, name), schema)
            if other is None:
                self.ours.append(one)
                continue
            self.common.append((one, Field(one.path, other)))
            if bare(schema.node) != bare(other.node):
                self._both(one, Field((*at, name), other))
        for name, schema in hub.properties.items():
            if name not in spoke.properties and not (hub.is_root and name in _IMPLICIT):
                self.theirs.append(Field((*at, name), schema))

    def _both(self, one: Field, other: Field) -> None:
        """Draft the rules for a field of both versions with different schemas."""
        inner = self._inside(one, other)
        if inner is not None:
            return
        found = likely(one, other)
        if found is not None and found.is_certain and found.rule is not None:
            self._draft(found.rule, found.why)
            if found.asks:
                self._ask(one, replace(found, rule=None), found.asks)
            return
        if self._types(one) == self._types(other) and found is None:
            return  # differing bounds and the like, which the check notes
        self._draft(rules.stash(one.text), "each version keeps its own value: the two are not comparable")
        self._draft(rules.stash(hub=other.text), "as above")
        left, right = _kind(one), _kind(other)
        each = f"{left} in {self.names[0]} and {right} in {self.names[1]}"
        self._ask(one, found, f"is {left} in both versions" if left == right else f"is {each}")

    @staticmethod
    def _types(one: Field) -> tuple[object, object]:
        return one.schema.node.get("type"), one.schema.int_or_string

    def _inside(self, one: Field, other: Field) -> bool | None:
        """Compare the inner objects of a field; None if the two versions hold different kinds of values."""
        ours, theirs = one.schema, other.schema
        if one.path == other.path and ours.properties and theirs.properties and ours.kind == theirs.kind == "map":
            self.compare(ours, theirs, one.path)
            return True
        if ours.kind == theirs.kind == "list" and ours.items is not None and theirs.items is not None:
            return self._repeated(one, other, ours.items, theirs.items, "list")
        if ours.values is not None and theirs.values is not None and not ours.properties:
            return self._repeated(one, other, ours.values, theirs.values, "map")
        if ours.properties and theirs.properties and one.path != other.path:
            return self._repeated(one, other, ours, theirs, "object")
        return None

    def _repeated(self, one: Field, other: Field, ours: Schema, theirs: Schema, container: Container) -> bool | None:
        if not ours.properties or not theirs.properties:
            return True if bare(ours.node) == bare(theirs.node) else None
        (here, there), (ours_at, theirs_at) = self.around, (one.path, other.path)
        places = inside_path(container, shown(ours_at, here)), inside_path(container, shown(theirs_at, there))
        inner = _Scope(self.names, places)
        inner.compare(ours, theirs, ())
        if container == "list":
            inner.rename_key(one.schema.list_keys, other.schema.list_keys)
        inner.pair()
        self.questions += inner.questions
        if not inner.rules and one.path == other.path:
            return True
        declared = [each.rule for each in inner.rules]
        more = {} if one.path == other.path else {"hub": other.text}
        rule = _SCOPES[container](one.text, declared, **more)
        self.rules.append(DraftedRule(rule, "" if one.path == other.path else "another name", tuple(inner.rules)))
        return True

    def rename_key(self, ours: Sequence[str], theirs: Sequence[str]) -> None:
        """Draft a rename of the only key of a list's items."""
        mine = [each for each in self.ours if each.path == tuple(ours)]
        yours = [each for each in self.theirs if each.path == tuple(theirs)]
        if mine and yours and bare(mine[0].schema.node) == bare(yours[0].schema.node):
            self._draft(rules.rename(mine[0].text, yours[0].text), "the key of the list's items")
            self.ours.remove(mine[0])
            self.theirs.remove(yours[0])

    def _twins(self) -> None:
        """Ask whether a common field was meant to move, because a field with the same schema is marked as old.

        A common field passes unchanged, which is wrong if only its name has stayed.
        """
        for (one, other), side in product(self.common, ("spoke", "hub")):
            mine, lone = (one, self.theirs) if side == "spoke" else (other, self.ours)
            for twin in [each for outer in lone for each in _with_inner(outer)]:
                is_old = any(_OLD.fullmatch(word) for name in twin.path[:-1] for word in words(name))
                if is_old and twin.name == mine.name and bare(twin.schema.node) == bare(mine.schema.node):
                    paths = (mine.text, twin.text) if side == "spoke" else (twin.text, mine.text)
                    index = 0 if side == "spoke" else 1
                    text = f"may be {shown(twin.path, self.around[1 - index])} of {self.names[1 - index]}"
                    said = f"{text}, and the field at the same place another one"
                    place = f"{self.names[index]} {shown(mine.path, self.around[index])}"
                    self.questions.append(Question(place, said, python_source(rules.move(*paths))))

    def pair(self) -> None:
        """Pair the fields that only one version has with those of the other version, and keep the others."""
        self._twins()
        used: dict[Side, list[Path]] = {"spoke": [], "hub": []}
        found = sorted(self._candidates(), key=lambda each: each[0], reverse=True)
        asked: list[tuple[Field, Field, Likely]] = []
        for _, one, other, guess in found:
            if _is_used(one.path, used["spoke"]) or _is_used(other.path, used["hub"]):
                continue
            rival = self._rival(one, other, guess, found, used)
            if guess.is_certain and guess.rule is not None and rival is None:
                self._settle(one, other, guess)
                used["spoke"].append(one.path)
                used["hub"].append(other.path)
            else:
                asked.append((one, other, guess if rival is None else _rivalled(guess, rival)))
        self._keep("spoke", self.ours, used["spoke"])
        self._keep("hub", self.theirs, used["hub"])
        known: dict[Side, set[Path]] = {"spoke": set(), "hub": set()}
        for one, other, guess in asked:
            is_open = not (_is_used(one.path, used["spoke"]) or _is_used(other.path, used["hub"]))
            if is_open and one.path not in known["spoke"] and other.path not in known["hub"]:
                known["spoke"].add(one.path)
                known["hub"].add(other.path)
                self._ask(one, guess, f"may be {shown(other.path, self.around[1])} of {self.names[1]}")

    def _settle(self, one: Field, other: Field, guess: Likely) -> None:
        assert guess.rule is not None
        is_object = guess.rule.name in ("rename", "move") and bare(one.schema.node) != bare(other.schema.node)
        if is_object and self._inside(one, other):
            return
        self._draft(guess.rule, guess.why)
        if guess.asks:
            self._ask(one, replace(guess, rule=None), guess.asks)

    def _candidates(self) -> Iterator[tuple[tuple[bool, bool, float, int], Field, Field, Likely]]:
        theirs = [each for outer in self.theirs for each in _with_inner(outer)]
        for one in [each for outer in self.ours for each in _with_inner(outer)]:
            for other in theirs:
                guess = likely(one, other) or _one_object(one, other)
                if guess is not None and guess.is_certain and self._is_common(one, other):
                    guess = replace(guess, doubt=f"several fields are called {one.name}")
                if guess is not None:
                    same_place = one.path[:-1] == other.path[:-1]
                    depth = len(one.path) + len(other.path)
                    yield (guess.is_certain, same_place, guess.score, -depth), one, other, guess

    def _is_common(self, one: Field, other: Field) -> bool:
        """Return whether a name is no hint of a move, because other fields have it too."""
        if one.path[:-1] == other.path[:-1]:
            return False
        both = [pair[0] for pair in self.common]
        for mine, lone in ((one, self.ours), (other, self.theirs)):
            known = [*both, *(each for outer in lone for each in _with_inner(outer))]
            if sum(each.name == mine.name for each in known) > 1:
                return True
        return False

    def _rival(
        self,
        one: Field,
        other: Field,
        guess: Likely,
        found: Sequence[tuple[object, Field, Field, Likely]],
        used: dict[Side, list[Path]],
    ) -> Field | None:
        """Return another field that is an equally likely counterpart; None if there is none."""
        for _, left, right, rival in found:
            if not rival.is_certain or rival.score < guess.score - _CLOSE or rival is guess:
                continue
            same_place = one.path[:-1] == other.path[:-1]
            if same_place and left.path[:-1] != right.path[:-1]:
                continue
            if left.path == one.path and not _is_used(right.path, used["hub"]):
                return right
            if right.path == other.path and not _is_used(left.path, used["spoke"]):
                return left
        return None

    def _keep(self, side: Side, fields: Sequence[Field], used: Sequence[Path]) -> None:
        """Draft that the stash keeps the rest of the fields that only one version has."""
        other = self.names[1] if side == "spoke" else self.names[0]
        for each in fields:
            for left in _unused(each, used):
                rule = rules.stash(left.text) if side == "spoke" else rules.stash(hub=left.text)
                self._draft(rule, f"{other} has no such field")

    def _draft(self, rule: Rule, why: str) -> None:
        self.rules.append(DraftedRule(rule, why))

    def _ask(self, one: Field, found: Likely | None, text: str) -> None:
        place = f"{self.names[0]} {shown(one.path, self.around[0])}"
        doubt = f", but {found.doubt}" if found is not None and found.doubt else ""
        rule = "" if found is None or found.rule is None else python_source(found.rule)
        self.questions.append(Question(place, f"{text}{doubt}", rule))


def _kind(one: Field) -> str:
    return (
        "an integer or a string" if one.schema.int_or_string else f"of the type {one.schema.node.get('type') or 'any'}"
    )


def _with_inner(one: Field, depth: int = 0) -> Iterator[Field]:
    """Yield a field, and its inner fields if it is an object."""
    yield one
    if depth < _DEEPEST:
        for name, schema in one.schema.properties.items():
            yield from _with_inner(Field((*one.path, name), schema), depth + 1)


def _unused(one: Field, used: Sequence[Path]) -> Iterator[Field]:
    """Yield the rest of a field: the whole field, or the inner fields that no rule has."""
    if one.path in used:
        return
    if not any(starts_with(path, one.path) for path in used):
        yield one
        return
    for name, schema in one.schema.properties.items():
        yield from _unused(Field((*one.path, name), schema), used)


def _is_used(path: Path, used: Sequence[Path]) -> bool:
    return any(starts_with(path, other) or starts_with(other, path) for other in used)


def _one_object(one: Field, other: Field) -> Likely | None:
    """Return the guess that two objects, or lists of them, are the same one under another name."""
    ours, theirs = (each.schema.items or each.schema for each in (one, other))
    if one.schema.kind != other.schema.kind or not ours.properties or not theirs.properties:
        return None
    score = likeness(one.name, other.name)
    shared = ours.properties.keys() & theirs.properties.keys()
    most = max(len(ours.properties), len(theirs.properties))
    if score < _SHARED or len(shared) / most < _SHARED or one.path[:-1] != other.path[:-1]:
        return None
    doubt = "" if are_one_name(one.name, other.name) else f"{one.name} and {other.name} may be two things"
    return Likely(rules.rename(one.text, other.text), "most of their fields are the same", doubt, score)


def _rivalled(guess: Likely, rival: Field) -> Likely:
    return Likely(guess.rule, guess.why, f"{rival.text} is as likely", guess.score)
