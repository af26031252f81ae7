"""What a client of v1beta1 takes away without having seen it, by each way of writing, on the real server.

v1beta1 shows what the status says. A client reads a profile before controllers have written the status, so that a
version which has begun is hidden from it, and writes what it read back, with a change: while there is still no status
(a moment after the create, or with no controllers), or after controllers came back.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from restow.controlplane.binaries import find_binaries
from restow.controlplane.etcd import Etcd
from restow.kube.cluster import PatchType
from restow.kube.errors import Conflict
from tests.apiserver.kind import Document
from tests.apiserver.profile_world import (
    CLOUD_PROFILE,
    REST,
    Family,
    MovedTime,
    Tell,
    lifecycle,
    living,
    spoken,
    stage,
    versions_in,
)
from tests.apiserver.test_cloudprofile_pipelines import Kubectl
from tests.cloudprofile.conversions.family import STASH
from tests.cloudprofile.conversions.test_edits import NOW

pytestmark = pytest.mark.asyncio(loop_scope="module")

BEGUN = [stage("preview", "2025-01-01T00:00:00Z"), stage("supported", "2025-01-15T00:00:00Z")]
ENDED = [stage("supported", "2024-01-01T00:00:00Z"), stage("expired", "2025-01-15T00:00:00Z")]
COMING = [stage("preview", "2030-01-01T00:00:00Z")]
STAYS = "{} stays: v1beta1 has not always shown it; delete it at v1beta2, or once it has expired"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def family(kubeconfig: Path, etcd: Etcd, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Family]:
    """The family without its controllers, at a moment that stays."""
    async with living(kubeconfig, etcd, tmp_path_factory.mktemp("family"), clock=MovedTime(NOW)) as (made, _):
        yield made


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def kubectl(kubeconfig: Path, tmp_path_factory: pytest.TempPathFactory) -> Kubectl:
    """Kubectl as administrator."""
    binary = (await find_binaries(("kubectl",)))["kubectl"]
    return Kubectl(binary, kubeconfig, tmp_path_factory.mktemp("kubectl"))


def image(*versions: Document, strategy: str = "major") -> list[Document]:
    """The only image, with versions."""
    return [{"name": "ubuntu", "updateStrategy": strategy, "versions": list(versions)}]


def stages(found: Document) -> dict[str, dict[str, Any]]:
    """The lifecycles of the Kubernetes versions and of the image's versions, in order."""
    images = [each["versions"] for each in found["spec"]["machineImages"]]
    lists = {"kubernetes": found["spec"]["kubernetes"]["versions"], "ubuntu": images[0] if images else []}
    return {name: {each["version"]: each.get("lifecycle") for each in listed} for name, listed in lists.items()}


async def planned(family: Family, name: str, *, then: list[Document] = BEGUN) -> dict[str, dict[str, Any]]:
    """Make a profile with a scheduled version of Kubernetes and of the image between others; return all stages."""
    spec = REST | {
        "type": "local",
        "machineImages": image({"version": "1.0.0"}, lifecycle("2.0.0", *then), {"version": "3.0.0"}),
    }
    listed = [{"version": "1.31.0"}, lifecycle("1.32.0", *then), {"version": "1.33.0"}]
    await family.profile(name, *listed, **spec)
    return stages(await family.get(CLOUD_PROFILE, name))


Write = Callable[[Family, Kubectl, Document, Path], Awaitable[list[str]]]


def sent(seen: Document, *, reverse: bool = False) -> Document:
    """The lists of a profile as they were read, with a change of something else."""
    [ubuntu] = seen["spec"]["machineImages"]
    listed, versions = seen["spec"]["kubernetes"]["versions"], ubuntu["versions"]
    if reverse:
        listed, versions = listed[::-1], versions[::-1]
    return {"kubernetes": {"versions": listed}, "machineImages": image(*versions, strategy="minor")}


