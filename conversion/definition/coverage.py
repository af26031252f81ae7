"""Checks that the rules cover every field: each one is identical, mapped, stashed or acknowledged.

A field that no rule claims passes unchanged, so both versions must declare it alike: its type, list or map type, enum,
keys and required fields. A field that a rule claims must exist, and fields that one rule ties together must accept the
same values. Everything else becomes a diagnostic with its path and a suggested rule. A field that is later added to the
schema of one version therefore fails the check, and is not lost silently.

Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import Any, Final

from restow.conversion.definition.advice import Around, Spot, literal
from restow.conversion.definition.diagnostics import DiagnosticCollector
from restow.conversion.definition.likely import Field, likely
from restow.conversion.definition.required import (
    check_dispensable,
    check_given,
    check_implied,
    check_made,
    check_shown,
    check_waivers,
    is_guaranteed,
    one_sided,
    requiring,
)
from restow.conversion.definition.suggestions import python_source
from restow.conversion.model.fieldpath import Path, argument, parse, shown, starts_with
from restow.conversion.rules.known import End, Ends, Names, Shape, Standard
from restow.conversion.rules.protocol import Container, Rule, inside_path
from restow.conversion.rules.sides import SIDES, Direction, Side, opposite
from restow.conversion.rules.unions import flattened
from restow.crds import ANY, Schema
from restow.crds.paths import items_path, values_path
from restow.crds.schema import schema_at
from restow.crds.types import fits


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
    if spoke.is_root or _are_alike(spoke, hub, (), (), findings):
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
        answers = SchemaAnswers(rules, roots, self.findings)
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
        if not is_same and not _are_alike(inner_spoke, inner_hub, path, path, self.findings, required=required):
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


_ARTICLED: Final = {
    "array": "a list",
    "boolean": "a boolean",
    "integer": "an integer",
    "number": "a number",
    "object": "an object",
    "string": "a string",
}


@dataclass(frozen=True, slots=True)
class SchemaAnswers:
    """The answers for the rules of one object to what they ask about the fields that they claim."""

    rules: Sequence[Rule]
    roots: Mapping[Side, Schema]
    findings: DiagnosticCollector

    def same(self, rule: Rule) -> None:
        """Report how the schemas of two fields differ."""
        ours, theirs, from_schema, to_schema = self._ends(rule)
        if from_schema is ANY or to_schema is ANY:
            return  # an undeclared field of an opaque object: only the author knows its content
        if from_schema is not None and to_schema is not None and from_schema.node != to_schema.node:
            self._cover((), from_schema, to_schema, Around("object", ours, theirs, rule))

    def wrapped(self, rule: Rule, listed: Side) -> None:
        """Report a field that is no list, and how the schema of its items differs from that of the other field."""
        ours, theirs, *schemas = self._ends(rule)
        ends = dict(zip(SIDES, schemas, strict=True))
        found, other = ends[listed], ends[opposite(listed)]
        if found is None or (found.kind == "any" and found.items is None):
            return
        if found.kind not in ("list", "any") or found.items is None:
            path = theirs if listed == "hub" else ours
            self.findings.add(listed, path, f"{rule.label} needs a list", "Correct the path")
        elif other is not None and other.node != found.items.node:
            spoke, hub = (other, found.items) if listed == "hub" else (found.items, other)
            self._cover((), spoke, hub, Around("wrapped", ours, theirs, rule), listed)

    def inside(self, rule: Rule, container: Container) -> None:
        """Report what the rules inside of a list, a map or an object leave out, and changes of the keys of a list."""
        ours, theirs, from_schema, to_schema = self._ends(rule)
        if from_schema is None or to_schema is None:
            return
        wanted = "list" if container == "list" else "map"
        for side, path, schema in zip(SIDES, (ours, theirs), (from_schema, to_schema), strict=True):
            if schema.kind not in (wanted, "any"):
                fix = _other_scope(schema, shown(path).removeprefix("."), container)
                self.findings.add(side, path, f"{rule.label} needs a {wanted}", fix)
                return
        self.guaranteed(rule)
        declared = (name for side in SIDES for name in rule.key_names(side))
        keys = frozenset((*from_schema.list_keys, *to_schema.list_keys, *declared))
        if container == "list":
            self.findings.report(rule, rule.check_keys())
            self._list_keys(rule, "spoke", from_schema, ours)
            self._list_keys(rule, "hub", to_schema, theirs)
        below = rule.inner_schema("spoke", self.roots["spoke"]), rule.inner_schema("hub", self.roots["hub"])
        if below[0] is not None and below[1] is not None:
            around = Around(container, ours, theirs, rule, keys)
            self._cover(rule.entered(below[0], below[1]), below[0], below[1], around)

    def _list_keys(self, rule: Rule, side: Side, schema: Schema, path: Path) -> None:
        keys = rule.key_names(side)
        if schema.list_type == "map" and set(keys) != set(schema.list_keys):
            self.findings.add(
                side,
                path,
                f"{rule.label} distinguishes items by {', '.join(keys) or 'nothing'}, the schema by "
                f"{', '.join(schema.list_keys)}",
                "Give the list-map keys as key=, and rename them with rules.rename if the versions differ",
            )

    def named(self, rule: Rule, tables: Mapping[Direction, Names]) -> None:
        """Report values without a name, and names that the other version does not admit."""
        ours, theirs, from_schema, to_schema = self._ends(rule)
        if not _is_scalar(rule, self.roots["spoke"], self.roots["hub"], self.findings):
            return
        self._table(rule, "spoke", ours, (from_schema, to_schema), "up", tables)
        self._table(rule, "hub", theirs, (to_schema, from_schema), "down", tables)

    def _table(
        self,
        rule: Rule,
        side: Side,
        path: Path,
        ends: tuple[Schema | None, Schema | None],
        keyword: Direction,
        tables: Mapping[Direction, Names],
    ) -> None:
        table = tables[keyword]
        allowed, admitted = (None if end is None else end.node.get("enum") for end in ends)
        for value in allowed or ():
            if value is not None and value not in table and (admitted is None or value not in admitted):
                fix = f"Add it to the table, or to {keyword}="
                self.findings.add(side, path, f"{rule.label} has no entry for {value!r}", fix)
        for value in table.values():
            if not fits(value, ends[1]) or (admitted is not None and value not in admitted):
                problem = f"{rule.label} gives {value!r}, which {self.findings.version(opposite(side))} does not admit"
                self.findings.add(side, path, problem, "Correct the table")

    def suited(self, rule: Rule, standard: Standard) -> None:
        """Report the fields of a standard rule that have another type, or do not suit it for another reason."""
        _check_standard(rule, standard, self.roots["spoke"], self.roots["hub"], self.findings)

    def guaranteed(self, rule: Rule) -> None:
        """Report a field that one version requires and the other may lack."""
        ours, theirs, *schemas = self._ends(rule)
        around = schema_at(self.roots["spoke"], ours[:-1]), schema_at(self.roots["hub"], theirs[:-1])
        if None not in schemas and around[0] is not None and around[1] is not None:
            is_guaranteed(around[0], around[1], ours, theirs, self.findings)

    def given(self, rule: Rule) -> None:
        """Report a required field that is made of fields which may all be missing."""
        check_given(rule, self.rules, self.roots, self.findings)

    def shown(self, rule: Rule) -> None:
        """Report a required field that shows some values only."""
        check_shown(rule, self.roots, self.findings)

    def implied(self, rule: Rule) -> None:
        """Report a value that its side does not admit, and a default that removes a required field."""
        check_implied(rule, self.rules, self.roots["spoke"], self.roots["hub"], self.findings)

    def dispensable(self, rule: Rule) -> None:
        """Report a required field that only one version has."""
        check_dispensable(rule, self.roots["spoke"], self.roots["hub"], self.findings)

    def _ends(self, rule: Rule) -> tuple[Path, Path, Schema | None, Schema | None]:
        ours, theirs = parse(rule.spoke[0]), parse(rule.hub[0])
        return ours, theirs, schema_at(self.roots["spoke"], ours), schema_at(self.roots["hub"], theirs)

    def _cover(
        self, rules: Sequence[Rule], spoke: Schema, hub: Schema, step: Around, listed: Side | None = None
    ) -> None:
        """Check the content of two fields; only the side ``listed`` has it in a list, if it is given."""
        step = replace(step, required=requiring(self.roots["spoke"], self.roots["hub"], step.spoke, step.hub))
        places = {"spoke": self.findings.place("spoke", step.spoke), "hub": self.findings.place("hub", step.hub)}
        if listed is not None:
            places[listed] = items_path(places[listed])
        elif step.container != "wrapped":
            places = {side: inside_path(step.container, place) for side, place in places.items()}
        check_coverage(rules, spoke, hub, self.findings.below(places["spoke"], places["hub"], step))


def _other_scope(schema: Schema, path: str, container: Container) -> str:
    """Return the rule that enters what the schema declares at a path."""
    if schema.kind == "list":
        return f'It is a list: write rules.each("{path}", […])'
    if schema.kind == "map" and container == "list":
        name = "inside" if schema.properties else "each_value"
        return f'It is {"an object" if schema.properties else "a map"}: write rules.{name}("{path}", […])'
    return "Correct the path"


def _is_scalar(rule: Rule, spoke: Schema, hub: Schema, findings: DiagnosticCollector) -> bool:
    """Report a table of values for a list or an object, which would pass unchanged; return whether there is none."""
    ours, theirs = parse(rule.spoke[0]), parse(rule.hub[0])
    ends = schema_at(spoke, ours), schema_at(hub, theirs)
    sides: tuple[tuple[Side, Path, Schema | None], ...] = (("spoke", ours, ends[0]), ("hub", theirs, ends[1]))
    for side, path, schema in sides:
        if schema is not None and schema.kind in ("list", "map"):
            spot = replace(findings.spot(ours, theirs), instead=rule)
            problem = f"{rule.label} converts one value, and this is {_ARTICLED[schema.node['type']]}"
            findings.add(side, path, problem, f"Convert it with {_for_content(spot, *ends)}{spot.note}")
            return False
    return True


def _for_content(spot: Spot, spoke: Schema | None, hub: Schema | None) -> str:
    """Return the rule that takes rules for the fields inside; a pair where there are none, or the ends differ."""
    ends, name = [each for each in (spoke, hub) if each is not None], ""
    if all(each.kind == "list" and each.items is not None and each.items.kind == "map" for each in ends):
        name = "each"
    elif all(each.kind == "map" and each.properties for each in ends):
        name = "inside"
    elif all(each.kind == "map" and each.values is not None and each.values.kind == "map" for each in ends):
        name = "each_value"
    return spot.rule(name, argument(spot.spoke), "[]", spot.renamed) if name else spot.pair


def _check_standard(rule: Rule, standard: Standard, spoke: Schema, hub: Schema, findings: DiagnosticCollector) -> None:
    """Report the fields of a standard rule whose schemas have another type, or do not suit it for another reason.

    A field counts as optional if another rule says what it means that it is missing.
    """
    ends: Ends = {
        "spoke": [_end(spoke, text, "spoke", findings) for text in rule.spoke],
        "hub": [_end(hub, text, "hub", findings) for text in rule.hub],
    }
    is_sound = True
    for side, shapes in standard.shapes.items():
        for text, end, shape in zip(rule.claims(side), ends[side], shapes, strict=True):
            for problem in () if end is None else _misfits(shape, end.schema):
                is_sound = False
                findings.add(side, parse(text), f"{problem}, as {rule.label} needs it", "Correct the path or the rule")
    for misfit in rule.misfits(ends) if is_sound else ():
        path = parse(rule.claims(misfit.side)[misfit.index])
        findings.add(misfit.side, path, misfit.problem, misfit.fix)


def _end(root: Schema, text: str, side: Side, findings: DiagnosticCollector) -> End | None:
    path = parse(text)
    around, schema = schema_at(root, path[:-1]), schema_at(root, path)
    if around is None or schema is None:
        return None
    is_required = path[-1] in around.required and not schema.has_default
    return End(schema, is_required and not findings.is_answered(side, path))


def _misfits(shape: Shape, schema: Schema, inside: str = "") -> Iterator[str]:
    """Yield the differences of a schema from a rule's shape; a field of any type suits every rule."""
    if not shape or schema.kind == "any":
        return
    found, wanted = _type_of(schema), _type_of(Schema(shape))
    if found != wanted and not (wanted == "an integer or a string" and found == "a string"):
        yield f"{inside}is {found}, not {wanted}"
        return
    if "items" in shape and schema.items is not None:
        yield from _misfits(shape["items"], schema.items, "has items of which each ")
    if "additionalProperties" in shape:
        if schema.values is None:
            yield f"{inside}is an object with declared fields only, not a map"
        else:
            yield from _misfits(shape["additionalProperties"], schema.values, "is a map of which each value ")
    for name, node in (shape.get("properties") or {}).items():
        field = schema.field(name)
        if field is None:
            yield f"{inside}has no field {name}"
        else:
            yield from _misfits(node, field, f"{inside}has a field {name} that ")


