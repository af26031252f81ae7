"""`restow operator` on a real API server, as a platform team runs it: from applied CRDs to a replica that is killed."""

from __future__ import annotations

import asyncio
import json
import re
import signal
import socket
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from restow.cli.addresses import at, read_address
from restow.conversion.certificates.ca.store import SECRETS
from restow.kube.client import HttpCluster
from restow.kube.cluster import PatchType
from restow.kube.errors import AlreadyExists, ApiError, Invalid
from restow.kube.resources import CRDS, EVENTS, LEASES
from restow.operator.family import manifests
from tests.apiserver.balancer import balancing
from tests.apiserver.kind import Document, until
from tests.apiserver.operators import LEASE, Operator, Starter, bundles, holder, operators
from tests.apiserver.profile_api import Api, install
from tests.apiserver.profile_controllers import World
from tests.restow.commandline import restow

EVER = "2999-01-01T00:00:00Z"
VERSIONS = [
    {"version": "1.31.2", "classification": "supported"},
    {"version": "1.30.5", "classification": "deprecated", "expirationDate": EVER},
]


@pytest.fixture
async def starter(cluster: HttpCluster) -> AsyncIterator[Starter]:
    """A way to start operators; all that they leave goes."""
    async with operators(cluster) as made:
        yield made


async def apply_crds(cluster: HttpCluster, starter: Starter) -> None:
    """Apply the CRDs with the address of the operator that is going to run."""
    address = read_address(starter.url)
    crds = manifests(lambda path: at(address, path))
    await install(cluster, {each["metadata"]["name"]: dict(each) for each in crds})


async def wired(cluster: HttpCluster) -> None:
    """Wait until API servers know and trust the operator everywhere."""
    await until(lambda: bundles(cluster), "CRDs and configurations do not name the operator")


async def profile(cluster: HttpCluster, name: str) -> Document:
    """Have a client of v1beta1 create a CloudProfile; waits until the API server has noticed the webhooks."""
    old = Api(cluster, "v1beta1")
    return await old.create(old.manifest("CloudProfile", name, {"kubernetes": {"versions": VERSIONS}}))


async def test_a_profile_from_an_old_client_to_its_end(
    starter: Starter, cluster: HttpCluster, kubeconfig: Path
) -> None:
    """All parts together: conversion, statuses, warnings, refusals, protection; each alone is tested elsewhere."""
    await apply_crds(cluster, starter)
    operator = await starter.start(kubeconfig)
    await wired(cluster)
    world, old = World(cluster), Api(cluster, "v1beta1")
    await profile(cluster, "a")
    found = await world.get("CloudProfile", "a")
    assert found["spec"]["kubernetes"]["versions"][1]["lifecycle"] == [
        {"classification": "deprecated"},
        {"classification": "expired", "startTime": EVER},
    ]
    await world.says("CloudProfile", "a", v1_31_2="supported", v1_30_5="deprecated")

    shoot = await world.shoot("s", "CloudProfile", "a", kubernetes={"version": "1.30.5"})
    shown = (await cluster.get(old.at("Shoot"), "s", "default")).json()
    assert shown["spec"]["cloudProfileName"] == "a"
    with pytest.raises(Invalid) as refused:
        await old.change(await world.get("CloudProfile", "a"), kubernetes={"versions": VERSIONS[:1]})
    assert 'CloudProfile "a"' in refused.value.message and "1.30.5" in refused.value.message, refused.value.message

    await old.delete(found)
    note = await until(lambda: warning(cluster, found), "nobody says why it stays")
    assert "still referencing it: [default/s]" in note, note
    await old.delete(shoot | {"kind": "Shoot"})
    await until(lambda: gone(world, "a"), "the profile stays though nobody uses it")

    status, metrics = await operator.get("/metrics")
    assert status == 200
    for line in (
        'restow_admission_reviews_total{result="denied",step="cloudprofiles"} 1.0',
        'restow_leader{lease="default/restow-operator"} 1.0',
        "restow_webhook_wiring_problems 0.0",
        'restow_operator_work_ended_total{work="controllers"} 0.0',
        'restow_operator_work_ended_total{work="certificates"} 0.0',
        'restow_controller_reconciles_total{controller="cloudprofile",result="failed"} ',
        "process_resident_memory_bytes ",
        "restow_build_info{",
    ):
        assert line in metrics, metrics
    assert 'restow_controller_reconciles_total{controller="cloudprofile",result="succeeded"}' in metrics
    assert not any(re.match(r"\S+ (ERROR|WARNING) ", line) for line in operator.log), operator.log


async def warning(cluster: HttpCluster, obj: Document) -> str:
    """What an Event says of an object that is still in use."""
    items = (await cluster.list_page(EVENTS, "default")).json()["items"]
    uid = obj["metadata"]["uid"]
    notes = [each["note"] for each in items if each["regarding"].get("uid") == uid]
    return notes[0] if notes else ""


async def gone(world: World, name: str) -> bool:
    """Whether a CloudProfile is gone."""
    return not await world.exists("CloudProfile", name)


