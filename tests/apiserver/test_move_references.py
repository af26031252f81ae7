"""Moving references on a real API server: what is written, who owns it afterwards, and what is left alone."""

from __future__ import annotations

import json
from typing import Any

import pytest

from restow.controlplane.plane import ControlPlane
from restow.kube.client import HttpCluster
from restow.kube.cluster import PatchType
from restow.kube.resources import CONFIG_MAPS, Resource
from restow.migrator import MigrationRefused, read_crd
from restow.migrator.references.move import MoveReport, move_references, undo_releases
from restow.migrator.references.readers.helm import StoredRelease
from restow.migrator.references.reference import ReferenceKind
from tests.apiserver.kind import Kind
from tests.apiserver.others import SECRETS, Others, a_release
from tests.apiserver.proxy import Proxy, Seen
from tests.apiserver.webhook import ConvertedKind, Webhook
from tests.restow.commandline import Cli

OLD, NEW = "v1alpha1", "v1beta1"
OWNERS = ReferenceKind.OWNER_REFERENCES


@pytest.fixture
async def old(old: Kind) -> Kind:
    """A migrated CRD that still serves its old version, and one widget."""
    await old.apply(old.manifest(NEW, "w", spec={"size": 1}), "alice")
    return old


async def reference(kind: Kind, **more: Any) -> dict[str, Any]:
    """An ownerReference to the widget at the old version."""
    uid = (await kind.get(NEW, "w"))["metadata"]["uid"]
    return {"apiVersion": f"{kind.group}/{OLD}", "kind": "Widget", "name": "w", "uid": uid} | more


async def move(cluster: HttpCluster, kind: Kind, target: str = NEW, *, dry_run: bool = False) -> MoveReport:
    """Move all that can be moved."""
    crd = await read_crd(kind.cluster, kind.name)
    return await move_references(cluster, crd, OLD, target, dry_run=dry_run)


async def state(cluster: HttpCluster, resource: Resource, name: str) -> dict[str, Any]:
    """An object, without what every write changes."""
    found: dict[str, Any] = (await cluster.get(resource, name, "default")).json()
    del found["metadata"]["resourceVersion"]
    return found


def owners(found: dict[str, Any]) -> list[tuple[str, ...]]:
    """Who owns which fields, times left out."""
    entries = found["metadata"].get("managedFields", [])
    return sorted(
        (
            *(each.get(name, "") for name in ("manager", "operation", "apiVersion", "subresource")),
            json.dumps(each["fieldsV1"], sort_keys=True),
        )
        for each in entries
    )


async def applied(cluster: HttpCluster, name: str, references: list[dict[str, Any]]) -> None:
    """A ConfigMap by server-side apply."""
    metadata = {"name": name, "ownerReferences": references}
    body = json.dumps({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"a": "b"}}).encode()
    params = {"fieldManager": "gitops", "force": "true"}
    await cluster.patch(CONFIG_MAPS, name, body, "default", patch_type=PatchType.APPLY, params=params)


async def test_references_are_moved_and_their_owners_stay(old: Kind, cluster: HttpCluster, others: Others) -> None:
    """An owner that loses its field meets a conflict at its next apply, weeks later."""
    group = f"o.{old.group}"
    text = {"type": "string"}
    pair = {"type": "object", "properties": {"apiVersion": text, "kind": text, "name": text}}
    spec = {"type": "object", "properties": {"refs": {"type": "array", "items": pair}, "base": pair}}
    clusters = await others.kind(f"clusters.{group}", "Cluster", spec)
    widget = {"apiVersion": f"{old.group}/{OLD}", "kind": "Widget", "name": "w"}
    await others.made(clusters, "c", "Cluster", spec={"refs": [{"name": "x"}, widget], "base": widget})
    await others.made(CONFIG_MAPS, "updated", metadata={"ownerReferences": [await reference(old)]})
    await others.made(CONFIG_MAPS, "applied")
    other = {"apiVersion": "v1", "kind": "ConfigMap", "name": "updated", "uid": "1-2"}
    await applied(cluster, "applied", [other, await reference(old, controller=True)])
    named = [(CONFIG_MAPS, "updated"), (CONFIG_MAPS, "applied"), (clusters, "c")]
    before = {name: await state(cluster, resource, name) for resource, name in named}

    dry = await move(cluster, old, dry_run=True)
    assert (dry.result, dict(dry.moved), dry.writes) == ("DryRun", {OWNERS: 2, ReferenceKind.TYPED: 2}, 0)
    assert {name: await state(cluster, resource, name) for resource, name in named} == before

    report = await move(cluster, old)
    assert (report.result, dict(report.moved), report.not_moved) == (
        "Succeeded",
        {OWNERS: 2, ReferenceKind.TYPED: 2},
        [],
    )
    for resource, name in named:
        found = await state(cluster, resource, name)
        assert owners(found) == owners(before[name]), name
        moved = json.dumps(before[name]).replace(f'"{old.group}/{OLD}"', f'"{old.group}/{NEW}"')
        for each in (found, wanted := json.loads(moved)):
            del each["metadata"]["managedFields"]
            each["metadata"].pop("generation", None)
        assert found == wanted, name
    await applied(cluster, "applied", [other, await reference(old, controller=True, apiVersion=f"{old.group}/{NEW}")])

    again = await move(cluster, old)
    assert (again.moved.total(), again.writes) == (0, 0)


