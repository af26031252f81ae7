"""Ownership of fields whose place depends on a field of another manager: carried over, and told where it cannot be."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable

import pytest

from restow.controlplane.etcd import Etcd
from restow.kube.client import HttpCluster
from restow.migrator import CrdReport, Migration, Options, Scope, Survey, read_crd, survey
from tests.apiserver.kind import Document, entry_versions, owners, without_bookkeeping
from tests.apiserver.test_translation import Impatient
from tests.apiserver.unions import UnionKind, converted, defaulting
from tests.apiserver.webhook import Webhook, never

COUNT = 3
ALICE = {"type": "a", "parts": [{"name": "x", "count": 1}, {"name": "y"}]}
BOB = {"value": "north", "parts": [{"name": "x"}]}
OWNED = {
    ("alice", "Apply", ""): {
        "/f:spec/f:type",
        "/f:spec/f:parts/f:x",
        "/f:spec/f:parts/f:x/f:count",
        "/f:spec/f:parts/f:y",
    },
    ("bob", "Apply", ""): {"/f:spec/f:a/f:value", "/f:spec/f:parts/f:x"},
    ("dave", "Apply", ""): {"/f:spec/f:a/f:value", "/f:spec/f:size"},
    ("ctl", "Apply", "status"): {"/f:status/f:type"},
    ("meter", "Apply", "status"): {"/f:status/f:b/f:level"},
}
MAY = {"served": ("v1", "v2"), "unserved": ("v2",)}


@pytest.fixture
async def kind(cluster: HttpCluster, etcd: Etcd, group: str, webhook: Webhook) -> AsyncIterator[UnionKind]:
    """Unions stored at v1; v2 is served too."""
    made = UnionKind(cluster, etcd, group, webhook)
    await made.create(made.document(storage="v1"))
    yield made
    webhook.fails = never
    webhook.converts = converted
    await made.remove()


async def populate(kind: UnionKind, count: int = COUNT) -> None:
    """Objects whose type alice owns, and whose value bob and dave own; likewise their status."""
    for number in range(count):
        name = f"w{number}"
        await kind.apply(kind.manifest("v1", name, spec=ALICE), "alice")
        await kind.apply(kind.manifest("v1", name, spec=BOB), "bob")
        await kind.apply(kind.manifest("v1", name, spec={"value": "north", "size": 3}), "dave")
        await kind.apply(kind.manifest("v1", name, status={"type": "b"}), "ctl", subresource="status")
        await kind.apply(kind.manifest("v1", name, status={"level": 7}), "meter", subresource="status")


async def migrate(kind: UnionKind, **options: object) -> CrdReport:
    """Migrate without any wait."""
    chosen = Options(settle_s=0.0, **options)  # type: ignore[arg-type]
    return await Migration(kind.cluster, chosen, chance=Impatient()).migrate(kind.name)


async def plan(kind: UnionKind, sample: int | None = None) -> Survey:
    """Plan, trying all objects unless told otherwise."""
    return await survey(kind.cluster, (await read_crd(kind.cluster, kind.name)).crd, Options(), sample=sample)


@pytest.mark.parametrize("converts", [converted, defaulting], ids=["plain converter", "converter that fills in"])
@pytest.mark.parametrize("served", [("v1", "v2"), ("v2",)], ids=["served", "unserved"])
async def test_a_value_goes_with_its_owner_to_where_another_ones_type_puts_it(
    kind: UnionKind, webhook: Webhook, served: tuple[str, ...], converts: Callable[[Document, str], Document]
) -> None:
    """Stripped, the value would stay for ever: nobody owns it, and its owner's next apply cannot take it away."""
    webhook.converts = converts
    await populate(kind)
    before = await kind.stored()
    await kind.change(kind.document(storage="v2", served=served))
    planned = await plan(kind)
    report = await migrate(kind)
    assert report.pruned and not report.stripped_owners and not report.kept_owners, report.to_json()
    assert not planned.stripped and not planned.findings.listed
    assert 0 < report.conversions <= planned.conversions
    for key, found in (await kind.stored()).items():
        wanted = converts(before[key], before[key]["apiVersion"].replace("v1", "v2"))
        assert without_bookkeeping(found) == without_bookkeeping(wanted)
        assert entry_versions(found) == {"v2"} and owners(found) == OWNED
    webhook.converts = converted
    await kind.change(kind.document(storage="v2", versions=("v2",)))
    version = (await kind.get("v2", "w0"))["metadata"]["resourceVersion"]
    same = {"a": {"value": "north"}, "parts": {"x": {}}}
    applied = await kind.apply(kind.manifest("v2", "w0", spec=same), "bob")
    assert applied["metadata"]["resourceVersion"] == version
    await kind.apply(kind.manifest("v2", "w0", spec={"size": 3}), "dave")
    applied = await kind.apply(kind.manifest("v2", "w0", spec={"parts": {"x": {}}}), "bob")
    assert "value" not in applied["spec"].get("a", {}) and applied["spec"]["type"] == "a"
    applied = await kind.apply(kind.manifest("v2", "w0", spec={"type": "a", "parts": {"x": {"count": 1}}}), "alice")
    assert applied["spec"]["parts"] == {"x": {"count": 1}}
    applied = await kind.apply(kind.manifest("v2", "w0", status={}), "meter", subresource="status")
    assert "level" not in applied["status"].get("b", {}) and applied["status"]["type"] == "b"
    assert not any("f:a" in entry["fieldsV1"].get("f:spec", {}) for entry in applied["metadata"]["managedFields"])


async def test_a_removed_version_that_the_webhook_still_knows(kind: UnionKind) -> None:
    """Its schema is not known any more; what its managers own of the object is."""
    await populate(kind, 1)
    await kind.change(kind.document(storage="v2"))
    await migrate(kind, scope=Scope.REMOVED)
    await kind.change(kind.document(storage="v2", versions=("v2",)))
    planned = await plan(kind)
    report = await migrate(kind)
    assert not report.stripped_owners and not planned.stripped, report.to_json()
    assert owners((await kind.stored())["default/w0"]) == OWNED
