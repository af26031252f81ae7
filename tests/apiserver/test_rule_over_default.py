"""A rule of the storage version that reads a default which stored objects lack, as they are when a field is new."""

from __future__ import annotations

import pytest

from restow.kube.client import HttpCluster
from restow.migrator import CrdReport, ManagedFields, Migration, Options, Phase, plan, read_crd
from tests.apiserver.kind import Document, Kind, entry_versions, owners

RULE = {"rule": "self.size <= self.most", "message": "size is above most"}


def ruled(kind: Kind, *, open_before: bool = False) -> Document:
    """v1beta1 with a new default and a rule on spec that reads it; the server cannot judge the rule without it."""
    document = kind.document(storage="v1beta1", keyed_conditions=False)
    old, new = (version["schema"]["openAPIV3Schema"]["properties"]["spec"] for version in document["spec"]["versions"])
    new["properties"]["most"] = {"type": "integer", "default": 10}
    new["x-kubernetes-validations"] = [RULE]
    if open_before:
        old["x-kubernetes-preserve-unknown-fields"] = True
    return document


async def migrate(cluster: HttpCluster, kind: Kind, **options: object) -> CrdReport:
    """Migrate; ``Kind`` has waited for the CRD to settle already."""
    return await Migration(cluster, Options(settle_s=0.0, **options)).migrate(kind.name)  # type: ignore[arg-type]


async def populate(kind: Kind) -> None:
    """Two objects with owners, and one that nobody tracks."""
    for name in ("w0", "w1", "untracked"):
        await kind.apply(kind.manifest("v1alpha1", name, spec={"size": 5}), "alice")
        await kind.merge("v1alpha1", name, {"spec": {"color": "red"}}, "editor")
    await kind.merge("v1alpha1", "untracked", {"metadata": {"managedFields": [{}]}}, "anyone")


async def test_every_object_is_stored_and_the_default_is_nobodys(kind: Kind, cluster: HttpCluster) -> None:
    """The identity apply is refused there, so no object could be migrated by any option."""
    await populate(kind)
    before = await kind.stored()
    await kind.change(ruled(kind))
    found = await plan(cluster, await read_crd(cluster, kind.name), Options(), sample=None)
    assert not found.findings.fail, found.findings.listed
    report = await migrate(cluster, kind)
    assert report.pruned and not report.failures, report.to_json()
    for key, stored in (await kind.stored()).items():
        assert stored["apiVersion"] == f"{kind.group}/v1beta1" and stored["spec"]["most"] == 10
        assert owners(stored) == owners(before[key])
        assert entry_versions(stored) <= {"v1beta1"}
    applied = await kind.apply(kind.manifest("v1beta1", "w0", spec={"size": 5, "most": 7}), "alice")
    assert applied["spec"]["most"] == 7


async def test_objects_that_only_need_to_be_stored_again(kind: Kind, cluster: HttpCluster) -> None:
    """Entries at the storage version need no translation: the apply alone was sent, and refused."""
    await kind.change(kind.document(storage="v1alpha1"))
    await kind.apply(kind.manifest("v1beta1", "w0", spec={"size": 5}), "alice")
    before = await kind.stored()
    await kind.change(ruled(kind))
    report = await migrate(cluster, kind)
    assert report.pruned and not report.failures, report.to_json()
    after = await kind.stored()
    assert after["default/w0"]["apiVersion"] == f"{kind.group}/v1beta1"
    assert owners(after["default/w0"]) == owners(before["default/w0"])


@pytest.mark.parametrize("how", [{"managed_fields": ManagedFields.KEEP}, {"skip": frozenset({Phase.MANAGED_FIELDS})}])
async def test_entries_that_are_kept_stay_as_they_are(kind: Kind, cluster: HttpCluster, how: dict[str, object]) -> None:
    """Entries that the server can convert ride along in the patch; a lost one would show in etcd."""
    await populate(kind)
    before = await kind.stored()
    await kind.change(ruled(kind, open_before=True))
    report = await migrate(cluster, kind, **how)
    assert report.pruned and not report.failures, report.to_json()
    for key, stored in (await kind.stored()).items():
        assert stored["apiVersion"] == f"{kind.group}/v1beta1"
        assert stored["metadata"].get("managedFields") == before[key]["metadata"].get("managedFields")


async def test_entries_that_cannot_ride_along_are_a_failure_and_not_a_loss(
    kind: Kind, cluster: HttpCluster, keeps_owners: bool
) -> None:
    """Where v1alpha1 does not declare the default, only servers from 1.37 on keep such entries at a write."""
    await populate(kind)
    await kind.change(ruled(kind))
    before = await kind.stored()
    options = Options(managed_fields=ManagedFields.KEEP)
    found = await plan(cluster, await read_crd(cluster, kind.name), options, sample=None)
    assert {each.name for each in found.findings.listed if each.fails} == (set() if keeps_owners else {"w0", "w1"})
    report = await migrate(cluster, kind, managed_fields=ManagedFields.KEEP)
    if keeps_owners:
        assert report.pruned and not report.failures, report.to_json()
        for key, stored in (await kind.stored()).items():
            assert stored["apiVersion"] == f"{kind.group}/v1beta1"
            assert stored["metadata"].get("managedFields") == before[key]["metadata"].get("managedFields")
        return
    assert {each.name: each.reason for each in report.failures} == dict.fromkeys(("w0", "w1"), "OwnershipWouldBeLost")
    assert all("--managed-fields translate" in each.message for each in report.failures)
    after = await kind.stored()
    assert all(after[key] == before[key] for key in ("default/w0", "default/w1"))
    assert (await migrate(cluster, kind)).pruned


async def test_an_object_that_breaks_the_rule_is_a_failure_with_the_rules_message(
    kind: Kind, cluster: HttpCluster
) -> None:
    """Of two refused writes the second says what is wrong; ``no such key`` would send the user the wrong way."""
    await populate(kind)
    await kind.merge("v1alpha1", "w1", {"spec": {"size": 11}}, "editor")
    await kind.change(ruled(kind))
    found = await plan(cluster, await read_crd(cluster, kind.name), Options(), sample=None)
    [finding] = [each for each in found.findings.listed if each.fails]
    assert finding.name == "w1" and "size is above most" in finding.message
    report = await migrate(cluster, kind)
    [failure] = report.failures
    assert (failure.name, failure.reason) == ("w1", "Invalid") and "size is above most" in failure.message
    assert report.objects.rewritten == 2
