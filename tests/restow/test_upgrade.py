"""The pure parts of a verdict on stored objects: what differs, who owned it, who writes it, and what is stored."""

from __future__ import annotations

from typing import Any

import pytest

from restow.cli.exits import InputError
from restow.crds.crddiff import CrdFinding
from restow.crds.objectdiff import object_changes
from restow.crds.schemachanges import ChangeVerdict
from restow.upgrade.clients import client_findings
from restow.upgrade.observed import ObjectFindings, lost_owners
from restow.upgrade.stored import chosen, of_dump, stored_form
from tests.migrator import builders as b


def obj(name: str = "w", *, entries: list[dict[str, Any]] | None = None, **parts: Any) -> dict[str, Any]:
    """An object of the widgets."""
    metadata = {"name": name, "namespace": "ns", "managedFields": entries or []}
    return {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": metadata, **parts}


def entry(manager: str, fields: dict[str, Any], version: str = "v1") -> dict[str, Any]:
    """A managedFields entry."""
    api_version = f"example.com/{version}"
    return {"manager": manager, "operation": "Apply", "apiVersion": api_version, "fieldsV1": {"f:spec": fields}}


@pytest.mark.parametrize(
    ("before", "after", "changes"),
    [
        ({"a": 1}, {"a": 1}, []),
        ({"a": 1}, {}, [("gone", ".spec.a")]),
        ({}, {"a": None}, [("new", ".spec.a")]),
        ({"a": 1}, {"a": 1.0}, []),
        ({"a": 1}, {"a": True}, [("changed", ".spec.a")]),
        ({"a": [{"b": 1}, {"b": 2}]}, {"a": [{"b": 1}, {}]}, [("gone", ".spec.a[].b")]),
        ({"a": [1]}, {"a": [1, 2]}, [("changed", ".spec.a")]),
        ({"a.b/c": 1}, {}, [("gone", '.spec["a.b/c"]')]),
    ],
)
def test_what_differs(before: dict[str, Any], after: dict[str, Any], changes: list[tuple[str, str]]) -> None:
    """A difference would be overlooked, or reported at a place where nobody finds it."""
    assert [(str(kind), path) for kind, path in object_changes(obj(spec=before), obj(spec=after))] == changes


def test_an_annotation_of_conversions_does_not_count() -> None:
    """Every object with a stash would count as changed."""
    one, other = obj(spec={}), obj(spec={})
    one["metadata"]["annotations"] = {"stash": "x", "a": "1"}
    other["metadata"]["annotations"] = {"a": "1"}
    assert list(object_changes(one, other, "stash")) == []
    assert list(object_changes(one, other)) == [("gone", ".metadata.annotations.stash")]


@pytest.mark.parametrize(
    ("now", "lost"),
    [
        ([entry("alice", {"f:a": {}, "f:l": {}})], []),
        ([entry("alice", {"f:a": {}, "f:l": {'k:{"n":"x"}': {".": {}, "f:n": {}}}}, "v2")], []),
        ([entry("alice", {"f:a": {}})], [("alice", ".spec.l")]),
        ([entry("bob", {"f:a": {}, "f:l": {}})], [("alice", ".")]),
    ],
)
def test_who_owns_no_longer(now: list[dict[str, Any]], lost: list[tuple[str, str]]) -> None:
    """A lost owner would be overlooked, or a list that is owned item by item would count as lost."""
    before = obj(entries=[entry("alice", {"f:a": {}, "f:l": {}})])
    assert list(lost_owners(before, obj(entries=now), renamed=True)) == lost


def test_an_owner_of_a_field_that_is_gone_is_not_lost() -> None:
    """A dropped field would be reported twice."""
    before = obj(entries=[entry("alice", {"f:a": {}})])
    assert list(lost_owners(before, obj(), renamed=True, gone=[".spec.a"])) == []


def test_many_objects_are_one_finding() -> None:
    """A table would have a row for each of ten thousand objects."""
    found = ObjectFindings("widgets.example.com")
    for number in range(150):
        for _item in range(2):
            found.add("object-pruned", "v1", ".spec.a[].b", f"ns/w{number}")
    [finding] = found.results()
    assert finding.what == "150 objects lose the field: ns/w0, ns/w1, ns/w2 and 147 more"
    assert len(finding.objects) == 100


def test_writers_of_what_goes() -> None:
    """Nobody would know whom to ask before a field or version goes."""
    old, new = b.crd(), b.crd(("v2",))
    gone = CrdFinding(old.name, "v2", "field-removed", ChangeVerdict.BREAKING, ".spec.f", "field is gone")
    at = {"apiVersion": f"{old.group}/v2"}
    objects = [
        obj("one", entries=[entry("alice", {"f:f": {"f:g": {}}}) | at, entry("bob", {"f:other": {}}) | at]),
        obj("two", entries=[entry("alice", {"f:f": {}}) | at, entry("carol", {}) | {"apiVersion": f"{old.group}/v1"}]),
    ]
    found = [(each.version, each.path, each.what) for each in client_findings(old, new, [gone], objects)]
    assert found == [("v1", "spec.versions", "written by carol (1)"), ("v2", ".spec.f", "written by alice (2)")]


def test_what_is_stored_of_a_dump(tmp_path: Any) -> None:
    """An object would be tried at a version that its CRD lacks, or stored with what the API server never stores."""
    crd = b.crd(("v1",), storage="v1")
    given = {"apiVersion": f"{crd.group}/v1", "kind": crd.kind, "metadata": {"name": "w", "resourceVersion": "7"}}
    key, stored = stored_form(crd, given)
    assert key.endswith(f"/{crd.plural}/default/w") and "resourceVersion" not in stored["metadata"]
    assert stored_form(crd, given) == (key, stored)
    (tmp_path / "dump.yaml").write_text(f"apiVersion: {crd.group}/v3\nkind: {crd.kind}\nmetadata: {{name: w}}\n")
    with pytest.raises(InputError, match=r"is at v3, and .* has only v1 before"):
        of_dump([tmp_path / "dump.yaml"], {crd.name: crd})


def test_a_sample_has_every_shape() -> None:
    """The one object that breaks would be left out for a hundred that are alike."""
    objects = [obj(f"w{number}", spec={"a": number}) for number in range(50)] + [obj("odd", spec={"b": 1})]
    assert "odd" in [each["metadata"]["name"] for each in chosen(objects, 5)]
    assert len(chosen(objects, None)) == 51