async def _put(family: Family, seen: Document, *, annotated: bool) -> list[str]:
    live = await family.at("v1beta1", CLOUD_PROFILE, seen["metadata"]["name"])
    metadata = {**seen["metadata"], "resourceVersion": live["metadata"]["resourceVersion"]}
    if not annotated:
        metadata.pop("annotations", None)
    return spoken(await family.put({**seen, "metadata": metadata, "spec": seen["spec"] | sent(seen)}))


async def put_with_annotations(family: Family, _kubectl: Kubectl, seen: Document, _folder: Path) -> list[str]:
    """Replace with an exported file, as ``kubectl replace`` does."""
    return await _put(family, seen, annotated=True)


async def put_without_annotations(family: Family, _kubectl: Kubectl, seen: Document, _folder: Path) -> list[str]:
    """Replace with a file that never had annotations."""
    return await _put(family, seen, annotated=False)


async def _patch(family: Family, seen: Document, body: Any, kind: PatchType, **params: str) -> list[str]:
    name = seen["metadata"]["name"]
    reply = await family.cluster.patch(
        family.old.at(CLOUD_PROFILE), name, json.dumps(body).encode(), patch_type=kind, params=params
    )
    return spoken(reply)


async def merge_patch(family: Family, _kubectl: Kubectl, seen: Document, _folder: Path) -> list[str]:
    """Send both lists in a merge patch."""
    return await _patch(family, seen, {"spec": sent(seen)}, PatchType.MERGE)


async def reorder(family: Family, _kubectl: Kubectl, seen: Document, _folder: Path) -> list[str]:
    """Send both lists in a merge patch, the other way round."""
    return await _patch(family, seen, {"spec": sent(seen, reverse=True)}, PatchType.MERGE)


async def json_patch(family: Family, _kubectl: Kubectl, seen: Document, _folder: Path) -> list[str]:
    """Replace both lists by a JSON patch."""
    wanted = sent(seen)
    operations = [
        {"op": "replace", "path": "/spec/kubernetes/versions", "value": wanted["kubernetes"]["versions"]},
        {"op": "replace", "path": "/spec/machineImages", "value": wanted["machineImages"]},
    ]
    return await _patch(family, seen, operations, PatchType.JSON)


async def server_side_apply(family: Family, _kubectl: Kubectl, seen: Document, _folder: Path) -> list[str]:
    """Apply the lists on the server."""
    manifest = family.old.manifest(CLOUD_PROFILE, seen["metadata"]["name"], sent(seen))
    return spoken(await family.apply(manifest, "old", force=True))


async def client_side_apply(_family: Family, kubectl: Kubectl, seen: Document, folder: Path) -> list[str]:
    """Apply the lists with kubectl, which sends a merge patch."""
    file = folder / "profile.json"
    metadata = {"name": seen["metadata"]["name"]}
    file.write_text(json.dumps({**seen, "metadata": metadata, "spec": seen["spec"] | sent(seen)}))
    code, said = await kubectl("apply", f"--filename={file}")
    assert code == 0, said
    return [line.removeprefix("Warning: ") for line in said.splitlines() if " stays: " in line]


WAYS: list[Write] = [
    put_with_annotations,
    put_without_annotations,
    merge_patch,
    json_patch,
    server_side_apply,
    client_side_apply,
    reorder,
]
ways = pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)


@asynccontextmanager
async def reconciled(family: Family, name: str) -> AsyncIterator[None]:
    """Let controllers come back, and write the status, before the block."""
    async with family.controlled():
        await family.settles(CLOUD_PROFILE, name)
        yield


