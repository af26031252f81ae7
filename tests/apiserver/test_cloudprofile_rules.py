"""Rules of admission on the real API server, at the version in which a client writes, read back at both."""

from __future__ import annotations

import copy
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from restow.controlplane.etcd import Etcd
from restow.kube.errors import NotFound
from tests.apiserver.kind import Document, until
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
    versions_in,
)
from tests.cloudprofile.test_documents import GEP_25_NAMESPACED, GEP_25_PARENT

pytestmark = pytest.mark.asyncio(loop_scope="module")

OLD, HUB = "v1beta1", "v1beta2"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def family(kubeconfig: Path, etcd: Etcd, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Family]:
    """The family with its controllers."""
    async with living(kubeconfig, etcd, tmp_path_factory.mktemp("family")) as (made, _), made.controlled():
        yield made


def own_version(found: Document, number: str = "16.4") -> Document | None:
    """The project's image version in a rendered profile."""
    (image,) = found["status"]["cloudProfileSpec"]["machineImages"]
    return next((each for each in image["versions"] if each["version"] == number), None)


def classification(found: Document, number: str = "16.4") -> str:
    """The classification of an image version in a status."""
    (image,) = found["status"]["machineImages"]
    says: str = {each["version"]: each["classification"] for each in image["versions"]}[number]
    return says


@pytest.mark.parametrize("at", [OLD, HUB])
async def test_gep_25s_own_manifest(family: Family, at: str) -> None:
    """The image that a project adds would be unavailable, and hidden at v1beta1; or lost when its parent gains it."""
    end, parent_name = family.time.after(days=900), f"gep-25-{at}"
    parent: Document = copy.deepcopy(GEP_25_PARENT) | {"metadata": {"name": parent_name}}
    for part in parent["spec"]["kubernetes"]["versions"]:
        part.pop("expirationDate", None)
    await family.old.create(parent)
    child: Document = copy.deepcopy(GEP_25_NAMESPACED)
    child["metadata"] = {"name": parent_name, "namespace": "default"}
    child["spec"]["parent"]["name"] = parent_name
    child["spec"]["kubernetes"]["versions"][0]["expirationDate"] = family.time.after(days=400)
    entry = child["spec"]["machineImages"][0]["versions"][0]
    entry["expirationDate"] = end
    if at == HUB:
        child["apiVersion"] = family.new.manifest(NAMESPACED, "x", {})["apiVersion"]
        for each in (child["spec"]["kubernetes"]["versions"][0], entry):
            each["lifecycle"] = [stage("expired", each.pop("expirationDate"))]
    await family.apply(child, "project")

    settled = await family.settles(NAMESPACED, parent_name)
    assert classification(settled) == "supported"
    shown = await family.at(OLD, NAMESPACED, parent_name)
    assert shown["spec"]["machineImages"][0]["versions"] == [{"version": "16.4", "expirationDate": end}]
    assert (own_version(shown) or {})["expirationDate"] == end
    shoot = {
        "cloudProfile": {"kind": NAMESPACED, "name": parent_name},
        "kubernetes": {"version": "1.27.1"},
        "provider": {
            "workers": [
                {"name": "w", "machine": {"type": "m5.large", "image": {"name": "suse-chost", "version": "16.4"}}}
            ]
        },
    }
    await family.new.create(family.new.manifest(SHOOT, parent_name, shoot))

    def gain(found: Document) -> None:
        found["spec"]["machineImages"][0]["versions"].append({"version": "16.4", "classification": "deprecated"})

    await family.edit(OLD, CLOUD_PROFILE, parent_name, gain)

    async def follows() -> Document | None:
        found = await family.settles(NAMESPACED, parent_name)
        return found if classification(found) == "deprecated" else None

    followed: Document = await until(follows, "the project's version does not follow its parent's")
    assert (own_version(followed) or {})["lifecycle"] == [stage("deprecated"), stage("expired", end)]

    def lose(found: Document) -> None:
        found["spec"]["machineImages"][0]["versions"].pop()

    refusal = await family.refused(family.edit(OLD, CLOUD_PROFILE, parent_name, lose))
    assert "version is still in use by NamespacedCloudProfile" in refusal


async def test_an_extension_in_use_stays(family: Family) -> None:
    """A Shoot would be updated by force because a project's file names another stage."""
    name, after = "extended", family.time.after
    ended = [stage("supported"), stage("deprecated", after(days=1)), stage("expired", after(days=2))]
    images = [{"name": "ubuntu", "versions": [lifecycle("1.0.0", *ended), lifecycle("2.0.0")]}]
    await family.profile(
        name, lifecycle("1.30.5", *ended), lifecycle("1.31.0"), **REST | {"type": "local", "machineImages": images}
    )
    entries = {"lifecycle": [stage("expired", after(days=900))]}
    spec = {
        "parent": {"kind": CLOUD_PROFILE, "name": name},
        "kubernetes": {"versions": [{"version": "1.30.5"} | entries]},
        "machineImages": [{"name": "ubuntu", "versions": [{"version": "1.0.0"} | entries]}],
    }
    await family.new.create(family.new.manifest(NAMESPACED, name, spec))
    await family.settles(NAMESPACED, name)
    image = {"name": "ubuntu", "version": "1.0.0"}
    shoot = {
        "cloudProfile": {"kind": NAMESPACED, "name": name},
        "kubernetes": {"version": "1.30.5"},
        "provider": {"workers": [{"name": "w", "machine": {"type": "t", "image": image}}]},
    }
    await family.new.create(family.new.manifest(SHOOT, name, shoot))
    await family.pass_time(days=3)

    def another_stage(found: Document) -> None:
        found["spec"]["kubernetes"]["versions"][0]["lifecycle"] = [stage("deprecated", after(days=-1))]

    def none(found: Document) -> None:
        found["spec"]["machineImages"][0]["versions"] = [{"version": "1.0.0"}]

    for change, at in ((another_stage, HUB), (none, HUB), (none, OLD)):
        refusal = await family.refused(family.edit(at, NAMESPACED, name, change))
        assert f"would expire at once, and is still in use by shoot 'default/{name}'" in refusal


