"""What clients of a version notice when its schema changes: fields, values that are refused, defaults, owners.

``schema_changes`` compares the old schema with the new one. A change is *breaking* if the API server drops or refuses
what it took before, or if a client that changes nothing gets another result. It is a *notice* if only a client that
reads, or a person, can tell. Everything else is *ok*. What was wrong before is no change.

Two patterns, formats, CEL rules or junctors (``anyOf``) that differ count as breaking, because nothing here knows
whether the new one takes all that the old one took.

Sources: apiextensions-apiserver ``pkg/apiserver/validation``, ``schema/defaulting``, ``schema/pruning``.

Pure.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from restow.crds.paths import ROOT
from restow.crds.schema import ANY, IMPLICIT_PROPERTIES, UNDESCRIBED, Schema
from restow.crds.schemadiff import OneSidedPlace, SharedPlace, common, walk


class ChangeVerdict(StrEnum):
    """What a change means for clients."""

    BREAKING = "breaking"
    NOTICE = "notice"
    OK = "ok"


@dataclass(frozen=True, slots=True)
class SchemaChange:
    """One change.

    Attributes:
        check: the kind of change; ``restow.crds.crddiff`` has its effect and what to do.
        severity: what it means for clients.
        path: the place in the schema.
        what: the change in a few words, ``maximum is 5, was 10`` for instance.
    """

    check: str
    severity: ChangeVerdict
    path: str
    what: str


def schema_changes(old: Schema, new: Schema) -> Iterator[SchemaChange]:
    """Yield the changes between two schemas of one version, in the order of the documents.

    ``apiVersion``, ``kind`` and ``metadata`` of the object itself are always there, whether declared or not; what the
    schemas say of them is compared.
    """
    for place in walk(_declared(old), _declared(new), _entered):
        if isinstance(place, OneSidedPlace):
            yield from _one_sided(place)
        else:
            yield from _changes(place)


def _declared(schema: Schema) -> Schema:
    """Return a root as its document declares it."""
    return Schema(schema.node, legacy=schema.legacy) if schema.is_root else schema


def _entered(old: Schema, new: Schema) -> tuple[bool, bool]:
    """Enter what both admit; the fields that a Kubernetes object must have are no fields that changed."""
    items, fields = common(old, new)
    return items, fields and not (new.embedded_resource and not old.embedded_resource)


_IMPLICIT: Final = frozenset(f".{name}" for name in IMPLICIT_PROPERTIES)


def _one_sided(place: OneSidedPlace) -> Iterator[SchemaChange]:
    if place.path in _IMPLICIT:
        return
    if place.path.endswith("[]"):
        return  # the API server refuses a list without items in a structural schema
    if place.path.endswith("{}"):
        yield from _open(place)
    elif place.new is None:
        yield SchemaChange("field-removed", ChangeVerdict.BREAKING, place.path, "field is gone")
    else:
        yield SchemaChange("field-added", ChangeVerdict.OK, place.path, "field is new")


def _open(place: OneSidedPlace) -> Iterator[SchemaChange]:
    """Yield the change of an object that keeps its undeclared fields on one side only."""
    parent = place.path.removesuffix("{}") or ROOT
    if place.new is None:
        yield SchemaChange("fields-closed", ChangeVerdict.BREAKING, parent, "undeclared fields are dropped, were kept")
    else:
        yield SchemaChange("fields-opened", ChangeVerdict.OK, parent, "undeclared fields are kept, were dropped")


def _changes(place: SharedPlace) -> Iterator[SchemaChange]:
    """Yield what changed at a place itself."""
    old, new, path = place.old, place.new, place.path
    if _is_undescribed(old) and _is_undescribed(new):
        return
    gone = _types(old) - _types(new)
    if gone:
        yield SchemaChange("type", ChangeVerdict.BREAKING, path, f"type is {_type(new)}, was {_type(old)}")
        if not _types(old) & _types(new):
            return
    elif _types(new) - _types(old):
        yield SchemaChange("type-widened", ChangeVerdict.NOTICE, path, f"type is {_type(new)}, was {_type(old)}")
    yield from _null(old, new, path)
    yield from _enum(old.node, new.node, path)
    yield from _bounds(old.node, new.node, path)
    yield from _exact(old, new, path)
    yield from _required(old, new, path)
    yield from _default(old.node, new.node, path)
    yield from _owners(old, new, path)
    yield from _cel(old.node, new.node, path)
    yield from _junctors(old, new, path)
    if new.embedded_resource and not old.embedded_resource:
        what = "object must be a whole Kubernetes object"
        yield SchemaChange("embedded", ChangeVerdict.BREAKING, path, what)


def _is_undescribed(schema: Schema) -> bool:
    return schema is ANY or schema is UNDESCRIBED


_ALL_TYPES: Final = frozenset({"array", "boolean", "integer", "fraction", "object", "string"})


def _types(schema: Schema) -> frozenset[str]:
    """Return the types of values that a node admits; a number is an integer or has a fraction."""
    if schema.int_or_string:
        return frozenset({"integer", "string"})
    match schema.node.get("type"):
        case "number":
            return frozenset({"integer", "fraction"})
        case str() as name:
            return frozenset({name})
        case _:
            return _ALL_TYPES


def _type(schema: Schema) -> str:
    return "integer or string" if schema.int_or_string else schema.node.get("type") or "any"


def _null(old: Schema, new: Schema, path: str) -> Iterator[SchemaChange]:
    if old.nullable == new.nullable or old.kind == "any" or _is_undescribed(new):
        return
    if new.nullable:
        yield SchemaChange("nullable-added", ChangeVerdict.NOTICE, path, "null is allowed")
    else:  # the API server refuses a null item, and drops a null field
        severity = ChangeVerdict.BREAKING if path.endswith("[]") else ChangeVerdict.NOTICE
        yield SchemaChange("nullable-removed", severity, path, "null is not allowed, was")


def _enum(old: Mapping[str, Any], new: Mapping[str, Any], path: str) -> Iterator[SchemaChange]:
    ours, theirs = old.get("enum"), new.get("enum")
    if theirs is None:
        if ours is not None:
            yield SchemaChange("enum-widened", ChangeVerdict.NOTICE, path, "enum is gone: any value is allowed")
        return
    if ours is None:
        yield SchemaChange("enum", ChangeVerdict.BREAKING, path, f"enum is new: {_listed(theirs)}")
        return
    if missing := _without(ours, theirs):
        yield SchemaChange("enum", ChangeVerdict.BREAKING, path, f"enum lacks {_listed(missing)}")
    if more := _without(theirs, ours):
        yield SchemaChange("enum-widened", ChangeVerdict.NOTICE, path, f"enum has {_listed(more)} too")


def _without(values: Sequence[Any], others: Sequence[Any]) -> list[Any]:
    known = {json.dumps(other, sort_keys=True) for other in others}
    return [value for value in values if json.dumps(value, sort_keys=True) not in known]


def _listed(values: Sequence[Any]) -> str:
    return ", ".join(map(_shown, values))


def _shown(value: Any) -> str:
    """Return a value of a schema as JSON, cut."""
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


_LONGEST: Final = 60

_LEAST: Final = ("minimum", "minLength", "minItems", "minProperties")
_MOST: Final = ("maximum", "maxLength", "maxItems", "maxProperties")


def _bounds(old: Mapping[str, Any], new: Mapping[str, Any], path: str) -> Iterator[SchemaChange]:
    for keyword in (*_LEAST, *_MOST):
        sign = 1 if keyword in _LEAST else -1
        ours, theirs = _bound(old, keyword, sign), _bound(new, keyword, sign)
        if ours != theirs:
            said, before = _bound_text(new, keyword), _bound_text(old, keyword)
            what = f"{keyword} is {said or 'gone'}, was {before}" if before else f"{keyword} is {said}, is new"
            narrowed = theirs is not None and (ours is None or theirs > ours)
            yield SchemaChange(
                *(("bound", ChangeVerdict.BREAKING) if narrowed else ("bound-widened", ChangeVerdict.OK)), path, what
            )


def _bound(node: Mapping[str, Any], keyword: str, sign: int) -> tuple[float, bool] | None:
    """Return a bound as a value that is greater if it is stricter; None if it refuses nothing."""
    bound = node.get(keyword)
    if bound is None or (bound == 0 and keyword in _LEAST and keyword != "minimum"):
        return None
    return sign * bound, bool(node.get(_EXCLUSIVE.get(keyword, "")))


_EXCLUSIVE: Final = {"minimum": "exclusiveMinimum", "maximum": "exclusiveMaximum"}


def _bound_text(node: Mapping[str, Any], keyword: str) -> str:
    if node.get(keyword) is None:
        return ""
    return f"{node[keyword]}{' (exclusive)' if node.get(_EXCLUSIVE.get(keyword, '')) else ''}"


_UNCHECKED: Final = frozenset({"int64", "double", "password"})


def _exact(old: Schema, new: Schema, path: str) -> Iterator[SchemaChange]:
    for keyword in ("pattern", "format", "multipleOf"):
        ours, theirs = old.node.get(keyword), new.node.get(keyword)
        if ours == theirs or (keyword == "format" and theirs in _UNCHECKED):
            continue
        what = f"{keyword} is {_shown(theirs)}" + ("" if ours is None else f", was {_shown(ours)}")
        if theirs is None:
            yield SchemaChange("bound-widened", ChangeVerdict.OK, path, f"{keyword} is gone, was {_shown(ours)}")
        elif keyword == "multipleOf" and ours is not None and ours % theirs == 0:
            yield SchemaChange("bound-widened", ChangeVerdict.OK, path, what)
        else:
            yield SchemaChange(keyword if keyword != "multipleOf" else "bound", ChangeVerdict.BREAKING, path, what)


def _required(old: Schema, new: Schema, path: str) -> Iterator[SchemaChange]:
    for name in sorted(new.required - old.required):
        field = new.properties.get(name)
        if field is not None and field.has_default:
            what = f"{name} is required, and has a default"
            yield SchemaChange("required-with-default", ChangeVerdict.OK, path, what)
        else:
            yield SchemaChange("required", ChangeVerdict.BREAKING, path, f"{name} is required, was optional")
    for name in sorted(old.required - new.required):
        if new.field(name) is not None:
            yield SchemaChange("required-dropped", ChangeVerdict.NOTICE, path, f"{name} is optional, was required")


def _default(old: Mapping[str, Any], new: Mapping[str, Any], path: str) -> Iterator[SchemaChange]:
    ours, theirs = old.get("default"), new.get("default")
    if ours == theirs:
        return
    if ours is None:
        yield SchemaChange("default-added", ChangeVerdict.NOTICE, path, f"default is {_shown(theirs)}, is new")
    elif theirs is None:
        yield SchemaChange("default-removed", ChangeVerdict.BREAKING, path, f"default is gone, was {_shown(ours)}")
    else:
        yield SchemaChange("default", ChangeVerdict.BREAKING, path, f"default is {_shown(theirs)}, was {_shown(ours)}")


def _owners(old: Schema, new: Schema, path: str) -> Iterator[SchemaChange]:
    if old.kind == new.kind == "list" and _list(old) != _list(new):
        yield SchemaChange("list-type", ChangeVerdict.BREAKING, path, f"list is {_list(new)}, was {_list(old)}")
    if old.kind == new.kind == "map" and old.map_type != new.map_type:
        yield SchemaChange("map-type", ChangeVerdict.BREAKING, path, f"object is {new.map_type}, was {old.map_type}")


def _list(schema: Schema) -> str:
    return f"a map by {', '.join(sorted(schema.list_keys))}" if schema.list_type == "map" else str(schema.list_type)


def _cel(old: Mapping[str, Any], new: Mapping[str, Any], path: str) -> Iterator[SchemaChange]:
    """Yield the CEL rules that differ; one with a known message and another text was changed."""
    ours, theirs = _rules(old), _rules(new)
    gone = [rule for rule in ours if rule not in theirs]
    known = Counter(message for _, message in gone if message)
    for rule, message in theirs:
        if (rule, message) in ours or any(rule == text for text, _ in gone):
            continue
        how = "is another" if known[message] else "is new"
        known[message] -= 1
        yield SchemaChange("cel", ChangeVerdict.BREAKING, path, f"CEL rule {how}: {_shown(message or rule)}")
    kept = {rule for rule, _ in theirs}
    messages = {message for _, message in theirs if message}
    for rule, message in gone:
        if rule not in kept and message not in messages:
            yield SchemaChange("cel-removed", ChangeVerdict.OK, path, f"CEL rule is gone: {_shown(message or rule)}")


def _rules(node: Mapping[str, Any]) -> list[tuple[str, str]]:
    return [(_rule(each), each.get("message") or "") for each in node.get("x-kubernetes-validations") or ()]


def _rule(rule: Mapping[str, Any]) -> str:
    """Return the text of a rule without its line breaks, and whether it also judges objects that are new."""
    return " ".join(rule.get("rule", "").split()) + (" (optionalOldSelf)" if rule.get("optionalOldSelf") else "")


def _junctors(old: Schema, new: Schema, path: str) -> Iterator[SchemaChange]:
    for keyword in ("allOf", "anyOf", "oneOf", "not"):
        ours, theirs = _junctor(old, keyword), _junctor(new, keyword)
        if ours == theirs:
            continue
        if theirs is None:
            yield SchemaChange("junctor-removed", ChangeVerdict.OK, path, f"{keyword} is gone")
        else:
            how = "is new" if ours is None else "differs"
            yield SchemaChange("junctor", ChangeVerdict.BREAKING, path, f"{keyword} {how}")


_INT_OR_STRING: Final = [{"type": "integer"}, {"type": "string"}]


def _junctor(schema: Schema, keyword: str) -> Any:
    """Return a junctor; the one by which int-or-string is spelled says nothing more."""
    found = schema.node.get(keyword)
    return None if schema.int_or_string and keyword == "anyOf" and found == _INT_OR_STRING else found
