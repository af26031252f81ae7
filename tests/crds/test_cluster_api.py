"""The real CRDs of Cluster API: the differences of v1beta1 and v1beta2 for owners and fields."""

from __future__ import annotations

import pytest

from restow.crds import Crd, Schema, added_defaults, dropped_fields, topology_differences
from restow.crds.documents import load_documents
from tests.upstream.files import cluster_api


@pytest.fixture(scope="module")
def crds() -> list[Crd]:
    """Return all of Cluster API's CRDs."""
    files = sorted(cluster_api().glob("*.yaml"))
    assert files
    return [Crd.from_document(each) for file in files for each in load_documents(file.read_text())]


def schemas(crd: Crd) -> tuple[Schema, Schema]:
    """Return the schemas of v1beta1 and v1beta2."""
    old, new = crd.version("v1beta1"), crd.version("v1beta2")
    assert old is not None
    assert new is not None
    return old.schema, new.schema


def test_they_are_read(crds: list[Crd]) -> None:
    """A check that is too strict would refuse published CRDs with everything that generators put into them."""
    for crd in crds:
        assert crd.storage.name == "v1beta2"
        assert crd.served == ("v1beta2", "v1beta1")
        assert crd.group.endswith("cluster.x-k8s.io")
        assert all(version.has_status_subresource for version in crd.versions)


def test_conditions_became_granular(crds: list[Crd]) -> None:
    """If this change were missed, an entry moved by renaming its version would own no condition."""
    for crd in crds:
        described = []
        for schema in schemas(crd):
            status = schema.field("status")
            conditions = status.field("conditions") if status else None
            assert conditions is not None
            described.append((conditions.list_type, conditions.list_keys))
        assert described == [("atomic", ()), ("map", ("type",))], crd.name
        assert ".status.conditions" in topology_differences(*schemas(crd)), crd.name


def test_references_became_granular(crds: list[Crd]) -> None:
    """If an atomic reference that became granular were missed, entries moved by renaming would lose its fields."""
    machines = next(crd for crd in crds if crd.kind == "Machine")
    assert topology_differences(*schemas(machines)) == (
        ".spec.bootstrap.configRef",
        ".spec.infrastructureRef",
        ".status.conditions",
        ".status.nodeRef",
    )


def test_no_schema_differs_from_itself(crds: list[Crd]) -> None:
    """If a schema differed from its copy, every object would take the slow way through translation."""
    for crd in crds:
        for schema in schemas(crd):
            copy = Schema.root({**schema.node})
            assert topology_differences(schema, copy) == ()
            assert added_defaults(schema, copy) == ()
            assert added_defaults(schema, copy, webhook=True) == ()
            assert dropped_fields(schema, copy) == ()


def test_renamed_fields_are_dropped_without_a_webhook(crds: list[Crd]) -> None:
    """If a field that only a conversion webhook carries over were not listed, a rewrite would silently lose it."""
    machines = next(crd for crd in crds if crd.kind == "Machine")
    dropped = dropped_fields(*schemas(machines))
    assert {".spec.nodeDrainTimeout", ".status.failureReason", ".status.conditions[].severity"} <= set(dropped)
    assert not any(path.startswith((".metadata", ".apiVersion", ".kind")) for path in dropped)
