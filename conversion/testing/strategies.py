"""Hypothesis strategies that generate objects of a version from its structural schema, whole or partial.

Generated objects have the right types and required fields, respect enums, bounds, patterns, formats, list-map keys and
unions (`oneOf`, `anyOf`, `allOf`, `not`), and include edge cases: empty strings, lists and objects, 0 and false, int64
limits, all of Unicode. Further requirements of CEL rules are not known here: pass a strategy of your own for such a
field (`overrides`, by its path as restow.crds writes it: `.spec.versions[].lifecycle`).

A partial object is what a single manager owns, as the API server has it converted for managedFields: any subset of the
fields, list-map items with at least their keys, atomic lists and maps as a whole, and no empty object (except one that
was empty, or is itself owned).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from hypothesis import strategies as st

from restow.conversion.model.values import ABSENT, Json, canonical
from restow.conversion.testing.scalars import TEXTS, characters, floats, integers, is_admitted, strings
from restow.conversion.testing.touched import EVERYTHING, ITEMS, NOTHING, VALUES, Touched
from restow.crds import ANY, Schema
from restow.crds.paths import ROOT, field_path, items_path, values_path

#: Whether nothing (False), all (True) or a part (None) of an object, or of a list with keys, is owned. Mostly a part,
#: because the other two look the same each time.
_SHARES: Final = st.sampled_from([False, True, *[None] * 6])


@st.composite
def projections(draw: st.DrawFn, obj: Json, schema: Schema) -> Json:
    """Draw a part of an object. apiVersion and kind are always present; metadata is optional."""
    part: Json = {"apiVersion": obj["apiVersion"], "kind": obj["kind"]}
    if "metadata" in obj and draw(st.booleans()):
        part["metadata"] = {name: obj["metadata"][name] for name in obj["metadata"] if draw(st.booleans())}
    for name, value in obj.items():
        if name not in ("apiVersion", "kind", "metadata"):
            kept = _part(draw, value, schema.field(name) or ANY)
            if kept is not ABSENT:
                part[name] = kept
    return part


def _part(draw: st.DrawFn, value: Any, schema: Schema) -> Any:
    is_object = isinstance(value, dict) and schema.map_type != "atomic" and value
    is_list = isinstance(value, list) and schema.list_type == "map"
    if not is_object and not is_list:
        return value if draw(st.booleans()) else ABSENT
    share = draw(_SHARES)
    if share is not None:
        return value if share else ABSENT
    if is_list:
        items = [_item(draw, item, schema) for item in value if draw(st.booleans())]
        return items or ABSENT
    parts = {name: _part(draw, child, schema.field(name) or ANY) for name, child in value.items()}
    left = {name: part for name, part in parts.items() if part is not ABSENT}
    if not left:
        name = draw(st.sampled_from([*value]))
        left = {name: value[name]}
    return left


def _item(draw: st.DrawFn, item: Any, schema: Schema) -> Any:
    if not isinstance(item, dict):
        return item
    inner = schema.items or ANY
    parts = {
        name: child if name in schema.list_keys else _part(draw, child, inner.field(name) or ANY)
        for name, child in item.items()
    }
    return {name: part for name, part in parts.items() if part is not ABSENT}


Strategy = st.SearchStrategy[Any]

_LABELS: Final = st.dictionaries(
    st.sampled_from(["app", "example.dev/tier"]), st.sampled_from(["", "a", "web"]), max_size=2
)
#: How many levels of an object that no rule touches have fields beyond the required ones, and how many such fields.
_LIGHT_LEVELS: Final = 3
_LIGHT_FIELDS: Final = 2


@dataclass(frozen=True, slots=True)
class Generator:
    """Builds strategies for the fields of schemas.

    ``most`` bounds the items of lists and maps; a ``complete`` generator leaves no declared field out. With
    ``touched``, only fields that rules touch are generated in full; of the other fields a few are generated at a time,
    with small values.
    """

    overrides: Mapping[str, Strategy] = field(default_factory=dict)
    most: int = 3
    complete: bool = False
    touched: Touched | None = None

    def value(self, schema: Schema, path: str = ROOT, at: Touched = EVERYTHING) -> Strategy:
        """Return a strategy for values of the schema at ``path``; ``at`` is the part of it that matters."""
        own = self.overrides.get(path)
        strategy = self._plain(schema, path, at) if own is None else own
        return st.one_of(strategy, st.none()) if schema.nullable else strategy

    def fields(self, schema: Schema, path: str = ROOT, at: Touched | None = None) -> st.SearchStrategy[Json]:
        """Return a strategy for an object's declared fields: half of the time all, else the required and some."""
        at = at or self.touched or EVERYTHING
        names = {name: each for name, each in schema.properties.items() if not _is_implicit(schema, name)}
        untouched = () if at.full else [each for each in names if each not in at.below and each not in schema.required]
        others = {name: names.pop(name) for name in untouched}
        known = {
            name: self.value(each, field_path(path, name), EVERYTHING if at.full else at.below.get(name, NOTHING))
            for name, each in names.items()
        }
        required = {name: strategy for name, strategy in known.items() if name in schema.required}
        optional = {name: strategy for name, strategy in known.items() if name not in required}
        some = st.fixed_dictionaries(required, optional=optional)
        if optional:
            some = st.fixed_dictionaries(known) if self.complete else st.one_of(some, st.fixed_dictionaries(known))
        if not others or (at is NOTHING and path.count(".") > _LIGHT_LEVELS):
            return some
        return st.builds(lambda main, more: {**main, **more}, some, self._few(others, path))

    def _few(self, others: Mapping[str, Schema], path: str) -> st.SearchStrategy[Json]:
        """Return a strategy for a few of many fields that no rule touches."""
        chosen = st.lists(st.sampled_from(sorted(others)), max_size=_LIGHT_FIELDS, unique=True)
        return chosen.flatmap(
            lambda names: st.fixed_dictionaries(
                {name: self.value(others[name], field_path(path, name), NOTHING) for name in names}
            )
        )

    def _plain(self, schema: Schema, path: str, at: Touched) -> Strategy:
        node = schema.node
        if "enum" in node:
            return st.sampled_from([value for value in node["enum"] if value is not None] or [None])
        if schema.int_or_string:
            return st.one_of(integers({"format": "int32", **node}), strings(node))
        match node.get("type"):
            case "string":
                return strings(node)
            case "boolean":
                return st.booleans()
            case "integer":
                return integers(node)
            case "number":
                return floats(node)
            case "array":
                return self._list(schema, path, at)
            case "object":
                return self._branches(schema, path, at)
            case _:
                return _anything(self.most)

    def _branches(self, schema: Schema, path: str, at: Touched) -> Strategy:
        """Return a strategy for objects for which ``oneOf``, ``anyOf``, ``allOf`` and ``not`` may require more."""
        node = schema.node
        if not any(name in node for name in ("oneOf", "anyOf", "allOf", "not")):
            return self._object(schema, path, at)
        branches = [each for each in node.get("oneOf") or node.get("anyOf") or () if each.get("required")]
        whole = [self._object(each, path, at) for each in _with_branch(schema, branches)] if branches else []
        return st.one_of(*(whole or [self._object(schema, path, at)])).filter(lambda value: is_admitted(value, node))

    def _object(self, schema: Schema, path: str, at: Touched) -> Strategy:
        if schema.embedded_resource:
            own = st.fixed_dictionaries({"apiVersion": st.just("v1"), "kind": st.just("ConfigMap")})
            return st.builds(lambda head, rest: {**head, **rest}, own, self.fields(schema, path, at))
        low = schema.node.get("minProperties", 0)
        if schema.properties or schema.values is None:
            found = self.fields(schema, path, at)
            return found.filter(lambda value: len(value) >= low) if low else found
        high = min(schema.node.get("maxProperties", self.most), max(low, self.most if at is not NOTHING else 1))
        names = st.sampled_from(["a", "b", "c", "x.y/z", "ä"]) | st.text(characters(), min_size=1, max_size=4)
        values = self.value(schema.values, values_path(path), _below(at, VALUES))
        return st.dictionaries(names, values, min_size=low, max_size=high)

    def _list(self, schema: Schema, path: str, at: Touched) -> Strategy:
        low = schema.node.get("minItems", 0)
        high = min(schema.node.get("maxItems", self.most), max(low, self.most if at is not NOTHING else 1))
        if schema.items is None:
            return st.just([])
        items = self.value(schema.items, items_path(path), _below(at, ITEMS))
        if schema.list_type == "map":
            items = self._with_keys(schema, items, path)
            keys = schema.list_keys
            return st.lists(items, min_size=low, max_size=high, unique_by=lambda item: _key(item, keys))
        if schema.list_type == "set":
            return st.lists(items, min_size=low, max_size=high, unique_by=canonical)
        return st.lists(items, min_size=low, max_size=high)

    def _with_keys(self, schema: Schema, items: Strategy, path: str) -> Strategy:
        assert schema.items is not None
        defaulted = {
            name: self.value(inner, field_path(items_path(path), name))
            for name, inner in schema.items.properties.items()
            if name in schema.list_keys and name not in schema.items.required
        }
        if not defaulted:
            return items
        return st.builds(lambda keys, item: {**keys, **item}, st.fixed_dictionaries(defaulted), items)


