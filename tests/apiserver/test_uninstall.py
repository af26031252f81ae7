"""``restow uninstall``: what is in etcd before and after it, and what it refuses to remove.

The page is docs/howto/uninstall.md.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from restow.controlplane.plane import ControlPlane
from restow.controlplane.pytest_plugin import running_plane
from restow.conversion.certificates.ca.store import secret
from restow.conversion.certificates.wiring.crd import UNWIRED
from restow.conversion.certificates.wiring.fieldmanagers import FIELD_MANAGER
from restow.conversion.operate.declarations import Declarations
from restow.conversion.operate.records import Records
from restow.conversion.operate.revisions import RevisionRecord
from restow.conversion.stash.annotation import FORMAT
from restow.crds import conversionrules
from restow.crds.conversionrules import CONVERSION_RULES
from restow.kube import PatchType, Resource
from restow.kube.client import HttpCluster
from restow.kube.clock import micro_time
from restow.kube.errors import NotFound
from restow.kube.resources import CONFIG_MAPS, CRDS, LEASES, SECRETS
from restow.migrator import Migration, Migrator, Options, Shard
from restow.migrator.decide.proof import ANNOTATION as MARK
from restow.migrator.operate.policy import LABEL
from restow.migrator.references.move import BACKUP_LABEL, MOVED
from restow.migrator.requests.lostowners import ANNOTATION as LOST_OWNERS
from restow.migrator.requests.native import NATIVE_MIGRATIONS
from restow.operator.process import install_crds
from tests.apiserver.kind import Document, Kind, until
from tests.apiserver.test_proof import trim
from tests.restow.commandline import Cli, Ran

PAGE = Path(__file__).parents[2] / "docs/howto/uninstall.md"
HOOKS = Resource("admissionregistration.k8s.io", "v1", "mutatingwebhookconfigurations", namespaced=False)
URL = "https://127.0.0.1:9/convert"


@pytest.fixture(scope="module")
def control_plane() -> Iterator[ControlPlane]:
    """A control plane that no other test leaves anything in."""
    with running_plane(ControlPlane) as plane:
        yield plane


@pytest.fixture(scope="module")
def kubeconfig(control_plane: ControlPlane) -> Path:
    """Its administrator."""
    return control_plane.kubeconfig


async def traces(plane: ControlPlane) -> list[str]:
    """The keys of etcd with restow's domain in the key or the value; Events expire."""
    found = [
        key
        async for key, value in plane.etcd.prefix("/registry/")
        if b"restow.dev" in key.encode() + value and not key.startswith("/registry/events/")
    ]
    return [key for key in found if "demo.restow.dev" not in key]


def states(ran: Ran) -> dict[str, str]:
    """The state of each thing by its kind and name."""
    return {f"{each['kind']} {each['name']}": each["state"] for each in ran.json["left"]}


async def annotate(cluster: HttpCluster, resource: Resource, name: str, metadata: Document, **more: Any) -> None:
    """Write metadata as a person does."""
    await cluster.patch(resource, name, json.dumps({"metadata": metadata}).encode(), patch_type=PatchType.MERGE, **more)


async def lease(cluster: HttpCluster, name: str, age: timedelta) -> None:
    """A Lease that was renewed so long ago, and not released."""
    spec = {
        "holderIdentity": "pod-1",
        "leaseDurationSeconds": 15,
        "renewTime": micro_time(datetime.now(UTC) - age),
    }
    body = json.dumps({"metadata": {"name": name, "namespace": "default"}, "spec": spec}).encode()
    with suppress(NotFound):
        await cluster.delete(LEASES, name, "default")
    await cluster.create(LEASES, body, "default")


async def wired(kind: Kind) -> None:
    """Have restow's wiring own the webhook of a CRD, as a server's does."""
    config = {"strategy": "Webhook", "webhook": {"clientConfig": {"url": URL}, "conversionReviewVersions": ["v1"]}}
    body = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": kind.name},
        "spec": {"conversion": config},
    }
    params = {"fieldManager": FIELD_MANAGER, "force": "true"}
    await kind.cluster.patch(CRDS, kind.name, json.dumps(body).encode(), patch_type=PatchType.APPLY, params=params)


async def configuration(cluster: HttpCluster) -> None:
    """A webhook configuration that restow alone wrote."""
    rule = {"apiGroups": ["none.example.com"], "apiVersions": ["v1"], "resources": ["as"], "operations": ["CREATE"]}
    hook = {"name": "stash.restow.dev", "clientConfig": {"url": URL}, "rules": [rule]}
    hook |= {"sideEffects": "None", "admissionReviewVersions": ["v1"]}
    body = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingWebhookConfiguration",
        "metadata": {"name": "conversion-stash.127.0.0.1.9"},
        "webhooks": [hook],
    }
    name, params = body["metadata"]["name"], {"fieldManager": FIELD_MANAGER}  # type: ignore[index]
    await cluster.patch(HOOKS, name, json.dumps(body).encode(), patch_type=PatchType.APPLY, params=params)


