"""Answers what a rule asks about the fields that it claims: do the schemas of both versions suit the rule?

Each kind of rule asks its own questions (``Rule.check``): whether both fields have the same schema, whether a required
field is always given a value, whether the values of an enum are named, whether the type suits, and whether the keys of
a list stay. Every answer is here or in a module that is called from here.

Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from restow.conversion.definition.advice import Around, Spot
from restow.conversion.definition.diagnostics import DiagnosticCollector
from restow.conversion.definition.required import (
    check_dispensable,
    check_given,
    check_implied,
    check_shown,
    is_guaranteed,
    requiring,
)
from restow.conversion.model.fieldpath import Path, argument, parse, shown
from restow.conversion.rules.known import End, Ends, Names, Shape, Standard
from restow.conversion.rules.protocol import Container, Rule, inside_path
from restow.conversion.rules.sides import Direction, Side, opposite
from restow.crds import ANY, Schema
from restow.crds.paths import items_path
from restow.crds.schema import schema_at
from restow.crds.types import fits

SIDES: Final[tuple[Side, Side]] = ("spoke", "hub")

_ARTICLED: Final = {
    "array": "a list",
    "boolean": "a boolean",
    "integer": "an integer",
    "number": "a number",
    "object": "an object",
    "string": "a string",
}

Cover = Callable[[Sequence[Rule], Schema, Schema, DiagnosticCollector], None]


@dataclass(frozen=True, slots=True)
class SchemaAnswers:
    """The answers for the rules of one object; ``cover`` checks the fields of two schemas that a rule compares."""

    rules: Sequence[Rule]
    roots: Mapping[Side, Schema]
    findings: DiagnosticCollector
    cover: Cover

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
        self.cover(rules, spoke, hub, self.findings.below(places["spoke"], places["hub"], step))


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
    found, wanted = _type(schema), _type(Schema(shape))
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


def _type(schema: Schema) -> str:
    if schema.int_or_string:
        return "an integer or a string"
    return _ARTICLED.get(schema.node.get("type") or "", "untyped")