async def test_what_names_a_kind_is_moved_if_its_reader_sees_the_same_fields(
    old: Kind, cluster: HttpCluster, others: Others
) -> None:
    """A rule that reads fields of the old version would find none of them in the new one, and would let all pass."""
    policies = await others.kind(f"policies.o.{old.group}", "Policy")
    spec = {
        "kinds": ["Pod", f"{old.group}/{OLD}/Widget/status"],
        "parent": {"apiVersion": f"{old.group}/{OLD}", "resource": "widgets"},
        "sync": [{"group": old.group, "version": OLD, "kind": "Widget"}],
    }
    document = {"apiVersion": policies.api_version, "kind": "Policy", "metadata": {"name": "p"}, "spec": spec}
    params = {"fieldManager": "gitops"}
    body = json.dumps(document).encode()
    await cluster.patch(policies, "p", body, "default", patch_type=PatchType.APPLY, params=params)
    before = await state(cluster, policies, "p")
    kept = await move(cluster, old)
    assert (kept.moved.total(), kept.skipped[ReferenceKind.TYPED], kept.writes) == (0, 3, 0)
    assert all("reads objects with the fields of the version" in each.reason for each in kept.not_moved)

    await old.change(old.document(storage=NEW, keyed_conditions=False))
    report = await move(cluster, old)
    assert (report.result, report.moved[ReferenceKind.TYPED]) == ("Succeeded", 3), report.not_moved
    found = await state(cluster, policies, "p")
    assert found["spec"] == json.loads(json.dumps(spec).replace(OLD, NEW))
    assert owners(found) == owners(before)


@pytest.mark.parametrize("has_status", [True, False], ids=["subresource", "field"])
async def test_references_in_a_status_are_moved(
    has_status: bool, old: Kind, cluster: HttpCluster, others: Others
) -> None:
    """API servers drop a status from a write of the object: a report that counts it as moved would be false."""
    resource = await others.kind(f"claims.o.{old.group}", "Claim", subresources={"status": {}} if has_status else None)
    widget = {"apiVersion": f"{old.group}/{OLD}", "kind": "Widget", "name": "w"}
    await others.made(resource, "c", "Claim", spec={"ref": widget}, status={"bound": widget, "all": [widget]})
    status = json.dumps(
        {
            "apiVersion": resource.api_version,
            "kind": "Claim",
            "metadata": {"name": "c"},
            "status": {"bound": widget, "all": [widget]},
        }
    ).encode()
    params = {"fieldManager": "binder", "force": "true"}
    await cluster.patch(
        resource,
        "c",
        status,
        "default",
        patch_type=PatchType.APPLY,
        subresource="status" if has_status else None,
        params=params,
    )
    before = await state(cluster, resource, "c")
    assert before["status"]["bound"] == widget, "the test proves nothing"

    dry = await move(cluster, old, dry_run=True)
    assert (dry.result, dry.moved[ReferenceKind.TYPED], dry.writes) == ("DryRun", 3, 0), dry.not_moved
    assert await state(cluster, resource, "c") == before
    report = await move(cluster, old)
    assert (report.result, report.moved[ReferenceKind.TYPED]) == ("Succeeded", 3), report.not_moved
    found = await state(cluster, resource, "c")
    moved = widget | {"apiVersion": f"{old.group}/{NEW}"}
    assert (found["spec"]["ref"], found["status"]) == (moved, {"bound": moved, "all": [moved]})
    assert owners(found) == owners(before)
    again = await move(cluster, old)
    assert (again.moved.total(), again.writes) == (0, 0)


async def test_what_is_not_the_crds_is_left_alone(old: Kind, cluster: HttpCluster, others: Others) -> None:
    """A reference to another cluster's object, or to one that is gone, must not be made valid by its version."""
    await others.made(CONFIG_MAPS, "stranger", metadata={"ownerReferences": [await reference(old, uid="1-2-3")]})
    await others.made(CONFIG_MAPS, "orphan", metadata={"ownerReferences": [await reference(old, name="gone")]})
    before = [await state(cluster, CONFIG_MAPS, name) for name in ("stranger", "orphan")]
    report = await move(cluster, old)
    assert (report.moved.total(), report.skipped[OWNERS], report.writes) == (0, 2, 0)
    reasons = {each.name: each.reason for each in report.not_moved}
    assert reasons["stranger"] == "its uid is not that of default/w"
    assert reasons["orphan"].startswith("its owner default/gone does not exist")
    assert [await state(cluster, CONFIG_MAPS, name) for name in ("stranger", "orphan")] == before