async def test_one_supported_version_of_a_minor(family: Family) -> None:
    """Two defaults for one minor, now or on a day to come."""
    supported = [{"version": number, "classification": "supported"} for number in ("1.31.1", "1.31.2")]
    spec = REST | {"type": "local", "kubernetes": {"versions": supported}}
    refusal = await family.refused(family.old.create(family.old.manifest(CLOUD_PROFILE, "twice", spec)))
    assert 'spec.kubernetes.versions[0]: Forbidden: unable to add version "1.31.1"' in refusal
    handed = family.time.after(days=10)
    first = lifecycle("1.31.1", stage("supported"), stage("deprecated", handed))
    planned = [first, lifecycle("1.31.2", stage("preview"), stage("supported", handed))]
    early = [first, lifecycle("1.31.2", stage("preview"), stage("supported", family.time.after(days=9)))]
    refusal = await family.refused(family.new.create(_profile(family, "twice", *early)))
    assert "lifecycle stages must not overlap per minor version" in refusal
    await family.new.create(_profile(family, "twice", *planned))
    dates = [{"version": number, "expirationDate": handed} for number in ("1.31.1", "1.31.2")]
    spec = REST | {"type": "local", "kubernetes": {"versions": dates}}
    await family.old.create(family.old.manifest(CLOUD_PROFILE, "dates-alone", spec))


async def test_unavailable_is_a_stage(family: Family) -> None:
    """What schema and documentation have would be refused."""
    start = family.time.after(days=10)
    planned = lifecycle("1.32.0", stage("unavailable"), stage("preview", start))
    await family.new.create(_profile(family, "planned-stage", lifecycle("1.31.0"), planned))
    found = await family.settles(CLOUD_PROFILE, "planned-stage")
    assert found["status"]["kubernetes"]["versions"][1] == {"version": "1.32.0", "classification": "unavailable"}
    assert "1.32.0" not in versions_in(await family.at(OLD, CLOUD_PROFILE, "planned-stage"))
    assert spoken(await family.edit(OLD, CLOUD_PROFILE, "planned-stage", lambda _: None)) == []
    await family.pass_time(days=11)
    await family.settles(CLOUD_PROFILE, "planned-stage")
    assert versions_in(await family.at(OLD, CLOUD_PROFILE, "planned-stage"))["1.32.0"] == {"classification": "preview"}
    found = await family.get(CLOUD_PROFILE, "planned-stage")
    assert found["spec"]["kubernetes"]["versions"][1] == planned


async def test_a_profile_is_restored_from_its_backup(family: Family) -> None:
    """After a disaster a backup would be refused for what time has brought about."""
    start = family.time.after(days=5)
    versions = [lifecycle("1.31.5", stage("preview")), lifecycle("1.31.6", stage("supported", start))]
    made = _profile(family, "restored", *versions)
    await family.new.create(made)
    await family.pass_time(days=6)
    backup = await family.settles(CLOUD_PROFILE, "restored")
    await family.new.delete(backup)

    async def gone() -> bool:
        try:
            await family.get(CLOUD_PROFILE, "restored")
        except NotFound:
            return True
        return False

    await until(gone, "the profile is not deleted")
    await family.new.create({**made, "spec": backup["spec"]})
    assert (await family.get(CLOUD_PROFILE, "restored"))["spec"] == backup["spec"]


async def test_a_window_that_no_scheduler_can_use_is_refused(family: Family) -> None:
    """The owner of a Shoot could escape forced updates."""
    await family.new.create(_profile(family, "windows", lifecycle("1.31.0")))
    for begin, end in (("000000+2400", "040000+2400"), ("220000+0000", "220000+0000"), ("000000+0000", "235959+0000")):
        window: dict[str, Any] = {"maintenance": {"timeWindow": {"begin": begin, "end": end}}}
        spec = {"cloudProfile": {"name": "windows"}, "kubernetes": {"version": "1.31.0"}} | window
        for api in (family.old, family.new):
            assert "spec.maintenance.timeWindow" in await family.refused(api.create(api.manifest(SHOOT, "w", spec)))


def _profile(family: Family, name: str, *versions: Document) -> Document:
    spec = REST | {"type": "local", "kubernetes": {"versions": list(versions)}}
    return family.new.manifest(CLOUD_PROFILE, name, spec)
