"""What a migration must leave behind: every object at the storage version, every owner with exactly its fields."""

from __future__ import annotations

import asyncio
import json
import subprocess
from pathlib import Path

import pytest

from restow.controlplane.plane import ControlPlane
from restow.kube.client import HttpCluster
from restow.kube.errors import Conflict, ServerError
from restow.migrator import CrdReport, ManagedFields, Migration, Options, Phase, Scope, plan, read_crd
from tests.apiserver.kind import Document, Kind, entry_versions, owners, until, without_bookkeeping


async def migrate(cluster: HttpCluster, kind: Kind, **options: object) -> CrdReport:
    """Migrate one kind; ``Kind`` has waited for the CRD to settle already."""
    return await Migration(cluster, Options(settle_s=0.0, **options)).migrate(kind.name)  # type: ignore[arg-type]


async def populate(kind: Kind, count: int = 12) -> dict[str, Document]:
    """Objects in two namespaces by four managers: two appliers, a status applier, and a plain updater."""
    await kind.namespace("other")
    for number in range(count):
        name, namespace = f"w{number}", "other" if number % 3 == 0 else "default"
        await kind.apply(kind.manifest("v1alpha1", name, namespace, spec=ALICE), "alice")
        await kind.apply(kind.manifest("v1alpha1", name, namespace, spec=BOB), "bob")
        await kind.apply(kind.manifest("v1alpha1", name, namespace, status=STATUS), "ctl", subresource="status")
        change = {"metadata": {"labels": {"edited": "yes"}}, "spec": {"notes": ["one", "two"]}}
        await kind.merge("v1alpha1", name, change, "editor", namespace)
    return await kind.stored()


ALICE = {"size": 3, "parts": [{"name": "a", "count": 1}]}
BOB = {"color": "red", "parts": [{"name": "b", "count": 2}]}
STATUS = {"phase": "Ready", "conditions": [{"type": "Ready", "status": "True"}, {"type": "Synced", "status": "False"}]}


@pytest.mark.parametrize("default", [False, True], ids=["no new default", "new default"])
async def test_everything_is_stored_and_owned_at_the_storage_version(
    kind: Kind, cluster: HttpCluster, default: bool
) -> None:
    """An object left at the old version, an entry of it, or a lost or changed owner would show in etcd."""
    before = await populate(kind)
    await kind.change(kind.document(storage="v1beta1", default=default, keyed_conditions=False))
    report = await migrate(cluster, kind)
    after = await kind.stored()
    assert report.pruned and not report.failures, report.to_json()
    assert await kind.stored_versions() == ["v1beta1"]
    assert after.keys() == before.keys()
    for key, found in after.items():
        assert found["apiVersion"] == f"{kind.group}/v1beta1"
        assert entry_versions(found) == {"v1beta1"}
        assert owners(found) == owners(before[key])
        expected = without_bookkeeping(before[key])
        if default:
            expected["spec"]["policy"] = "Retain"
        assert without_bookkeeping(found) == expected  # generation among it


async def test_a_list_that_became_keyed_is_owned_item_by_item(kind: Kind, cluster: HttpCluster) -> None:
    """Whoever owned the whole list would otherwise own nothing of its items, and could never remove one."""
    await populate(kind, 3)
    await kind.change(kind.document(storage="v1beta1"))
    await migrate(cluster, kind)
    found = (await kind.stored())["default/w1"]
    status = owners(found)["ctl", "Apply", "status"]
    assert '/f:status/f:conditions/k:{"type":"Ready"}/f:status' in status
    await kind.change(kind.document(storage="v1beta1", versions=("v1beta1",)))
    one = {"phase": "Ready", "conditions": [{"type": "Ready", "status": "True"}]}
    applied = await kind.apply(kind.manifest("v1beta1", "w1", status=one), "ctl", subresource="status")
    assert applied["status"]["conditions"] == one["conditions"]