def _type_of(schema: Schema) -> str:
    if schema.int_or_string:
        return "an integer or a string"
    return _ARTICLED.get(schema.node.get("type") or "", "untyped")


def _are_alike(
    spoke: Schema,
    hub: Schema,
    spoke_path: Path,
    hub_path: Path,
    findings: DiagnosticCollector,
    *,
    required: frozenset[Side] = frozenset(),
) -> bool:
    """Report how two fields with the same value differ; return whether their inner fields should be compared.

    ``required``: the versions that require the field. Without a path, the step to here says it (``Around``).
    """
    ours, theirs = _type(spoke), _type(hub)
    if "untyped" in (ours, theirs) and ours != theirs:
        side: Side = "hub" if ours == "untyped" else "spoke"
        is_whole = (hub if side == "hub" else spoke).kind not in ("map", "list")
        _refuse_opaque(side, spoke_path, hub_path, "keeps any value", findings, required, is_whole=is_whole)
        return False
    if ours != theirs:
        problem = f"is {ours}, but {findings.hub} {findings.place('hub', hub_path)} is {theirs}"
        spot = findings.spot(spoke_path, hub_path, required=required)
        findings.add("spoke", spoke_path, problem, _other_type(spoke, hub, spot))
        return False
    _compare_enums(spoke, hub, spoke_path, hub_path, findings)
    if spoke.kind == "list" and (spoke.list_type, set(spoke.list_keys)) != (
        hub.list_type,
        set(hub.list_keys),
    ):
        findings.add(
            "spoke",
            spoke_path,
            f"is a list of the type {_list(spoke)}, but in {findings.hub} of the type {_list(hub)}",
            _other_list(spoke, hub, spoke_path, hub_path, findings),
        )
    if (spoke.values is None) != (hub.values is None) and spoke.kind == "map":
        opened = spoke if hub.values is None else hub
        if opened.preserves_unknown_fields:
            described: Side = "spoke" if opened is hub else "hub"
            _refuse_opaque(described, spoke_path, hub_path, "keeps any field", findings, required)
            return bool(opened.properties)
        open_side: Side = "hub" if spoke.values is None else "spoke"
        closed = findings.version("spoke" if open_side == "hub" else "hub")
        findings.add(
            open_side,
            spoke_path if open_side == "spoke" else hub_path,
            f"keeps undeclared fields, which {closed} would prune",
            _other_map(spoke_path, hub_path, findings),
        )
    return True


