"""Suggests rules for fields that no rule accounts for, as Python text to paste next to the existing rules.

A field that only the version has, and one that only the hub has, may be the same field (``likely``). A person judges
the suggestions. If a kind has no rules yet, ``drafts`` drafts all of them.

Pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from restow.conversion.compile.graph import KindGraph
from restow.conversion.definition.advice import literal
from restow.conversion.definition.likely import Field, Likely, likely
from restow.conversion.definition.names import means_another
from restow.conversion.model.fieldpath import Path, parse
from restow.conversion.rules.protocol import Rule
from restow.conversion.rules.sides import Side
from restow.conversion.rules.unions import flattened
from restow.crds import Crd, Schema

#: Rules between two units: the names differ by more than their spelling, and the rule makes this visible.
_UNITS: Final = frozenset({"duration", "quantity", "scale"})
_IMPLICIT: Final = frozenset({"apiVersion", "kind", "metadata"})


@dataclass(frozen=True, slots=True)
class Suggestion:
    """A suggested rule: ``rule`` is its source text, ``inside`` the enclosing rules, if any."""

    kind: str
    version: str
    rule: str
    inside: str = ""


def suggestions(kind: KindGraph, crd: Crd) -> list[Suggestion]:
    """Return suggestions for every version that a CRD and a kind's rules both know; none if the hub has no schema."""
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
    for drafted in _pairs(ours, theirs):
        yield python_source(drafted), inside
    for rule in every:
        inner = rule.inner_schema("spoke", spoke), rule.inner_schema("hub", hub)
        if rule.container is not None and inner[0] is not None and inner[1] is not None:
            yield from _in_scope(
                rule.contained, inner[0], inner[1], f"{inside} > {rule.label}" if inside else rule.label
            )


def _only_here(
    here: Schema, there: Schema | None, claims: frozenset[Path], others: frozenset[Path], path: Path = ()
) -> Iterator[Field]:
    """Yield the outermost fields that one version has, the other does not have, and no rule claims."""
    for name, schema in here.properties.items():
        below = (*path, name)
        if (here.is_root and name in _IMPLICIT) or below in claims:
            continue
        counterpart = None if there is None or below in others else there.field(name)
        if counterpart is None and not any(claim[: len(below)] == below for claim in claims):
            yield Field(below, schema)
        else:
            yield from _only_here(schema, counterpart, claims, others, below)


def _is_worth(one: Field, other: Field, guess: Likely) -> bool:
    """Return whether a guess is worth reporting: a wrong one costs more than none."""
    if guess.rule is None or guess.asks or (guess.rule.name == "cast" and not guess.is_certain):
        return False
    return guess.rule.name in _UNITS or not means_another(one.name, other.name)


def _pairs(ours: Sequence[Field], theirs: Sequence[Field]) -> Iterator[Rule]:
    """Yield the likeliest rules between fields that only one version has; each field is in one of them."""
    guesses = ((one, other, likely(one, other)) for one in ours for other in theirs)
    found = [(one, other, guess) for one, other, guess in guesses if guess is not None and _is_worth(one, other, guess)]
    found.sort(key=lambda each: (each[2].score, each[0].path[:-1] == each[1].path[:-1]), reverse=True)
    used: tuple[set[Path], set[Path]] = (set(), set())
    chosen = []
    for one, other, guess in found:
        if one.path not in used[0] and other.path not in used[1]:
            used[0].add(one.path)
            used[1].add(other.path)
            chosen.append((one.path, guess.rule))
    for _, rule in sorted(chosen, key=lambda each: each[0]):
        assert rule is not None
        yield rule


def python_source(rule: Rule) -> str:
    """Return the call that makes a rule; paths that are usually positional stay positional."""
    given = dict(rule.arguments)
    positional: list[str] = []
    for name in ("spoke", "rules" if "rules" in given else "hub"):
        if name not in given or given[name] is None:
            break
        positional.append(_argument(name, given.pop(name)))
    if rule.name in ("enum", "default", "keys", "cast", "stash", "drop", "constant", "waive"):
        positional, given = _leading(rule)
    named = [f"{name}={_argument(name, value)}" for name, value in given.items() if value is not None]
    return f"rules.{rule.name}({', '.join((*positional, *named))})"


def _leading(rule: Rule) -> tuple[list[str], dict[str, Any]]:
    """Return the positional arguments of a rule whose second argument is no path, and its keyword arguments."""
    given = dict(rule.arguments)
    names = {"enum": ("spoke", "values"), "default": ("spoke", "value"), "keys": ("spoke", "names")}
    leading = [name for name in names.get(rule.name, ("spoke",)) if given.get(name) is not None or name == "value"]
    leading = [name for name in leading if name in given]
    return [_text(given.pop(name)) for name in leading], given


def _argument(name: str, value: Any) -> str:
    return f"[{', '.join(map(python_source, value))}]" if name == "rules" else _text(value)


def _text(value: Any) -> str:
    match value:
        case Mapping():
            return f"{{{', '.join(f'{_text(name)}: {_text(each)}' for name, each in value.items())}}}"
        case list() | tuple():
            return f"[{', '.join(map(_text, value))}]"
        case _:
            return literal(value)