@pytest.mark.parametrize("default", [False, True], ids=["no new default", "new default"])
async def test_the_old_version_can_be_removed_and_every_manager_applies_on(
    kind: Kind, cluster: HttpCluster, default: bool
) -> None:
    """After the removal an apply would fail with 500, or conflict, if an entry was missed or an owner lost."""
    before = await populate(kind, 4)
    await kind.change(kind.document(storage="v1beta1", default=default))
    await migrate(cluster, kind)
    await kind.change(kind.document(storage="v1beta1", versions=("v1beta1",), default=default))
    for key in before:
        namespace, name = key.split("/")
        version = (await kind.get("v1beta1", name, namespace))["metadata"]["resourceVersion"]
        for spec, manager in ((ALICE, "alice"), (BOB, "bob")):
            applied = await kind.apply(kind.manifest("v1beta1", name, namespace, spec=spec), manager)
            assert applied["metadata"]["resourceVersion"] == version, f"{manager} changed {key}"
        smaller = {"size": 3}
        applied = await kind.apply(kind.manifest("v1beta1", name, namespace, spec=smaller), "alice")
        assert [part["name"] for part in applied["spec"]["parts"]] == ["b"]
        smaller = {"parts": BOB["parts"]}
        applied = await kind.apply(kind.manifest("v1beta1", name, namespace, spec=smaller), "bob")
        assert "color" not in applied["spec"]
        if default:
            taken = ALICE | {"policy": "Delete"}
            applied = await kind.apply(kind.manifest("v1beta1", name, namespace, spec=taken), "alice")
            assert applied["spec"]["policy"] == "Delete"


async def test_while_the_old_version_is_served_its_appliers_go_on(kind: Kind, cluster: HttpCluster) -> None:
    """An applier at the old version must meet no conflict, change no owner, and be able to drop a field."""
    before = await populate(kind, 3)
    await kind.change(kind.document(storage="v1beta1", keyed_conditions=False))
    await migrate(cluster, kind)
    for key in before:
        namespace, name = key.split("/")
        for spec, manager in ((ALICE, "alice"), (BOB, "bob")):
            await kind.apply(kind.manifest("v1alpha1", name, namespace, spec=spec), manager)
        assert owners((await kind.stored())[key]) == owners(before[key])
        applied = await kind.apply(kind.manifest("v1alpha1", name, namespace, spec={"size": 3}), "alice")
        assert [part["name"] for part in applied["spec"]["parts"]] == ["b"]


async def test_client_side_apply_at_the_old_version_keeps_managed_fields(
    kind: Kind, cluster: HttpCluster, control_plane: ControlPlane, kubeconfig: Path, tmp_path: Path
) -> None:
    """kubectl apply without --server-side emptied managedFields where an entry could not be converted."""
    from restow.controlplane.binaries import find_binaries

    kubectl = (await find_binaries(("kubectl",)))["kubectl"]
    manifest = tmp_path / "widget.json"
    manifest.write_text(json.dumps(kind.manifest("v1alpha1", "byhand", spec={"size": 1, "color": "blue"})))
    command = [
        str(kubectl),
        "--kubeconfig",
        str(kubeconfig),
        "--cache-dir",
        str(tmp_path / "cache"),
        "apply",
        "-f",
        str(manifest),
    ]

    async def client_side_apply() -> bool:
        done = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, check=False)
        return done.returncode == 0

    await until(client_side_apply, "kubectl apply did not get through")
    await kind.apply(kind.manifest("v1alpha1", "byhand", spec=BOB | {"color": "blue"}), "bob")
    await kind.change(kind.document(storage="v1beta1", default=True))
    await migrate(cluster, kind)
    manifest.write_text(json.dumps(kind.manifest("v1alpha1", "byhand", spec={"size": 2, "color": "blue"})))
    await until(client_side_apply, "kubectl apply did not get through")
    found = await kind.get("v1beta1", "byhand")
    assert found["spec"]["size"] == 2
    assert {manager for manager, _operation, _sub in owners(found)} == {"bob", "kubectl-client-side-apply"}


