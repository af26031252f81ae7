"""`restow migrate --all` on a cluster with CRDs that cannot be migrated: what a Job that is green may be taken for."""

from __future__ import annotations

import itertools
import json
from collections.abc import AsyncIterator

import pytest

from restow.commands.migrate import EXITS
from restow.kube.client import HttpCluster
from restow.kube.errors import ServerError
from restow.kube.resources import CRDS
from restow.migrator import Migration, Options
from restow.migrator.model.report import MigrationResult
from tests.apiserver.access import Access
from tests.apiserver.kind import Impatient, Kind, until
from tests.apiserver.proxy import Answer, Fault, Proxy, Reset, Seen
from tests.restow.commandline import Cli


@pytest.fixture
async def other(cluster: HttpCluster, kind: Kind) -> AsyncIterator[Kind]:
    """A second CRD, with an object at v1alpha1 and v1beta1 as its storage version."""
    made = Kind(cluster, kind._etcd, f"other.{kind.group}")
    await made.create(made.document(storage="v1alpha1", versions=("v1alpha1",)))
    await made.populate(2)
    await made.change(made.document(storage="v1beta1"))
    yield made
    await made.remove()


async def unserved(kind: Kind) -> None:
    """Make the storage version one that is not served, with objects at another version."""
    await kind.populate(2)
    await kind.change(kind.document(storage="v1beta1", served=["v1alpha1"]))
    assert await kind.stored_versions() == ["v1alpha1", "v1beta1"]


async def test_a_crd_that_is_left_out_with_work_due_is_reported(kind: Kind, other: Kind, cli: Cli) -> None:
    """An upgrade Job that is green while a CRD was never migrated ends with its objects lost at the removal."""
    await unserved(kind)
    ran = await cli("migrate", "--all", "--settle", "0", "-o", "json")
    assert ran.code == 3, (ran.out, ran.err)
    found = {crd["name"]: crd for crd in ran.json["crds"]}
    assert f"the storage version v1beta1 of {kind.name} is not served" in found[kind.name]["refused"]
    assert found[kind.name]["storedVersionsBefore"] == ["v1alpha1", "v1beta1"]
    assert found[kind.name]["storedVersionsAfter"] == ["v1alpha1", "v1beta1"]
    assert found[kind.name]["storageVersion"] == "v1beta1"
    assert found[other.name]["pruned"] and not found[other.name]["refused"]
    assert ran.json["result"] == "Refused"
    assert f"left out: the storage version v1beta1 of {kind.name}" in ran.err
    assert ran.err.splitlines()[-1] == f"Work is due on what was left out: {kind.name}"


async def test_a_crd_that_is_left_out_without_a_proof_is_reported(kind: Kind, other: Kind, cli: Cli) -> None:
    """An honest look of storedVersions, with no proof, must not make an upgrade Job green."""
    await kind.change(kind.document(storage="v1alpha1", served=["v1beta1"]))
    assert await kind.stored_versions() == ["v1alpha1"]
    ran = await cli("migrate", "--all", "--settle", "0", "-o", "json")
    assert ran.code == 3, (ran.out, ran.err)
    assert {crd["name"] for crd in ran.json["crds"]} == {kind.name, other.name}
    assert ran.err.splitlines()[-1] == f"Work is due on what was left out: {kind.name}"


async def test_an_object_that_fails_weighs_more_than_a_crd_that_is_left_out(
    kind: Kind, other: Kind, cli: Cli, access: Access
) -> None:
    """Exit code 1 says that objects failed, whatever else is due."""
    await unserved(kind)
    await access.refuse_updates(other, "v1beta1", ["w00"])
    ran = await cli("migrate", "--all", "--settle", "0", "-o", "json")
    assert (ran.code, ran.json["result"]) == (1, "Failed")
    assert kind.name in {crd["name"] for crd in ran.json["crds"]}


