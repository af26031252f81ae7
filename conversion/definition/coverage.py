"""Field coverage: every field of both versions is identical, mapped, stashed or acknowledged.

What no rule claims passes unchanged, so it must be declared alike in both versions; what a rule claims must exist.
Anything else is a diagnostic with its path and a rule to write. That is what makes a field that somebody adds to
one version's schema later a failing check, and not a silent loss.

Pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Final

from restow.conversion.definition.compatibility import check_mapped, compare_types, is_guaranteed
from restow.conversion.definition.diagnostics import DiagnosticCollector
from restow.conversion.fieldpath import Path, parse, shown, starts_with
from restow.conversion.rules.model import Lens, Move, Rule, ScopedRules, Side
from restow.crds import Schema
from restow.crds.paths import ROOT, items_path, values_path
from restow.crds.schema import schema_at

__all__ = ["check_coverage", "check_made"]


_IMPLICIT: Final = frozenset({"apiVersion", "kind", "metadata"})


@dataclass(slots=True)
class _Claims:
    """Which rule claims a path of one side."""

    rules: dict[Path, Rule]

    @classmethod
    def of(cls, rules: Sequence[Rule], side: Side) -> _Claims:
        """Collect the claims of a side."""
        return cls({parse(text): rule for rule in rules for text in rule.claims(side)})

    def below(self, path: Path) -> bool:
        """Say whether something inside of ``path`` is claimed."""
        return any(starts_with(claim, path) and claim != path for claim in self.rules)


def check_coverage(rules: Sequence[Rule], spoke: Schema, hub: Schema, findings: DiagnosticCollector) -> None:
    """Report everything in two schemas that the rules do not account for; without rules they must be alike."""
    if spoke.is_root or compare_types(spoke, hub, (), (), findings):
        claims: dict[Side, _Claims] = {"spoke": _Claims.of(rules, "spoke"), "hub": _Claims.of(rules, "hub")}
        _Coverage(claims, findings).check(rules, {"spoke": spoke, "hub": hub})


@dataclass(slots=True)
class _Coverage:
    claims: dict[Side, _Claims]
    findings: DiagnosticCollector

    def check(self, rules: Sequence[Rule], roots: dict[Side, Schema]) -> None:
        for side, root in roots.items():
            for path, rule in self.claims[side].rules.items():
                self._check_exists(path, rule, side, root)
        for rule in rules:
            check_mapped(rule, roots["spoke"], roots["hub"], self.findings, check_coverage)
        check_made(rules, roots["spoke"], roots["hub"], self.findings)
        self._fields(roots["spoke"], roots["hub"], ())
        self._repeated(roots["spoke"], roots["hub"], ())

    def _check_exists(self, path: Path, rule: Rule, side: Side, root: Schema) -> None:
        if schema_at(root, path) is not None:
            return
        around = schema_at(root, path[:-1])
        near = get_close_matches(path[-1], around.properties, n=1) if around is not None else []
        fix = "Correct the path" + (f"; {self.findings.place(side, (*path[:-1], near[0]))} is near" if near else "")
        self.findings.add(side, path, f"{rule.label} names a field that the schema does not declare", fix)

    def _fields(self, spoke: Schema, hub: Schema, path: Path) -> None:
        skipped = _IMPLICIT if spoke.is_root else frozenset[str]()
        for name in (*spoke.properties, *(name for name in hub.properties if name not in spoke.properties)):
            if name not in skipped:
                self._field(spoke, hub, (*path, name))

    def _field(self, spoke: Schema, hub: Schema, path: Path) -> None:
        sides: dict[Side, Schema | None] = {"spoke": spoke.field(path[-1]), "hub": hub.field(path[-1])}
        claimed: dict[Side, bool] = {side: path in self.claims[side].rules for side in sides}
        for side, other in _both():
            schema = sides[side]
            if schema is None or claimed[side]:
                continue
            if claimed[other] or sides[other] is None:
                self._one_sided(schema, path, side, other)
        if sides["spoke"] is not None and sides["hub"] is not None and not any(claimed.values()):
            self._unclaimed(spoke, hub, path)

    def _one_sided(self, schema: Schema, path: Path, side: Side, other: Side) -> None:
        """A field without a counterpart at its own path: everything inside of it must be claimed."""
        if self.claims[side].below(path):
            for name, field in schema.properties.items():
                inner = (*path, name)
                if inner not in self.claims[side].rules:
                    self._one_sided(field, inner, side, other)
            return
        rule = self.claims[other].rules.get(path)
        version = self.findings.version(other)
        problem = f"has no counterpart in {version}"
        if rule is not None:
            problem = f"is in the way of the field of the same path in {version}, which {rule.label} converts"
        where = "" if self.findings.places[side] == ROOT else ", inside of rules.each (or each_value, inside)"
        text, plain = ("hub=" if side == "hub" else ""), shown(path).removeprefix(".")
        self.findings.add(
            side,
            path,
            problem,
            f'Map it with a rule, keep it with rules.stash({text}"{plain}"), or let it go with rules.drop({text}'
            f'"{plain}", acknowledge="why"){where}',
        )

    def _unclaimed(self, spoke: Schema, hub: Schema, path: Path) -> None:
        inner_spoke, inner_hub = spoke.field(path[-1]), hub.field(path[-1])
        assert inner_spoke is not None
        assert inner_hub is not None
        is_guaranteed(spoke, hub, path, path, self.findings)
        if inner_spoke.node == inner_hub.node and not any(claims.below(path) for claims in self.claims.values()):
            return
        if not compare_types(inner_spoke, inner_hub, path, path, self.findings):
            return
        self._fields(inner_spoke, inner_hub, path)
        self._repeated(inner_spoke, inner_hub, path)

    def _repeated(self, spoke: Schema, hub: Schema, path: Path) -> None:
        places = (self.findings.place("spoke", path), self.findings.place("hub", path))
        if spoke.kind == "list" and spoke.items is not None and hub.items is not None:
            check_coverage((), spoke.items, hub.items, self.findings.below(*map(items_path, places)))
        if spoke.kind == "map" and spoke.values is not None and hub.values is not None:
            check_coverage((), spoke.values, hub.values, self.findings.below(*map(values_path, places)))


def _both() -> Iterator[tuple[Side, Side]]:
    yield "spoke", "hub"
    yield "hub", "spoke"


def check_made(rules: Sequence[Rule], spoke: Schema, hub: Schema, findings: DiagnosticCollector) -> None:
    """Report required objects that an object of the other version may not fill."""
    sides: tuple[tuple[Side, Schema, Side, Schema], ...] = (("spoke", spoke, "hub", hub), ("hub", hub, "spoke", spoke))
    for side, schema, other, source in sides:
        claims = [parse(text) for rule in rules for text in rule.claims(side)]
        for made in dict.fromkeys(path[:length] for path in claims for length in range(1, len(path))):
            if schema_at(source, made) is None and _is_required(schema, made):
                fillers = [rule for rule in rules if any(starts_with(parse(text), made) for text in rule.claims(side))]
                if not any(_is_sure(rule, other, source, made[:-1]) for rule in fillers):
                    problem = f"is required, but an object of {findings.version(other)} may have nothing to put into it"
                    findings.add(side, made, problem, "Make it optional, or require there what is moved into it")


def _is_required(schema: Schema, path: Path) -> bool:
    around, field = schema_at(schema, path[:-1]), schema_at(schema, path)
    return around is not None and field is not None and path[-1] in around.required and not field.has_default


def _is_sure(rule: Rule, side: Side, schema: Schema, around: Path) -> bool:
    """Say whether a rule has something to give whenever the object at ``around`` is there."""
    if not isinstance(rule, Move | Lens | ScopedRules):
        return False
    paths = [parse(text) for text in rule.claims(side)]
    return any(all(_is_always(schema, path[:length]) for length in _beyond(path, around)) for path in paths)


def _beyond(path: Path, around: Path) -> range:
    """Return the lengths of those beginnings of ``path`` that are no beginnings of ``around``."""
    common = 0
    while common < min(len(path) - 1, len(around)) and path[common] == around[common]:
        common += 1
    return range(common + 1, len(path) + 1)


def _is_always(schema: Schema, path: Path) -> bool:
    around, field = schema_at(schema, path[:-1]), schema_at(schema, path)
    return around is not None and (path[-1] in around.required or (field is not None and field.has_default))