async def test_objects_without_managed_fields_stay_without(kind: Kind, cluster: HttpCluster) -> None:
    """An apply would begin to track them under before-first-apply, and their next applier would meet conflicts."""
    await kind.apply(kind.manifest("v1alpha1", "bare", spec=ALICE), "alice")
    await kind.merge("v1alpha1", "bare", {"metadata": {"managedFields": [{}]}}, "anyone")
    for default in (False, True):
        await kind.change(kind.document(storage="v1alpha1"))
        await kind.change(kind.document(storage="v1beta1", default=default))
        report = await migrate(cluster, kind)
        assert report.objects.failed == 0
        found = (await kind.stored())["default/bare"]
        assert found["apiVersion"] == f"{kind.group}/v1beta1"
        assert "managedFields" not in found["metadata"]
        assert found["metadata"]["generation"] == 1


async def test_a_removed_version_is_translated_too(kind: Kind, cluster: HttpCluster) -> None:
    """Clusters that lost the version from the CRD before the clean-up answer 500 to every apply; that must heal."""
    before = await populate(kind, 3)
    await kind.change(kind.document(storage="v1beta1", keyed_conditions=False))
    report = await migrate(cluster, kind, skip=frozenset({Phase.MANAGED_FIELDS}))
    assert report.pruned and report.objects.rewritten == len(before)
    assert {version for found in (await kind.stored()).values() for version in entry_versions(found)} == {"v1alpha1"}
    await kind.change(kind.document(storage="v1beta1", versions=("v1beta1",), keyed_conditions=False))
    report = await migrate(cluster, kind)
    assert report.objects.translated == len(before)
    for key, found in (await kind.stored()).items():
        assert owners(found) == owners(before[key])
        assert entry_versions(found) == {"v1beta1"}
        namespace, name = key.split("/")
        await kind.apply(kind.manifest("v1beta1", name, namespace, spec=ALICE), "alice")


async def test_an_updater_of_an_empty_list_does_not_come_to_own_its_items(kind: Kind, cluster: HttpCluster) -> None:
    """An applier could never again remove an item that the migration gave a second owner."""
    versions = ("v1alpha1", "v1alpha2", "v1beta1")
    await kind.change(kind.document(storage="v1alpha2", versions=versions[:2]))
    await kind.apply(kind.manifest("v1alpha2", "w", spec={"size": 1}), "alice")
    await kind.merge("v1alpha2", "w", {"status": {"conditions": []}}, "controller", subresource="status")
    await kind.change(kind.document(storage="v1beta1", versions=versions))
    conditions = [{"type": kind, "status": "True"} for kind in ("Ready", "Old")]
    manifest = kind.manifest("v1beta1", "w", status={"conditions": conditions})
    await kind.apply(manifest, "reporter", subresource="status")
    await migrate(cluster, kind, skip=frozenset({Phase.MANAGED_FIELDS}))
    await kind.change(kind.document(storage="v1beta1", versions=("v1beta1",)))
    report = await migrate(cluster, kind)
    assert report.objects.translated == 1
    assert owners((await kind.stored())["default/w"])["controller", "Update", "status"] == {
        "/f:status",
        "/f:status/f:conditions",
    }
    manifest = kind.manifest("v1beta1", "w", status={"conditions": conditions[:1]})
    applied = await kind.apply(manifest, "reporter", subresource="status")
    assert applied["status"]["conditions"] == conditions[:1]


async def test_entries_that_become_identical_are_merged(kind: Kind, cluster: HttpCluster) -> None:
    """The server keeps the last of two entries with one identity: a field of the first would lose its owner."""
    await kind.apply(kind.manifest("v1alpha1", "w", spec=ALICE), "alice")
    await kind.merge("v1alpha1", "w", {"spec": {"color": "red"}}, "editor")
    await kind.change(kind.document(storage="v1beta1"))
    await kind.merge("v1beta1", "w", {"spec": {"size": 9}}, "editor")
    before = await kind.get("v1beta1", "w")
    assert [entry["manager"] for entry in before["metadata"]["managedFields"]].count("editor") == 2
    await migrate(cluster, kind)
    found = owners((await kind.stored())["default/w"])
    assert found["editor", "Update", ""] >= {"/f:spec/f:color", "/f:spec/f:size"}