_CASTS: Final = {
    "boolean": "boolean",
    "integer": "integer",
    "integer or string": "int-or-string",
    "number": "number",
    "string": "string",
}


def _other_type(spoke: Schema, hub: Schema, spot: Spot) -> str:
    """Return the rule that converts a field to another type."""
    ours, theirs = _type(spoke), _type(hub)
    if spot.is_whole:
        return spot.conversion_as_a_whole
    if ours in _CASTS and theirs in _CASTS:
        types = f'spoke_type="{_CASTS[ours]}"', f'hub_type="{_CASTS[theirs]}"'
        return f"Convert it with {spot.rule('cast', *spot.ends, *types)}{spot.note}"
    guess = likely(Field(spot.spoke, spoke), Field(spot.hub, hub))
    if guess is not None and guess.rule is not None and _suits(guess.rule, spoke, hub, spot.required):
        return f"Convert it with {spot.around(python_source(guess.rule))}, or with {spot.pair}{spot.note}"
    return f"Convert it with {spot.pair}{spot.note}"


def _suits(rule: Rule, spoke: Schema, hub: Schema, required: frozenset[Side]) -> bool:
    """Return whether a rule between two fields accepts their schemas."""
    ends: Ends = {"spoke": [End(spoke, "spoke" in required)], "hub": [End(hub, "hub" in required)]}
    return next(rule.misfits(ends), None) is None