def stash(*versions: str) -> str:
    """A stash with fields for these versions."""
    return json.dumps({"format": FORMAT, "kept": {each: {"/spec/old": {"is": 1}} for each in versions}})


async def migrated(kind: Kind) -> None:
    """Leave what a migration leaves: a mark, records of shards, and a condition."""
    await kind.populate(3)
    await kind.change(kind.document(storage="v1beta1", keyed_conditions=False))
    for index in range(2):
        await Migration(kind.cluster, Options(settle_s=0.0, shard=Shard(index, 2))).migrate(kind.name)
    migrator = Migrator(kind.cluster, [kind.name], Options(settle_s=0.0, resume=True), lease=None, condition=True)
    await migrator.reconcile(kind.name)


async def backup(cluster: HttpCluster, kind: Kind, version: str) -> str:
    """A backup of a Helm release that named a version."""
    name = f"restow-backup.{version}.{kind.name}.release"
    metadata = {"name": name, "labels": BACKUP_LABEL, "annotations": {MOVED: f"{kind.name} {version}"}}
    body = {"metadata": metadata, "type": "restow.dev/helm-release", "stringData": {"name": "release"}}
    await cluster.create(SECRETS, json.dumps(body).encode(), "default")
    return name


async def test_the_page_shows_what_is_removed_after_a_migration(kind: Kind, cluster: HttpCluster, cli: Cli) -> None:
    """Whoever reads the page expects to see these rows."""
    await migrated(kind)
    await lease(cluster, "restow-migrator", timedelta(hours=1))
    for flags, typed in ((("--dry-run",), "$ restow uninstall --dry-run\n"), ((), "$ restow uninstall\n")):
        ran = await cli("uninstall", *flags)
        assert ran.code == 0, ran.err
        shown = PAGE.read_text().partition(typed)[2]
        wanted = [[cell.strip() for cell in line.split("  ") if cell.strip()] for line in shown.splitlines()[:5]]
        assert [[cell.replace(kind.group, "example.com") for cell in row] for row in ran.rows] == wanted, ran.out


async def test_nothing_of_restow_is_left_but_what_is_needed(
    kind: Kind, cluster: HttpCluster, control_plane: ControlPlane, cli: Cli
) -> None:
    """What stays puzzles the next administrator; what is removed too early is lost: fields, owners, a way back."""
    other = Kind(cluster, control_plane.etcd, f"other.{kind.group}")
    await other.create(other.document(storage="v1alpha1", versions=("v1alpha1",)))
    assert (await cli("uninstall")).out == "Nothing of restow is left.\n"

    await migrated(kind)
    await annotate(cluster, CRDS, other.name, {"annotations": {UNWIRED: "2026-01-01T00:00:00Z"}})
    await install_crds(cluster, [conversionrules.document()])
    await Declarations(cluster, "default").add("jobs", "d", "u", other.name, "jane")
    await Records(cluster, "default").write(RevisionRecord(other.name), rules="jobs")
    await configuration(cluster)
    for name in ("hook", "hook-ca"):
        body = json.dumps(secret(None, name, "Opaque", {"ca.crt": b"x"})).encode()
        await cluster.create(SECRETS, body, "default")
    gone, needed = await backup(cluster, kind, "v1"), await backup(cluster, kind, "v1alpha1")
    for name, versions in (("w00", ("v0",)), ("w01", ("v0", "v1alpha1"))):
        annotations = {f"{kind.group}/conversion-stash": stash(*versions)}
        await annotate(cluster, kind.at("v1beta1"), name, {"annotations": annotations}, namespace="default")
    await lease(cluster, "restow-migrator", timedelta(seconds=1))

    before = await traces(control_plane)
    looked = await cli("uninstall", "--dry-run", "-o", "json")
    assert looked.code == 3, looked.err
    assert {*states(looked).values()} == {"can be removed", "stays"}
    assert looked.json["running"] == ["the Lease default/restow-migrator is held by pod-1"]
    refused = await cli("uninstall")
    assert refused.code == 3 and "nothing is removed while a process of restow runs" in refused.err
    assert await traces(control_plane) == before
    assert states(await cli("uninstall", "--dry-run", "-o", "json")) == states(looked)

    await lease(cluster, "restow-migrator", timedelta(hours=1))
    done = await cli("uninstall", "-o", "json")
    assert done.code == 3, done.err
    stays = {name: each["reason"] for each in done.json["left"] if (name := each["name"]) and each["reason"]}
    assert {*stays} == {f"default/{needed}", f"{kind.name} (1)"}
    assert "--undo takes the release back" in stays[f"default/{needed}"]
    assert stays[f"{kind.name} (1)"].startswith(f"default/w01 of {kind.name}: the stash in ")
    assert "remove v1alpha1 from the CRD first" in stays[f"{kind.name} (1)"]
    for name in (gone, "hook", "hook-ca"):
        assert states(done)[f"Secret default/{name}"] == "removed", done.err

    async def left() -> bool:
        return await traces(control_plane) == [f"/registry/secrets/default/{needed}"]

    await until(left, "more is left than the backup")  # the APIService of a removed group goes a moment later
    found = await kind.get("v1beta1", "w00")
    assert "annotations" not in found["metadata"]
    assert [each["manager"] for each in found["metadata"]["managedFields"]] == ["alice"], "no owner is lost or added"
    assert f"{kind.group}/conversion-stash" in (await kind.get("v1beta1", "w01"))["metadata"]["annotations"]

    await kind.change(kind.document(storage="v1beta1", versions=("v1beta1",), keyed_conditions=False))
    done = await cli("uninstall")
    assert (done.code, [row[-1] for row in done.rows[1:]]) == (0, ["removed"] * 2), done.err
    assert await traces(control_plane) == []
    await other.remove()