async def test_the_owner_of_a_field_still_defends_it(kind: Kind, cluster: HttpCluster) -> None:
    """A migration that emptied owners would let anybody take a field without a conflict."""
    await populate(kind, 1)
    await kind.change(kind.document(storage="v1beta1"))
    await migrate(cluster, kind)
    with pytest.raises(Conflict, match="alice"):
        await kind.apply(kind.manifest("v1beta1", "w0", "other", spec={"size": 4}), "mallory")


@pytest.mark.parametrize(
    "options", [{"scope": Scope.UNSERVED}, {"managed_fields": ManagedFields.KEEP}], ids=["scope unserved", "keep"]
)
async def test_entries_that_the_next_write_will_empty_are_told(
    kind: Kind, cluster: HttpCluster, options: dict[str, object], keeps_owners: bool
) -> None:
    """A run that succeeds and leaves such objects behind is the cause of a loss that somebody meets weeks later."""
    await populate(kind, 3)
    await kind.change(kind.document(storage="v1beta1", keyed_conditions=False, default=True))
    crd = await read_crd(cluster, kind.name)
    [foretold] = (await plan(cluster, crd, Options(**options), sample=None)).warnings  # type: ignore[arg-type]
    report = await migrate(cluster, kind, **options)
    assert report.warnings == [foretold]
    assert (
        foretold.startswith("12 managedFields entries of alice, bob, ctl, editor stay at")
        and ".spec.policy" in foretold
    )
    written = await kind.merge("v1beta1", "w1", {"metadata": {"labels": {"any": "write"}}}, "editor")
    assert keeps_owners or not owners(written), "the server is as it was found"
    await kind.change(kind.document(storage="v1beta1", keyed_conditions=False))
    assert not (await migrate(cluster, kind, **options)).warnings


CORRUPT = [
    {"fieldsType": ""},
    {"operation": "Patch"},
    {"fieldsV1": [1]},
    {"fieldsV1": {"f:spec": {"f:notes": 1}}},
]


@pytest.mark.parametrize("old", ["v1alpha1", "v1beta1"], ids=["to translate", "to store again only"])
@pytest.mark.parametrize("spoilt", CORRUPT, ids=["no type", "unknown operation", "no object", "no object below"])
async def test_a_corrupt_entry_costs_its_co_owners_nothing(
    kind: Kind, cluster: HttpCluster, spoilt: Document, old: str, keeps_owners: bool
) -> None:
    """A server empties managedFields for one such entry, or keeps it for good: nobody else may lose anything."""
    await kind.change(kind.document(storage="v1alpha1", keyed_conditions=False))
    for spec, manager in ((ALICE, "alice"), (BOB, "bob")):
        await kind.apply(kind.manifest(old, "w", spec=spec), manager)
    [stored] = (await kind.stored()).values()
    before = owners(stored)
    mallory = stored["metadata"]["managedFields"][0] | {"manager": "mallory"} | spoilt
    stored["metadata"]["managedFields"].insert(1, mallory)
    await kind.store(stored)
    await kind.change(kind.document(storage="v1beta1", keyed_conditions=False))
    rehearsed = await migrate(cluster, kind, dry_run=True)
    assert not rehearsed.failures
    report = await migrate(cluster, kind)
    if keeps_owners and not isinstance(spoilt.get("fieldsV1", {}), dict):
        [failure] = report.failures
        assert failure.reason == "OwnershipNotTranslated" and "create it again" in failure.message
        [after] = (await kind.stored()).values()
        assert after["metadata"]["managedFields"] == stored["metadata"]["managedFields"] and not report.pruned
        with pytest.raises(ServerError):
            await kind.apply(kind.manifest("v1beta1", "w", spec=ALICE), "alice")
        return
    assert report.pruned and not report.failures, report.to_json()
    assert report.stripped_owners == {("mallory", f"{kind.group}/{old}"): 1}
    [after] = (await kind.stored()).values()
    assert owners(after) == before and entry_versions(after) == {"v1beta1"}