@ways
@pytest.mark.parametrize("back", [False, True], ids=["no controllers", "controllers came back"])
async def test_what_a_client_was_not_shown_it_cannot_delete(
    family: Family, kubectl: Kubectl, way: Write, back: bool, tmp_path: Path
) -> None:
    """A version that is supported, and its stages, would be gone after a client wrote back the list that it read."""
    name = f"unseen-{way.__name__.replace('_', '-')}-{back}".lower()
    before = await planned(family, name)
    seen = await family.at("v1beta1", CLOUD_PROFILE, name)
    assert [*versions_in(seen)] == ["1.31.0", "1.33.0"]
    if back:
        async with reconciled(family, name):
            assert [*versions_in(await family.at("v1beta1", CLOUD_PROFILE, name))] == ["1.31.0", "1.32.0", "1.33.0"]
            heard = await way(family, kubectl, seen, tmp_path)
    else:
        heard = await way(family, kubectl, seen, tmp_path)
    found = await family.get(CLOUD_PROFILE, name)
    assert stages(found) == before
    order = [*before["ubuntu"]] if way is not reorder else ["3.0.0", "1.0.0", "2.0.0"]
    assert [*stages(found)["ubuntu"]] == order
    assert found["spec"]["machineImages"][0]["updateStrategy"] == "minor", "the client's change counts"
    is_restored = back and way not in (put_with_annotations, server_side_apply)
    assert heard == [STAYS.format(place) for place in ("Kubernetes 1.32.0", "ubuntu 2.0.0") if is_restored]


async def test_a_replacement_of_what_was_read_conflicts(family: Family) -> None:
    """A client that sends the resourceVersion that it read would overwrite what came after it."""
    before = await planned(family, "conflicting")
    seen = await family.at("v1beta1", CLOUD_PROFILE, "conflicting")
    async with reconciled(family, "conflicting"):
        with pytest.raises(Conflict):
            await family.put({**seen, "spec": seen["spec"] | sent(seen)})
    assert stages(await family.get(CLOUD_PROFILE, "conflicting")) == before


@pytest.mark.parametrize("way", [put_with_annotations, put_without_annotations, merge_patch], ids=lambda w: w.__name__)
async def test_a_version_that_was_added_meanwhile_and_is_hidden_stays(
    family: Family, kubectl: Kubectl, way: Write, tmp_path: Path
) -> None:
    """An exported file, with the stash of its day, would delete the release that was planned after it."""
    name = f"exported-{way.__name__.replace('_', '-')}"
    await planned(family, name)
    seen = await family.at("v1beta1", CLOUD_PROFILE, name)

    def plans(found: Document) -> None:
        found["spec"]["kubernetes"]["versions"].append(lifecycle("1.34.0", *COMING))
        found["spec"]["machineImages"][0]["versions"].append(lifecycle("4.0.0", *COMING))

    await family.edit("v1beta2", CLOUD_PROFILE, name, plans)
    before = stages(await family.get(CLOUD_PROFILE, name))
    await way(family, kubectl, seen, tmp_path)
    assert stages(await family.get(CLOUD_PROFILE, name)) == before


@pytest.mark.parametrize("way", [each for each in WAYS if each is not server_side_apply], ids=lambda way: way.__name__)
async def test_an_expired_version_that_it_sees_a_client_deletes(
    family: Family, kubectl: Kubectl, way: Write, tmp_path: Path
) -> None:
    """Only clients of v1beta2 could remove the version, although v1beta1 shows that it has expired."""
    name = f"ended-{way.__name__.replace('_', '-')}"
    await planned(family, name, then=ENDED)
    async with reconciled(family, name):
        seen = await family.at("v1beta1", CLOUD_PROFILE, name)
        [ubuntu] = seen["spec"]["machineImages"]
        assert versions_in(seen).pop("1.32.0") == {
            "classification": "supported",
            "expirationDate": "2025-01-15T00:00:00Z",
        }
        for listed in (seen["spec"]["kubernetes"]["versions"], ubuntu["versions"]):
            del listed[1]
        assert await way(family, kubectl, seen, tmp_path) == []
    found = stages(await family.get(CLOUD_PROFILE, name))
    assert {place: {*versions} for place, versions in found.items()} == {
        "kubernetes": {"1.31.0", "1.33.0"},
        "ubuntu": {"1.0.0", "3.0.0"},
    }


