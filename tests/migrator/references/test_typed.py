"""Typed references: found by structure, described by their field, and only where a schema has room for them."""

from __future__ import annotations

from typing import Any

import pytest

from restow.migrator.references.readers.typed import can_hold_references, typed_references
from tests.migrator.references.found import OWNERS

PAIR = {"apiVersion": "example.com/v1", "kind": "Widget"}


def found(**fields: Any) -> list[tuple[str, str]]:
    """Where a cluster's references are, and what is said of each."""
    obj = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "c", "ownerReferences": [PAIR]}}
    return [(each.where, each.detail) for each in typed_references("clusters.x", obj | fields, OWNERS)]


def test_the_object_itself_and_its_owners_are_no_typed_references() -> None:
    """Each widget would be a reference to its own kind."""
    assert found() == []


def test_places_are_json_pointers() -> None:
    """A pointer that kubectl patch does not take costs a search by hand."""
    spec = {"a/b": {"c~d": [{"x": 1}, {"infrastructureRef": PAIR | {"name": "i"}}]}}
    assert found(spec=spec) == [
        ("/spec/a~1b/c~0d/1/infrastructureRef", "a reference of Cluster API to its infrastructure, names i")
    ]
    assert found(status={"refs": [PAIR]}) == [("/status/refs/0", "a typed reference")]


@pytest.mark.parametrize(
    "value",
    [
        {"apiVersion": "example.com/v2", "kind": "Widget"},
        {"apiVersion": "example.com/v1", "kind": "Gadget"},
        {"apiVersion": ["example.com/v1"], "kind": "Widget"},
        {"note": "example.com/v1 Widget"},
        "apiVersion: example.com/v1\nkind: Widget",
    ],
)
def test_texts_and_others_are_none(value: Any) -> None:
    """A text that only has the words would be moved into nonsense."""
    assert found(spec={"x": value}) == []


@pytest.mark.parametrize("field", ["involvedObject", "regarding", "related"])
def test_records_of_events_are_left_out(field: str) -> None:
    """Nothing looks a record up, and they would be most of what is found."""
    assert found(**{field: PAIR}) == []


def test_an_embedded_object_is_not_moved_as_a_reference() -> None:
    """Its fields are those of its version: another apiVersion alone would make another object of it."""
    obj = {"metadata": {"name": "c"}, "spec": {"base": PAIR | {"spec": {"size": 1}}, "ref": PAIR | {"name": "w"}}}
    template, reference = typed_references("compositions.x", obj, OWNERS)
    assert (template.effect.movable, reference.effect.movable) == (False, True)
    assert "template" in template.detail


def test_a_horizontal_pod_autoscaler_needs_no_version() -> None:
    """Its controller looks for group and kind; to block a release for it would be wrong. Others take the version."""
    obj = {"metadata": {"name": "a"}, "spec": {"scaleTargetRef": PAIR | {"name": "w"}}}
    (builtin,) = typed_references("horizontalpodautoscalers.autoscaling", obj, OWNERS)
    (keda,) = typed_references("scaledobjects.keda.sh", obj, OWNERS)
    assert (builtin.effect.against_unserving, keda.effect.against_unserving) == (False, True)


def test_deep_objects_are_walked() -> None:
    """The walk uses no recursion: an API server stores objects that are deeper than Python's."""
    deep: Any = {"ref": PAIR}
    for _ in range(5000):
        deep = {"a": deep}
    assert len(found(spec=deep)) == 1


STRING = {"type": "string"}


@pytest.mark.parametrize(
    ("spec", "holds"),
    [
        ({"properties": {"size": {"type": "integer"}}}, False),
        ({"properties": {"kind": STRING}}, False),
        ({"properties": {"ref": {"properties": {"kind": STRING, "apiVersion": STRING}}}}, True),
        ({"properties": {"l": {"items": {"properties": {"kind": STRING, "apiVersion": STRING}}}}}, True),
        ({"additionalProperties": {"properties": {"kind": STRING, "apiVersion": STRING}}}, True),
        ({"additionalProperties": STRING}, False),
        ({"additionalProperties": True}, True),
        ({"x-kubernetes-preserve-unknown-fields": True}, True),
        ({"properties": {"t": {"x-kubernetes-embedded-resource": True}}}, True),
    ],
)
def test_a_schema_tells_whether_objects_are_listed_whole(spec: dict[str, Any], holds: bool) -> None:
    """A wrong no hides references; a wrong yes reads the objects of most CRDs for nothing."""
    schema = {"properties": {"apiVersion": STRING, "kind": STRING, "metadata": {}, "spec": spec}}
    assert can_hold_references(schema) is holds
    assert can_hold_references(None)
