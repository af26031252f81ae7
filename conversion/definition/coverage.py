"""Checks that the rules cover every field: each one is identical, mapped, stashed or acknowledged.

A field that no rule claims passes unchanged, so both versions must declare it alike: its type, list or map type, enum,
keys and required fields. A field that a rule claims must exist, and fields that one rule ties together must accept the
same values. Everything else becomes a diagnostic with its path and a suggested rule. A field that is later added to the
schema of one version therefore fails the check, and is not lost silently.

Pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Final

from restow.conversion.definition.advice import Around
from restow.conversion.definition.claims import SchemaAnswers
from restow.conversion.definition.comparison import compare_types
from restow.conversion.definition.diagnostics import DiagnosticCollector
from restow.conversion.definition.required import check_made, check_waivers, is_guaranteed, one_sided, requiring
from restow.conversion.model.fieldpath import Path, argument, parse, shown, starts_with
from restow.conversion.rules.protocol import Rule
from restow.conversion.rules.sides import Side, opposite
from restow.conversion.rules.unions import flattened
from restow.crds import Schema
from restow.crds.paths import items_path, values_path
from restow.crds.schema import schema_at


def _through(path: Path, root: Schema) -> str:
    """Return the rule to write for a path that goes through a list or a map; empty if it goes through none."""
    for size in range(1, len(path)):
        schema = schema_at(root, path[:size])
        field, rest = shown(path[:size]).removeprefix("."), shown(path[size:]).removeprefix(".")
        if schema is not None and schema.kind == "list" and schema.items is not None:
            if schema_at(schema.items, path[size:]) is not None:
                return f'It is in a list: write rules.each("{field}", [… "{rest}" …])'
            return ""
    return ""


_IMPLICIT: Final = frozenset({"apiVersion", "kind", "metadata"})


@dataclass(slots=True)
class _Claims:
    """The rules that claim paths of one side."""

    rules: dict[Path, Rule]

    @classmethod
    def of(cls, rules: Sequence[Rule], side: Side) -> _Claims:
        """Collect the claims of a side."""
        return cls({parse(text): rule for rule in rules for text in rule.claims(side)})

    def below(self, path: Path) -> bool:
        """Return whether something inside of ``path`` is claimed."""
        return any(starts_with(claim, path) and claim != path for claim in self.rules)


def check_coverage(rules: Sequence[Rule], spoke: Schema, hub: Schema, findings: DiagnosticCollector) -> None:
    """Report all fields of two schemas that the rules do not account for; without rules they must be alike.

    A field that one branch of a union accounts for counts as accounted for.
    """
    if spoke.is_root or compare_types(spoke, hub, (), (), findings):
        always = tuple(flattened(rules))
        claims: dict[Side, _Claims] = {"spoke": _Claims.of(always, "spoke"), "hub": _Claims.of(always, "hub")}
        _Coverage(claims, findings.among(always), {"spoke": spoke, "hub": hub}).check(always)
        check_waivers(rules, spoke, hub, findings.among(always))


@dataclass(slots=True)
class _Coverage:
    claims: dict[Side, _Claims]
    findings: DiagnosticCollector
    roots: dict[Side, Schema]

    def check(self, rules: Sequence[Rule]) -> None:
        roots = self.roots
        for side, root in roots.items():
            for path, rule in self.claims[side].rules.items():
                self._check_exists(path, rule, side, root)
        answers = SchemaAnswers(rules, roots, self.findings, check_coverage)
        for rule in rules:
            rule.ask(answers)
        check_made(rules, roots["spoke"], roots["hub"], self.findings)
        self._fields(roots["spoke"], roots["hub"], ())
        self._repeated(roots["spoke"], roots["hub"], ())

    def _check_exists(self, path: Path, rule: Rule, side: Side, root: Schema) -> None:
        if schema_at(root, path) is not None:
            return
        around = schema_at(root, path[:-1])
        near = get_close_matches(path[-1], around.properties, n=1) if around is not None else []
        fix = "Correct the path" + (f"; {self.findings.place(side, (*path[:-1], near[0]))} is near" if near else "")
        fix = _through(path, root) or (fix if near else self._if_swapped(path, rule, side)) or fix
        self.findings.add(side, path, f"{rule.label} names a field that the schema does not declare", fix)

    def _if_swapped(self, path: Path, rule: Rule, side: Side) -> str:
        """Return the advice to name the other side, if the rule is right then."""
        other = opposite(side)
        if schema_at(self.roots[other], path) is None:
            return ""
        declares = f"{self.findings.version(other)} declares it"
        if not rule.claims(other):
            named = f"hub={argument(path)}" if other == "hub" else argument(path)
            value = "value=…" if rule.name == "constant" else ""
            return f"Write rules.{rule.name}({', '.join(filter(None, (named, value, _reason(rule))))}): {declares}"
        if any(schema_at(self.roots[side], parse(text)) is None for text in rule.claims(other)):
            return ""
        return f"Swap the sides: {declares}, and a rule names the spoke's field first"

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
        """Check a field without a counterpart at its own path: everything inside of it must be claimed."""
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
            if any(schema_at(self.roots[side], parse(text)) is None for text in rule.claims(side)):
                return  # the rule is reported, and may be meant for this field
            problem = f"is in the way of the field of the same path in {version}, which {rule.label} converts"
        self.findings.add(side, path, problem, self._alone(side, path))

    def _alone(self, side: Side, path: Path) -> str:
        claims = {each: claims.rules for each, claims in self.claims.items()}
        return one_sided(side, path, self.roots, claims, self.findings)

    def _unclaimed(self, spoke: Schema, hub: Schema, path: Path) -> None:
        inner_spoke, inner_hub = spoke.field(path[-1]), hub.field(path[-1])
        assert inner_spoke is not None
        assert inner_hub is not None
        is_same = inner_spoke.node == inner_hub.node and not any(claims.below(path) for claims in self.claims.values())
        # What converts another type decides first: a field that it takes apart needs other answers.
        required = requiring(self.roots["spoke"], self.roots["hub"], path, path)
        if not is_same and not compare_types(inner_spoke, inner_hub, path, path, self.findings, required=required):
            return
        is_guaranteed(spoke, hub, path, path, self.findings)
        if is_same:
            return
        self._fields(inner_spoke, inner_hub, path)
        self._repeated(inner_spoke, inner_hub, path)

    def _repeated(self, spoke: Schema, hub: Schema, path: Path) -> None:
        places = (self.findings.place("spoke", path), self.findings.place("hub", path))
        required = requiring(self.roots["spoke"], self.roots["hub"], path, path)
        if spoke.kind == "list" and spoke.items is not None and hub.items is not None:
            keys = frozenset((*spoke.list_keys, *hub.list_keys))
            step = Around("list", path, path, keys=keys, required=required)
            below = self.findings.below(items_path(places[0]), items_path(places[1]), step)
            check_coverage((), spoke.items, hub.items, below)
        if spoke.kind == "map" and spoke.values is not None and hub.values is not None:
            step = Around("map", path, path, required=required)
            below = self.findings.below(values_path(places[0]), values_path(places[1]), step)
            check_coverage((), spoke.values, hub.values, below)


def _reason(rule: Rule) -> str:
    """Return the argument that a rule without a reason lacks; authors keep their own."""
    return 'acknowledge="why"' if rule.name == "drop" else ""


def _both() -> Iterator[tuple[Side, Side]]:
    yield "spoke", "hub"
    yield "hub", "spoke"
