"""Checks that the rules cover every field: each one is identical, mapped, stashed or acknowledged.

A field that no rule claims passes unchanged, so both versions must declare it alike: its type, list or map type, enum,
keys and required fields. A field that a rule claims must exist, and fields that one rule ties together must accept the
same values. Everything else becomes a diagnostic with its path and a suggested rule. A field that is later added to the
schema of one version therefore fails the check, and is not lost silently.

Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, Final

from restow.conversion.definition.advice import Around
from restow.conversion.definition.comparison import compare_types
from restow.conversion.definition.diagnostics import DiagnosticCollector, check_keys
from restow.conversion.definition.required import (
    check_dispensable,
    check_implied,
    check_made,
    check_waivers,
    is_guaranteed,
    one_sided,
    requiring,
)
from restow.conversion.definition.shapes import check_scalar, check_standard
from restow.conversion.model.fieldpath import Path, argument, parse, shown, starts_with
from restow.conversion.rules.branches import flattened
from restow.conversion.rules.model import (
    Constant,
    Default,
    Lens,
    Move,
    Private,
    Rule,
    ScopedRules,
    Side,
    key_names,
    opposite,
)
from restow.crds import ANY, Schema
from restow.crds.paths import items_path, values_path
from restow.crds.schema import schema_at
from restow.crds.types import fits

Cover = Callable[[Sequence[Rule], Schema, Schema, DiagnosticCollector], None]


def check_mapped(rule: Rule, spoke: Schema, hub: Schema, findings: DiagnosticCollector, cover: Cover) -> None:
    """Report the misfits of one rule; ``cover`` checks the fields of schemas that the rule compares or enters."""
    match rule:
        case Move():
            _check_same(rule, spoke, hub, findings, cover)
            _check_required(rule, spoke, hub, findings)
        case Default() if not rule.is_layered:
            _check_same(rule, spoke, hub, findings, cover)
        case Private():
            check_dispensable(rule, spoke, hub, findings)
        case Lens() if rule.tables is not None:
            _check_table(rule, spoke, hub, findings)
            _check_required(rule, spoke, hub, findings)
        case Lens() if rule.singleton is not None:
            _check_singleton(rule, spoke, hub, findings, cover)
            _check_required(rule, spoke, hub, findings)
        case Lens() if rule.standard is not None:
            check_standard(rule, spoke, hub, findings)
            if rule.packing("spoke") == rule.packing("hub") == "value":
                _check_required(rule, spoke, hub, findings)
        case Lens() if rule.packing("spoke") == rule.packing("hub") == "value":
            _check_required(rule, spoke, hub, findings)
        case ScopedRules():
            _check_scope(rule, spoke, hub, findings, cover)


def _ends(rule: Rule, spoke: Schema, hub: Schema) -> tuple[Path, Path, Schema | None, Schema | None]:
    ours, theirs = parse(rule.spoke[0]), parse(rule.hub[0])
    return ours, theirs, schema_at(spoke, ours), schema_at(hub, theirs)


def _check_same(rule: Rule, spoke: Schema, hub: Schema, findings: DiagnosticCollector, cover: Cover) -> None:
    ours, theirs, from_schema, to_schema = _ends(rule, spoke, hub)
    if from_schema is ANY or to_schema is ANY:
        return  # an undeclared field of an opaque object: only the author knows its content
    if from_schema is not None and to_schema is not None and from_schema.node != to_schema.node:
        places = (findings.place("spoke", ours), findings.place("hub", theirs))
        step = Around("object", ours, theirs, rule, required=requiring(spoke, hub, ours, theirs))
        cover((), from_schema, to_schema, findings.below(places[0], places[1], step))


def _check_required(rule: Rule, spoke: Schema, hub: Schema, findings: DiagnosticCollector) -> None:
    ours, theirs, from_schema, to_schema = _ends(rule, spoke, hub)
    from_parent, to_parent = schema_at(spoke, ours[:-1]), schema_at(hub, theirs[:-1])
    if from_schema is not None and to_schema is not None and from_parent is not None and to_parent is not None:
        is_guaranteed(from_parent, to_parent, ours, theirs, findings)


def _check_table(rule: Lens, spoke: Schema, hub: Schema, findings: DiagnosticCollector) -> None:
    assert rule.tables is not None
    ours, theirs, from_schema, to_schema = _ends(rule, spoke, hub)
    if not check_scalar(rule, spoke, hub, findings):
        return
    sides: tuple[tuple[Side, Path, Schema | None, Any, Schema | None], ...] = (
        ("spoke", ours, from_schema, rule.tables["up"], to_schema),
        ("hub", theirs, to_schema, rule.tables["down"], from_schema),
    )
    for side, path, schema, table, target in sides:
        allowed = None if schema is None else schema.node.get("enum")
        admitted = None if target is None else target.node.get("enum")
        for value in allowed or ():
            if value is not None and value not in table and (admitted is None or value not in admitted):
                keyword = "up" if side == "spoke" else "down"
                findings.add(
                    side,
                    path,
                    f"{rule.label} has no entry for {value!r}",
                    f"Add it to the table, or to {keyword}=",
                )
        for value in table.values():
            if not fits(value, target) or (admitted is not None and value not in admitted):
                other = findings.version(opposite(side))
                findings.add(
                    side,
                    path,
                    f"{rule.label} gives {value!r}, which {other} does not admit",
                    "Correct the table",
                )


def _check_singleton(rule: Lens, spoke: Schema, hub: Schema, findings: DiagnosticCollector, cover: Cover) -> None:
    ours, theirs, from_schema, to_schema = _ends(rule, spoke, hub)
    side: Side = "hub" if rule.singleton == "hub" else "spoke"
    listed = to_schema if side == "hub" else from_schema
    if listed is None:
        return
    if listed.kind == "any" and listed.items is None:
        return
    if listed.kind not in ("list", "any") or listed.items is None:
        findings.add(side, theirs if side == "hub" else ours, f"{rule.label} needs a list", "Correct the path")
        return
    places = (findings.place("spoke", ours), findings.place("hub", theirs))
    step = Around("wrapped", ours, theirs, rule, required=requiring(spoke, hub, ours, theirs))
    other = from_schema if side == "hub" else to_schema
    if other is None or other.node == listed.items.node:
        return
    if side == "hub":
        cover((), other, listed.items, findings.below(places[0], items_path(places[1]), step))
    else:
        cover((), listed.items, other, findings.below(items_path(places[0]), places[1], step))


def _check_scope(rule: ScopedRules, spoke: Schema, hub: Schema, findings: DiagnosticCollector, cover: Cover) -> None:
    ours, theirs, from_schema, to_schema = _ends(rule, spoke, hub)
    if from_schema is None or to_schema is None:
        return
    wanted = "list" if rule.container == "list" else "map"
    for side, path, schema in (("spoke", ours, from_schema), ("hub", theirs, to_schema)):
        if schema.kind not in (wanted, "any"):
            fix = _other_scope(schema, shown(path).removeprefix("."), rule)
            findings.add(side, path, f"{rule.label} needs a {wanted}", fix)  # type: ignore[arg-type]
            return
    _check_required(rule, spoke, hub, findings)
    places = (findings.place("spoke", ours), findings.place("hub", theirs))
    declared = (name for side in ("spoke", "hub") for name in key_names(rule, side))
    keys = frozenset((*from_schema.list_keys, *to_schema.list_keys, *declared))
    around = Around(rule.container, ours, theirs, rule, keys, requiring(spoke, hub, ours, theirs))
    if rule.container == "object":
        cover(
            _entered(rule, from_schema, to_schema), from_schema, to_schema, findings.below(places[0], places[1], around)
        )
        return
    below = (from_schema.items, to_schema.items) if wanted == "list" else (from_schema.values, to_schema.values)
    if wanted == "list":
        _check_keys(rule, from_schema, to_schema, findings, ours, theirs)
    if below[0] is not None and below[1] is not None:
        step = items_path if wanted == "list" else values_path
        rules = _entered(rule, below[0], below[1])
        cover(rules, below[0], below[1], findings.below(step(places[0]), step(places[1]), around))


def _entered(rule: ScopedRules, spoke: Schema, hub: Schema) -> tuple[Rule, ...]:
    """Return the inner rules, and those that apply again, as long as a schema describes something there.

    A schema is finite, so its innermost level may lack the field; the first level may not.
    """
    again = []
    for each in rule.recursions:
        ends = schema_at(spoke, parse(each.spoke[0])), schema_at(hub, parse(each.hub[0]))
        is_last = rule.is_again and ends == (None, None)
        if not is_last and any(end is not ANY for end in ends):
            again.append(each)
    return (*rule.rules, *again)


def _other_scope(schema: Schema, path: str, rule: ScopedRules) -> str:
    """Return the rule that enters what the schema declares at a path."""
    if schema.kind == "list":
        return f'It is a list: write rules.each("{path}", […])'
    if schema.kind == "map" and rule.container == "list":
        name = "inside" if schema.properties else "each_value"
        return f'It is {"an object" if schema.properties else "a map"}: write rules.{name}("{path}", […])'
    return "Correct the path"


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


def _check_keys(
    rule: ScopedRules, spoke: Schema, hub: Schema, findings: DiagnosticCollector, ours: Path, theirs: Path
) -> None:
    check_keys(rule, findings)
    checks: tuple[tuple[Side, Schema, Path], ...] = (("spoke", spoke, ours), ("hub", hub, theirs))
    for side, schema, path in checks:
        keys = key_names(rule, side)
        if schema.list_type == "map" and set(keys) != set(schema.list_keys):
            findings.add(
                side,
                path,
                f"{rule.label} distinguishes items by {', '.join(keys) or 'nothing'}, the schema by "
                f"{', '.join(schema.list_keys)}",
                "Give the list-map keys as key=, and rename them with rules.rename if the versions differ",
            )


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
        for rule in rules:
            check_mapped(rule, roots["spoke"], roots["hub"], self.findings, check_coverage)
            if isinstance(rule, Constant | Default):
                check_implied(rule, rules, roots["spoke"], roots["hub"], self.findings)
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
            value = "value=…" if isinstance(rule, Constant) else ""
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
