"""``restow doctor`` on what a migration repairs: each problem with its sentence, and its command, carried out."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, ClassVar, TypeAlias

import pytest

from restow.controlplane.binaries import find_binaries
from restow.controlplane.etcd import Etcd
from restow.kube import PatchType
from restow.kube.client import HttpCluster
from restow.kube.errors import ApiError
from restow.kube.resources import CRDS
from restow.migrator import Migration, Options
from restow.migrator.model.options import ManagedFields
from tests.apiserver.access import Access, on_crd, on_objects
from tests.apiserver.kind import Document, Kind, struct, until
from tests.apiserver.webhook import ConvertedKind, conversion_webhook
from tests.restow.commandline import Cli, Ran, restow

STRING: Document = {"type": "string"}
WITHOUT, WITH = struct(a=STRING), struct(a=STRING, b=STRING | {"default": "x"})

Shell: TypeAlias = Callable[[str], Awaitable[Ran]]


class TwoVersions(Kind):
    """Widgets with these schemas of ``spec`` at v1 and v2, and the strategy None; v1 is stored first."""

    canary: ClassVar[Document] = {}

    def __init__(self, cluster: HttpCluster, etcd: Etcd, group: str) -> None:
        super().__init__(cluster, etcd, group)
        self.specs = {"v1": WITHOUT, "v2": WITHOUT}

    def document(self, *, versions: Sequence[str] = ("v1", "v2"), **more: Any) -> Document:
        made = super().document(versions=versions, **more)
        for version in made["spec"]["versions"]:
            version["schema"] = {"openAPIV3Schema": struct(spec=self.specs[version["name"]])}
        return made

    async def begin(self, v1: Document, v2: Document) -> None:
        """Install it with these schemas, stored at v1."""
        self.specs = {"v1": v1, "v2": v2}
        await self.create(self.document(storage="v1"))

    async def applied(self, version: str, name: str, manager: str, spec: Document) -> int:
        """Apply an object; return the status."""
        try:
            await self.apply(self.manifest(version, name, spec=spec), manager)
        except ApiError as error:
            return error.status
        return 200

    async def trust(self, *stored: str) -> None:
        """Write status.storedVersions, as whoever wants to be rid of a version does."""
        body = json.dumps({"status": {"storedVersions": stored}}).encode()
        await self.cluster.patch(CRDS, self.name, body, patch_type=PatchType.MERGE, subresource="status")

    async def leave(self, name: str) -> None:
        """Put an object into etcd at v0, which the CRD does not have (any more)."""
        metadata = {"name": name, "namespace": "default", "uid": "6e0ff6a4-6f3e-4a9d-8a61-0d3c9a3e0a00"}
        await self.store({"apiVersion": f"{self.group}/v0", "kind": "Widget", "metadata": metadata, "spec": {"a": "1"}})


@pytest.fixture
async def kind(cluster: HttpCluster, etcd: Etcd, group: str) -> AsyncIterator[TwoVersions]:
    """Not installed yet."""
    made = TwoVersions(cluster, etcd, group)
    yield made
    for found in (await made.stored()).values():
        if found["apiVersion"] == f"{group}/v0":  # else the CRD could not go, and others would find it
            await made.store(found | {"apiVersion": f"{group}/v1"})
    await made.remove()


@pytest.fixture
async def shell(kubeconfig: Path, tmp_path: Path) -> Shell:
    """Runs a command as it is printed, with kubectl and restow on the PATH; a migration does not wait to settle."""
    kubectl = (await find_binaries(("kubectl",)))["kubectl"]
    script = tmp_path / "restow"
    main = f"{sys.executable} -c 'from restow.main import main; main()' \"$@\""
    script.write_text(f'#!/bin/sh\ncase "$1" in migrate) exec {main} --settle 0;; esac\nexec {main}\n')
    script.chmod(0o755)
    path = f"{tmp_path}:{kubectl.parent}:{os.environ['PATH']}"
    environment = {"PATH": path, "KUBECONFIG": str(kubeconfig), "HOME": str(tmp_path)}

    async def run(command: str) -> Ran:
        done = await asyncio.to_thread(
            subprocess.run, command, shell=True, cwd=tmp_path, env=environment, capture_output=True, text=True
        )
        return Ran(done.returncode, done.stdout, done.stderr)

    return run


async def problems(cli: Cli, kind: Kind) -> dict[str, Any]:
    """The problems by their kind; the exit code says whether there is one, and each is printed with its command."""
    ran = await cli("doctor", kind.name, "-o", "json")
    found = {each["kind"]: each for each in ran.json["problems"]}
    assert ran.code == (1 if found else 0), ran.err
    printed = (await cli("doctor", kind.name)).out
    assert all(f"$ {each['command']}\n" in printed for each in found.values()), printed
    return found


async def solved(cli: Cli, shell: Shell, kind: Kind, problem: str) -> Ran:
    """Carry out the command of a problem, after which the problem is gone."""
    ran = await shell((await problems(cli, kind))[problem]["command"])
    assert ran.code == 0, ran.err
    assert problem not in await problems(cli, kind)
    return ran


async def test_applies_that_fail_for_a_new_default_are_found_and_work_again(
    kind: TwoVersions, cli: Cli, shell: Shell
) -> None:
    """Every apply answers 500, and the message of the API server names neither the entries nor the way out."""
    await kind.begin(WITHOUT, WITH)
    for name, manager in (("o1", "alice"), ("o2", "alice"), ("o2", "bob")):
        assert await kind.applied("v1", name, manager, {"a": "1"}) == 200
    await kind.change(kind.document(storage="v2"))
    for name in ("o1", "o2"):
        await kind.merge("v2", name, {"metadata": {"labels": {"x": "y"}}}, "kubectl-label")
    assert await kind.applied("v2", "o1", "carl", {"a": "1"}) == 500
    found = (await problems(cli, kind))["ApplyFails"]
    assert (
        found["what"]
        == "2 objects have managedFields entries at v1, of alice (2), bob (1), which does not declare .spec.b"
    )
    assert "field not declared in schema" in found["effect"] and found["command"] == f"restow migrate {kind.name}"
    await solved(cli, shell, kind, "ApplyFails")
    assert await kind.applied("v2", "o1", "carl", {"a": "1"}) == 200

    assert await kind.applied("v1", "o2", "bob", {"a": "1"}) == 200, "an old client goes on"
    assert await kind.applied("v2", "o2", "carl", {"a": "1"}) == 500
    assert (await problems(cli, kind))["ApplyFails"]["command"] == f"restow migrate {kind.name} --ignore-mark"
    await solved(cli, shell, kind, "ApplyFails")
    assert await kind.applied("v2", "o2", "carl", {"a": "1"}) == 200


async def test_applies_that_fail_for_a_version_that_left_are_found_and_work_again(
    kind: TwoVersions, cluster: HttpCluster, cli: Cli, shell: Shell
) -> None:
    """The objects can be read, so that everything seems well until an owner applies."""
    await kind.begin(WITHOUT, WITHOUT)
    assert await kind.applied("v1", "o1", "alice", {"a": "1"}) == 200
    await kind.change(kind.document(storage="v2"))
    await Migration(cluster, Options(settle_s=0.0, managed_fields=ManagedFields.KEEP)).migrate(kind.name)
    await kind.change(kind.document(storage="v2", versions=("v2",)))
    assert await kind.applied("v2", "o1", "alice", {"a": "2"}) == 500
    found = (await problems(cli, kind))["ApplyFails"]
    assert found["what"] == (
        f"1 object has managedFields entries at v1, of alice (1), and {kind.name} does not have v1 any more"
    )
    await solved(cli, shell, kind, "ApplyFails")
    assert await kind.applied("v2", "o1", "alice", {"a": "2"}) == 200
    assert await problems(cli, kind) == {}


async def test_applies_that_fail_in_the_webhook_are_found_and_work_again(
    cluster: HttpCluster, etcd: Etcd, cli: Cli, shell: Shell, tmp_path: Path, group: str
) -> None:
    """No client reads at a version that is not served, so nothing shows that its entries cannot be converted."""
    async with conversion_webhook(tmp_path) as running:
        kind = ConvertedKind(cluster, etcd, group, running)
        await kind.create(kind.document(storage="v2"))
        try:
            for name, manager in (("o1", "alice"), ("o2", "bob")):
                await kind.apply(kind.manifest("v0", name, spec={"host": "h"}), manager)
            await Migration(cluster, Options(settle_s=0.0, managed_fields=ManagedFields.KEEP)).migrate(kind.name)
            served = await problems(cli, kind)
            assert "ApplyFails" not in served, "the webhook converts"
            running.fails = lambda found, desired: desired == "v0" and found["metadata"]["name"] == "o2"
            broken = (await problems(cli, kind))["ObjectNotConvertible"]
            assert (
                "Every server-side apply of this object fails too" in broken["effect"] and "of bob." in broken["effect"]
            )

            await kind.change(kind.document(storage="v2", served=("v1", "v2")))
            with pytest.raises(ApiError, match="out of order for o2"):
                await kind.apply(kind.manifest("v2", "o2", spec={"address": "h"}), "carl")
            found = (await problems(cli, kind))["ApplyFails"]
            assert found["what"] == (
                "1 object has managedFields entries at v0, of bob (1), to which the webhook cannot convert them: the "
                "converter is out of order for o2"
            )
            await solved(cli, shell, kind, "ApplyFails")
            await kind.apply(kind.manifest("v2", "o2", spec={"address": "h"}), "carl")
        finally:
            await kind.remove()


@pytest.mark.kubernetes_since("1.37", "servers name the objects, and delete them unread")
@pytest.mark.parametrize("cure", ["bring the version back", "delete"])
async def test_objects_of_a_version_that_left_are_named_and_both_cures_work(
    kind: TwoVersions, cli: Cli, shell: Shell, cure: str
) -> None:
    """One such object fails every list, and no client can read or delete it."""
    await kind.begin(WITHOUT, WITHOUT)
    assert await kind.applied("v1", "o1", "alice", {"a": "1"}) == 200
    for name in ("left1", "left2"):
        await kind.leave(name)
    found = (await problems(cli, kind))["ObjectOfLeftVersion"]
    assert found["what"] == (
        f"Widget default/left1, default/left2 are stored at v0, which {kind.name} does not have any more"
    )
    assert "NotReadable" not in await problems(cli, kind)
    if cure == "delete":
        for command in found["instead"]:
            ran = await shell(command)
            assert ran.code == 0, ran.err
        left = {"default/o1"}
    else:
        await solved(cli, shell, kind, "ObjectOfLeftVersion")
        left = {"default/o1", "default/left1", "default/left2"}
    assert {name: each["apiVersion"] for name, each in (await kind.stored()).items()} == dict.fromkeys(
        left, f"{kind.group}/v1"
    )
    assert all(each["spec"] == {"a": "1"} for each in (await kind.stored()).values())
    assert "ObjectOfLeftVersion" not in await problems(cli, kind)


async def test_a_version_comes_back_for_the_webhook(
    cluster: HttpCluster, etcd: Etcd, cli: Cli, shell: Shell, tmp_path: Path, group: str
) -> None:
    """With a webhook the version is converted, and the object has to come out as the webhook makes it."""
    async with conversion_webhook(tmp_path) as running:
        kind = ConvertedKind(cluster, etcd, group, running)
        await kind.create(kind.document(storage="v0", versions=("v0", "v2")))
        try:
            await kind.apply(kind.manifest("v0", "w", spec={"host": "h"}), "alice")
            left = await etcd.stored_object(group, kind.plural, "default", "w")
            await kind.change(kind.document(storage="v2", versions=("v0", "v2")))
            await Migration(cluster, Options(settle_s=0.0)).migrate(kind.name)
            await kind.change(kind.document(storage="v2", versions=("v2",)))
            await kind.store(left)
            found = (await problems(cli, kind))["ObjectOfLeftVersion"]
            assert "Its conversion webhook must convert v0." in found["remedy"]
            await solved(cli, shell, kind, "ObjectOfLeftVersion")
            stored = await etcd.stored_object(group, kind.plural, "default", "w")
            assert (stored["apiVersion"], stored["spec"]) == (f"{group}/v2", {"address": "h"})
            assert [each["manager"] for each in stored["metadata"]["managedFields"]] == ["alice"]
        finally:
            await kind.remove()


async def test_a_migration_fails_at_such_an_object_and_is_not_repeated(kind: TwoVersions, cli: Cli) -> None:
    """A Job that takes it for an API server out of reach tries for hours what no retry repairs."""
    await kind.begin(WITHOUT, WITHOUT)
    assert await kind.applied("v1", "o1", "alice", {"a": "1"}) == 200
    await kind.leave("p1")
    ran = await cli("migrate", kind.name, "--settle", "0", "-o", "json")
    assert (ran.code, ran.json["result"]) == (1, "Failed")
    said = ran.json["crds"][0]["unfinished"]
    assert f"{kind.name} does not have the version v0 any more" in said
    assert "served: false is enough" in said and f"restow doctor {kind.name}" in said
    for command in (("plan", kind.name), ("ready", kind.name, "--drop", "v2")):
        refused = await cli(*command)
        assert refused.code == 2 and "does not have the version v0 any more" in refused.out + refused.err


async def test_what_is_not_proved_is_a_problem(kind: TwoVersions, cli: Cli, shell: Shell) -> None:
    """Whoever trims status.storedVersions by hand and then removes the version makes the objects unreadable."""
    await kind.begin(WITHOUT, WITHOUT)
    assert await kind.applied("v1", "o1", "alice", {"a": "1"}) == 200
    await kind.change(kind.document(storage="v2"))
    assert "MigrationDue" in await problems(cli, kind)
    await kind.trust("v2")
    assert (await kind.stored())["default/o1"]["apiVersion"] == f"{kind.group}/v1"
    found = (await problems(cli, kind))["NotProved"]
    assert found["what"] == f"no run of restow has proved at which version the objects of {kind.name} are stored"
    assert found["command"] == f"restow migrate {kind.name}"
    await solved(cli, shell, kind, "NotProved")
    assert (await kind.stored())["default/o1"]["apiVersion"] == f"{kind.group}/v2"
    healthy = await cli("doctor", kind.name)
    assert (healthy.code, healthy.out) == (0, f"Nothing is wrong with {kind.name}.\n")


@pytest.mark.parametrize("objects", [0, 1])
async def test_a_stored_version_that_nothing_is_stored_at_needs_no_schema(
    kind: TwoVersions, cli: Cli, shell: Shell, objects: int
) -> None:
    """All objects were just read: to ask for a schema that is lost would leave a healthy CRD as it is."""
    await kind.begin(WITHOUT, WITHOUT)
    for number in range(objects):
        assert await kind.applied("v1", f"o{number}", "alice", {"a": "1"}) == 200
    await kind.trust("v0", "v1")
    found = await problems(cli, kind)
    assert list(found) == ["StoredVersionUnknown"]
    assert "reads" not in found["StoredVersionUnknown"]["effect"]
    with pytest.raises(ApiError, match=r"status\.storedVersions\[0\]"):
        await kind.cluster.patch(CRDS, kind.name, b'{"metadata":{"labels":{"x":"y"}}}', patch_type=PatchType.MERGE)
    plan = await cli("plan", kind.name)
    assert (plan.code, "refuses" in plan.err) == (3, False), "the prune comes before the mark"
    await solved(cli, shell, kind, "StoredVersionUnknown")
    assert await kind.stored_versions() == ["v1"]
    assert await problems(cli, kind) == {}


@pytest.mark.parametrize(
    ("v1", "v2", "effect"),
    [
        (WITHOUT, WITH, "A write at v1, even of a label, removes .spec.b from the stored object."),
        (WITH, WITHOUT, "v2 does not declare .spec.b: every write drops what an object has there."),
        (
            struct(config=STRING),
            struct(config=struct(receivers=STRING)),
            "The type of .spec.config differs: an object that has such a field can be written at one version only.",
        ),
    ],
    ids=["added", "removed", "another type"],
)
async def test_the_strategy_none_between_different_schemas(
    kind: TwoVersions, cli: Cli, shell: Shell, v1: Document, v2: Document, effect: str
) -> None:
    """Fields vanish from the first object on, and the API server warns of nothing."""
    await kind.begin(v1, v2)
    await kind.change(kind.document(storage="v2"))
    await kind.trust("v2")
    found = await problems(cli, kind)
    assert [*found] == ["FieldsLost"] and found["FieldsLost"]["effect"] == effect
    drafted = await shell(found["FieldsLost"]["command"])
    assert drafted.code in (0, 1) and "kind: ConversionRules" in drafted.out, drafted.err


async def test_a_crd_whose_annotations_are_full(kind: TwoVersions, cli: Cli, shell: Shell) -> None:
    """Every migration fails at its end there, and ready says no for ever."""
    await kind.begin(WITHOUT, WITHOUT)
    assert await kind.applied("v1", "o1", "alice", {"a": "1"}) == 200
    annotations = {"kubectl.kubernetes.io/last-applied-configuration": "x" * (256 * 1024 - 150)}
    body = json.dumps({"metadata": {"annotations": annotations}}).encode()
    await kind.cluster.patch(CRDS, kind.name, body, patch_type=PatchType.MERGE)
    found = await problems(cli, kind)
    assert [*found] == ["NotMarkable", "NotProved"]
    assert "kubectl apply --server-side" in found["NotMarkable"]["what"]
    await solved(cli, shell, kind, "NotMarkable")
    assert await problems(cli, kind) == {}


async def test_a_crd_that_a_policy_guards(kind: TwoVersions, cli: Cli, shell: Shell, access: Access) -> None:
    """The policy is meant against others; its owner must hear of it before the upgrade."""
    await kind.begin(WITHOUT, WITHOUT)
    assert await kind.applied("v1", "o1", "alice", {"a": "1"}) == 200
    await access.guard_crd(kind, "")
    said = (await problems(cli, kind))["NotMarkable"]["what"]
    assert "this CRD is guarded" in said and "Exempt the user that migrates in the policy" in said
    await access.remove()

    async def exempt() -> bool:
        return "NotMarkable" not in await problems(cli, kind)

    await until(exempt, "the policy is still in force")
    await solved(cli, shell, kind, "NotProved")


async def test_a_user_without_rights_to_write_hears_what_was_not_tried(kind: TwoVersions, access: Access) -> None:
    """Whoever may only read would take silence for a mark that can be left."""
    await kind.begin(WITHOUT, WITHOUT)
    user = await access.user("reading", on_crd(kind, "get"), on_objects(kind, "list", "get"))
    ran = await asyncio.to_thread(restow, "doctor", kind.name, kubeconfig=user.kubeconfig)
    assert ran.code == 0, ran.err
    assert f"permission is missing to patch customresourcedefinitions.apiextensions.k8s.io {kind.name}" in ran.err


async def test_a_crd_without_objects_is_well(kind: TwoVersions, cli: Cli) -> None:
    """A CRD fresh from its chart has nothing to prove."""
    await kind.begin(WITHOUT, WITHOUT)
    assert await problems(cli, kind) == {}