async def test_a_version_that_every_client_has_seen_follows_the_rules_of_removal(family: Family) -> None:
    """A client of v1beta1 could not remove what it wrote itself, or a Kubernetes version would go while supported."""
    await planned(family, "plain")

    def without(place: int) -> Tell:
        def change(found: Document) -> None:
            del found["spec"]["machineImages"][0]["versions"][place]

        return change

    heard = spoken(await family.edit("v1beta1", CLOUD_PROFILE, "plain", without(-1)))
    assert len(heard) == 1
    assert "'ubuntu/3.0.0' is deleted while it is supported" in heard[0]
    assert [*stages(await family.get(CLOUD_PROFILE, "plain"))["ubuntu"]] == ["1.0.0", "2.0.0"]
    refusal = await family.refused(
        family.edit("v1beta1", CLOUD_PROFILE, "plain", lambda found: found["spec"]["kubernetes"]["versions"].pop())
    )
    assert 'unable to delete Kubernetes version "1.33.0": it is supported' in refusal


@pytest.mark.parametrize(
    ("then", "left"),
    [(BEGUN, {"2.0.0": BEGUN}), (COMING, None)],
    ids=["it has begun", "it is still to come"],
)
async def test_an_image_that_is_removed(family: Family, then: list[Document], left: dict[str, Any] | None) -> None:
    """An image whose only version is hidden looks empty, and would be tidied up with a version that is in use."""
    name = f"imageless-{'begun' if left else 'coming'}"
    await planned(family, name, then=then)
    change = {"spec": {"machineImages": [{"name": "suse", "versions": [{"version": "1.0.0"}]}]}}
    seen = await family.at("v1beta1", CLOUD_PROFILE, name)
    heard = await _patch(family, seen, change, PatchType.MERGE)
    images = (await family.get(CLOUD_PROFILE, name))["spec"]["machineImages"]
    found = {each["name"]: {one["version"]: one.get("lifecycle") for one in each["versions"]} for each in images}
    assert found == ({} if left is None else {"ubuntu": left}) | {"suse": {"1.0.0": None}}
    assert (STAYS.format("ubuntu 2.0.0") in heard) == (left is not None)


async def test_a_version_that_stays_keeps_its_owner(family: Family) -> None:
    """Its planner could never remove it again, for the API server takes it from its owner before admission is asked."""
    name = "owned"
    await planned(family, name)
    manifest = family.new.manifest(CLOUD_PROFILE, name, {"kubernetes": {"versions": [lifecycle("1.34.0", *BEGUN)]}})
    await family.apply(manifest, "planner")
    async with reconciled(family, name):
        seen = await family.at("v1beta1", CLOUD_PROFILE, name)
        seen["spec"]["kubernetes"]["versions"] = [{"version": "1.31.0"}, {"version": "1.33.0"}]
        await _patch(family, seen, {"spec": {"kubernetes": seen["spec"]["kubernetes"]}}, PatchType.MERGE)
        found = await family.get(CLOUD_PROFILE, name)
        assert stages(found)["kubernetes"]["1.34.0"] == BEGUN
        [entry] = [each for each in found["metadata"]["managedFields"] if each["manager"] == "planner"]
        assert 'k:{"version":"1.34.0"}' in entry["fieldsV1"]["f:spec"]["f:kubernetes"]["f:versions"]


# What an early date displaces.

PLAN = [stage("preview"), stage("supported", "2029-01-01T00:00:00Z"), stage("deprecated", "2030-01-01T00:00:00Z")]
EARLY, LATER = "2028-01-01T00:00:00Z", "2029-06-01T00:00:00Z"
loses = pytest.mark.parametrize("loses_stash", [False, True], ids=["stash kept", "stash lost"])