def _below(at: Touched, step: str) -> Touched:
    return at if at.full else at.below.get(step, NOTHING)


def _with_branch(schema: Schema, branches: Sequence[Mapping[str, Any]]) -> Iterator[Schema]:
    """Yield the schema for each branch of a union, with its required fields and without those of other branches."""
    node, anyhow = schema.node, schema.node.get("required") or ()
    all_names = {name for branch in branches for name in branch["required"]}
    for branch in branches:
        required = {*anyhow, *branch["required"]}
        properties = {
            name: {**below, **(branch.get("properties") or {}).get(name, {})}
            for name, below in (node.get("properties") or {}).items()
            if name in required or name not in all_names
        }
        rest = {name: value for name, value in node.items() if name not in ("oneOf", "anyOf")}
        yield replace(schema, node={**rest, "properties": properties, "required": sorted(required)})


def objects(
    schema: Schema, api_version: str, kind: str, *, generator: Generator | None = None, unknown: bool = False
) -> st.SearchStrategy[Json]:
    """Return a strategy for whole objects; with ``unknown``, undeclared fields are added at random places."""
    whole = st.builds(
        lambda metadata, fields: {"apiVersion": api_version, "kind": kind, "metadata": metadata, **fields},
        _metadata(),
        (generator or Generator()).fields(schema),
    )
    if not unknown:
        return whole
    return st.builds(
        lambda obj, more: _strewn(obj, more, schema), whole, st.lists(_undeclared(), min_size=1, max_size=3)
    )


