"""The NamespacedCloudProfiles of a CloudProfile, read from tables; without requests, or from a server in memory."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from restow.cloudprofile.objects import NAMESPACED_CLOUD_PROFILES
from restow.cloudprofile.queries import NamedObject, children_of, read_specs
from restow.kube.pager import Table
from tests.memory.cluster import MemoryCluster

_decoder = msgspec.json.Decoder(Table[NamedObject])
values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
json_objects = st.dictionaries(st.text(), values, max_size=4)
names = st.from_regex(r"[a-z]([a-z0-9-]{0,8}[a-z0-9])?", fullmatch=True)
columns = st.lists(st.sampled_from(["Name", "Parent Name", "Age", "Other"]), unique=True)


def table(header: list[str], *rows: tuple[dict[str, Any], list[Any]]) -> Table[NamedObject]:
    """Return a table as a server prints it."""
    body = {
        "kind": "Table",
        "metadata": {"resourceVersion": "1"},
        "columnDefinitions": [{"name": name, "type": "string"} for name in header],
        "rows": [
            {"cells": cells, "object": {"kind": "PartialObjectMetadata", "metadata": {**metadata, "uid": "u"}}}
            for metadata, cells in rows
        ],
    }
    return _decoder.decode(json.dumps(body))


def child(name: str, spec: dict[str, Any]) -> dict[str, Any]:
    """Return a NamespacedCloudProfile of the CloudProfile ``large``."""
    return {
        "metadata": {"name": name, "namespace": "garden"},
        "spec": {**spec, "parent": {"kind": "CloudProfile", "name": "large"}},
    }


@given(st.lists(st.tuples(names, json_objects, st.booleans()), max_size=4), columns, columns)
def test_a_table_gives_what_the_whole_objects_give(
    drawn: list[tuple[str, dict[str, Any], bool]], before: list[str], after: list[str]
) -> None:
    """Admission would judge a change by other specs than those on the cluster."""
    objects = [child(name, spec) for name, spec, _ in drawn]
    for each, (_, _, deleting) in zip(objects, drawn, strict=True):
        each["metadata"] |= {"deletionTimestamp": "2026-01-01T00:00:00Z"} if deleting else {}
    rows = [
        (each["metadata"], [*("x" for _ in before), json.dumps(each["spec"]), *(None for _ in after)])
        for each in objects
    ]
    assert read_specs(table([*before, "Spec", *after], *rows), "large") == objects


@pytest.mark.parametrize(
    ("header", "cells"),
    [
        (["Name"], ["a"]),
        (["Name", "Spec"], ["a", None]),
        (["Name", "Spec"], ["a", "map[parent:map[name:large]]"]),
        (["Name", "Spec"], ["a", "[]"]),
        (["Name", "Spec"], ["a", '{"parent":{"name":"other"}}']),
        (["Name", "Spec"], ["a"]),
    ],
)
def test_a_table_without_specs_is_not_taken_for_one(header: list[str], cells: list[Any]) -> None:
    """Children would seem to have no versions, and a change that breaks them would be admitted."""
    assert read_specs(table(header, ({"name": "a", "namespace": "garden"}, cells)), "large") is None


async def test_a_crd_without_the_column_is_read_whole() -> None:
    """With the CRD of an earlier restow, admission would overlook every NamespacedCloudProfile."""
    memory = MemoryCluster()
    made = {**child("a", {"kubernetes": {}}), "status": {"cloudProfileSpec": {}}}
    memory.seed(NAMESPACED_CLOUD_PROFILES.plural, {"kind": "NamespacedCloudProfile", **made})
    assert await children_of(memory, "large") == [child("a", {"kubernetes": {}})]