def _other_list(spoke: Schema, hub: Schema, spoke_path: Path, hub_path: Path, findings: DiagnosticCollector) -> str:
    """Return the rule for a list of another type; no rule of items can change the keys of a list."""
    spot = findings.spot(spoke_path, hub_path)
    ends = argument(spot.spoke), "[]", spot.renamed
    known = [each.list_keys for each in (spoke, hub) if each.list_type == "map"]
    if spot.is_whole or len(known) > 1 or spoke.items is None or spoke.items.kind != "map":
        return f"Declare the change with {spot.pair}{spot.note}, or make the schemas agree"
    names = [literal(key) for key in known[0]] if known else []
    keys = "" if not names else f"key={names[0]}" if len(names) == 1 else f"key=[{', '.join(names)}]"
    return f"Declare the change with {spot.rule('each', *ends, keys)}{spot.note}, or make the schemas agree"


def _other_map(spoke_path: Path, hub_path: Path, findings: DiagnosticCollector) -> str:
    spot = findings.spot(spoke_path, hub_path)
    if not spot.spoke or not spot.hub:
        return "Let both versions keep them"
    stashes = (spot.rule("stash", spot.one(side)) for side in ("spoke", "hub"))
    return (
        f"Let both versions keep them, convert the field as a whole with {spot.pair}, or let each version keep its own "
        f"with {' and '.join(stashes)}{spot.note}"
    )


