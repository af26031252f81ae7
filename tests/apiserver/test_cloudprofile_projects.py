"""Projects on the real API server: NamespacedCloudProfiles at both versions, and the Shoots that use profiles."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from restow.controlplane.etcd import Etcd
from tests.apiserver.kind import Document
from tests.apiserver.profile_world import (
    CLOUD_PROFILE,
    NAMESPACED,
    REST,
    SHOOT,
    Family,
    lifecycle,
    living,
    spoken,
    stage,
    told,
    versions_in,
)
from tests.cloudprofile.conversions.family import STASH

pytestmark = pytest.mark.asyncio(loop_scope="module")

VERSION, PLAIN, NEXT = "1.30.1", "1.31.7", "1.32.0"
_numbers = itertools.count(1)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def family(kubeconfig: Path, etcd: Etcd, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Family]:
    """The family with its controllers, for all tests: its clock goes on from one to the next."""
    async with living(kubeconfig, etcd, tmp_path_factory.mktemp("family")) as (made, _), made.controlled():
        yield made


@dataclass(frozen=True)
class Parent:
    """A CloudProfile, and when its stages begin, by the day of its life."""

    name: str
    starts: dict[int, str]
    stages: list[Document]


@pytest_asyncio.fixture(loop_scope="module")
async def parent(family: Family) -> Parent:
    """A CloudProfile of two versions, one with a whole lifecycle, and of an image that ends."""
    name, after = f"parent-{next(_numbers)}", family.time.after
    starts = {days: after(days=days) for days in (1, 90, 100, 120, 150, 200)}
    stages = [
        stage("preview"),
        stage("supported", starts[1]),
        stage("deprecated", starts[90]),
        stage("expired", starts[120]),
    ]
    image = lifecycle("1.0.0", stage("supported"), stage("expired", starts[150]))
    images = [{"name": "ubuntu", "updateStrategy": "major", "versions": [image]}]
    rest = REST | {"type": "local", "machineImages": images}
    await family.profile(name, lifecycle(VERSION, *stages), lifecycle(PLAIN), **rest)
    await family.settles(CLOUD_PROFILE, name)
    return Parent(name, starts, stages)


def overriding(parent: Parent, *versions: Document, **spec: Any) -> Document:
    """The spec of a child."""
    return {"parent": {"kind": CLOUD_PROFILE, "name": parent.name}, "kubernetes": {"versions": list(versions)}} | spec


def rendered(found: Document) -> dict[str, Document]:
    """The Kubernetes versions that a child offers."""
    return versions_in({"spec": found["status"]["cloudProfileSpec"]})


def classified(found: Document) -> dict[str, str]:
    """The classifications of a child's Kubernetes versions."""
    return {each["version"]: each["classification"] for each in found["status"]["kubernetes"]["versions"]}


async def test_a_project_extends_an_expiration_at_v1beta1(family: Family, parent: Parent) -> None:
    """GEP-25's use case, at v1beta1: its versions live longer than its parent's, and no stage goes."""
    name, starts = f"{parent.name}-extended", parent.starts
    override = {"version": VERSION, "expirationDate": starts[200]}
    own = {"name": "m", "cpu": "2", "gpu": "0", "memory": "2Gi"}
    manifest = family.old.manifest(NAMESPACED, name, overriding(parent, override, machineTypes=[own]))
    await family.old.create(manifest)
    extended = [*parent.stages[:3], stage("expired", starts[200])]
    for days, is_now, of_parent in (
        (0, "preview", "preview"),
        (1, "supported", "supported"),
        (89, "deprecated", "deprecated"),
        (60, "deprecated", "expired"),
        (50, "expired", "expired"),
    ):
        await family.pass_time(days=days)
        new = await family.settles(NAMESPACED, name)
        assert new["spec"]["kubernetes"]["versions"] == [lifecycle(VERSION, stage("expired", starts[200]))]
        assert rendered(new) == {VERSION: {"lifecycle": extended}, PLAIN: {}}
        assert classified(new) == {VERSION: is_now, PLAIN: "supported"}
        assert classified(await family.settles(CLOUD_PROFILE, parent.name) | {})[VERSION] == of_parent
        old = await family.at("v1beta1", NAMESPACED, name)
        assert old["spec"]["kubernetes"]["versions"] == [override]
        shown = "deprecated" if is_now == "expired" else is_now
        assert rendered(old) == {VERSION: {"classification": shown, "expirationDate": starts[200]}, PLAIN: {}}
        assert [each["name"] for each in old["status"]["cloudProfileSpec"]["machineTypes"]] == ["t", "m"]
        before = await family.stored(NAMESPACED, name)
        assert spoken(await family.edit("v1beta1", NAMESPACED, name, lambda _: None)) == []
        assert await family.stored(NAMESPACED, name) == before


