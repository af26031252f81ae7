"""When a webhook may go: never where the strategy None would show one version's object as another's."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from restow.conversion.certificates.wiring.need import why_not_none
from restow.crds import Crd

SCHEMA = {
    "type": "object",
    "properties": {
        "spec": {
            "type": "object",
            "properties": {
                "mode": {"type": "string", "enum": ["A", "B"], "description": "How."},
                "list": {"type": "array", "items": {"type": "object", "properties": {"a": {"type": "string"}}}},
                "map": {"type": "object", "additionalProperties": {"type": "string"}},
            },
        }
    },
}


def crd(schemas: dict[str, Any], *, served: tuple[str, ...] = ("v1", "v2"), stored: tuple[str, ...] = ("v2",)) -> Crd:
    """A CRD of these versions, v2 the storage version."""
    return Crd.from_document(
        {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": "widgets.example.com"},
            "spec": {
                "group": "example.com",
                "scope": "Namespaced",
                "names": {"kind": "Widget", "plural": "widgets"},
                "versions": [
                    {
                        "name": name,
                        "served": name in served,
                        "storage": name == "v2",
                        "schema": {"openAPIV3Schema": schema},
                    }
                    for name, schema in schemas.items()
                ],
            },
            "status": {"storedVersions": list(stored)},
        }
    )


def changed(*path: str, value: Any) -> dict[str, Any]:
    """The schema with something else at a place."""
    schema: dict[str, Any] = copy.deepcopy(SCHEMA)
    node = schema
    for name in path[:-1]:
        node = node[name]
    node[path[-1]] = value
    return schema


SPEC = ("properties", "spec", "properties")


def test_equal_schemas_need_no_webhook() -> None:
    """Prose is no difference."""
    other = changed(*SPEC, "mode", "description", value="What for.")
    assert not why_not_none(crd({"v1": SCHEMA, "v2": other}))


@pytest.mark.parametrize(
    ("other", "place"),
    [
        (changed(*SPEC, "mode", "enum", value=["a", "b"]), ".spec.mode"),
        (changed(*SPEC, "more", value={"type": "string"}), ".spec.more"),
        (changed(*SPEC, "mode", "default", value="A"), ".spec.mode"),
        (changed(*SPEC, "list", "items", "properties", "a", "type", value="integer"), ".spec.list[].a"),
        (changed(*SPEC, "list", "x-kubernetes-list-type", value="atomic"), ".spec.list"),
        (changed(*SPEC, "map", "additionalProperties", value={"type": "integer"}), ".spec.map{}"),
        (changed("properties", "spec", value={"type": "object"}), ".spec.mode"),
    ],
)
def test_any_other_difference_needs_it(other: dict[str, Any], place: str) -> None:
    """Objects would be shown, and stored, at a version whose fields mean something else."""
    said = why_not_none(crd({"v1": SCHEMA, "v2": other}))
    assert f"{place} differs between v2 and v1" in said and "restow migrate widgets.example.com" in said


def test_of_one_version_nothing_is_converted() -> None:
    """A migration ends with one version, and a CRD with one version needs no webhook."""
    other = changed(*SPEC, "mode", "type", value="integer")
    assert not why_not_none(crd({"v1": SCHEMA, "v2": other}, served=("v2",)))


def test_stored_objects_count_as_much_as_served_versions() -> None:
    """An object that still lies in etcd at the old version is converted at every read."""
    other = changed(*SPEC, "mode", "type", value="integer")
    assert why_not_none(crd({"v1": SCHEMA, "v2": other}, served=("v2",), stored=("v1", "v2")))
    assert "does not have any more" in why_not_none(crd({"v2": SCHEMA}, stored=("v0", "v2")))
