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

from restow.conversion.definition.compat import compare_types, is_guaranteed
from restow.conversion.definition.findings import Findings
from restow.conversion.definition.made import check_made
from restow.conversion.definition.mapped import check_mapped
from restow.conversion.path import Path, parse, shown, starts_with
from restow.conversion.rules.model import Rule, Side
from restow.crds import Schema
from restow.crds.paths import ROOT, items_path, values_path
from restow.crds.schema import schema_at

__all__ = ["check_coverage"]

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


def check_coverage(rules: Sequence[Rule], spoke: Schema, hub: Schema, findings: Findings) -> None:
    """Report everything in two schemas that the rules do not account for; without rules they must be alike."""
    if spoke.is_root or compare_types(spoke, hub, (), (), findings):
        claims: dict[Side, _Claims] = {"spoke": _Claims.of(rules, "spoke"), "hub": _Claims.of(rules, "hub")}
        _Coverage(claims, findings).check(rules, {"spoke": spoke, "hub": hub})


@dataclass(slots=True)
class _Coverage:
    claims: dict[Side, _Claims]
    findings: Findings

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