@pytest.mark.parametrize("loses_stash", [False, True], ids=["stash kept", "stash lost"])
async def test_a_date_moved_at_v1beta1_keeps_the_other_stages(
    family: Family, parent: Parent, loses_stash: bool
) -> None:
    """v1beta1 shows of an override no more than its date; the stages that it hides are not its client's to drop."""
    name, starts = f"{parent.name}-moved", parent.starts
    moved = stage("deprecated", starts[100])
    image = {"name": "ubuntu", "versions": [lifecycle("1.0.0", stage("expired", starts[200]))]}
    override = lifecycle(VERSION, moved, stage("expired", starts[150]))
    await family.child(name, parent.name, kubernetes={"versions": [override]}, machineImages=[image])
    await family.settles(NAMESPACED, name)

    def change(found: Document) -> None:
        [version] = found["spec"]["kubernetes"]["versions"]
        assert version == {"version": VERSION, "expirationDate": starts[150]}
        [of_image] = found["spec"]["machineImages"][0]["versions"]
        assert of_image == {"version": "1.0.0", "expirationDate": starts[200]}
        version["expirationDate"] = starts[200]
        if loses_stash:
            del found["metadata"]["annotations"][STASH]

    assert spoken(await family.edit("v1beta1", NAMESPACED, name, change)) == []
    found = await family.settles(NAMESPACED, name)
    assert found["spec"]["kubernetes"]["versions"] == [lifecycle(VERSION, moved, stage("expired", starts[200]))]
    assert found["spec"]["machineImages"] == [image]
    assert rendered(found)[VERSION] == {"lifecycle": [*parent.stages[:2], moved, stage("expired", starts[200])]}


async def test_a_child_follows_its_parent(family: Family, parent: Parent) -> None:
    """What a parent gets, its children offer, at both versions; what they override stays as they say."""
    name, starts = f"{parent.name}-child", parent.starts
    await family.child(name, parent.name, kubernetes={"versions": [lifecycle(VERSION, stage("expired", starts[200]))]})
    await family.settles(NAMESPACED, name)
    earlier = [*parent.stages[:2], stage("deprecated", starts[1]), parent.stages[3]]
    await family.edit(
        "v1beta2", CLOUD_PROFILE, parent.name, lambda found: told(VERSION, lifecycle=earlier)(found["spec"])
    )
    await family.edit(
        "v1beta1", CLOUD_PROFILE, parent.name, lambda found: told(NEXT, classification="preview")(found["spec"])
    )
    found = await family.settles(NAMESPACED, name)
    assert rendered(found) == {
        VERSION: {"lifecycle": [*earlier[:3], stage("expired", starts[200])]},
        PLAIN: {},
        NEXT: {"lifecycle": [stage("preview")]},
    }
    assert rendered(await family.at("v1beta1", NAMESPACED, name))[NEXT] == {"classification": "preview"}


async def test_a_parent_keeps_what_others_build_on(family: Family, parent: Parent) -> None:
    """Taken away, the override would move nothing, and the Shoot would run what nobody offers."""
    name, starts = f"{parent.name}-builds", parent.starts
    override = lifecycle(VERSION, stage("expired", starts[200]))
    image = {"name": "ubuntu", "versions": [lifecycle("1.0.0", stage("expired", starts[200]))]}
    await family.child(name, parent.name, kubernetes={"versions": [override]}, machineImages=[image])
    await family.settles(NAMESPACED, name)
    shoot = f"{parent.name}-shoot"
    await family.shoot(shoot, CLOUD_PROFILE, parent.name, kubernetes={"version": PLAIN})
    of_child, of_shoot = f"NamespacedCloudProfile 'default/{name}'", f"shoot 'default/{shoot}'"

    async def refusal(change: Any, version: str = "v1beta2") -> str:
        return await family.refused(
            family.edit(version, CLOUD_PROFILE, parent.name, lambda found: change(found["spec"]))
        )

    subject = f'CloudProfile "{parent.name}"'
    without = told(VERSION), told(VERSION, lifecycle=parent.stages[:3]), told(PLAIN)
    said = await refusal(without[0])
    assert (
        f'{subject} is invalid: [spec.kubernetes.versions: Forbidden: unable to delete Kubernetes version "{VERSION}"'
        in said
    )
    assert f"version is still in use by {of_child}" in said
    said = await refusal(without[1])
    assert f"unable to delete the stage expired of version {VERSION}" in said and of_child in said
    assert f"{subject} is forbidden: spec.kubernetes.versions[0].lifecycle" in said
    for version in ("v1beta1", "v1beta2"):
        said = await refusal(without[2], version)
        assert (
            f'unable to delete Kubernetes version "{PLAIN}" from {subject} - version is still in use by {of_shoot}'
            in said
        )
    said = await refusal(told(VERSION, classification="preview"), "v1beta1")
    assert f"unable to delete the stage expired of version {VERSION}" in said and of_child in said
    said = await refusal(
        lambda spec: spec.update(machineImages=[{"name": "other", "versions": [{"version": "1.0.0"}]}])
    )
    assert f'unable to delete MachineImage "ubuntu" from {subject} - MachineImage is still in use by {of_child}' in said
    assert (await family.get(CLOUD_PROFILE, parent.name))["spec"]["kubernetes"]["versions"] == [
        lifecycle(VERSION, *parent.stages),
        lifecycle(PLAIN),
    ]


