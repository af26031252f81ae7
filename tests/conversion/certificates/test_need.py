"""Which stored objects need the webhook of a CRD whose versions have different schemas."""

from __future__ import annotations

from typing import Any

import pytest

from restow.conversion.certificates.wiring.need import differences_from_storage
from tests.conversion.certificates.test_crd_fallback import SCHEMA, SPEC, changed, crd

ROOT = {"type": "object", "properties": {"spec": SCHEMA["properties"]["spec"]}}


def concerned(other: dict[str, Any], obj: dict[str, Any]) -> tuple[str, ...]:
    """The places at which an object stored at v2 has something that v1, with another schema, declares differently."""
    found = differences_from_storage(crd({"v1": other, "v2": SCHEMA}))
    return tuple(each.path for each in found if each.concerns(obj))


@pytest.mark.parametrize(
    ("other", "without", "having", "path"),
    [
        (changed(*SPEC, "mode", "enum", value=["a"]), {}, {"mode": "A"}, ".spec.mode"),
        (changed(*SPEC, "mode", "default", value="A"), None, {}, ".spec.mode"),
        (changed(*SPEC, "more", value={"type": "string", "default": "x"}), None, {"map": {}}, ".spec.more"),
        (
            changed(*SPEC, "list", "items", "properties", "a", "type", value="integer"),
            {"list": [{}]},
            {"list": [{}, {"a": "1"}]},
            ".spec.list[].a",
        ),
        (
            changed(*SPEC, "map", "additionalProperties", value={"type": "integer"}),
            {"map": {}},
            {"map": {"k": "1"}},
            ".spec.map{}",
        ),
        (changed("properties", "spec", "required", value=["mode"]), {"mode": "A"}, {"map": {}}, ".spec"),
        (changed("properties", "spec", value={"type": "object"}), {}, {"list": []}, ".spec.list"),
    ],
)
def test_an_object_counts_by_what_it_has(
    other: dict[str, Any], without: dict[str, Any] | None, having: dict[str, Any], path: str
) -> None:
    """Without the webhook the object would be shown, and stored, without that; all others are as they were."""
    assert path not in concerned(other, {} if without is None else {"spec": without})
    assert path in concerned(other, {"spec": having})


def test_values_of_an_unexpected_type_are_looked_at() -> None:
    """Objects older than the schema hold what it forbids; a crash would stand in the way of an uninstall."""
    other = changed(*SPEC, "list", "items", "properties", "a", "type", value="integer")
    for spec in (None, "text", [1], {"list": {"a": 1}}, {"list": ["a"]}):
        assert concerned(other, {"spec": spec}) == ()