async def test_a_write_in_between_is_decided_again(
    old: Kind, cluster: HttpCluster, through_proxy: HttpCluster, proxy: Proxy, others: Others
) -> None:
    """A client that adds another reference meanwhile must neither lose it, nor shift the one that is written."""
    orphan = await reference(old, name="gone", uid="3-4")
    await others.made(CONFIG_MAPS, "busy", metadata={"ownerReferences": [await reference(old), orphan]})
    first = {"apiVersion": "v1", "kind": "ConfigMap", "name": "busy", "uid": "1-2"}

    async def interferes(seen: Seen) -> None:
        nonlocal done
        if seen.method == "PATCH" and not done:
            done = True
            body = json.dumps({"metadata": {"ownerReferences": [first, await reference(old), orphan]}}).encode()
            await cluster.patch(CONFIG_MAPS, "busy", body, "default", patch_type=PatchType.MERGE)

    done = False
    proxy.hook = interferes
    report = await move(through_proxy, old)
    assert (report.result, report.moved[OWNERS], report.skipped[OWNERS]) == ("Succeeded", 1, 1)
    found = await state(cluster, CONFIG_MAPS, "busy")
    moved = await reference(old, apiVersion=f"{old.group}/{NEW}")
    assert found["metadata"]["ownerReferences"] == [first, moved, orphan]


async def test_a_target_that_is_not_served_is_refused(old: Kind, cluster: HttpCluster) -> None:
    """References at a version that is not served are what this is made to prevent."""
    for target in (OLD, "v7"):
        with pytest.raises(
            MigrationRefused, match=f"cannot be written at {target}: its other served versions are {NEW}"
        ):
            await move(cluster, old, target)


async def test_the_command_moves(old: Kind, cli: Cli, others: Others) -> None:
    """The exit code tells a pipeline whether something is left."""
    await others.made(CONFIG_MAPS, "mine", metadata={"ownerReferences": [await reference(old)]})
    moves = ("references", old.name, "--version", OLD, "--move", NEW, "--kinds", "owner-references")
    tried = await cli(*moves, "--dry-run", "-o", "json")
    assert (tried.code, tried.json["moves"][0]["result"], tried.json["moves"][0]["writes"]) == (0, "DryRun", 0)
    ran = await cli(*moves)
    assert ran.code == 0, ran.err
    assert dict(zip(*ran.rows, strict=True))["MOVED"] == "1"
    await others.made(CONFIG_MAPS, "bad", metadata={"ownerReferences": [await reference(old, uid="7")]})
    left = await cli(*moves)
    assert left.code == 3
    assert "left: configmaps default/bad /metadata/ownerReferences/0: its uid is not that of default/w" in left.err
    refused = await cli("references", old.name, "--version", OLD, "--move", NEW, "--kinds", "flux")
    assert "--move can write these kinds only: helm, owner-references, typed" in refused.err


async def test_a_release_is_converted_as_the_webhook_converts(
    kind: Kind, cluster: HttpCluster, control_plane: ControlPlane, webhook: Webhook, others: Others
) -> None:
    """An object whose apiVersion alone is changed loses the fields that have another name at the new version."""
    converted = ConvertedKind(cluster, control_plane.etcd, f"converted.{kind.group}", webhook)
    await converted.create(converted.document(storage="v2", versions=("v1", "v2")))
    try:
        widget = f"apiVersion: {converted.group}/v1\nkind: Widget\nmetadata:\n  name: w\nspec:\n  host: a.b\n"
        await others.made(SECRETS, "release", **a_release(f"---\n# Source: w.yaml\n{widget}"))
        crd = await read_crd(cluster, converted.name)
        webhook.fails = lambda _found, _desired: True
        failed = await move_references(cluster, crd, "v1", "v2", kinds=[ReferenceKind.HELM])
        assert (failed.result, failed.writes) == ("Failed", 0), "what cannot be converted must not be written"
        webhook.fails = lambda _found, _desired: False
        report = await move_references(cluster, crd, "v1", "v2", kinds=[ReferenceKind.HELM])
        assert (report.result, report.moved.total()) == ("Succeeded", 1), report.not_moved
        (manifest,) = StoredRelease((await cluster.get(SECRETS, "release", "default")).json()).texts
        assert manifest.startswith(f"---\n# Source: w.yaml\napiVersion: {converted.group}/v2\nkind: Widget\n")
        assert "address: a.b" in manifest
        assert "host" not in manifest
        (undone,) = (await undo_releases(cluster, crd, "v1")).undone
        assert undone == f"default/restow-backup.v1.{converted.name}.release"
        assert StoredRelease((await cluster.get(SECRETS, "release", "default")).json()).texts[0].endswith(widget)
    finally:
        await converted.remove()
