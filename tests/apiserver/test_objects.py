"""What becomes of single objects: those that cannot be written, that others write, that were done before."""

from __future__ import annotations

import asyncio
import contextlib
import json
import random

import pytest

from restow.kube.client import HttpCluster
from restow.kube.cluster import PatchType
from restow.kube.errors import ApiError, NotFound
from restow.kube.resources import Resource
from restow.migrator import CrdReport, Migration, MigrationReport, Options, Phase, plan, read_crd
from restow.migrator.model.report import MigrationResult
from restow.migrator.ownership.entries import FIELD_MANAGER
from tests.apiserver.kind import Document, Kind, entry_versions, owners, until

POLICIES = Resource("admissionregistration.k8s.io", "v1", "validatingadmissionpolicies", namespaced=False)
BINDINGS = Resource("admissionregistration.k8s.io", "v1", "validatingadmissionpolicybindings", namespaced=False)


async def migrate(cluster: HttpCluster, kind: Kind, **options: object) -> CrdReport:
    """Migrate; ``Kind`` has waited for the CRD to settle already."""
    return await Migration(cluster, Options(settle_s=0.0, **options)).migrate(kind.name)  # type: ignore[arg-type]


async def create(kind: Kind, count: int, **spec: object) -> None:
    """Objects by one applier and one updater each, at v1alpha1."""
    for number in range(count):
        await kind.apply(kind.manifest("v1alpha1", f"w{number}", spec={"size": number} | spec), "alice")
        await kind.merge("v1alpha1", f"w{number}", {"spec": {"color": "red"}}, "editor")


async def test_one_write_per_object_and_lists_as_pages(kind: Kind, cluster: HttpCluster) -> None:
    """More writes than objects double the load of an upgrade; a second run that writes anything never ends."""
    await create(kind, 25)
    await kind.change(kind.document(storage="v1beta1", keyed_conditions=False))
    report = await migrate(cluster, kind, page_size=10)
    assert (report.requests.list, report.requests.read, report.requests.write) == (3, 0, 25)
    assert (report.objects.listed, report.objects.rewritten, report.objects.translated) == (25, 25, 25)
    versions = {key: found["metadata"]["resourceVersion"] for key, found in (await live(kind)).items()}
    again = await migrate(cluster, kind, page_size=10, ignore_mark=True)
    assert (again.requests.list, again.requests.write, again.objects.current) == (3, 25, 25)
    assert MigrationReport((again,)).result is MigrationResult.SUCCEEDED
    assert versions == {key: found["metadata"]["resourceVersion"] for key, found in (await live(kind)).items()}


async def live(kind: Kind, version: str = "v1beta1") -> dict[str, Document]:
    """All objects as served."""
    items = (await kind.cluster.list_page(kind.at(version))).json()["items"]
    return {item["metadata"]["name"]: item for item in items}


async def test_two_writes_only_where_a_write_would_persist_a_default(kind: Kind, cluster: HttpCluster) -> None:
    """One write would leave the default in restow's name, and the object's generation one higher."""
    await create(kind, 5)
    before = await kind.stored()
    await kind.change(kind.document(storage="v1beta1", keyed_conditions=False, default=True))
    report = await migrate(cluster, kind)
    assert report.requests.write == 10 and report.objects.repaired == 0
    for key, found in (await kind.stored()).items():
        assert found["spec"]["policy"] == "Retain"
        assert found["metadata"]["generation"] == before[key]["metadata"]["generation"]
        assert owners(found) == owners(before[key])


async def test_a_default_in_the_status_costs_no_second_write(kind: Kind, cluster: HttpCluster) -> None:
    """A write of the object itself cannot own a field of the status, so one write is enough."""
    await create(kind, 3)
    await kind.apply(kind.manifest("v1alpha1", "w0", status={"conditions": []}), "ctl", subresource="status")
    before = await kind.stored()
    document = kind.document(storage="v1beta1", keyed_conditions=False)
    status = document["spec"]["versions"][1]["schema"]["openAPIV3Schema"]["properties"]["status"]
    status["properties"]["phase"]["default"] = "Pending"
    await kind.change(document)
    report = await migrate(cluster, kind)
    assert report.requests.write == 3 and report.objects.repaired == 0 and report.pruned
    for key, found in (await kind.stored()).items():
        assert owners(found) == owners(before[key])
        assert found["metadata"]["generation"] == before[key]["metadata"]["generation"]