async def test_a_crd_that_is_left_out_with_nothing_due_is_no_matter(kind: Kind, other: Kind, cli: Cli) -> None:
    """A CRD that is proved to have nothing to migrate must not keep an upgrade Job from its end."""
    await kind.change(kind.document(storage="v1alpha1"))
    assert (await cli("migrate", kind.name, "--settle", "0")).code == 0
    await kind.change(kind.document(storage="v1alpha1", served=["v1beta1"]))
    assert await kind.stored_versions() == ["v1alpha1"]
    ran = await cli("migrate", "--all", "--settle", "0", "-o", "json")
    assert ran.code == 0, (ran.out, ran.err)
    names = {crd["name"] for crd in ran.json["crds"]}
    assert other.name in names and kind.name not in names
    assert f"left out: the storage version v1alpha1 of {kind.name}" in ran.err


async def test_what_is_out_of_reach_for_one_crd_stops_no_other(kind: Kind, other: Kind, cluster: HttpCluster) -> None:
    """One team's dead webhook must not keep the CRDs of all others from their migration, nor end a Job for good."""
    await kind.populate(2)
    dead = {"clientConfig": {"url": "https://127.0.0.1:1/convert"}, "conversionReviewVersions": ["v1"]}
    document = kind.document(storage="v1beta1")
    await kind.change(document)
    now = (await cluster.get(CRDS, kind.name)).json()
    now["spec"]["conversion"] = {"strategy": "Webhook", "webhook": dead}
    await cluster.replace(CRDS, kind.name, json.dumps(now).encode())

    async def down() -> bool:
        try:
            await cluster.list_page(kind.at("v1beta1"), params={"limit": "1"})
        except ServerError:
            return True
        return False

    await until(down, "the API server still lists without the webhook")
    migration = Migration(cluster, Options(settle_s=0.0, patience_s=0.0), chance=Impatient())
    report = await migration.run([kind.name, other.name])
    down, done = report.crds
    assert EXITS[report.result] == 4
    assert (down.unreachable, down.pruned, down.refused) == (f"the conversion webhook of {kind.name}", False, "")
    assert "dial tcp" in down.unfinished
    assert done.pruned and not done.unfinished + done.unreachable


async def test_a_right_that_is_withdrawn_for_one_crd_stops_no_other(
    kind: Kind, other: Kind, proxy: Proxy, through_proxy: HttpCluster
) -> None:
    """Who takes the rights on one team's objects away must not end the migration of all others."""
    await kind.populate(2)
    await kind.change(kind.document(storage="v1beta1"))

    async def withdrawn(seen: Seen) -> Fault | None:
        message = f'widgets.{kind.group} is forbidden: User "restow" cannot patch resource "widgets"'
        concerned = seen.is_write and f"/apis/{kind.group}/" in seen.path
        return Answer.of(403, "Forbidden", message) if concerned else None

    proxy.hook = withdrawn
    migration = Migration(through_proxy, Options(settle_s=0.0), chance=Impatient())
    stopped, done = (await migration.run([kind.name, other.name])).crds
    assert "the permission was withdrawn" in stopped.unfinished and not stopped.pruned
    assert done.pruned and not done.unfinished and not done.failures


async def test_an_api_server_that_is_out_of_reach_is_waited_for_once(
    kind: Kind, other: Kind, proxy: Proxy, through_proxy: HttpCluster
) -> None:
    """Waited for at each of fifty CRDs, five minutes become four hours in which nothing is said."""

    async def gone(seen: Seen) -> Fault | None:
        return Reset() if seen.is_write or any(each.is_write for each in proxy.seen) else None

    await kind.populate(2)
    await kind.change(kind.document(storage="v1beta1"))
    proxy.hook = gone
    now = itertools.count(0.0, 20.0)
    migration = Migration(
        through_proxy, Options(settle_s=0.0, patience_s=60.0), chance=Impatient(), clock=lambda: next(now)
    )
    report = await migration.run([kind.name, other.name])
    assert report.result is MigrationResult.UNREACHABLE and EXITS[report.result] == 4
    first, second = report.crds
    assert first.unreachable == second.unreachable == through_proxy.host
    assert "cannot be reached any more" in first.unfinished and "was not begun" in second.unfinished
