"""managedFields after a stash was restored: owners get back what did not change, and nothing else."""

from __future__ import annotations

from typing import Any

import pytest

from restow.conversion.reviews.admissionsteps import restore_owners

HERE, GONE = "example.com/v2", "example.com/v0"

OLD = {
    "spec": {"a": 1, "b": {"c": "x"}, "items": [{"name": "n", "v": 1}, {"name": "m"}], "set": ["p", "q"], "raw": [1, 2]}
}


def entry(fields: Any, manager: str = "alice", version: str = HERE) -> dict[str, Any]:
    """Return one entry."""
    return {
        "manager": manager,
        "operation": "Apply",
        "apiVersion": version,
        "fieldsType": "FieldsV1",
        "fieldsV1": fields,
        "time": "2025-01-01T00:00:00Z",
    }


def after(before: Any, now: Any, **spec: Any) -> Any:
    """Return the fields of alice's entry, of an object whose spec has these other parts; None where it is gone."""
    becomes = {"spec": {**OLD["spec"], **spec}}
    owned = restore_owners([entry(before)], [] if now is None else [entry(now)], lambda _: (OLD, becomes))
    return owned[0]["fieldsV1"] if owned else None


N, M = 'k:{"name":"n"}', 'k:{"name":"m"}'
ROWS = {
    "a field that stayed": ({"f:spec": {"f:a": {}}}, {}, {}, {"f:spec": {"f:a": {}}}),
    "one that changed": ({"f:spec": {"f:a": {}}}, {}, {"a": 2}, {}),
    "one as JSON has it": ({"f:spec": {"f:a": {}}}, {}, {"a": True}, {}),
    "one below": ({"f:spec": {"f:b": {"f:c": {}}}}, {}, {}, {"f:spec": {"f:b": {"f:c": {}}}}),
    "an item that is there": (
        {"f:spec": {"f:items": {N: {".": {}, "f:v": {}}}}},
        {"f:spec": {"f:items": {}}},
        {"items": [{"name": "n", "v": 2}]},
        {"f:spec": {"f:items": {N: {".": {}}}}},
    ),
    "an item that is not": ({"f:spec": {"f:items": {M: {".": {}}}}}, {}, {"items": [{"name": "n"}]}, {}),
    "a member of a set": (
        {"f:spec": {"f:set": {'v:"p"': {}, 'v:"q"': {}}}},
        {},
        {"set": ["q"]},
        {"f:spec": {"f:set": {'v:"q"': {}}}},
    ),
    "a place in a list": (
        {"f:spec": {"f:raw": {"i:0": {}, "i:1": {}, "i:2": {}}}},
        {},
        {"raw": [3, 2]},
        {"f:spec": {"f:raw": {"i:1": {}}}},
    ),
    "what it has now": ({}, {"f:spec": {"f:a": {}}}, {"a": 2}, {"f:spec": {"f:a": {}}}),
    "an entry that went": ({"f:spec": {"f:a": {}}}, None, {}, {"f:spec": {"f:a": {}}}),
    "an entry that went rightly": ({"f:spec": {"f:a": {}}}, None, {"a": 2}, None),
    "what is no list any more": ({"f:spec": {"f:items": {N: {".": {}}}}}, {}, {"items": "x"}, {}),
}


@pytest.mark.parametrize(("before", "now", "spec", "expected"), ROWS.values(), ids=ROWS)
def test_fields(before: Any, now: Any, spec: dict[str, Any], expected: Any) -> None:
    """An owner would lose a field that no other manager took, or keep one that another manager took."""
    assert after(before, now, **spec) == expected


def test_entries_keep_their_order_their_times_and_what_is_new() -> None:
    """A list in another order is another list: the object would be written although nothing changed."""
    before = [entry({"f:spec": {"f:a": {}}}, name) for name in ("alice", "bob")]
    new = entry({"f:spec": {"f:b": {}}}, "carol")
    assert restore_owners(before, [new, before[1]], lambda _: (OLD, OLD)) == [*before, new]


def test_what_cannot_be_seen_stays_as_it_is() -> None:
    """An entry of a version that is gone would fail every update."""
    before, now = entry({"f:spec": {"f:a": {}}}, version=GONE), entry({}, version=GONE)
    assert restore_owners([before], [now], lambda _: None) == [now]
    assert restore_owners([before], [], lambda _: None) == []
