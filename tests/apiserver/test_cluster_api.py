"""Cluster API's published CRDs from v1beta1 to v1beta2: schemas that nobody here wrote, as different as they are.

Strategy None stands in for the project's own webhook, so a field that v1beta2 does not have is pruned. What makes them
worth migrating here is what changed: atomic lists and references became granular, maps became lists, fields moved.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any

import pytest

from restow.controlplane.etcd import Etcd
from restow.crds.documents import load_documents
from restow.kube.client import HttpCluster
from restow.migrator import CrdReport, Migration, Options, plan, read_crd
from restow.migrator.planning.plan import MigrationPlan
from tests.apiserver.kind import Document, entry_versions, owners, without_bookkeeping
from tests.apiserver.published import PublishedKind
from tests.apiserver.samples import LOSSY, Sample, Write, applied, carry_out, create_objects, status
from tests.apiserver.samples_core import CLUSTER_CLASSES, CLUSTERS, MACHINES
from tests.apiserver.samples_kubeadm import CONTROL_PLANES, KUBEADM_CONFIGS
from tests.apiserver.twoschemas import known, must_own, owns, restricted, rooted, unknown
from tests.upstream.files import cluster_api

SAMPLES = (MACHINES, CLUSTERS, CLUSTER_CLASSES, KUBEADM_CONFIGS, CONTROL_PLANES)


@dataclass(frozen=True)
class Upgrade:
    """A CRD whose objects are stored and owned at v1beta1, and whose storage version has just become v1beta2."""

    kind: PublishedKind
    sample: Sample
    before: dict[str, Document]

    @property
    def schemas(self) -> tuple[Document, Document]:
        """The schemas of v1beta1 and v1beta2."""
        return rooted(self.kind.schemas["v1beta1"]), rooted(self.kind.schemas["v1beta2"])

    async def plan(self, **options: Any) -> MigrationPlan:
        """What ``restow plan`` finds."""
        read = await read_crd(self.kind.cluster, self.kind.name)
        return await plan(self.kind.cluster, read, Options(**options))

    async def migrate(self, **options: Any) -> CrdReport:
        """Migrate; ``Kind`` has waited for the CRD to settle already."""
        return await Migration(self.kind.cluster, Options(settle_s=0.0, **options)).migrate(self.kind.name)

    def applies(self) -> list[tuple[str, Write]]:
        """Every server-side apply of the sample, with the name of its object."""
        return [
            (name, write) for name, writes in self.sample.objects.items() for write in writes if write.how == "apply"
        ]

    def at_v1beta2(self, write: Write) -> Write:
        """A write of the sample, restricted to what v1beta2 knows."""
        return replace(write, version="v1beta2", parts=restricted(write.parts, self.schemas[1]))


@asynccontextmanager
async def upgrade(cluster: HttpCluster, etcd: Etcd, sample: Sample) -> AsyncIterator[Upgrade]:
    """Bring a sample to where a migration begins."""
    [published] = load_documents((cluster_api() / sample.file).read_text())
    kind = PublishedKind(cluster, etcd, published, sample.canaries)
    try:
        first = ("v1beta1", "v1beta2") if sample.both_served else ("v1beta1",)
        await kind.create(kind.document(storage="v1beta1", versions=first))
        before = await create_objects(kind, sample)
        await kind.change(kind.document(storage="v1beta2"))
        yield Upgrade(kind, sample, before)
    finally:
        await kind.remove()


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: sample.file.split("_")[1].removesuffix(".yaml"))
async def test_a_whole_upgrade_keeps_every_field_and_owner(cluster: HttpCluster, etcd: Etcd, sample: Sample) -> None:
    """A field or owner lost, a conflict, or a plan silent about pruned fields would meet real installations."""
    async with upgrade(cluster, etcd, sample) as upgraded:
        await the_plan_names_what_is_lost(upgraded)
        report = await upgraded.migrate()
        assert report.pruned and report.complete, report.to_json()
        assert report.objects.repaired == 0 and report.requests.write == report.objects.listed == len(upgraded.before)
        await all_is_kept_and_owned(upgraded)
        await appliers_at_v1beta1_go_on(upgraded)
        assert (await upgraded.migrate(ignore_mark=True)).complete
        await all_is_kept_and_owned(upgraded)
        await upgraded.kind.change(upgraded.kind.document(storage="v1beta2", versions=("v1beta2",)))
        await appliers_at_v1beta2_go_on(upgraded)


async def the_plan_names_what_is_lost(upgraded: Upgrade) -> None:
    """Exactly the fields that stored objects use and v1beta2 lacks, with the number of objects; no write is sent."""
    quiet = await upgraded.plan(namespace="default")
    assert not quiet.lost_fields and not quiet.warnings
    _old, new = upgraded.schemas
    expected = Counter(path for found in upgraded.before.values() for path in set(unknown(found, new)))
    found = await upgraded.plan()
    assert found.lost_fields == expected and (expected or not upgraded.sample.lossy)
    for path in expected:
        assert any(path in warning for warning in found.warnings), path
    assert len(found.warnings) == len(expected)
    assert found.writes == found.objects == len(upgraded.before)
    assert await upgraded.kind.stored() == upgraded.before


async def all_is_kept_and_owned(upgraded: Upgrade) -> None:
    """As etcd has it: what both versions know is unchanged, and owned by who owned it.

    ``metadata.generation`` is among it: the server compares specs in the version of the request, where the fields that
    it prunes are gone on both sides.
    """
    old, new = upgraded.schemas
    after = await upgraded.kind.stored()
    assert after.keys() == upgraded.before.keys()
    for key, found in after.items():
        before = upgraded.before[key]
        assert found["apiVersion"] == f"{upgraded.kind.group}/v1beta2"
        assert without_bookkeeping(found) == known(without_bookkeeping(before), new), key
        assert entry_versions(found) == {"v1beta2"}
        assert owns(found, old, new) == must_own(before, old, new), key


async def appliers_at_v1beta1_go_on(upgraded: Upgrade) -> None:
    """While v1beta1 is served its appliers meet no conflict, and change nothing of what v1beta2 says in full."""
    for name, write in upgraded.applies():
        if name not in upgraded.sample.lossy:
            await carry_out(upgraded.kind, name, write)


async def appliers_at_v1beta2_go_on(upgraded: Upgrade) -> None:
    """With v1beta1 gone, each applies what it applied, unforced; then it can take back what it owns."""
    kind, (old, new) = upgraded.kind, upgraded.schemas
    before = await kind.stored()
    for name, write in upgraded.applies():
        await carry_out(kind, name, upgraded.at_v1beta2(write), upgraded.sample.namespace(name))
    for key, found in (await kind.stored()).items():
        assert without_bookkeeping(found) == without_bookkeeping(before[key])
        assert owns(found, old, new) == owns(before[key], old, new), key
        if not key.startswith(LOSSY):
            assert owners(found) == owners(before[key]), (
                f"an apply of what is there already changed the owners of {key}"
            )
    await nobody_is_disowned_by_an_edit(upgraded)
    await an_owner_can_remove_a_condition(upgraded)


async def nobody_is_disowned_by_an_edit(upgraded: Upgrade) -> None:
    """A merge patch empties managedFields if one entry cannot be converted."""
    kind = upgraded.kind
    for key, found in (await kind.stored()).items():
        namespace, name = key.split("/")
        edited = await kind.merge("v1beta2", name, {"metadata": {"labels": {"by": "visitor"}}}, "visitor", namespace)
        left = owners(edited)
        assert "/f:metadata/f:labels/f:by" in left.pop(("visitor", "Update", ""))
        assert left == owners(found), key


async def an_owner_can_remove_a_condition(upgraded: Upgrade) -> None:
    """What proves that a manager owns an item: it leaves it out, and the item goes."""
    name, write = next((name, write) for name, write in upgraded.applies() if write.subresource == "status")
    smaller = upgraded.at_v1beta2(write)
    first, _second = smaller.parts["status"]["conditions"]
    smaller.parts["status"]["conditions"] = [first]
    left = await carry_out(upgraded.kind, name, smaller, upgraded.sample.namespace(name))
    assert left["status"]["conditions"] == [first]


async def test_an_object_whose_map_became_a_list_is_left_alone(cluster: HttpCluster, etcd: Etcd) -> None:
    """``status.failureDomains`` is a map in v1beta1, a list in v1beta2: any write would empty managedFields."""
    domains = {"z1": {"controlPlane": True}}
    spread = (
        applied("argocd", spec={"paused": True}),
        Write("capi", "put", {"status": {"phase": "Provisioned", "failureDomains": domains}}, "status"),
    )
    plain = (applied("argocd", spec={"paused": True}), status("capi", phase="Provisioned"))
    sample = replace(CLUSTERS, objects={"spread": spread, "plain": plain}, lossy=frozenset())
    async with upgrade(cluster, etcd, sample) as upgraded:
        assert (await upgraded.plan()).blocked == 1
        report = await upgraded.migrate()
        [failure] = report.failures
        assert (failure.name, failure.reason) == ("spread", "OwnershipWouldBeLost")
        assert ".status.failureDomains" in failure.message
        assert not report.pruned and report.objects.rewritten == 1
        after = await upgraded.kind.stored()
        assert after["default/spread"] == upgraded.before["default/spread"]

        # The way out that the message names: at v1beta1 the field can go, and nobody loses anything.
        without = await upgraded.kind.get("v1beta1", "spread")
        assert without["status"].pop("failureDomains") == domains
        await upgraded.kind.merge(
            "v1beta1", "spread", {"status": {"failureDomains": None}}, "capi", subresource="status"
        )
        assert (await upgraded.migrate()).pruned
        left = owners((await upgraded.kind.stored())["default/spread"])
        assert left["argocd", "Apply", ""] == {"/f:spec/f:paused"}
        assert "/f:status/f:phase" in left["capi", "Update", "status"]


async def test_an_object_that_validation_refuses_is_reported_and_keeps_all(cluster: HttpCluster, etcd: Etcd) -> None:
    """A refusal must cost that object nothing, stop no other, and forbid the prune.

    The server lets an unchanged object pass that lacks what v1beta2 requires; but it cannot compare objects below
    ``x-kubernetes-preserve-unknown-fields``, and takes a topology with such a variable for changed.
    """
    topology = {"class": "quick", "version": "v1.32.0"}
    free = topology | {"variables": [{"name": "image", "value": {"os": "flatcar"}}]}
    objects = {
        "refused": (applied("argocd", spec={"topology": free}), status("capi", phase="Pending")),
        "tolerated": (applied("argocd", spec={"topology": topology}), status("capi", phase="Pending")),
    }
    async with upgrade(cluster, etcd, replace(CLUSTERS, objects=objects)) as upgraded:
        report = await upgraded.migrate()
        [failure] = report.failures
        assert (failure.name, failure.reason) == ("refused", "Invalid") and "classRef" in failure.message
        assert not report.pruned and await upgraded.kind.stored_versions() == ["v1beta1", "v1beta2"]
        after = await upgraded.kind.stored()
        assert after["default/refused"] == upgraded.before["default/refused"]
        assert after["default/tolerated"]["apiVersion"] == f"{upgraded.kind.group}/v1beta2"
