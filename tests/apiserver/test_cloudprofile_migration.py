"""The project's two halves proved on each other: CloudProfile objects migrated from v1beta1 to v1beta2 by restow.

All three kinds are stored at v1beta1 and written there by two appliers, with both webhooks on; then the storage version
moves, the objects are migrated, and v1beta1 is unserved and removed. The controllers work before and after; between,
where one change of the CRDs follows another within a second, they would only wait for their watches to live again.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest
import pytest_asyncio

from restow.controlplane.etcd import Etcd
from restow.kube.cluster import PatchType
from restow.kube.errors import ApiError, Conflict, NotFound
from restow.kube.resources import CRDS
from restow.migrator import Migration, Options
from restow.migrator.model.report import MigrationResult
from tests.apiserver.kind import Document, entry_versions, owners, until
from tests.apiserver.profile_controllers import BELL
from tests.apiserver.profile_world import (
    CLOUD_PROFILE,
    NAMESPACED,
    REST,
    SHOOT,
    Family,
    Service,
    lifecycle,
    living,
    owned_paths,
    stage,
)
from tests.cloudprofile.conversions.family import STASH
from tests.restow.commandline import restow

pytestmark = pytest.mark.asyncio(loop_scope="module")

KINDS = (CLOUD_PROFILE, NAMESPACED, SHOOT)
REGISTRY = "restow.cloudprofile.conversions:registry"
VERSION, OTHER, PLANNED = "1.30.1", "1.31.7", "1.32.0"


@dataclass(frozen=True)
class Place:
    """The family, and its CRDs to be changed."""

    family: Family
    service: Service
    kubeconfig: Path

    @property
    def names(self) -> list[str]:
        """The names of the CRDs."""
        return list(self.service.crds())

    async def set(self, crds: dict[str, Document]) -> None:
        """Change the CRDs, and wait until objects are stored as they say."""
        for name, document in crds.items():
            await until(partial(self._replaced, name, document), f"{name} is not replaced")
        for kind, document in zip(KINDS, (crds[name] for name in sorted(crds)), strict=True):
            storage = next(each["name"] for each in document["spec"]["versions"] if each["storage"])
            await until(partial(self._stores, kind, storage), f"{kind} is not stored so")

    async def _replaced(self, name: str, document: Document) -> bool:
        found = (await self.family.cluster.get(CRDS, name)).json()
        body = json.dumps(found | {"spec": document["spec"]}).encode()
        try:
            await self.family.cluster.replace(CRDS, name, body)
        except Conflict:
            return False
        return True

    async def _stores(self, kind: str, version: str) -> bool:
        """Touch the bell of a kind, and look at what is stored."""
        body = json.dumps({"metadata": {"labels": {"stored": version}}}).encode()
        namespace = None if kind == CLOUD_PROFILE else "default"
        try:
            await self.family.cluster.patch(self.family.new.at(kind), BELL, body, namespace, patch_type=PatchType.MERGE)
        except ApiError:
            return False
        stored = json.loads(await self.family.stored(kind, BELL))
        return bool(stored["apiVersion"].endswith(version))

    async def stored_versions(self) -> dict[str, list[str]]:
        """``status.storedVersions`` of each CRD."""
        return {
            name: (await self.family.cluster.get(CRDS, name)).json()["status"]["storedVersions"] for name in self.names
        }


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def place(kubeconfig: Path, etcd: Etcd, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Place]:
    """The family, stored at v1beta1."""
    folder = tmp_path_factory.mktemp("family")
    async with living(kubeconfig, etcd, folder, storage="v1beta1") as (family, service):
        await family.shoot(BELL, CLOUD_PROFILE, BELL, kubernetes={"version": "1.0.0"})
        yield Place(family, service, kubeconfig)


def said(family: Family) -> dict[str, dict[str, dict[str, Document]]]:
    """What alice and bob say of the object of each kind, at v1beta1 and, meaning the same, at v1beta2."""
    ends, extended = family.time.after(days=120), family.time.after(days=200)

    def versions(*listed: Document) -> Document:
        return {"kubernetes": {"versions": list(listed)}}

    parent = {"parent": {"kind": CLOUD_PROFILE, "name": "migrated"}}
    machine = {"machineTypes": [{"name": "m", "cpu": "2", "gpu": "0", "memory": "2Gi"}]}
    profile = REST | {"type": "local"}
    reference = {"cloudProfile": {"kind": CLOUD_PROFILE, "name": "migrated"}}
    shoot = {"kubernetes": {"version": VERSION}}
    limits = {"limits": {"maxNodesTotal": 9}}
    return {
        CLOUD_PROFILE: {
            "v1beta1": {
                "alice": profile
                | versions({"version": VERSION, "classification": "supported", "expirationDate": ends}),
                "bob": limits | versions({"version": OTHER, "classification": "preview"}),
            },
            "v1beta2": {
                "alice": profile | versions(lifecycle(VERSION, stage("supported"), stage("expired", ends))),
                "bob": limits | versions(lifecycle(OTHER, stage("preview"))),
            },
        },
        NAMESPACED: {
            "v1beta1": {
                "alice": parent | versions({"version": VERSION, "expirationDate": extended}),
                "bob": machine,
            },
            "v1beta2": {
                "alice": parent | versions(lifecycle(VERSION, stage("expired", extended))),
                "bob": machine,
            },
        },
        SHOOT: {
            "v1beta1": {"alice": {"cloudProfileName": "migrated"} | shoot, "bob": {"region": "here"}},
            "v1beta2": {"alice": reference | shoot, "bob": {"region": "here"}},
        },
    }


async def populate(place: Place, of: dict[str, dict[str, dict[str, Document]]]) -> None:
    """Have alice and bob apply at v1beta1, and carol plan a third version at v1beta2."""
    family = place.family
    for kind in KINDS:
        for manager, spec in of[kind]["v1beta1"].items():
            await family.apply(family.old.manifest(kind, "migrated", spec), manager)
        if kind != SHOOT:
            await family.settles(kind, "migrated")
    planned = {"kubernetes": {"versions": [carols(family)]}}
    await family.apply(family.new.manifest(CLOUD_PROFILE, "migrated", planned), "carol")
    await family.settles(CLOUD_PROFILE, "migrated")
    await family.settles(NAMESPACED, "migrated")


def carols(family: Family) -> Document:
    """A version whose lifecycle v1beta1 cannot show."""
    after = family.time.after
    return lifecycle(PLANNED, stage("preview", after(days=30)), stage("supported", after(days=60)))


async def in_process(place: Place) -> None:
    """Migrate by the engine, in this process."""
    report = await Migration(place.family.cluster, Options(settle_s=0.0)).run(place.names)
    assert report.result is MigrationResult.SUCCEEDED, [each.to_json() for each in report.crds]


async def by_command(place: Place, *flags: str) -> None:
    """Migrate by ``restow migrate``."""
    ran = await asyncio.to_thread(
        restow, "migrate", *place.names, "--settle=0", "-o", "json", *flags, kubeconfig=place.kubeconfig
    )
    assert ran.code == 0, ran.err
    assert {(each["storageVersion"], each["pruned"]) for each in ran.json["crds"]} == {("v1beta2", True)}


async def by_registry(place: Place) -> None:
    """Migrate by ``restow migrate`` with the conversions in its own process."""
    await by_command(place, f"--registry={REGISTRY}")


@pytest.mark.parametrize("migrate", [in_process, by_command, by_registry])
async def test_v1beta1_is_migrated_and_goes(place: Place, migrate: Callable[[Place], Awaitable[None]]) -> None:
    """An object left at v1beta1, a lost owner, a lost stage would show here, and not before v1beta1 is gone."""
    family = place.family
    await place.set(place.service.crds(storage="v1beta1"))
    of = said(family)
    async with family.controlled():
        await populate(place, of)
    before = {kind: json.loads(await family.stored(kind, "migrated")) for kind in KINDS}
    assert {each["apiVersion"] for each in before.values()} == {"core.gardener.cloud/v1beta1"}
    assert STASH in before[CLOUD_PROFILE]["metadata"]["annotations"]
    meant = {kind: (await family.get(kind, "migrated"))["spec"] for kind in KINDS}

    await place.set(place.service.crds())
    await migrate(place)

    for kind in KINDS:
        stored = json.loads(await family.stored(kind, "migrated"))
        assert stored["apiVersion"] == "core.gardener.cloud/v1beta2"
        assert entry_versions(stored) == {"v1beta2"}
        assert owners(stored).keys() == owners(before[kind]).keys()
        assert stored["spec"] == meant[kind]
        owned = owners(stored)
        for manager, spec in of[kind]["v1beta2"].items():
            assert owned[manager, "Apply", ""] == frozenset(owned_paths(spec)), (kind, manager)
    assert STASH not in (await family.get(CLOUD_PROFILE, "migrated"))["metadata"].get("annotations", {})
    assert set(map(tuple, (await place.stored_versions()).values())) == {("v1beta2",)}
    await all_apply_on(family, of, meant)

    await place.set(place.service.crds(served=("v1beta2",)))
    async with family.controlled():
        await place.set(place.service.crds(versions=("v1beta2",)))
        with pytest.raises(NotFound):
            await family.at("v1beta1", CLOUD_PROFILE, "migrated")
        await all_apply_on(family, of, meant)
        await life_goes_on(family, of)
    await family.clear()


async def all_apply_on(
    family: Family, of: dict[str, dict[str, dict[str, Document]]], meant: dict[str, Document]
) -> None:
    """Each applies at v1beta2 what it meant, without force and without any change."""
    for kind in KINDS:
        version = (await family.get(kind, "migrated"))["metadata"]["resourceVersion"]
        for manager, spec in of[kind]["v1beta2"].items():
            applied = (await family.apply(family.new.manifest(kind, "migrated", spec), manager)).json()
            assert applied["metadata"]["resourceVersion"] == version, (kind, manager)
        assert (await family.get(kind, "migrated"))["spec"] == meant[kind]


async def life_goes_on(family: Family, of: dict[str, dict[str, dict[str, Document]]]) -> None:
    """Fields that are applied no more go, whoever else owns something stays; stages begin; refusals are made."""
    profile, child, shoot = (of[kind]["v1beta2"] for kind in KINDS)
    [version] = profile["alice"]["kubernetes"]["versions"]
    endless = profile["alice"] | {"kubernetes": {"versions": [lifecycle(VERSION, version["lifecycle"][0])]}}
    refusal = await family.refused(family.apply(family.new.manifest(CLOUD_PROFILE, "migrated", endless), "alice"))
    assert "NamespacedCloudProfile 'default/migrated'" in refusal and "stage expired" in refusal
    smaller = {NAMESPACED: {"parent": child["alice"]["parent"]}, CLOUD_PROFILE: endless}
    for kind, spec in smaller.items():
        await family.apply(family.new.manifest(kind, "migrated", spec), "alice")
    bobs = {"kubernetes": profile["bob"]["kubernetes"]}
    await family.apply(family.new.manifest(CLOUD_PROFILE, "migrated", bobs), "bob")
    await family.apply(family.new.manifest(NAMESPACED, "migrated", {}), "bob")
    await family.apply(family.new.manifest(SHOOT, "migrated", {}), "bob")
    await family.pass_time(days=30)
    found = (await family.settles(CLOUD_PROFILE, "migrated"))["spec"]
    assert "limits" not in found
    assert found["kubernetes"]["versions"] == [
        lifecycle(VERSION, stage("supported")),
        lifecycle(OTHER, stage("preview")),
        found["kubernetes"]["versions"][2],
    ]
    assert (await family.classified(CLOUD_PROFILE, "migrated"))[PLANNED] == "preview"
    assert (await family.settles(NAMESPACED, "migrated"))["spec"] == {"parent": child["alice"]["parent"]}
    assert "region" not in (await family.get(SHOOT, "migrated"))["spec"]
    assert (await family.get(SHOOT, "migrated"))["spec"]["cloudProfile"] == shoot["alice"]["cloudProfile"]