def _refuse_opaque(
    by: Side,
    spoke: Path,
    hub: Path,
    keeps: str,
    findings: DiagnosticCollector,
    required: frozenset[Side],
    *,
    is_whole: bool = False,
) -> None:
    """Report a field that one version keeps as it is, and that the other one, ``by``, describes.

    ``is_whole``: no part of the value can fit alone.
    """
    other = opposite(by)
    path, place = (spoke, findings.place("hub", hub)) if other == "spoke" else (hub, findings.place("spoke", spoke))
    spot = findings.spot(spoke, hub, required=required)
    described = spot.rule("described", *spot.ends, f'by="{by}"{"" if is_whole else ", partial=True"}')
    fix = f"Pass what fits, and stash the rest, with {described}{spot.note}; or describe it in both versions"
    if spot.is_whole and (spot.instead is None or spot.instead.container is None):
        fix = f"{spot.conversion_as_a_whole}; or describe it in both versions"
    elif by in spot.required:  # a rule that stashes what does not fit would leave the field out
        fix = f"Convert it with {spot.pair}{spot.note}, since {findings.version(by)} requires it"
        fix = f"{fix}; or describe it in both versions"
    findings.add(other, path, f"{keeps}, but {findings.version(by)} describes {place}", fix)


def _compare_enums(spoke: Schema, hub: Schema, spoke_path: Path, hub_path: Path, findings: DiagnosticCollector) -> None:
    ours, theirs = _enum(spoke), _enum(hub)
    for side, mine, yours, path in (("spoke", ours, theirs, spoke_path), ("hub", theirs, ours, hub_path)):
        if yours is None or mine == yours:
            continue
        other = findings.hub if side == "spoke" else findings.spoke
        if mine is None:
            problem = f"takes values that the enum of {other} does not"
        else:
            extra = [value for value in mine if value not in yours]
            if not extra:
                continue
            problem = f"takes {', '.join(map(repr, extra))}, which {other} does not"
        spot = findings.spot(spoke_path, hub_path)
        fix = spot.conversion_as_a_whole
        if not spot.is_whole:
            fix = f"Say what {other} shows for it, with {_enum_rule(spoke, hub, spot)}{spot.note}"
        findings.add(side, path, problem, fix)  # type: ignore[arg-type]


def _enum_rule(spoke: Schema, hub: Schema, spot: Spot) -> str:
    """Return the rule that names, for each value of one version alone, the value that the other one shows."""
    ours, theirs = _enum(spoke), _enum(hub)
    if spoke.kind in ("list", "map"):
        return spot.pair
    guess = likely(Field(spot.spoke, spoke), Field(spot.hub, hub))
    if guess is not None and guess.rule is not None and guess.rule.name == "enum" and not guess.asks:
        return spot.around(python_source(guess.rule))
    if ours is None or theirs is None:  # the other version takes any value: those of the enum stay as they are
        same = _table((value, literal(value)) for value in ours or theirs or ())
        return spot.rule("enum", argument(spot.spoke), same, spot.renamed)
    up = _table((value, "…") for value in ours if value not in theirs)
    down = _table((value, "…") for value in theirs if value not in ours)
    tables = [f"{name}={table}" for name, table in (("up", up), ("down", down)) if table != "{}"]
    return spot.rule("enum", argument(spot.spoke), "{}", spot.renamed, *tables)


def _table(entries: Iterable[tuple[Any, str]]) -> str:
    return f"{{{', '.join(f'{literal(value)}: {other}' for value, other in entries)}}}"


def _enum(schema: Schema) -> list[Any] | None:
    values = schema.node.get("enum")
    return None if values is None else [value for value in values if value is not None]


def _type(schema: Schema) -> str:
    return "integer or string" if schema.int_or_string else schema.node.get("type") or "untyped"


def _list(schema: Schema) -> str:
    return f"{schema.list_type}{list(schema.list_keys) if schema.list_keys else ''}"
