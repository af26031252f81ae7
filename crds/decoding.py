"""The decoding of an object as an API server does it before admission: fill in defaults, find schema violations.

Commands that read manifests without a server use it to give the server's answers: strict decoding (an undeclared
field counts as a typo), required fields, enums, patterns, bounds, the keys of lists. It evaluates only the CEL rules
that refuse a field whatever the rest of the object is. Other rules compare fields, and admission repeats those.

Sources: apiextensions-apiserver ``schema/defaulting``, ``validation`` and ``listtype``; the texts are those of
apimachinery's field errors. Pure.
"""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import Any, Final

from restow.crds.ownedpaths import children
from restow.crds.paths import ROOT, field_path, item_path
from restow.crds.schema import ANY, UNDESCRIBED, Schema
from restow.crds.types import has_type


def with_defaults(value: Any, schema: Schema) -> Any:
    """Return ``value`` with the defaults of its schema; a complete value is returned itself, and nothing is mutated.

    As on the server, a default also replaces a null where the schema is not nullable.
    """
    if isinstance(value, dict):
        filled: dict[str, Any] = {}
        for name, child in value.items():
            below = schema.field(name)
            if child is None and below is not None and below.has_default and not below.nullable:
                filled[name] = copy.deepcopy(below.default)
            elif below is not None and (new := with_defaults(child, below)) is not child:
                filled[name] = new
        for name, below in schema.properties.items():
            if name not in value and below.has_default:
                filled[name] = with_defaults(copy.deepcopy(below.default), below)
        return {**value, **filled} if filled else value
    if isinstance(value, list) and (items := schema.items) is not None:
        filled_items = [with_defaults(child, items) for child in value]
        return filled_items if any(new is not old for new, old in zip(filled_items, value, strict=True)) else value
    return value


@dataclass(frozen=True, slots=True)
class SchemaProblem:
    """One way in which an object violates its schema.

    Attributes:
        field: the path in the object, ``spec.machineTypes[0].cpu`` for instance.
        type: the type of the field error: Required, Invalid, NotSupported, Duplicate or Forbidden.
        detail: what is wrong, with the value where it is a scalar.
    """

    field: str
    type: str
    detail: str


def schema_problems(document: Mapping[str, Any], schema: Schema) -> Iterator[SchemaProblem]:
    """Yield the problems that a strict API server finds in a document whose types are right (``type_problems``)."""
    yield from _problems(document, schema, ROOT)


def _problems(value: Any, schema: Schema, path: str) -> Iterator[SchemaProblem]:
    if schema is ANY or schema is UNDESCRIBED or (value is None and schema.nullable) or not has_type(value, schema):
        return
    yield from (SchemaProblem(_name(path), *said) for said in _of_node(value, schema))
    if isinstance(value, dict):
        for name in sorted(schema.required - value.keys()):
            yield SchemaProblem(_name(field_path(path, name)), "Required", "must be set")
    elif isinstance(value, list):
        yield from _twice(value, schema, path)
    for step, child, below in children(value, schema):
        place = field_path(path, step) if isinstance(step, str) else item_path(path, step)
        if below is None:
            yield SchemaProblem(_name(place), "Invalid", "unknown field; is it misspelled?")
        elif child is not None or not isinstance(value, dict):
            yield from _problems(child, below, place)


def _name(path: str) -> str:
    return path.removeprefix(".")


def _of_node(value: Any, schema: Schema) -> Iterator[tuple[str, str]]:
    """Yield the type and the text of each problem of a value itself, not of its children."""
    node = schema.node
    allowed = node.get("enum")
    if allowed is not None and value not in allowed:
        yield "NotSupported", f"{_shown(value)}: supported values: {', '.join(map(_shown, allowed))}"
        return
    for keyword, breaks in _BOUNDS.items():
        if (bound := node.get(keyword)) is not None and (wrong := breaks(value, bound)):
            yield "Invalid", wrong
    if node.get("format") == "date-time" and isinstance(value, str) and not _is_time(value):
        yield "Invalid", f"{_shown(value)}: must be a time like 2025-01-31T00:00:00Z (RFC 3339)"
    for rule in node.get("x-kubernetes-validations") or ():
        refuses = _ALONE.get(rule["rule"])
        if refuses is not None and refuses(value):
            yield rule.get("reason", "FieldValueInvalid").removeprefix("FieldValue"), rule["message"]


#: The CEL rules that need only the value, each with a function that returns whether the rule refuses it.
_ALONE: Final[Mapping[str, Callable[[Any], bool]]] = {
    "false": lambda _: True,
    "size(self) == 0": bool,
    "self != 'expired'": lambda value: bool(value == "expired"),
}


def _shown(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False) if isinstance(value, str | int | float) else "the value"


def _longer(value: Any, most: int) -> str:
    return f"may have at most {most} characters" if isinstance(value, str) and len(value) > most else ""


def _shorter(value: Any, least: int) -> str:
    return f"must have at least {least} characters" if isinstance(value, str) and len(value) < least else ""


def _above(value: Any, most: float) -> str:
    return f"{_shown(value)}: must be at most {most}" if isinstance(value, int | float) and value > most else ""


def _below(value: Any, least: float) -> str:
    return f"{_shown(value)}: must be at least {least}" if isinstance(value, int | float) and value < least else ""


def _more(value: Any, most: int) -> str:
    return (
        f"has {len(value)} items, at most {most} are allowed" if isinstance(value, list) and len(value) > most else ""
    )


def _fewer(value: Any, least: int) -> str:
    return (
        f"has {len(value)} items, at least {least} are wanted" if isinstance(value, list) and len(value) < least else ""
    )


def _unlike(value: Any, pattern: str) -> str:
    if not isinstance(value, str) or _compiled(pattern).search(value):
        return ""
    return f"{_shown(value)}: must match '{pattern}'"


_BOUNDS: Final[Mapping[str, Callable[[Any, Any], str]]] = {
    "maxLength": _longer,
    "minLength": _shorter,
    "maximum": _above,
    "minimum": _below,
    "maxItems": _more,
    "minItems": _fewer,
    "pattern": _unlike,
}


@lru_cache(maxsize=256)
def _compiled(pattern: str) -> re.Pattern[str]:
    # In RE2, which the server uses, $ matches only at the end of the text, and classes are ASCII.
    return re.compile(pattern.removesuffix("$") + r"\Z" if pattern.endswith("$") else pattern, re.ASCII)


_RFC3339 = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)", re.ASCII | re.IGNORECASE)


def _is_time(text: str) -> bool:
    try:
        return bool(_RFC3339.fullmatch(text) and datetime.fromisoformat(text.upper()))
    except ValueError:
        return False


def _twice(value: list[Any], schema: Schema, path: str) -> Iterator[SchemaProblem]:
    """Yield a problem for each item of a set or of a keyed list that repeats an earlier one."""
    if schema.list_type == "atomic":
        return
    seen: set[str | None] = set()
    for index, item in enumerate(value):
        key = schema.element(item)
        if key is not None and key in seen:
            shown = item if schema.list_type == "set" else {name: item.get(name) for name in schema.list_keys}
            yield SchemaProblem(_name(item_path(path, index)), "Duplicate", json.dumps(shown, ensure_ascii=False))
        seen.add(key)