async def test_what_clients_of_a_served_version_wrote_since_is_theirs(kind: Kind, cluster: HttpCluster) -> None:
    """Translating their entries at every run would be a quarrel without end; they count as remaining instead."""
    await create(kind, 4)
    await kind.change(kind.document(storage="v1beta1", keyed_conditions=False))
    await migrate(cluster, kind)
    await kind.apply(kind.manifest("v1alpha1", "w1", spec={"size": 11}), "alice")
    again = await migrate(cluster, kind)
    assert again.requests.write == 0
    assert MigrationReport((again,)).result is MigrationResult.SUCCEEDED
    assert (await plan(cluster, await read_crd(cluster, kind.name), Options())).remaining == 1
    anyway = await migrate(cluster, kind, ignore_mark=True)
    assert anyway.objects.translated == 1
    await kind.apply(kind.manifest("v1alpha1", "w1", spec={"size": 12}), "alice")
    await kind.change(kind.document(storage="v1beta1", keyed_conditions=False, served=("v1beta1",)))
    due = await migrate(cluster, kind)
    assert due.objects.translated == 1, "unserving the version makes the phase due again"
    assert entry_versions((await kind.stored())["default/w1"]) == {"v1beta1"}


async def test_refused_objects_are_reported_and_the_rest_is_done(kind: Kind, cluster: HttpCluster) -> None:
    """One object that a policy or a rule refuses must neither end the run nor be forgotten in the prune."""
    await create(kind, 8)
    await kind.merge("v1alpha1", "w2", {"metadata": {"labels": {"frozen": "yes"}}}, "editor")
    grown = kind.document(storage="v1beta1", keyed_conditions=False)
    rules = [{"rule": "self.size != 5 || self.size > oldSelf.size", "message": "size may only grow"}]
    new = next(version for version in grown["spec"]["versions"] if version["name"] == "v1beta1")
    new["schema"]["openAPIV3Schema"]["properties"]["spec"]["x-kubernetes-validations"] = rules
    await kind.change(grown)
    async with frozen_objects(kind):
        report = await migrate(cluster, kind)
        why = {failure.name: failure for failure in report.failures}
        assert why.keys() == {"w2", "w5"}
        assert (why["w2"].namespace, why["w2"].reason) == ("default", "Invalid")
        assert "frozen objects are not to be changed" in why["w2"].message
        assert why["w5"].reason == "Invalid" and "size may only grow" in why["w5"].message
        assert not report.pruned and report.pruned_reason == "2 objects failed"
        assert MigrationReport((report,)).result is MigrationResult.FAILED
        assert report.objects.rewritten == 6
        stored = {key: found["apiVersion"].split("/")[1] for key, found in (await kind.stored()).items()}
        assert {key for key, version in stored.items() if version == "v1alpha1"} == {"default/w2", "default/w5"}
    del new["schema"]["openAPIV3Schema"]["properties"]["spec"]["x-kubernetes-validations"]
    await kind.change(grown)
    assert (await migrate(cluster, kind)).pruned
    assert {found["apiVersion"] for found in (await kind.stored()).values()} == {f"{kind.group}/v1beta1"}


@contextlib.asynccontextmanager
async def frozen_objects(kind: Kind):
    """A ValidatingAdmissionPolicy that refuses every update of objects with the label ``frozen``."""
    name = f"frozen-{kind.group}"
    policy = {
        "apiVersion": POLICIES.api_version,
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": name},
        "spec": {
            "failurePolicy": "Fail",
            "matchConstraints": {
                "resourceRules": [
                    {"apiGroups": [kind.group], "apiVersions": ["*"], "resources": ["*"], "operations": ["UPDATE"]}
                ]
            },
            "validations": [
                {
                    "expression": "!has(object.metadata.labels) || !('frozen' in object.metadata.labels)",
                    "message": "frozen objects are not to be changed",
                }
            ],
        },
    }
    binding = {
        "apiVersion": BINDINGS.api_version,
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": name},
        "spec": {"policyName": name, "validationActions": ["Deny"]},
    }
    await kind.cluster.create(POLICIES, json.dumps(policy).encode())
    await kind.cluster.create(BINDINGS, json.dumps(binding).encode())

    async def refuses() -> bool:
        rehearsal = {"dryRun": "All"}
        body = json.dumps({"spec": {"color": "blue"}}).encode()
        try:
            await kind.cluster.patch(
                kind.at("v1beta1"), "w2", body, "default", patch_type=PatchType.MERGE, params=rehearsal
            )
        except ApiError:
            return True
        return False

    async def admits() -> bool:
        return not await refuses()

    await until(refuses, "the policy does not take effect")
    try:
        yield
    finally:
        await kind.cluster.delete(BINDINGS, name)
        await kind.cluster.delete(POLICIES, name)
        await until(admits, "the policy stays in effect")