async def test_a_shoots_two_fields_are_one_reference(family: Family, parent: Parent) -> None:
    """Whichever field a client of v1beta1 fills in, clients of both versions read the whole reference."""
    name = f"{parent.name}-shoot"
    spec = {"cloudProfileName": parent.name, "kubernetes": {"version": PLAIN}}
    whole = {"kind": CLOUD_PROFILE, "name": parent.name}
    await family.old.create(family.old.manifest(SHOOT, name, spec))
    new, old = await family.at("v1beta2", SHOOT, name), await family.at("v1beta1", SHOOT, name)
    assert new["spec"]["cloudProfile"] == old["spec"]["cloudProfile"] == whole
    assert old["spec"]["cloudProfileName"] == parent.name and "cloudProfileName" not in new["spec"]
    other = f"{name}-other"
    await family.old.create(
        family.old.manifest(SHOOT, other, {"cloudProfile": whole, "kubernetes": {"version": PLAIN}})
    )
    assert (await family.at("v1beta1", SHOOT, other))["spec"]["cloudProfileName"] == parent.name
    said = await family.refused(
        family.edit("v1beta1", SHOOT, other, lambda found: found["spec"].update(cloudProfileName="elsewhere"))
    )
    assert "elsewhere" in said and "cloudProfile" in said
    alone = family.old.manifest(SHOOT, f"{name}-alone", {**spec, "kubernetes": {"version": "1.34.0"}})
    said = await family.refused(family.old.create(alone))
    assert "spec.cloudProfileName: Forbidden: is not supported for Kubernetes >= 1.34" in said


async def test_a_shoot_moves_between_siblings(family: Family, parent: Parent) -> None:
    """Within the family of one CloudProfile at either version, and never out of it."""
    names = [f"{parent.name}-{each}" for each in ("left", "right")]
    for name in names:
        await family.child(name, parent.name)
        await family.settles(NAMESPACED, name)
    shoot = f"{parent.name}-moves"
    await family.shoot(shoot, CLOUD_PROFILE, parent.name, kubernetes={"version": PLAIN})

    async def moves(version: str, kind: str, name: str) -> None:
        """Move it, as a client that changes ``cloudProfile`` and leaves the deprecated name as it read it."""
        reference = {"kind": kind, "name": name}
        await family.edit(version, SHOOT, shoot, lambda found: found["spec"].update(cloudProfile=reference))
        for each in ("v1beta1", "v1beta2"):
            spec = (await family.at(each, SHOOT, shoot))["spec"]
            assert spec["cloudProfile"] == reference
            has_name = each == "v1beta1" and kind == CLOUD_PROFILE
            assert spec.get("cloudProfileName") == (name if has_name else None)

    for version in ("v1beta1", "v1beta2"):
        await moves(version, NAMESPACED, names[0])
        await moves(version, NAMESPACED, names[1])
        await moves(version, CLOUD_PROFILE, parent.name)
    await moves("v1beta1", NAMESPACED, names[0])
    elsewhere = f"{parent.name}-elsewhere"
    await family.profile(elsewhere, lifecycle(PLAIN))
    said = await family.refused(moves("v1beta1", CLOUD_PROFILE, elsewhere))
    assert f'Shoot "default/{shoot}" is invalid: spec.cloudProfile: Forbidden' in said
    assert "cloud profile reference change is invalid" in said
