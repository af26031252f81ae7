"""Values of an object that have another type than their schema names."""

from __future__ import annotations

from typing import Any

import pytest

from restow.crds import ANY, Crd, Schema, type_problems
from restow.crds.cloudprofiles import documents
from restow.crds.types import fitting, without_ignored_nulls

PROFILES = Crd.from_document(documents()["cloudprofiles.core.gardener.cloud"])
STRING = {"type": "string"}
PORT = {"x-kubernetes-int-or-string": True}
ROOT = Schema.root(
    {
        "type": "object",
        "properties": {
            "spec": {
                "type": "object",
                "properties": {
                    "name": STRING,
                    "none": {"type": "string", "nullable": True},
                    "count": {"type": "integer"},
                    "share": {"type": "number"},
                    "on": {"type": "boolean"},
                    "port": PORT,
                    "list": {"type": "array", "items": STRING},
                    "holes": {"type": "array", "items": {"type": "string", "nullable": True}},
                    "map": {"type": "object", "additionalProperties": STRING},
                    "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                },
            }
        },
    }
)


@pytest.mark.parametrize(
    ("spec", "problems"),
    [
        ({"name": "a", "count": 3, "share": 0.5, "on": True, "port": "http", "list": ["a"], "map": {"k": "v"}}, []),
        ({"count": 3.0, "share": 10**400, "port": 80}, []),
        ({"undeclared": 1, "free": {"a": [None, {"b": 1}]}}, []),
        ({"name": None, "none": None, "list": None, "holes": [None]}, []),
        ({"name": 1.31}, ["spec.name must be a string, not a number"]),
        ({"count": 1.5}, ["spec.count must be an integer, not a number"]),
        ({"count": True}, ["spec.count must be an integer, not a boolean"]),
        ({"share": float("nan")}, ["spec.share must be a number, not what JSON cannot say"]),
        ({"port": 1.5}, ["spec.port must be an integer or a string, not a number"]),
        ({"list": "a"}, ["spec.list must be a list, not a string"]),
        (
            {"list": ["a", None, {}]},
            [
                "spec.list[1] must be a string, not null",
                "spec.list[2] must be a string, not an object",
            ],
        ),
        ({"map": {"a/b": []}}, ['spec.map["a/b"] must be a string, not a list']),
        ([], ["spec must be an object, not a list"]),
    ],
)
def test_each_value_of_another_type_is_named_by_its_place(spec: Any, problems: list[str]) -> None:
    """A rule that reads a value of another type would raise an error without the field and the type."""
    assert [str(each) for each in type_problems({"spec": spec}, ROOT)] == problems


def test_the_walk_is_as_deep_as_the_schema() -> None:
    """A hostile, deeply nested object would end the process that checks it."""
    deep: Any = {}
    for _ in range(100_000):
        deep = {"a": deep}
    assert list(type_problems({"spec": {"free": deep}}, ROOT)) == []
    assert list(type_problems(deep, ANY)) == []
    assert without_ignored_nulls({"spec": {"free": deep}}, ROOT)["spec"]["free"]["a"] is deep["a"]


def test_a_document_of_another_shape_is_one_problem() -> None:
    """The finding about a whole object would show the user an empty field."""
    assert [str(each) for each in type_problems([], ROOT)] == ["the object must be an object, not a list"]
    assert [str(each) for each in type_problems({"metadata": {"name": 5}}, ROOT)] == [
        "metadata.name must be a string, not a number"
    ]


def test_an_item_without_its_key_is_found_where_that_is_asked_for() -> None:
    """A rule that looks items up by their key would raise on an item without it."""
    items = {"type": "object", "properties": {"name": STRING, "at": {"type": "string", "default": "x"}}}
    keyed = {"type": "array", "items": items, "x-kubernetes-list-type": "map"}
    schema = Schema({"type": "object", "properties": {"list": keyed | {"x-kubernetes-list-map-keys": ["name", "at"]}}})
    document = {"list": [{"name": "a"}, {}, {"name": None}]}
    assert list(type_problems(document, schema)) == []
    assert [str(each) for each in type_problems(document, schema, keys=True)] == [
        "list[1].name must be a string, not nothing",
        "list[2].name must be a string, not nothing",
    ]


def test_nulls_that_the_server_ignores_are_taken_out_and_no_others() -> None:
    """A rule would get a null that it never gets behind the API server, or lose a null that is a value."""
    spec = {"name": None, "none": None, "map": {"a": None, "b": "c"}, "holes": [None], "free": {"x": None}, "new": None}
    assert without_ignored_nulls({"spec": spec, "metadata": {"name": None}}, ROOT) == {
        "spec": {"none": None, "map": {"b": "c"}, "holes": [None], "free": {"x": None}, "new": None},
        "metadata": {},
    }
    assert spec["name"] is None, "the document of the caller is as it was"


def test_the_packaged_profiles_have_schemas_that_find_wrong_types() -> None:
    """Users who write ``version: 1.31`` without quotes, a common mistake, would get no error."""
    hub = PROFILES.version("v1beta2")
    assert hub is not None
    document = {"spec": {"kubernetes": {"versions": [{"version": "1.30.0"}, {"version": 1.31}]}, "regions": "eu"}}
    assert [str(each) for each in type_problems(document, hub.schema)] == [
        "spec.kubernetes.versions[1].version must be a string, not a number",
        "spec.regions must be a list, not a string",
    ]


def test_what_fits_stays() -> None:
    """An update would be judged by a stored value that no rule can read, or without the values next to it."""
    spec = {
        "name": 1,
        "none": None,
        "count": 2,
        "list": ["a", None, {}],
        "holes": ["a", None, 1],
        "map": {"a": "b", "c": []},
        "free": {"any": [1, {}]},
        "unknown": [{}],
    }
    assert fitting({"spec": spec, "kind": True}, ROOT) == {
        "spec": {
            "none": None,
            "count": 2,
            "list": ["a"],
            "holes": ["a", None],
            "map": {"a": "b"},
            "free": {"any": [1, {}]},
            "unknown": [{}],
        }
    }
    assert fitting({"spec": []}, ROOT) == {}
