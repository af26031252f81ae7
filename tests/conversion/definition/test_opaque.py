"""The opaque fields that no rule looks into."""

from __future__ import annotations

from typing import Any

from restow.conversion import rules
from restow.conversion.definition.opaque import OpaqueField, opaque_fields
from tests.conversion.randomkinds import GROUP, KIND, crd, freeze, obj

OPEN = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
ANYTHING = {"x-kubernetes-preserve-unknown-fields": True}


def found(*declared: rules.Rule, spoke: Any, hub: Any) -> list[OpaqueField]:
    document = crd({"v2": obj({"spec": obj(hub)}), "v1": obj({"spec": obj(spoke)})})
    return opaque_fields(freeze({"v1": list(declared)}, document).kind(GROUP, KIND))


def test_a_field_that_no_rule_looks_into_is_named_with_what_the_versions_say() -> None:
    """A TaskRun's taskSpec was called accounted for, and its content passed unconverted."""
    (field,) = found(spoke={"taskSpec": OPEN}, hub={"taskSpec": OPEN})
    assert (field.version, field.path, field.says) == ("v1", ".spec.taskSpec", "an object of any fields")
    assert (field.hub, field.hub_path, field.hub_says) == ("v2", ".spec.taskSpec", "an object of any fields")


def test_a_field_that_only_moves_is_not_looked_into() -> None:
    """A rename says nothing of what is inside."""
    (field,) = found(rules.rename("spec.raw", "spec.config"), spoke={"raw": ANYTHING}, hub={"config": ANYTHING})
    assert (field.path, field.hub_path, field.says) == (".spec.raw", ".spec.config", "anything")


def test_fields_inside_of_lists_maps_and_moved_objects_are_found() -> None:
    """Most opaque fields stand in items: a template in a list, a provider's config in a map."""
    item = obj({"raw": ANYTHING})
    schema = {
        "plain": {"type": "array", "items": item},
        "keyed": {"type": "object", "additionalProperties": item},
        "each": {"type": "array", "items": obj({"raw": ANYTHING, "n": {"type": "string"}})},
    }
    hub = {**schema, "each": {"type": "array", "items": obj({"raw": ANYTHING, "m": {"type": "string"}})}}
    places = found(rules.each("spec.each", [rules.rename("n", "m")]), spoke=schema, hub=hub)
    assert [each.path for each in places] == [".spec.keyed{}.raw", ".spec.plain[].raw", ".spec.each[].raw"]


def test_a_field_that_a_rule_looks_into_or_keeps_is_not_named() -> None:
    """A report that names what is settled is not read."""
    schema = dict.fromkeys("abcd", OPEN)
    declared = [
        rules.inside("spec.a", []),
        rules.rename("spec.b.x", "spec.b.y"),
        rules.pair("spec.c", "spec.c", up=dict, down=dict),
        rules.when([rules.rename("spec.d.x", "spec.d.y")], has="spec.d"),
    ]
    assert found(*declared, spoke=schema, hub=schema) == []
