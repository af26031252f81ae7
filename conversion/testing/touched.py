"""Which fields of a version the rules of a kind touch, so that tests concentrate on them.

A field that no rule claims is copied, whatever it holds; a moved, stashed or dropped one is copied as a whole. Fields
that functions see, and fields that rules compare or that choose the branch of a union, count as touched in full.

Pure.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from restow.conversion.compile.graph import KindGraph
from restow.conversion.model.fieldpath import parse
from restow.conversion.rules.functions import FROM_ROOT, read_steps
from restow.conversion.rules.protocol import Container, Rule
from restow.conversion.rules.sides import Side

#: The steps from a list to its items, and from a map to its values.
ITEMS: Final = "[]"
VALUES: Final = "{}"
_INSIDE: Final[Mapping[Container, tuple[str, ...]]] = {"list": (ITEMS,), "map": (VALUES,), "object": ()}

_STEP: Final = re.compile(r'\.([^.\[{]+)|(\[\])|(\{\})|\[("(?:[^"\\]|\\.)*")\]')


@dataclass(slots=True)
class Touched:
    """A field: ``full`` if all of its content matters, else the parts of it that matter."""

    full: bool = False
    below: dict[str, Touched] = field(default_factory=dict)

    def at(self, steps: Iterable[str]) -> Touched:
        """Return the field that steps lead to, and mark it as touched."""
        found = self
        for step in steps:
            found = found.below.setdefault(step, Touched())
        return found


#: A field that matters in full, and a field that no rule touches.
EVERYTHING: Final = Touched(full=True)
NOTHING: Final = Touched()


def touched(kind: KindGraph, version: str, more: Iterable[str] = ()) -> Touched:
    """Return the fields that rules touch in a version; ``more`` are further paths that count in full.

    A field that the version shares with the hub is touched if the rules of another spoke touch it there.
    """
    root = Touched()
    for name, spoke in kind.spokes.items():
        if name == version:
            _add(root, root, spoke.rules, "spoke")
        else:
            _add(root, root, spoke.rules, "hub")
    for path in more:
        root.at(_steps_of(path)).full = True
    return root


def _steps_of(path: str) -> tuple[str, ...]:
    """Return the steps of a path in the notation of ``restow.crds.paths``."""
    return tuple(
        found[1] or (ITEMS if found[2] else VALUES if found[3] else json.loads(found[4]))
        for found in _STEP.finditer(path)
    )


def _add(node: Touched, root: Touched, rules: Sequence[Rule], side: Side) -> None:
    for rule in rules:
        for text in rule.claims(side):
            found = node.at(parse(text))
            if rule.container is not None:
                _add_scope(found, root, rule, rule.container, side)
            elif rule.is_opaque or (rule.passes and not rule.moves):
                found.full = True
        if rule.is_branch:
            for text in rule.named(side):
                node.at(parse(text)).full = True
            _add(node, root, rule.contained, side)
        for text in rule.reads if side == "hub" else ():
            _add_read(node, root, text)


def _add_scope(node: Touched, root: Touched, rule: Rule, container: Container, side: Side) -> None:
    below = node.at(_INSIDE[container])
    below.full = below.full or bool(rule.functions)
    for key in rule.key_names("hub"):
        below.at((key,))
    _add(below, root, rule.contained, side)
    for again in rule.recursions:
        assert again.container is not None, again.label
        *parents, last = (*parse(again.named(side)[0]), *_INSIDE[again.container])
        below.at(parents).below[last] = below


def _add_read(node: Touched, root: Touched, text: str) -> None:
    if not text.startswith(FROM_ROOT):
        node.at(parse(text)).full = True
        return
    first, *others = read_steps(text)
    found = root.at(first)
    for other in others:
        found = found.at((ITEMS, *other))
    found.full = True