async def test_what_would_lose_data_is_refused(
    kind: Kind, cluster: HttpCluster, control_plane: ControlPlane, cli: Cli
) -> None:
    """Each of these is the only place of what it says, or what it serves cannot be read without it."""
    await wired(kind)
    await configuration(cluster)
    await install_crds(cluster, [conversionrules.document()])
    rules = {
        "apiVersion": CONVERSION_RULES.api_version,
        "kind": "ConversionRules",
        "metadata": {"name": "jobs"},
        "spec": {
            "target": {"group": kind.group, "kind": "Widget"},
            "hub": "v1beta1",
            "spokes": [{"version": "v1alpha1", "rules": []}],
        },
    }
    await cluster.create(CONVERSION_RULES, json.dumps(rules).encode())
    await Declarations(cluster, "default").add("jobs", "d", "u", kind.name, "jane")
    await Records(cluster, "default").write(RevisionRecord(kind.name), rules="jobs")
    lost = json.dumps({"objects": ["default/w00"], "more": 0})
    metadata = {"annotations": {LOST_OWNERS: lost, "restow.dev/migrate-rate": "5"}, "labels": {LABEL: "true"}}
    await annotate(cluster, CRDS, kind.name, metadata)
    native = {
        "apiVersion": NATIVE_MIGRATIONS[1].api_version,
        "kind": "StorageVersionMigration",
        "metadata": {"name": "restow-widgets-0123456789ab"},
        "spec": {"resource": {"group": kind.group, "resource": "widgets"}},
    }
    with suppress(NotFound):
        await cluster.create(NATIVE_MIGRATIONS[1], json.dumps(native).encode())

    other = Kind(cluster, control_plane.etcd, f"other.{kind.group}")
    await other.create(other.document(storage="v1alpha1", versions=("v1alpha1",)))
    await other.populate(1)
    await other.change(other.document(storage="v1beta1", keyed_conditions=False))
    await trim(cluster, other, "v1beta1")
    await annotate(cluster, CRDS, other.name, {"annotations": {MARK: "unfinished 1"}})

    done = await cli("uninstall")
    assert (done.code, {row[-1] for row in done.rows[1:]}) == (3, {"stays"}), (done.out, done.err)
    said = " ".join(done.err.split())
    for sentence in (
        f"{kind.name} calls a webhook that restow wired: run restow unwire {kind.name} first",
        f"{kind.name} calls its server: run restow unwire {kind.name} first",
        "the ConversionRules jobs convert objects: kubectl delete conversionrules jobs",
        "the CRD conversionrules.restow.dev has ConversionRules, which would be deleted with it",
        f"has what converts objects of {kind.name}: delete jobs first",
        "the ConversionRules jobs exist: delete these first",
        "may be stored at v1alpha1, which status.storedVersions does not name: run restow migrate widgets.other.",
        "is the only record of what was lost: an earlier run left objects without field owners",
        f"{LABEL} of {kind.name}: people wrote it, not restow",
        f"restow.dev/migrate-rate of {kind.name}: people wrote it, not restow",
    ):
        assert sentence in said, done.err

    assert (await cli("migrate", other.name, "--settle", "0")).code == 0
    await cluster.delete(CONVERSION_RULES, "jobs")
    assert (await cli("unwire", kind.name)).code == 0
    removed: Document = {"annotations": dict.fromkeys(metadata["annotations"]), "labels": {LABEL: None}}
    await annotate(cluster, CRDS, kind.name, removed)
    with suppress(NotFound):
        await cluster.delete(NATIVE_MIGRATIONS[1], "restow-widgets-0123456789ab")
    done = await cli("uninstall")
    assert (done.code, {row[-1] for row in done.rows[1:]}) == (0, {"removed"}), (done.out, done.err)

    async def nothing() -> bool:
        return not await traces(control_plane)

    await until(nothing, "something is left")
    with pytest.raises(NotFound):
        await cluster.get(CONFIG_MAPS, f"restow-conversions.{kind.name}", "default")
    await other.remove()