async def test_an_object_with_a_value_of_another_type_is_left_alone(kind: Kind, cluster: HttpCluster) -> None:
    """The server cannot type it at the new version, takes any write with success, and empties its managedFields."""
    await create(kind, 3)
    document = kind.document(storage="v1beta1", keyed_conditions=False)
    spec = document["spec"]["versions"][1]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    spec["properties"]["color"] = {"type": "integer"}
    await kind.merge("v1alpha1", "w1", {"spec": {"color": None}}, "editor")
    before = await kind.stored()
    await kind.change(document)
    report = await migrate(cluster, kind)
    assert not report.pruned and report.objects.rewritten == 1
    assert {failure.name: failure.reason for failure in report.failures} == {
        "w0": "OwnershipWouldBeLost",
        "w2": "OwnershipWouldBeLost",
    }
    assert ".spec.color" in report.failures[0].message
    after = await kind.stored()
    assert after["default/w0"] == before["default/w0"]
    assert owners(after["default/w1"]) == owners(before["default/w1"])
    await kind.merge("v1beta1", "w0", {"spec": {"color": None}}, "editor")
    await kind.merge("v1beta1", "w2", {"spec": {"color": None}}, "editor")
    assert (await migrate(cluster, kind)).pruned


async def test_objects_under_finalizers_and_being_deleted_are_migrated(kind: Kind, cluster: HttpCluster) -> None:
    """They stay in etcd for as long as their finalizers want; left at the old version they could never be read."""
    await create(kind, 3)
    hold = {"metadata": {"finalizers": ["example.com/hold"]}}
    for name in ("w0", "w1"):
        await kind.merge("v1alpha1", name, hold, "editor")
    await kind.delete("v1alpha1", "w1")
    await kind.change(kind.document(storage="v1beta1"))
    report = await migrate(cluster, kind)
    assert report.pruned and report.objects.failed == 0
    stored = await kind.stored()
    assert {found["apiVersion"] for found in stored.values()} == {f"{kind.group}/v1beta1"}
    assert "deletionTimestamp" in stored["default/w1"]["metadata"]


async def test_writers_at_work_lose_nothing(kind: Kind, cluster: HttpCluster) -> None:
    """A migration runs in a cluster that lives: a write of others that it overwrote would be a lost update."""
    seed = 20261121
    print(f"seed {seed}")
    chance = random.Random(seed)
    await create(kind, 120)
    await kind.change(kind.document(storage="v1beta1", keyed_conditions=False))
    wrote: dict[str, int] = {}
    deleted: set[str] = set()
    over = asyncio.Event()

    async def applier(version: str, manager: str, names: list[str]) -> None:
        while not over.is_set():
            name, size = chance.choice(names), chance.randrange(1000)
            await kind.apply(kind.manifest(version, name, spec={"size": size}), manager, force=True)
            wrote[name] = size

    async def updater(names: list[str]) -> None:
        while not over.is_set():
            name, size = chance.choice(names), chance.randrange(1000)
            await kind.merge("v1beta1", name, {"spec": {"size": size}}, "editor")
            wrote[name] = size

    async def creator() -> None:
        for number in range(10_000):
            if over.is_set():
                return
            await kind.apply(kind.manifest("v1alpha1", f"new{number}", spec={"size": number}), "alice")
            wrote[f"new{number}"] = number

    async def deleter(names: list[str]) -> None:
        for name in names:
            if over.is_set():
                return
            with contextlib.suppress(NotFound):
                await kind.delete("v1beta1", name)
            deleted.add(name)

    async with asyncio.TaskGroup() as group:
        names = [f"w{number}" for number in range(120)]
        group.create_task(applier("v1alpha1", "alice", names[:30]))
        group.create_task(applier("v1beta1", "carol", names[30:60]))
        group.create_task(updater(names[60:90]))
        group.create_task(creator())
        group.create_task(deleter(names[90:]))
        report = await migrate(cluster, kind, concurrency=4, page_size=25)
        over.set()
    assert report.pruned, report.to_json()
    stored = await kind.stored()
    assert {found["apiVersion"] for found in stored.values()} == {f"{kind.group}/v1beta1"}
    for name, size in wrote.items():
        assert stored[f"default/{name}"]["spec"]["size"] == size, name
    assert not deleted & {key.split("/")[1] for key in stored}
    for key, found in stored.items():
        managers = {manager for manager, _operation, _subresource in owners(found)}
        assert FIELD_MANAGER not in managers, key
        if not key.startswith("default/new"):
            assert "/f:spec/f:color" in owners(found)["editor", "Update", ""], key


