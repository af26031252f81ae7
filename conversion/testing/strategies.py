"""Hypothesis strategies that generate objects of a version from its structural schema, whole or partial.

Generated objects have the right types and required fields, respect enums, bounds, patterns and list-map keys, and
seek the borders: empty strings, lists and objects, 0 and false, int64 limits, all of Unicode. What CEL rules, `oneOf`
and the like demand beyond that is not known here: give a strategy of your own for such a field (`overrides`, by its
path as restow.crds writes it: `.spec.versions[].lifecycle`).

Partial objects are what a single manager owns, as the API server has them converted for managedFields: any subset of
the fields, list-map items with at least their keys, atomic lists and maps as a whole, and no object that holds nothing
(but for one that was empty, or is owned by itself).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from hypothesis import strategies as st

from restow.conversion.model.values import ABSENT, Json, canonical
from restow.crds import ANY, Schema
from restow.crds.paths import ROOT, field_path, items_path, values_path

__all__ = [
    "Generator",
    "objects",
    "partial_objects",
    "projections",
]


@st.composite
def projections(draw: st.DrawFn, obj: Json, schema: Schema) -> Json:
    """Draw a part of an object. apiVersion and kind are always there, metadata need not be."""
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
    chance = draw(st.integers(0, 4))
    if chance == 0:
        return ABSENT
    if chance == 1:
        return value
    if isinstance(value, dict) and schema.map_type != "atomic" and value:
        parts = {name: _part(draw, child, schema.field(name) or ANY) for name, child in value.items()}
        left = {name: part for name, part in parts.items() if part is not ABSENT}
        return left or ABSENT
    if isinstance(value, list) and schema.list_type == "map":
        items = [_item(draw, item, schema) for item in value if draw(st.booleans())]
        return items or ABSENT
    return value


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

_INT64: Final = (-(2**63), 2**63 - 1)
_INT32: Final = (-(2**31), 2**31 - 1)
#: The name of the namespace is among them: functions that compare with metadata have to meet both cases.
_TEXTS: Final = ("", "a", "default", "é", "<&>\u2028", "日本", "\U0001f6a2", '"\\/\n\t')
_LABELS: Final = st.dictionaries(
    st.sampled_from(["app", "example.dev/tier"]), st.sampled_from(["", "a", "web"]), max_size=2
)


@dataclass(frozen=True, slots=True)
class Generator:
    """Builds strategies for the fields of schemas.

    ``most`` bounds the items of lists and maps; a ``complete`` one leaves no declared field out.
    """

    overrides: Mapping[str, Strategy] = field(default_factory=dict)
    most: int = 3
    complete: bool = False

    def value(self, schema: Schema, path: str = ROOT) -> Strategy:
        """Return a strategy for values of the schema at ``path``."""
        own = self.overrides.get(path)
        strategy = self._plain(schema, path) if own is None else own
        return st.one_of(strategy, st.none()) if schema.nullable else strategy

    def fields(self, schema: Schema, path: str = ROOT) -> st.SearchStrategy[Json]:
        """Return a strategy for the declared fields of an object: half of the time all, else the required and some."""
        names = {name: each for name, each in schema.properties.items() if not _is_implicit(schema, name)}
        known = {name: self.value(each, field_path(path, name)) for name, each in names.items()}
        required = {name: strategy for name, strategy in known.items() if name in schema.required}
        optional = {name: strategy for name, strategy in known.items() if name not in required}
        some = st.fixed_dictionaries(required, optional=optional)
        if not optional:
            return some
        return st.fixed_dictionaries(known) if self.complete else st.one_of(some, st.fixed_dictionaries(known))

    def _plain(self, schema: Schema, path: str) -> Strategy:
        node = schema.node
        if "enum" in node:
            return st.sampled_from([value for value in node["enum"] if value is not None] or [None])
        if schema.int_or_string:
            return st.one_of(_integers({"format": "int32"}), _strings({}))
        match node.get("type"):
            case "string":
                return _strings(node)
            case "boolean":
                return st.booleans()
            case "integer":
                return _integers(node)
            case "number":
                return st.one_of(_integers(node), _floats(node))
            case "array":
                return self._list(schema, path)
            case "object":
                return self._object(schema, path)
            case _:
                return _anything(self.most)

    def _object(self, schema: Schema, path: str) -> Strategy:
        if schema.embedded_resource:
            own = st.fixed_dictionaries({"apiVersion": st.just("v1"), "kind": st.just("ConfigMap")})
            return st.builds(lambda head, rest: {**head, **rest}, own, self.fields(schema, path))
        if schema.properties or schema.values is None:
            return self.fields(schema, path)
        low = schema.node.get("minProperties", 0)
        high = min(schema.node.get("maxProperties", self.most), max(low, self.most))
        names = st.sampled_from(["a", "b", "c", "x.y/z", "ä"]) | st.text(_characters(), min_size=1, max_size=4)
        return st.dictionaries(names, self.value(schema.values, values_path(path)), min_size=low, max_size=high)

    def _list(self, schema: Schema, path: str) -> Strategy:
        low = schema.node.get("minItems", 0)
        high = min(schema.node.get("maxItems", self.most), max(low, self.most))
        if schema.items is None:
            return st.just([])
        items = self.value(schema.items, items_path(path))
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


def objects(
    schema: Schema, api_version: str, kind: str, *, generator: Generator | None = None, unknown: bool = False
) -> st.SearchStrategy[Json]:
    """Return a strategy for whole objects; with ``unknown``, fields that no schema declares are strewn in."""
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
    """Return a strategy for (whole object, what of it one manager of managedFields owns).

    Of list-map items at least the keys are left; spec, status or metadata may be missing altogether.
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


def _characters() -> st.SearchStrategy[str]:
    return st.characters(exclude_categories=["Cs"])


def _strings(node: Mapping[str, Any]) -> Strategy:
    if node.get("format") in ("date-time", "date"):
        return st.sampled_from(["2024-02-29T00:00:00Z", "1970-01-01T00:00:00Z", "2031-12-31T23:59:59Z"])
    low, high = node.get("minLength", 0), node.get("maxLength", max(8, node.get("minLength", 0)))
    if "pattern" in node:
        matching = st.from_regex(node["pattern"], fullmatch=False)
        return matching.filter(lambda text: low <= len(text) <= node.get("maxLength", len(text)))
    texts = [text for text in _TEXTS if low <= len(text) <= high]
    free = st.text(_characters(), min_size=low, max_size=min(high, low + 8))
    return st.one_of(st.sampled_from(texts), free) if texts else free


def _integers(node: Mapping[str, Any]) -> Strategy:
    low, high = _INT32 if node.get("format") == "int32" else _INT64
    low, high = max(low, int(node.get("minimum", low))), min(high, int(node.get("maximum", high)))
    low, high = low + bool(node.get("exclusiveMinimum")), high - bool(node.get("exclusiveMaximum"))
    border = [value for value in (low, high, 0, 1, -1) if low <= value <= high]
    step = node.get("multipleOf")
    if step:
        return st.integers(-(-low // int(step)), high // int(step)).map(lambda value: value * int(step))
    return st.one_of(st.sampled_from(border), st.integers(low, high))


def _floats(node: Mapping[str, Any]) -> Strategy:
    return st.floats(
        min_value=node.get("minimum"), max_value=node.get("maximum"), allow_nan=False, allow_infinity=False
    )


def _anything(most: int) -> Strategy:
    scalars = st.one_of(st.booleans(), st.integers(-5, 5), st.sampled_from(_TEXTS))
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

    Not to maps: a key of a map is declared, whatever it is called, and its value has a type.
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