async def test_an_old_client_is_told_what_its_edit_does_not_do(
    starter: Starter, cluster: HttpCluster, kubeconfig: Path
) -> None:
    """The step has to see what was sent, before others patch it: registered otherwise it would be silent."""
    operator = await starter.start(kubeconfig, "--install-crds")
    await wired(cluster)
    world, old = World(cluster), Api(cluster, "v1beta1")
    stages = [
        {"classification": "preview"},
        {"classification": "supported", "startTime": "2020-01-01T00:00:00Z"},
        {"classification": "deprecated", "startTime": EVER},
    ]
    await world.profile("a", {"version": "1.31.2", "lifecycle": stages})
    await world.says("CloudProfile", "a", v1_31_2="supported")
    shown = (await cluster.get(old.at("CloudProfile"), "a")).json()
    shown["spec"]["kubernetes"]["versions"][0]["classification"] = "preview"
    del shown["metadata"]["annotations"]  # as a pipeline's file, so that the stash has to be restored as well
    reply = await cluster.replace(old.at("CloudProfile"), "a", json.dumps(shown).encode())
    assert [each for each in reply.warnings if "classification stays supported" in each], reply.warnings
    assert (await world.get("CloudProfile", "a"))["spec"]["kubernetes"]["versions"][0]["lifecycle"] == stages
    hub = (await cluster.get(world.api.at("CloudProfile"), "a")).json()
    hub["spec"]["kubernetes"]["versions"][0]["lifecycle"][2]["startTime"] = "2998-01-01T00:00:00Z"
    reply = await cluster.replace(world.api.at("CloudProfile"), "a", json.dumps(hub).encode())
    assert not [each for each in reply.warnings if "classification stays" in each], "that is about old clients"
    assert operator.process.returncode is None


async def test_a_restart_loses_nothing(starter: Starter, cluster: HttpCluster, kubeconfig: Path) -> None:
    """State is in the cluster: the same CA, no write of a CRD, a lease that is free at once."""
    await apply_crds(cluster, starter)
    first = await starter.start(kubeconfig)
    await wired(cluster)
    world = World(cluster)
    for name in ("a", "c"):
        await profile(cluster, name)
        await world.says("CloudProfile", name, v1_31_2="supported", v1_30_5="deprecated")
    before = await bundles(cluster)
    assert await holder(cluster)
    assert await first.stop() == 0
    assert await holder(cluster) == "", "the lease is not released"
    await while_it_is_down(cluster)

    second = await starter.start(kubeconfig)
    await until(second.leads, "it does not lead")
    shown = (await cluster.get(Api(cluster, "v1beta1").at("CloudProfile"), "a")).json()
    assert shown["spec"]["kubernetes"]["versions"] == VERSIONS
    assert await bundles(cluster) == before
    await profile(cluster, "b")
    await world.says("CloudProfile", "b", v1_31_2="supported", v1_30_5="deprecated")
    await until(lambda: gone(world, "c"), "what was deleted meanwhile stays")
    assert not any("wired to" in line or ("installed" in line and "Configuration" in line) for line in second.log)


async def while_it_is_down(cluster: HttpCluster) -> None:
    """What docs/operator.md says of that: the hub is read, labelled and deleted; all else waits."""
    old, new = Api(cluster, "v1beta1"), Api(cluster, "v1beta2")
    profiles = new.at("CloudProfile")
    found = (await cluster.get(profiles, "a")).json()
    for body, subresource in (({"metadata": {"labels": {"x": "y"}}}, None), ({"status": found["status"]}, "status")):
        change = json.dumps(body).encode()
        await cluster.patch(profiles, "a", change, patch_type=PatchType.MERGE, subresource=subresource)
    await cluster.delete(profiles, "c")
    with pytest.raises(ApiError, match="failed calling webhook"):
        await new.create(new.manifest("CloudProfile", "z", {"kubernetes": {"versions": [{"version": "1.31.2"}]}}))
    with pytest.raises(ApiError, match="failed calling webhook"):
        await new.change(found | {"kind": "CloudProfile"}, kubernetes={"versions": [{"version": "1.31.3"}]})
    with pytest.raises(ApiError, match=r"conversion webhook for .* failed"):
        await cluster.get(old.at("CloudProfile"), "a")


async def test_controllers_that_cannot_work_begin_again(
    starter: Starter, cluster: HttpCluster, kubeconfig: Path
) -> None:
    """CRDs that come late, a lease that somebody takes away: it serves on, and does its work as soon as it can."""
    operator = await starter.start(kubeconfig)
    await until(lambda: said(operator, "controllers ended by an error"), "they do not miss the CRDs")
    assert await operator.ready()
    await apply_crds(cluster, starter)
    await wired(cluster)
    await profile(cluster, "a")
    await World(cluster).says("CloudProfile", "a", v1_31_2="supported", v1_30_5="deprecated")

    theft = json.dumps({"spec": {"holderIdentity": "thief", "leaseDurationSeconds": 3}}).encode()
    await cluster.patch(LEASES, LEASE, theft, "default", patch_type=PatchType.MERGE)
    await until(lambda: said(operator, "lost the lead"), "it goes on without the lease")
    await profile(cluster, "b")
    await World(cluster).says("CloudProfile", "b", v1_31_2="supported", v1_30_5="deprecated")
    assert await operator.stop() == 0


