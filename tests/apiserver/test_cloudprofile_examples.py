"""The documents' own examples through both webhooks: none is refused, and what they say comes true."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

import pytest
import pytest_asyncio

from restow.controlplane.etcd import Etcd
from restow.kube.errors import AlreadyExists
from restow.kube.resources import NAMESPACES
from tests.apiserver.kind import Document, until
from tests.apiserver.profile_api import Api
from tests.apiserver.profile_documents import GEP_25, GEP_32, GEP_32_BEFORE, gardener_manifest, load
from tests.apiserver.profile_world import CLOUD_PROFILE, Family, MovedTime, lifecycle, living

pytestmark = pytest.mark.asyncio(loop_scope="module")

#: "assume that the current date is 2024-12-03" (GEP-32).
DAY = datetime(2024, 12, 3, tzinfo=UTC)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def running(kubeconfig: Path, etcd: Etcd, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Family]:
    """The family with its controllers, on the day of the documents, and the namespaces of their objects."""
    folder = tmp_path_factory.mktemp("family")
    async with living(kubeconfig, etcd, folder, clock=MovedTime(DAY)) as (made, _), made.controlled():
        for name in ("project-xyz", "garden-local", "garden-dev", "shoot"):
            with suppress(AlreadyExists):
                await made.cluster.create(NAMESPACES, json.dumps({"metadata": {"name": name}}).encode())
        yield made


@pytest_asyncio.fixture(loop_scope="module")
async def family(running: Family) -> AsyncIterator[Family]:
    """The family, and nothing else at the end."""
    yield running
    await running.clear()


async def status_of(api: Api, made: Document, *parts: str) -> Document:
    """The status of an object, once it has these parts."""

    async def found() -> Document | None:
        metadata = made["metadata"]
        now = (await api.cluster.get(api.at(made["kind"]), metadata["name"], metadata.get("namespace"))).json()
        status: Document = now.get("status", {})
        return status if status.keys() >= set(parts) else None

    status: Document = await until(found, f"{made['kind']} has no status")
    return status


@pytest.mark.parametrize("text", GEP_32.values(), ids=GEP_32)
async def test_gep_32(family: Family, text: str) -> None:
    """Its examples, at v1beta2: what its controller says of the CloudProfile is what the document says."""
    example = load(text, "v1beta2")
    said = example.pop("status", None)
    made = await family.new.create(example)
    if made["kind"] == CLOUD_PROFILE:
        status = await status_of(family.new, made, "kubernetes")
        assert said is None or said.items() <= status.items()


async def test_gep_32_before(family: Family) -> None:
    """The classifications of its motivation, at v1beta1: a date that has passed counts for more than they do."""
    made = await family.old.create(load(GEP_32_BEFORE))
    status = await status_of(family.old, made, "kubernetes")
    classifications = [each["classification"] for each in status["kubernetes"]["versions"]]
    assert classifications == ["expired", "deprecated", "supported"]


async def test_gep_25(family: Family) -> None:
    """Its profiles and Shoot, at v1beta1; a machine image version that has a date and nothing else is one of them."""
    await family.old.create(load(GEP_25["parent"]))
    child = load(GEP_25["namespaced"])
    made = await family.old.create(child)
    assert made["spec"]["machineImages"] == child["spec"]["machineImages"]
    rendered = (await status_of(family.old, made, "cloudProfileSpec"))["cloudProfileSpec"]
    listed = {each["version"]: each.get("expirationDate") for each in rendered["kubernetes"]["versions"]}
    assert listed["1.28.6"] == "2024-06-06T01:02:03Z"
    [image] = rendered["machineImages"]
    assert {each["version"]: each.get("expirationDate") for each in image["versions"]}["16.4"] == "2023-08-08T23:59:59Z"
    assert [each["name"] for each in rendered["machineTypes"]] == ["m5.large", "m5.xlarge"]
    assert [each["name"] for each in rendered["volumeTypes"]] == ["gp3", "ab6"]
    shoot = await family.old.create(load(GEP_25["shoot"]))
    assert shoot["spec"]["cloudProfile"] == {"kind": "NamespacedCloudProfile", "name": "aws-profile-xyz"}


async def test_gardeners_manifests(family: Family) -> None:
    """Gardener's example objects, at v1beta1, with what they refer to and nothing else."""
    profile = gardener_manifest("30-cloudprofile.yaml")
    profile["spec"]["volumeTypes"].append({"name": "gp2", "class": "standard"})  # Gardener's Shoot asks for it
    await family.old.create(profile)
    images = [{"name": "local", "versions": [lifecycle("1.0.0")]}]
    await family.profile("local", lifecycle("1.34.6"), lifecycle("1.35.0"), machineImages=images)
    child = gardener_manifest("35-namespacedcloudprofile.yaml")
    made = await family.old.create(child)
    rendered = (await status_of(family.old, made, "cloudProfileSpec"))["cloudProfileSpec"]
    assert [image["name"] for image in rendered["machineImages"]] == ["local", "ubuntu-custom"]
    shoot = gardener_manifest("90-shoot.yaml")
    made = await family.old.create(shoot)
    assert made["spec"]["kubernetes"]["version"]
    assert made["spec"]["cloudProfileName"] == "cloudprofile1"