def partial_objects(
    schema: Schema, api_version: str, kind: str, *, generator: Generator | None = None
) -> st.SearchStrategy[tuple[Json, Json]]:
    """Return a strategy for pairs of a whole object and the part that one manager of managedFields owns.

    List-map items keep at least their keys; spec, status or metadata may be missing altogether.
    """
    whole = objects(schema, api_version, kind, generator=replace(generator or Generator(), complete=True))
    return whole.flatmap(lambda obj: st.tuples(st.just(obj), projections(obj, schema)))


def _is_implicit(schema: Schema, name: str) -> bool:
    return (schema.is_root or schema.embedded_resource) and name in ("apiVersion", "kind", "metadata")


def _metadata() -> st.SearchStrategy[Json]:
    return st.fixed_dictionaries(
        {"name": st.sampled_from(["a", "name"]), "uid": st.just("7d0ca1b8")},
        optional={
            "namespace": st.just("default"),
            "labels": _LABELS,
            "annotations": _LABELS,
            "generation": st.integers(1, 9),
            "finalizers": st.just(["example.dev/keep"]),
        },
    )


def _anything(most: int) -> Strategy:
    scalars = st.one_of(st.booleans(), st.integers(-5, 5), st.sampled_from(TEXTS))
    names = st.sampled_from(["a", "b", "spec"])
    return st.recursive(
        scalars,
        lambda inner: st.lists(inner, max_size=most) | st.dictionaries(names, inner, max_size=most),
        max_leaves=4,
    )


def _undeclared() -> st.SearchStrategy[tuple[int, str, Any]]:
    return st.tuples(st.integers(0, 99), st.sampled_from(["zzUndeclared", "zz.b/c"]), st.none() | _anything(2))


def _strewn(obj: Json, fields: list[tuple[int, str, Any]], schema: Schema) -> Json:
    """Return the object with fields added to objects inside of it, chosen by number.

    Maps get no fields, because every key of a map is declared, and its value has a type.
    """
    for number, name, value in fields:
        places = [(), *_places(obj, schema)]
        obj = _with_field(obj, places[number % len(places)], name, value)
    return obj


def _places(value: Any, schema: Schema | None, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    children: Iterable[tuple[Any, Any, Schema | None]] = ()
    if isinstance(value, dict):
        children = ((name, child, schema and schema.field(name)) for name, child in value.items())
    elif isinstance(value, list):
        children = ((index, child, schema and schema.items) for index, child in enumerate(value))
    found = []
    for step, child, inner in children:
        if path or step != "metadata":
            takes_fields = isinstance(child, dict) and (inner is None or inner.values is None)
            found += [(*path, step)] if takes_fields else []
            found += _places(child, inner, (*path, step))
    return found


def _with_field(value: Any, path: tuple[Any, ...], name: str, field_value: Any) -> Any:
    if not path:
        return {**value, name: field_value}
    step, *rest = path
    changed = _with_field(value[step], tuple(rest), name, field_value)
    if isinstance(value, dict):
        return {**value, step: changed}
    return [*value[:step], changed, *value[step + 1 :]]


def _key(item: Json, keys: tuple[str, ...]) -> bytes:
    return canonical([item.get(key) for key in keys])