async def said(operator: Operator, text: str) -> bool:
    """Whether its log says so."""
    return any(text in line for line in operator.log)


@pytest.mark.parametrize("flag", ["--port", "--metrics-port"])
@pytest.mark.parametrize("mode", [(), ("--conversions",)], ids=["family", "conversions"])
async def test_a_port_that_is_taken_leaves_no_trace(
    cluster: HttpCluster, kubeconfig: Path, flag: str, mode: tuple[str, ...]
) -> None:
    """Secrets, Leases and CRDs of a process that never served would stay, and nobody would know whose they are."""
    before = await kept(cluster)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        ports = {"--port": "0", "--metrics-port": "0"} | {flag: address.rpartition(":")[2]}
        flags = ("--own-ca=https://127.0.0.1:9", "--install-crds", "--bind=127.0.0.1", *mode)
        flags += tuple(f"{name}={number}" for name, number in ports.items())
        ran = await asyncio.to_thread(restow, "operator", *flags, kubeconfig=kubeconfig)
    assert ran.refusal.startswith(f"cannot listen on {address} ({flag}): Address already in use")
    assert await kept(cluster) == before


async def kept(cluster: HttpCluster) -> set[str]:
    """The Secrets, Leases and CRDs that there are."""
    kinds = ((SECRETS, "default"), (LEASES, "default"), (CRDS, None))
    return {
        f"{resource.plural}/{item['metadata']['name']}"
        for resource, namespace in kinds
        for item in (await cluster.list_page(resource, namespace)).json()["items"]
    }


async def test_another_replica_goes_on(starter: Starter, cluster: HttpCluster, kubeconfig: Path) -> None:
    """A node that dies releases nothing: the other replica serves on, and leads when the lease has run out."""
    async with balancing() as balancer:
        starter.port = balancer.port
        await apply_crds(cluster, starter)
        replicas = []
        for _ in range(2):
            replica = await starter.start(kubeconfig, port=0)
            balancer.add(replica.port, replica.ready)
            replicas.append(replica)
        await wired(cluster)
        world = World(cluster)
        leader = await until(lambda: leading(replicas), "no replica leads")
        (other,) = (each for each in replicas if each is not leader)
        await profile(cluster, "a")
        await world.says("CloudProfile", "a", v1_31_2="supported", v1_30_5="deprecated")
        assert not await other.leads()
        assert await leader.stop(signal.SIGKILL) == -signal.SIGKILL
        try:
            await until(lambda: created(cluster, "b"), "the other replica does not serve")
            await until(other.leads, "the lease has run out after 15 seconds, and nobody leads")
        except AssertionError as error:
            error.add_note("".join(other.log))
            raise
        await world.says("CloudProfile", "b", v1_31_2="supported", v1_30_5="deprecated")
        assert await readable(cluster, "b")


async def test_an_operator_with_a_wrong_clock_does_not_lead(
    starter: Starter, cluster: HttpCluster, kubeconfig: Path, tmp_path: Path
) -> None:
    """A leader whose clock is ahead would write statuses early, and the next leader would take them back."""
    await apply_crds(cluster, starter)
    ahead = tmp_path / "ahead"
    ahead.write_text("45")
    operator = await starter.start(kubeconfig, clock=ahead)

    async def does(what: str) -> bool:
        """Whether the log has a reason, which starts with what it does."""
        return any(f"{what}: the clock of this machine is at least 4" in line for line in operator.log)

    async def hands_over() -> bool:
        return not await operator.leads() and await holder(cluster) == ""

    await wired(cluster)
    await until(lambda: does("does not try to lead"), "the log has no reason")
    assert "restow_clock_wrong 1.0" in (await operator.get("/metrics"))[1]
    assert await holder(cluster) == ""
    world = World(cluster)
    await profile(cluster, "a")  # it serves all the same
    assert await world.classified("CloudProfile", "a") == {}
    ahead.write_text("0")
    await until(operator.leads, "it does not lead with a right clock")
    await world.says("CloudProfile", "a", v1_31_2="supported", v1_30_5="deprecated")
    ahead.write_text("-45")
    await until(lambda: does("gives up the lead"), "it goes on by a wrong clock")
    await until(hands_over, "it does not release the lease")
    assert await operator.ready()


async def leading(replicas: list[Operator]) -> Operator | None:
    """The replica that leads."""
    found = [each for each in replicas if await each.leads()]
    return found[0] if found else None


async def created(cluster: HttpCluster, name: str) -> bool:
    """Whether an old client can create a profile, and read it; open connections break with a process that is killed.

    The API server may store the profile and then fail to convert its answer, so the next attempt finds it there.
    """
    try:
        await profile(cluster, name)
    except AlreadyExists:
        return await readable(cluster, name)
    except ApiError:
        return False
    return True


async def readable(cluster: HttpCluster, name: str) -> bool:
    """Whether an old client can read a profile, which the API server has to have converted."""
    try:
        await cluster.get(Api(cluster, "v1beta1").at("CloudProfile"), name)
    except ApiError:
        return False
    return True
