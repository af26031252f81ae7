"""A manifest as a strict API server decodes it: its defaults, and its violations of the schema."""

from __future__ import annotations

from typing import Any

import pytest

from restow.crds.decoding import SchemaProblem, schema_problems, with_defaults
from restow.crds.schema import Schema

NODE = {
    "type": "object",
    "properties": {
        "spec": {
            "type": "object",
            "required": ["name"],
            "properties": {
                "name": {"type": "string", "minLength": 1, "maxLength": 3, "pattern": "^[a-z]*$"},
                "size": {"type": "integer", "minimum": 1, "maximum": 3, "default": 2},
                "mode": {"type": "string", "enum": ["a", "b"]},
                "at": {"type": "string", "format": "date-time"},
                "old": {
                    "type": "string",
                    "x-kubernetes-validations": [
                        {"rule": "false", "message": "use new", "reason": "FieldValueForbidden"}
                    ],
                },
                "part": {"type": "object", "properties": {"on": {"type": "boolean", "default": True}}, "default": {}},
                "items": {
                    "type": "array",
                    "maxItems": 2,
                    "x-kubernetes-list-type": "map",
                    "x-kubernetes-list-map-keys": ["key"],
                    "items": {
                        "type": "object",
                        "required": ["key"],
                        "properties": {"key": {"type": "string"}, "on": {"type": "boolean", "default": False}},
                    },
                },
                "any": {"x-kubernetes-preserve-unknown-fields": True},
            },
        }
    },
}
SCHEMA = Schema.root(NODE)


@pytest.mark.parametrize(
    ("spec", "problem"),
    [
        ({}, ("spec.name", "Required", "must be set")),
        ({"name": "a", "nmae": 1}, ("spec.nmae", "Invalid", "unknown field; is it misspelled?")),
        ({"name": ""}, ("spec.name", "Invalid", "must have at least 1 characters")),
        ({"name": "abcd"}, ("spec.name", "Invalid", "may have at most 3 characters")),
        ({"name": "A"}, ("spec.name", "Invalid", "\"A\": must match '^[a-z]*$'")),
        ({"name": "a\n"}, ("spec.name", "Invalid", "\"a\\n\": must match '^[a-z]*$'")),
        ({"name": "a", "size": 4}, ("spec.size", "Invalid", "4: must be at most 3")),
        ({"name": "a", "size": 0}, ("spec.size", "Invalid", "0: must be at least 1")),
        ({"name": "a", "mode": "c"}, ("spec.mode", "NotSupported", '"c": supported values: "a", "b"')),
        (
            {"name": "a", "at": "soon"},
            ("spec.at", "Invalid", '"soon": must be a time like 2025-01-31T00:00:00Z (RFC 3339)'),
        ),
        ({"name": "a", "old": "x"}, ("spec.old", "Forbidden", "use new")),
        ({"name": "a", "items": [{"key": "x"}, {"key": "x"}]}, ("spec.items[1]", "Duplicate", '{"key": "x"}')),
        ({"name": "a", "items": [{"on": True}]}, ("spec.items[0].key", "Required", "must be set")),
        (
            {"name": "a", "items": [{"key": "x"}, {"key": "y"}, {"key": "z"}]},
            ("spec.items", "Invalid", "has 3 items, at most 2 are allowed"),
        ),
    ],
)
def test_what_the_schema_refuses(spec: dict[str, Any], problem: tuple[str, str, str]) -> None:
    """A command would accept a manifest that the API server refuses."""
    assert list(schema_problems({"spec": spec}, SCHEMA)) == [SchemaProblem(*problem)]


def test_what_the_schema_allows() -> None:
    """A command would refuse a manifest that the API server accepts."""
    spec = {"name": "abc", "size": 3, "mode": "a", "at": "2025-01-31t00:00:00.5+01:00", "any": {"x": [1]}, "items": []}
    assert (
        list(schema_problems({"apiVersion": "a/v1", "kind": "A", "metadata": {"name": "a"}, "spec": spec}, SCHEMA))
        == []
    )


def test_defaults_are_filled_in() -> None:
    """Rules would see fewer fields than behind an API server, or the defaults would change the sent manifest."""
    sent = {"spec": {"name": "a", "size": None, "items": [{"key": "x"}, {"key": "y", "on": True}]}}
    before = repr(sent)
    assert with_defaults(sent, SCHEMA) == {
        "spec": {
            "name": "a",
            "size": 2,
            "part": {"on": True},
            "items": [{"key": "x", "on": False}, {"key": "y", "on": True}],
        }
    }
    assert repr(sent) == before
    whole = with_defaults(sent, SCHEMA)
    assert with_defaults(whole, SCHEMA) is whole
