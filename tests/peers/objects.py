"""Objects of a CRD's version by a seed, and edits of them: ten thousand in seconds, which the oracles then convert.

The strategies of restow.conversion.testing look for the smallest object that breaks a law, and take up to 50 ms for one
object of these kinds. Here the question is which differences there are between two programs, so many objects of all
sizes count more. Both respect what a schema declares: types, required fields, enums, bounds, patterns, list keys.

What a schema does not tell (that a string must be a Go duration) is declared by path, as restow.crds writes it, with
the values to choose from.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from functools import cache
from random import Random
from typing import Any, Final

from restow.conversion.model.values import Json, canonical
from restow.crds import Schema
from restow.crds.paths import ROOT, field_path, items_path, values_path

__all__ = ["DURATIONS", "QUANTITIES", "Generator"]

DURATIONS: Final = ("0s", "1s", "300s", "5m0s", "1h30m0s", "90m", "1.5s", "1h2m3s")
"""What Go's ``time.ParseDuration`` reads; some are not written as Go would write them."""

QUANTITIES: Final = ("0", "1", 1, "500m", "1Gi", "1500m", "2k", "0.5", 3)
"""What apimachinery's ``resource.ParseQuantity`` reads, some not in its canonical form; texts and integers."""

_TEXTS: Final = ("", "a", "b", "name-1", "True", "10m0s", "é", "<&>\u2028", "日本", '"\\/\n\t', "x y", "a/b:c=d")
_PATTERNED: Final = (
    *(
        "a",
        "b",
        "abc",
        "name-1",
        "default",
        "A",
        "Reason",
        "example.dev",
        "example.dev/name",
        "1",
        "25%",
        "40",
        "[1-2]",
    ),
    *("1Gi", "500m", "5m", "10m0s", "1h30m", "00:30", "23:59", "monday", "monday:friday", "january", "1:6", "2024"),
    *("v1.30.0", "http://example.com", "https://example.com/a", "sha256:abc", "CpuQuota", "ABC_1", "10.0.0.1", "1d"),
    "2024:2025",
)
_TIMES: Final = ("2024-02-29T00:00:00Z", "1970-01-01T00:00:01Z", "2031-12-31T23:59:59Z")
_INT64: Final = (-(2**63), 2**63 - 1)
_INT32: Final = (-(2**31), 2**31 - 1)
_MOST: Final = 3


@dataclass(frozen=True)
class Generator:
    """Draws objects of one version.

    Attributes:
        schema: the version's.
        api_version: ``group/version``.
        kind: the kind.
        choices: values to choose from, by path.
    """

    schema: Schema
    api_version: str
    kind: str
    choices: Mapping[str, Sequence[Any]] = field(default_factory=dict)

    def object(self, random: Random) -> Json:
        """Return a whole object; how full it is varies."""
        density = random.choice((0.15, 0.4, 0.7, 1.0))
        fields = self._fields(random, self.schema, ROOT, density)
        metadata: Json = {"name": random.choice(("a", "name")), "namespace": "default"}
        for name in ("labels", "annotations"):
            if random.random() < density / 2:
                metadata[name] = {"example.dev/tier": random.choice(("", "a", "web"))}
        return {"apiVersion": self.api_version, "kind": self.kind, "metadata": metadata, **fields}

    def value(self, random: Random, schema: Schema, path: str) -> Any:
        """Return a value for the field at a path, for an edit of it."""
        return self._value(random, schema, path, 0.5)

    def _fields(self, random: Random, schema: Schema, path: str, density: float) -> Json:
        found = {}
        for name, each in schema.properties.items():
            if (schema.is_root or schema.embedded_resource) and name in ("apiVersion", "kind", "metadata"):
                continue
            if name in schema.required or random.random() < density:
                found[name] = self._value(random, each, field_path(path, name), density)
        return found

    def _value(self, random: Random, schema: Schema, path: str, density: float) -> Any:
        if path in self.choices:
            return deepcopy(random.choice(self.choices[path]))
        node = schema.node
        if "enum" in node:
            return random.choice([value for value in node["enum"] if value is not None])
        if schema.int_or_string:
            if "pattern" in node:
                return random.choice(QUANTITIES)
            return random.choice((0, 1, 7, "25%", "name"))
        match node.get("type"):
            case "string":
                return _text(random, node, path)
            case "boolean":
                return random.random() < 0.6
            case "integer":
                return _integer(random, node)
            case "number":
                return random.choice((0, 1, 2.5, -7))
            case "array":
                return self._list(random, schema, path, density)
            case "object":
                return self._object(random, schema, path, density)
            case _:
                return random.choice((True, 3, "a", [1, "b"], {"a": {"b": [0]}}, {}))

    def _object(self, random: Random, schema: Schema, path: str, density: float) -> Json:
        if schema.embedded_resource:
            return {"apiVersion": "v1", "kind": "ConfigMap", **self._fields(random, schema, path, density)}
        if schema.properties or schema.values is None:
            return self._fields(random, schema, path, density)
        low, high = schema.node.get("minProperties", 0), schema.node.get("maxProperties", _MOST)
        names = random.sample(("a", "b", "c", "x.y/z"), random.randint(low, max(low, min(high, _MOST))))
        return {name: self._value(random, schema.values, values_path(path), density) for name in names}

    def _list(self, random: Random, schema: Schema, path: str, density: float) -> list[Any]:
        low, high = schema.node.get("minItems", 0), schema.node.get("maxItems", _MOST)
        if schema.items is None:
            return []
        items: dict[bytes, Any] = {}
        for index in range(random.randint(low, max(low, min(high, _MOST)))):
            item = self._value(random, schema.items, items_path(path), density * 0.8)
            items.setdefault(_identity(schema, item, index), item)
        while len(items) < low:
            item = self._value(random, schema.items, items_path(path), 1.0)
            items.setdefault(_identity(schema, item, len(items)), item)
        return list(items.values())


def _identity(schema: Schema, item: Any, index: int) -> bytes:
    """Return what two items of a list must not have in common."""
    if schema.list_type == "map" and isinstance(item, dict):
        return canonical([item.get(key) for key in schema.list_keys])
    return canonical(item) if schema.list_type == "set" else canonical(index)


def _text(random: Random, node: Mapping[str, Any], path: str) -> str:
    if node.get("format") == "date-time":
        return random.choice(_TIMES)
    fitting = _fitting(node.get("pattern"), node.get("minLength", 0), node.get("maxLength", 1 << 20))
    assert fitting, f"No known text matches the pattern of {path}; declare some as choices: {node.get('pattern')}"
    return random.choice(fitting)


@cache
def _fitting(pattern: str | None, low: int, high: int) -> tuple[str, ...]:
    texts = _TEXTS if pattern is None else (*_TEXTS, *_PATTERNED)
    matching = re.compile("" if pattern is None else re.sub(r"\(\?i\)", "", pattern).replace("$", r"\Z"))
    return tuple(text for text in texts if low <= len(text.encode()) <= high and matching.search(text))


def _integer(random: Random, node: Mapping[str, Any]) -> int:
    low, high = _INT32 if node.get("format") == "int32" else _INT64
    low, high = max(low, int(node.get("minimum", low))), min(high, int(node.get("maximum", high)))
    near = [value for value in (0, 1, 2, 5, 30, 600, 86400, -1) if low <= value <= high]
    return random.choice((*near, *near, low, high))