def dated(date: str | None, *, loses_stash: bool = False, classification: str = "preview") -> Tell:
    """Give the last Kubernetes version and the image's last version a date at v1beta1, or take theirs back."""

    def change(found: Document) -> None:
        [ubuntu] = found["spec"]["machineImages"]
        for listed in (found["spec"]["kubernetes"]["versions"], ubuntu["versions"]):
            fields = {"classification": classification} | ({"expirationDate": date} if date else {})
            listed[-1] = {"version": listed[-1]["version"], **fields}
        if loses_stash:
            found["metadata"].pop("annotations", None)

    return change


async def promised(family: Family, name: str) -> Callable[[], Awaitable[list[Any]]]:
    """Make a profile whose last versions have the plan; return what reads their lifecycles."""
    spec = REST | {"type": "local", "machineImages": image({"version": "1.0.0"}, lifecycle("2.0.0", *PLAN))}
    await family.profile(name, {"version": "1.31.0"}, lifecycle("1.32.0", *PLAN), **spec)

    async def read() -> list[Any]:
        found = stages(await family.get(CLOUD_PROFILE, name))
        return [found["kubernetes"]["1.32.0"], found["ubuntu"]["2.0.0"]]

    return read


@loses
async def test_a_date_that_is_taken_back_brings_the_planned_stages_back(family: Family, loses_stash: bool) -> None:
    """A slip of a client of v1beta1 that it corrects at once would cost the plan for good."""
    name = f"slip-{loses_stash}".lower()
    read = await promised(family, name)
    first = await family.get(CLOUD_PROFILE, name)
    heard = spoken(await family.edit("v1beta1", CLOUD_PROFILE, name, dated(EARLY, loses_stash=loses_stash)))
    assert heard[0] == "Kubernetes 1.32.0: set aside until expirationDate is later or removed: supported, deprecated"
    assert await read() == [[PLAN[0], stage("expired", EARLY)]] * 2
    await family.edit("v1beta1", CLOUD_PROFILE, name, dated(LATER, loses_stash=loses_stash))
    assert await read() == [[*PLAN[:2], stage("expired", LATER)]] * 2
    await family.edit("v1beta1", CLOUD_PROFILE, name, dated(EARLY, loses_stash=loses_stash))
    assert await read() == [[PLAN[0], stage("expired", EARLY)]] * 2
    await family.edit("v1beta1", CLOUD_PROFILE, name, dated(None, loses_stash=loses_stash))
    assert await read() == [PLAN] * 2
    last = await family.get(CLOUD_PROFILE, name)
    assert last["spec"] == first["spec"]
    assert STASH not in last["metadata"].get("annotations", {}), "nothing is left of it"


async def test_what_is_set_aside_lasts_as_long_as_the_lifecycle(family: Family) -> None:
    """A plan that a client of v1beta2 has changed since would be overwritten by an old one."""
    read = await promised(family, "replanned")
    await family.edit("v1beta1", CLOUD_PROFILE, "replanned", dated(EARLY))
    other = [stage("preview"), stage("expired", LATER)]

    def replan(found: Document) -> None:
        found["spec"]["kubernetes"]["versions"][-1]["lifecycle"] = other
        found["spec"]["regions"].append({"name": "there"})

    await family.edit("v1beta2", CLOUD_PROFILE, "replanned", replan)
    await family.edit("v1beta1", CLOUD_PROFILE, "replanned", dated(None))
    assert await read() == [[PLAN[0]], PLAN]


async def test_a_classification_that_leads_takes_the_stages_before_it_away(family: Family) -> None:
    """A version that a client calls deprecated would become supported later."""
    read = await promised(family, "led")
    await family.edit("v1beta1", CLOUD_PROFILE, "led", dated(EARLY))
    await family.edit("v1beta1", CLOUD_PROFILE, "led", dated(EARLY, classification="deprecated"))
    await family.edit("v1beta1", CLOUD_PROFILE, "led", dated(None, classification="deprecated"))
    assert await read() == [[stage("deprecated")]] * 2
