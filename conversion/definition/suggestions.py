"""Suggests rules for fields that no rule accounts for: likely renames and moves between two versions.

Two fields of the same type with similar names, one of which only the version has and the other only the hub, are a
likely rename in the same object, and a likely move elsewhere. The suggestions are drafts for a person to judge.

Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Final

from restow.conversion.compile.graph import KindGraph
from restow.conversion.model.fieldpath import Path, parse, shown
from restow.conversion.rules.branches import flattened
from restow.conversion.rules.model import Rule, ScopedRules, Side
from restow.crds import Crd, Schema

__all__ = ["Suggestion", "suggestions"]


#: How alike two names must be, from 0 to 1.
_ALIKE: Final = 0.5
_WORDS: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
#: Names that look alike and never are the same field: an API version is no group, a reason is no domain.
_NO_RENAMES: Final = (
    {"apiVersion", "apiGroup"},
    {"failureReason", "failureDomain"},
    {"failureMessage", "failureDomain"},
)
_IMPLICIT: Final = frozenset({"apiVersion", "kind", "metadata"})


@dataclass(frozen=True, slots=True)
class Suggestion:
    """A suggested rule: ``rule`` is its source text, ``inside`` the enclosing rules, if any."""

    kind: str
    version: str
    rule: str
    inside: str = ""


@dataclass(frozen=True, slots=True)
class _Field:
    path: Path
    schema: Schema


def suggestions(kind: KindGraph, crd: Crd) -> list[Suggestion]:
    """Return drafts for every version that a CRD and a kind's rules both know; none if the hub has no schema."""
    hub = crd.version(kind.hub)
    if hub is None:
        return []
    title = f"{kind.kind}.{kind.group}"
    found = []
    for name, spoke in kind.spokes.items():
        version = crd.version(name)
        if version is not None:
            drafts = _in_scope(spoke.rules, version.schema, hub.schema, "")
            found += [Suggestion(title, name, rule, inside) for rule, inside in drafts]
    return found


def _in_scope(rules: Sequence[Rule], spoke: Schema, hub: Schema, inside: str) -> Iterator[tuple[str, str]]:
    """Yield (rule, the rules around it) for two objects and the rules between them."""
    every = tuple(flattened(rules))
    claims: dict[Side, frozenset[Path]] = {
        side: frozenset(parse(text) for rule in every for text in rule.claims(side)) for side in ("spoke", "hub")
    }
    ours = list(_only_here(spoke, hub, claims["spoke"], claims["hub"]))
    theirs = list(_only_here(hub, spoke, claims["hub"], claims["spoke"]))
    for left, right in _pairs(ours, theirs):
        same_object = left.path[:-1] == right.path[:-1]
        name = "rename" if same_object else "move"
        yield f'rules.{name}("{_text(left.path)}", "{_text(right.path)}")', inside
    for rule in every:
        if isinstance(rule, ScopedRules):
            inner = tuple(_inner(rule, side, root) for side, root in (("spoke", spoke), ("hub", hub)))
            if inner[0] is not None and inner[1] is not None:
                yield from _in_scope(
                    rule.rules, inner[0], inner[1], f"{inside} > {rule.label}" if inside else rule.label
                )


def _inner(rule: ScopedRules, side: str, root: Schema) -> Schema | None:
    schema: Schema | None = root
    for name in parse(rule.claims("spoke" if side == "spoke" else "hub")[0]):
        schema = None if schema is None else schema.field(name)
    if schema is None or rule.container == "object":
        return schema
    return schema.items if rule.container == "list" else schema.values


def _only_here(
    here: Schema, there: Schema | None, claims: frozenset[Path], others: frozenset[Path], path: Path = ()
) -> Iterator[_Field]:
    """Yield the uppermost fields that one version has and the other has not, and that no rule claims."""
    for name, schema in here.properties.items():
        below = (*path, name)
        if (here.is_root and name in _IMPLICIT) or below in claims:
            continue
        counterpart = None if there is None or below in others else there.field(name)
        if counterpart is None and not any(claim[: len(below)] == below for claim in claims):
            yield _Field(below, schema)
        else:
            yield from _only_here(schema, counterpart, claims, others, below)


def _pairs(ours: Sequence[_Field], theirs: Sequence[_Field]) -> Iterator[tuple[_Field, _Field]]:
    scored = sorted(
        (
            (_likeness(left.path[-1], right.path[-1]), left.path[:-1] == right.path[:-1], index, number)
            for index, left in enumerate(ours)
            for number, right in enumerate(theirs)
            if _type(left.schema) == _type(right.schema)
        ),
        reverse=True,
    )
    used: tuple[set[int], set[int]] = (set(), set())
    pairs = []
    for score, _, index, number in scored:
        if score >= _ALIKE and index not in used[0] and number not in used[1]:
            used[0].add(index)
            used[1].add(number)
            pairs.append((index, number))
    for index, number in sorted(pairs):
        yield ours[index], theirs[number]


def _likeness(left: str, right: str) -> float:
    """Say how alike two names are: by their letters, or because one abbreviates the other (ttl, timeToLive)."""
    if left.lower() == right.lower():
        return 1.0
    if {left, right} in _NO_RENAMES:
        return 0.0
    if _initials(left) == right.lower() or _initials(right) == left.lower():
        return 0.9
    words = ({word.lower() for word in _WORDS.findall(name)} for name in (left, right))
    ours, theirs = words
    if ours and theirs and (ours <= theirs or theirs <= ours):
        return 0.8
    return SequenceMatcher(None, left.lower(), right.lower()).ratio()


def _initials(name: str) -> str:
    words = _WORDS.findall(name)
    return "".join(word[0] for word in words).lower() if len(words) > 1 else ""


def _type(schema: Schema) -> object:
    """Return what has to be the same for a value to pass unchanged, as far as it shows at a glance."""
    node: Mapping[str, object] = schema.node
    inner = schema.items
    return (
        schema.kind if schema.int_or_string else node.get("type"),
        None if inner is None else inner.node.get("type"),
        sorted(schema.properties),
    )


def _text(path: Path) -> str:
    return shown(path).removeprefix(".")
