"""Type checks of an object against its schema, which rules need before they read a field.

The API server makes the same checks before it stores an object, but only after mutating admission, and never for a
manifest that only a command reads. Source: kube-openapi's ``validate`` package for types, apiextensions
``schema/defaulting.PruneNonNullableNulls…`` for null.

Conversions check less: ``fits`` and ``violations`` accept null everywhere, because the server drops a null or replaces
it by a default. The stash checks only types, because an older stored object may violate newer rules. A conversion's
result is stored without validation, so the stash never puts a value into an object that the schema cannot hold.

Pure. A walk goes as deep as the schema, not as deep as the object.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import isfinite
from typing import Any

from restow.crds.ownedpaths import children
from restow.crds.paths import ROOT, field_path, item_path, items_path
from restow.crds.schema import ANY, UNDESCRIBED, Schema


@dataclass(frozen=True, slots=True)
class TypeProblem:
    """One value of a wrong type; it names the place and the types, never the value.

    Attributes:
        field: the path in the object, ``spec.kubernetes.versions[0].version`` for instance; empty for the object
            itself.
        wanted: the type of the schema, with its article: ``a string``, ``an integer or a string``.
        found: the type of the value, with its article: ``a number``, ``null``; ``nothing`` for the missing key of a
            list's item.
    """

    field: str
    wanted: str
    found: str

    @property
    def detail(self) -> str:
        """The problem, without the field."""
        return f"must be {self.wanted}, not {self.found}"

    def __str__(self) -> str:
        return f"{self.field or 'the object'} {self.detail}"


def type_problems(document: Any, schema: Schema, *, keys: bool = False) -> Iterator[TypeProblem]:
    """Yield a problem for each value of ``document`` whose type differs from that in ``schema`` (``Version.schema``).

    With ``keys``, also yield one for each item that lacks a key of its list, so that rules find the key in every item.

    Nothing below such a value is checked. Fields that the schema does not declare always fit. A null as the value of a
    field also fits, because the server drops it or replaces it by the default (``without_ignored_nulls`` does the
    same). A null in a list stays, and is a problem unless the items are ``nullable``.
    """
    return _problems(document, schema, ROOT, keys=keys)


def _problems(value: Any, schema: Schema, path: str, *, keys: bool) -> Iterator[TypeProblem]:
    if schema is ANY or schema is UNDESCRIBED or (value is None and schema.nullable):
        return
    if not has_type(value, schema):
        yield TypeProblem(path.removeprefix("."), _wanted(schema), _found(value))
        return
    for step, child, below in children(value, schema):
        if below is None or (child is None and isinstance(value, dict)):
            continue
        place = field_path(path, step) if isinstance(step, str) else item_path(path, step)
        for key in schema.list_keys if keys and isinstance(child, dict) and isinstance(value, list) else ():
            if child.get(key) is None and (field := below.field(key)) is not None and not field.has_default:
                yield TypeProblem(field_path(place, key).removeprefix("."), _wanted(field), "nothing")
        yield from _problems(child, below, place, keys=keys)


def without_ignored_nulls(value: Any, schema: Schema) -> Any:
    """Return ``value`` without the fields whose null the server ignores; nothing is mutated.

    Only nulls that the schema allows by ``nullable`` stay; a rule behind the API server never sees any other null.
    """
    if schema is ANY or schema is UNDESCRIBED:
        return value
    if isinstance(value, dict):
        fields = {name: schema.field(name) for name in value if isinstance(name, str)}
        return {
            name: child if (field := fields.get(name)) is None else without_ignored_nulls(child, field)
            for name, child in value.items()
            if child is not None or (field := fields.get(name)) is None or field is ANY or field.nullable
        }
    if isinstance(value, list) and (items := schema.items) is not None:
        return [without_ignored_nulls(child, items) for child in value]
    return value


def fits(value: Any, schema: Schema | None) -> bool:
    """Return whether the types of a value match the schema. Without a schema every value fits."""
    return schema is None or next(violations(value, schema, types_only=True), None) is None


def fitting(value: Any, schema: Schema) -> Any:
    """Return an object or list without the parts whose type differs from the schema; nothing is mutated."""
    if isinstance(value, dict):
        fields = {name: schema.field(name) for name in value}
        return {
            name: child if field is None else fitting(child, field)
            for name, child in value.items()
            if (field := fields[name]) is None or child is None or has_type(child, field)
        }
    if isinstance(value, list) and (items := schema.items) is not None:
        return [
            fitting(child, items) for child in value if has_type(child, items) or (child is None and items.nullable)
        ]
    return value


def violations(value: Any, schema: Schema, path: str = ROOT, *, types_only: bool = False) -> Iterator[str]:
    """Yield a sentence for each place where the value violates the schema; it names the place, never the value."""
    if value is None:
        return
    if not has_type(value, schema):
        yield f"{path} is no {'integer or string' if schema.int_or_string else schema.node.get('type')}"
        return
    if not types_only:
        allowed = schema.node.get("enum")
        if allowed is not None and value not in allowed:
            yield f"{path} is none of the values that its enum allows"
        if isinstance(value, dict):
            yield from (f"{field_path(path, name)} is required" for name in sorted(schema.required - value.keys()))
    for step, child, below in children(value, schema):
        if below is not None:
            place = field_path(path, step) if isinstance(step, str) else items_path(path)
            yield from violations(child, below, place, types_only=types_only)


def has_type(value: Any, schema: Schema) -> bool:
    """Return whether a value itself, not its children, has the type of its schema; 1.0 is an integer, as in JSON."""
    if schema.int_or_string:
        return isinstance(value, str) or _is_integer(value)
    match schema.node.get("type"):
        case "string":
            return isinstance(value, str)
        case "boolean":
            return isinstance(value, bool)
        case "integer":
            return _is_integer(value)
        case "number":
            return _is_number(value)
        case "object":
            return isinstance(value, dict)
        case "array":
            return isinstance(value, list)
        case _:
            return True


def _is_number(value: Any) -> bool:
    return _is_integer(value) or (isinstance(value, float) and isfinite(value))


def _is_integer(value: Any) -> bool:
    return (isinstance(value, int) and not isinstance(value, bool)) or (isinstance(value, float) and value.is_integer())


def _wanted(schema: Schema) -> str:
    if schema.int_or_string:
        return "an integer or a string"
    match schema.node.get("type"):
        case "array":
            return "a list"
        case "integer" | "object" as name:
            return f"an {name}"
        case name:
            return f"a {name}"


def _found(value: Any) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "a boolean"
        case int() | float() if _is_number(value):
            return "a number"
        case str():
            return "a string"
        case list():
            return "a list"
        case dict():
            return "an object"
        case _:
            return "what JSON cannot say"