@pytest.mark.parametrize(
    "partial", [{"namespace": "default"}, {"selector": "color=red"}], ids=["namespace", "selector"]
)
async def test_a_part_of_the_objects_never_prunes(kind: Kind, cluster: HttpCluster, partial: dict[str, str]) -> None:
    """storedVersions speaks of all objects; pruning after looking at some loses the others."""
    await kind.namespace("other")
    for namespace, color in (("default", "red"), ("other", "blue")):
        metadata = {"labels": {"color": color}}
        await kind.apply(kind.manifest("v1alpha1", "w", namespace, spec={"size": 1}, metadata=metadata), "alice")
    await kind.change(kind.document(storage="v1beta1"))
    report = await migrate(cluster, kind, **partial)
    assert (report.objects.listed, report.pruned) == (1, False)
    stored = await kind.stored()
    assert stored["default/w"]["apiVersion"].endswith("v1beta1") and stored["other/w"]["apiVersion"].endswith(
        "v1alpha1"
    )
    assert set(await kind.stored_versions()) == {"v1alpha1", "v1beta1"}


async def test_a_dry_run_stores_nothing_and_finds_refusals(kind: Kind, cluster: HttpCluster) -> None:
    """A rehearsal that writes is none, and one that misses what would be refused is not worth much."""
    await create(kind, 4)
    await kind.merge("v1alpha1", "w2", {"metadata": {"labels": {"frozen": "yes"}}}, "editor")
    await kind.change(kind.document(storage="v1beta1", default=True))
    async with frozen_objects(kind):
        before = await kind.stored()
        report = await migrate(cluster, kind, dry_run=True)
        assert [failure.name for failure in report.failures] == ["w2"]
        assert (report.objects.rewritten, report.objects.current) == (3, 0)
        assert await kind.stored() == before
    report = await migrate(cluster, kind, dry_run=True)
    assert (report.objects.rewritten, report.objects.translated) == (4, 4)
    assert MigrationReport((report,), dry_run=True).result is MigrationResult.DRY_RUN and not report.pruned
    assert set(await kind.stored_versions()) == {"v1alpha1", "v1beta1"}


@pytest.mark.parametrize("phase", list(Phase))
async def test_each_phase_can_be_switched_off(kind: Kind, cluster: HttpCluster, phase: Phase) -> None:
    """Who takes care of a phase by other means must not find it done, or half done."""
    await create(kind, 3)
    await kind.merge("v1alpha1", "w0", {"metadata": {"managedFields": [{}]}}, "anyone")
    before = await kind.stored()
    await kind.change(kind.document(storage="v1beta1", keyed_conditions=False))
    report = await migrate(cluster, kind, skip=frozenset({phase}))
    stored = await kind.stored()
    versions = {key: found["apiVersion"].split("/")[1] for key, found in stored.items()}
    if phase is Phase.STORAGE:
        assert versions["default/w0"] == "v1alpha1", "nothing was due of it but a re-encode"
        assert not report.pruned
    else:
        assert set(versions.values()) == {"v1beta1"}
    if phase is Phase.MANAGED_FIELDS:
        fields = {key: found["metadata"].get("managedFields") for key, found in stored.items()}
        assert fields == {key: found["metadata"].get("managedFields") for key, found in before.items()}
    else:
        assert {version for found in stored.values() for version in entry_versions(found)} == {"v1beta1"}
    assert report.pruned == (phase is Phase.MANAGED_FIELDS)


async def test_cluster_scoped_objects_are_migrated(cluster: HttpCluster, kind: Kind, group: str) -> None:
    """Their paths have no namespace; a tool tried on namespaced kinds only fails on the first of them."""
    scoped = Kind(cluster, kind.etcd, f"scoped.{group}")
    resource = Resource(scoped.group, "v1alpha1", "widgets", namespaced=False)
    document = scoped.document(storage="v1alpha1", versions=("v1alpha1",), namespaced=False)
    scoped.at = lambda version: Resource(scoped.group, version, "widgets", namespaced=False)  # type: ignore[method-assign]
    await scoped.create(document)
    body = {"apiVersion": resource.api_version, "kind": "Widget", "metadata": {"name": "w"}, "spec": {"size": 1}}
    await cluster.create(resource, json.dumps(body).encode(), params={"fieldManager": "alice"})
    await scoped.change(scoped.document(storage="v1beta1", namespaced=False))
    refused = await migrate(cluster, scoped, namespace="default")
    assert "cluster-scoped" in refused.refused and refused.requests.write == 0
    report = await migrate(cluster, scoped)
    assert report.pruned and report.objects.translated == 1
    stored = await kind.etcd.stored_object(scoped.group, "widgets", None, "w")
    assert stored["apiVersion"] == f"{scoped.group}/v1beta1" and entry_versions(stored) == {"v1beta1"}
    await scoped.remove()
