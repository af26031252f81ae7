"""CRDs with ``spec.preserveUnknownFields``, as apiextensions v1beta1 made them: owned by type, never pruned.

Each object is compared in etcd with a twin that was always at the new version.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, ClassVar

import pytest

from restow.controlplane.etcd import Etcd
from restow.kube.client import HttpCluster
from restow.migrator import CrdReport, Migration, Options, find_references, plan, read_crd, sought
from restow.migrator import ready as ask_ready
from restow.migrator.references.reference import ReferenceKind
from tests.apiserver.kind import Document, Kind, entry_versions, owners, without_bookkeeping
from tests.migrator import builders as b

PAIR = b.struct(k=b.STRING, n=b.STRING, x=b.STRING) | {"required": ["k", "n"]}
MEMBERS: dict[str, tuple[Document, Document, Any, Any]] = {
    "atomicToSet": (b.atomic_list(b.STRING), b.set_list(b.STRING), ["x", "y"], ["x"]),
    "atomicToKeyed": (
        b.atomic_list(PAIR),
        b.keyed_list(PAIR, "k"),
        [{"k": "a", "n": "1", "x": "x"}, {"k": "b", "n": "2"}],
        [{"k": "a", "n": "1"}],
    ),
    "keyedToKeyed": (
        b.keyed_list(PAIR, "k"),
        b.keyed_list(PAIR, "k", "n"),
        [{"k": "a", "n": "1", "x": "x"}, {"k": "b", "n": "2"}],
        [{"k": "b", "n": "2"}],
    ),
    "granularToAtomic": (
        b.struct(a=b.STRING, b=b.STRING),
        b.atomic(b.struct(a=b.STRING, b=b.STRING)),
        {"a": "1", "b": "2"},
        {"a": "1"},
    ),
    "struct": (b.struct(a=b.STRING, c=b.STRING), b.struct(a=b.STRING, c=b.STRING), {"a": "1", "c": "2"}, {"a": "1"}),
}
"""By field of the spec: its schema at v1 and at v2, what alice applies, and what she applies later."""


class Legacy(Kind):
    """Widgets of such a CRD: v1 and v2, both served."""

    canary: ClassVar[Document] = {}
    marked = False
    untyped: tuple[str, ...] | None = None
    """Versions whose schema is not structural; no version of such a CRD has a list type."""

    def document(self, *, storage: str, **_: Any) -> Document:
        """The CRD; of ``spec.later`` only v2 knows."""
        made = super().document(storage=storage, versions=("v1", "v2"))
        for place, more in enumerate(({}, {"later": b.set_list(b.STRING)})):
            fields = {name: member[place] for name, member in MEMBERS.items()} | more
            made["spec"]["versions"][place]["schema"] = {"openAPIV3Schema": b.struct(spec=b.struct(**fields))}
        if self.marked:
            self._mark(made["spec"])
        return made

    def _mark(self, spec: Document) -> None:
        spec["preserveUnknownFields"] = True
        for version in spec["versions"] if self.untyped is not None else ():
            fields = {} if version["name"] in self.untyped else b.struct(struct=b.struct(a=b.STRING, c=b.STRING))
            version["schema"]["openAPIV3Schema"]["properties"]["spec"] = fields

    async def mark(self, *untyped: str) -> None:
        """Mark the CRD, in etcd and in documents from now on."""
        self.marked, self.untyped = True, untyped or None
        await self.preserve_unknown_fields(self._mark)


@pytest.fixture
async def kind(cluster: HttpCluster, etcd: Etcd, group: str) -> AsyncIterator[Legacy]:
    """The CRD, stored at v1."""
    made = Legacy(cluster, etcd, group)
    await made.create(made.document(storage="v1"))
    yield made
    await made.remove()


async def write(kind: Legacy, version: str, name: str, spec: Document) -> None:
    """Have alice apply an object with a finalizer, and an editor change it."""
    metadata = {"finalizers": ["a.example.com/a", "a.example.com/b"]}
    await kind.apply(kind.manifest(version, name, spec=spec, metadata=metadata), "alice")
    await kind.merge(version, name, {"spec": {"struct": {"c": "3"}}}, "editor")


async def migrate(cluster: HttpCluster, kind: Legacy) -> CrdReport:
    """Migrate without any wait."""
    return await Migration(cluster, Options(settle_s=0.0)).migrate(kind.name)


@pytest.mark.parametrize("member", MEMBERS)
async def test_lists_and_maps_are_owned_as_their_types_say(kind: Legacy, cluster: HttpCluster, member: str) -> None:
    """An owner of ``f:l: {}`` owns no item of a set: an item that it drops would stay for good."""
    first, then = MEMBERS[member][2:]
    await kind.mark()
    await write(kind, "v1", "old", {member: first})
    await kind.change(kind.document(storage="v2"))
    await write(kind, "v2", "twin", {member: first})
    report = await migrate(cluster, kind)
    assert report.complete and report.pruned and not report.warnings, report.to_json()
    assert (await ask_ready(cluster, await read_crd(cluster, kind.name), "v1")).ready
    stored = await kind.stored()
    assert entry_versions(stored["default/old"]) == {"v2"}
    assert owners(stored["default/old"]) == owners(stored["default/twin"])
    dropped = [await kind.apply(kind.manifest("v2", name, spec={member: then}), "alice") for name in ("old", "twin")]
    assert dropped[0]["spec"] == dropped[1]["spec"]
    assert "finalizers" not in dropped[0]["metadata"]


async def test_fields_that_no_version_declares_stay_with_their_owners(kind: Legacy, cluster: HttpCluster) -> None:
    """The API server prunes nothing here: a plan that tells of losses, or a lost owner, would be wrong."""
    await kind.mark()
    spec = {"later": ["x", "y"], "never": {"deep": [1, {"a": None}], "b": {}}, "atomicToSet": ["x"]}
    await write(kind, "v1", "old", spec)
    before = without_bookkeeping((await kind.stored())["default/old"])
    await kind.change(kind.document(storage="v2"))
    await write(kind, "v2", "twin", spec)
    planned = await plan(cluster, await read_crd(cluster, kind.name), Options(settle_s=0.0))
    report = await migrate(cluster, kind)
    assert report.complete and report.pruned and not report.warnings, report.to_json()
    assert not planned.findings.fail and not planned.warnings
    stored = await kind.stored()
    assert without_bookkeeping(stored["default/old"]) == before
    assert owners(stored["default/old"]) == owners(stored["default/twin"])


@pytest.mark.parametrize("untyped", [("v1",), ("v2",), ("v1", "v2")], ids="+".join)
async def test_a_schema_that_is_not_structural_gives_no_types(
    kind: Legacy, cluster: HttpCluster, untyped: tuple[str, ...]
) -> None:
    """The API server types no field by such a schema, not even finalizers: owners by value would be no owners there."""
    await kind.mark(*untyped)
    spec = {"struct": {"a": "1"}, "list": ["x"]}
    await write(kind, "v1", "old", spec)
    await kind.change(kind.document(storage="v2"))
    await write(kind, "v2", "twin", spec)
    report = await migrate(cluster, kind)
    assert report.complete and report.pruned and not report.warnings, report.to_json()
    stored = await kind.stored()
    assert entry_versions(stored["default/old"]) == {"v2"}
    objects = {"/f:spec", "/f:spec/f:struct"}  # without a type, an object is owned with its fields
    assert [paths - objects for paths in owners(stored["default/old"]).values()] == [
        paths - objects for paths in owners(stored["default/twin"]).values()
    ]
    dropped = await kind.apply(kind.manifest("v2", "old", spec={"struct": {}}), "alice")
    assert dropped["spec"] == {"struct": {"c": "3"}} and "finalizers" not in dropped["metadata"]


async def test_a_reference_in_an_undeclared_field_is_found(kind: Legacy, cluster: HttpCluster) -> None:
    """The schema has no room for it, but the object has: with its metadata alone it would never be seen."""
    await kind.mark()
    target = {"apiVersion": f"{kind.group}/v1", "kind": "Widget"}
    await kind.apply(kind.manifest("v1", "w", spec={"never": target}), "alice")
    of = sought(await read_crd(cluster, kind.name), "v1")
    found = (await find_references(cluster, [of], kinds=[ReferenceKind.TYPED]))[of]
    assert [each.where for each in found.references] == ["/spec/never"]
