"""The self-managed CA on a real API server: established, wired, used, and rotated under load."""

from __future__ import annotations

import asyncio
import base64
import json
import re
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
import yaml

from restow.controlplane.plane import ControlPlane
from restow.conversion.certificates import Bundle, NotAnswering, Url
from restow.conversion.certificates.apply import read_crd
from restow.conversion.certificates.ca import CertificateDetails, Certificates, Lifetimes, RotationStep
from restow.conversion.certificates.ca.store import SECRETS
from restow.conversion.certificates.probe import probe
from restow.conversion.certificates.wiring.clientconfig import Address
from restow.conversion.certificates.wiring.crd import bundle_of
from restow.crds import Crd
from restow.kube import PatchType, connect
from restow.kube.client import HttpCluster
from restow.kube.errors import NotFound
from restow.kube.resources import CRDS
from tests.apiserver.access import Access, Right
from tests.apiserver.kind import until
from tests.apiserver.load import under_load
from tests.apiserver.provider import GATEWAYS, Provider, url_of
from tests.apiserver.serving import ROOT, Instance, certified, serving

NAME = "restow-webhook"
LIVES = Lifetimes(settle=timedelta(0), margin=timedelta(seconds=3))
PARALLEL_LOOKS = 2


class Kept:
    """Certificates of one replica, and what they did."""

    def __init__(self, cluster: HttpCluster, folder: Path, port: int, *, poll: float = 0.2) -> None:
        self.steps: list[RotationStep] = []
        self.details: CertificateDetails | None = None
        self.certificates = Certificates(
            cluster,
            NAME,
            "default",
            hosts=["127.0.0.1"],
            folder=folder,
            crds={GATEWAYS: Url(url_of(port, GATEWAYS))},
            lifetimes=LIVES,
            poll=poll,
            probe=hesitant,
            hook=self._told,
        )

    def _told(self, details: CertificateDetails) -> None:
        self.details = details
        self.steps += details.taken


async def hesitant(crd: Crd, address: Address, bundle: Bundle) -> None:
    """Try the webhook, but give a server time to load what is in its folder: whoever is hasty is found out."""
    await asyncio.sleep(1.5)
    await probe(crd, address, bundle)


async def forget(cluster: HttpCluster) -> None:
    """Delete the Secrets of an earlier test."""
    for name in (NAME, f"{NAME}-ca"):
        try:
            await cluster.delete(SECRETS, name, "default")
        except NotFound:
            continue


async def data(cluster: HttpCluster, name: str) -> dict[str, bytes]:
    """What a Secret holds."""
    secret = (await cluster.get(SECRETS, name, "default")).json()
    return {key: base64.b64decode(value) for key, value in secret["data"].items()}


async def current(cluster: HttpCluster) -> Bundle:
    """The bundle of the gateways' CRD."""
    return bundle_of(await read_crd(cluster, GATEWAYS))


async def test_no_request_fails_over_a_rotation_of_the_ca(cluster: HttpCluster, tmp_path: Path) -> None:
    """Two replicas keep one CA: from nothing to a rotated one, with clients at work, and new connections all the time.

    Whoever rotates certificates by hand knows the minutes in which nothing verifies.
    """
    await forget(cluster)
    provider = Provider(cluster)
    await provider.create_crd(GATEWAYS)
    folders = [tmp_path / str(number) for number in range(2)]
    await Kept(cluster, folders[0], 1).certificates.prepare()
    async with serving(folders[0]) as instance, asyncio.TaskGroup() as group:
        kept = [Kept(cluster, folder, instance.port) for folder in folders]
        tasks = [group.create_task(each.certificates.run_forever()) for each in kept]
        tasks.append(group.create_task(hurry(instance, folders[0])))
        try:
            await until(lambda: trusted(cluster), "the CRD was not wired")
            await provider.served(GATEWAYS)
            first = await current(cluster)
            generation = (await read_crd(cluster, GATEWAYS)).generation
            async with under_load(provider) as load:
                looks = [group.create_task(look(cluster, instance)) for _ in range(PARALLEL_LOOKS)]
                await kept[1].certificates.rotate_authority()
                await until(lambda: rotated(cluster, first), "the CA was not rotated")
                await until(lambda: enough(load.succeeded), "the clients came to nothing")
                for task in looks:
                    task.cancel()
            assert not load.failures, load.failures[:3]
            crd = await read_crd(cluster, GATEWAYS)
            assert crd.generation == generation + 2, "one write to add the new CA, one to take the old one out"
            leaf, authority = await data(cluster, NAME), await data(cluster, f"{NAME}-ca")
            assert {*authority} == {"ca.crt", "ca.key"} and leaf["ca.crt"] == authority["ca.crt"]
            assert Bundle.from_pem(authority["ca.crt"]) == bundle_of(crd)
            assert (folders[0] / "tls.crt").read_bytes() == (folders[1] / "tls.crt").read_bytes() == leaf["tls.crt"]
            taken = [step for each in kept for step in each.steps]
            assert taken.count(RotationStep.PROMOTE) == taken.count(RotationStep.FORGET) == 1
        finally:
            for task in tasks:
                task.cancel()
            await provider.remove()
            await forget(cluster)


@pytest.mark.parametrize("allowed", [True, False], ids=["watching", "without the right"])
async def test_what_is_undone_is_wired_again_at_once(
    control_plane: ControlPlane, cluster: HttpCluster, tmp_path: Path, allowed: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """Until it is, every version but the stored one is down: nobody waits for the next look, an hour away here.

    Who may not watch is told so, and looks as often as before.
    """
    await forget(cluster)
    provider, access = Provider(cluster), Access(control_plane, cluster)
    await provider.create_crd(GATEWAYS)
    rights = documented_rules()
    verbs = ("get", "list", "watch", "patch") if allowed else ("get", "patch")
    keeper = await access.user("watcher", *(replace(each, verbs=verbs) for each in rights["ClusterRole"]))
    await access.grant(keeper, *rights["Role"], namespace="default")
    try:
        async with connect(keeper.kubeconfig) as own, asyncio.TaskGroup() as group:
            await Kept(own, tmp_path, 1).certificates.prepare()
            async with serving(tmp_path) as instance:
                kept = [Kept(own, tmp_path, instance.port, poll=3600 if allowed else 0.2) for _ in range(3)]
                tasks = [group.create_task(each.certificates.run_forever()) for each in kept]
                try:
                    await until(lambda: trusted(cluster), "the CRD was not wired")
                    ours = await current(cluster)
                    foreign = certified(tmp_path / "foreign")
                    for conversion in (
                        {"webhook": {"clientConfig": {"caBundle": None}}},
                        {"webhook": {"clientConfig": {"caBundle": foreign.base64}}},
                        {"strategy": "None", "webhook": None},
                    ):
                        await until(lambda: settled(kept), "the replicas do not come to rest")
                        body = json.dumps({"spec": {"conversion": conversion}}).encode()
                        await cluster.patch(CRDS, GATEWAYS, body, patch_type=PatchType.MERGE)
                        await until(lambda: trusts(cluster, ours), f"not wired again after {conversion}")
                    await provider.served(GATEWAYS)
                finally:
                    for task in tasks:
                        task.cancel()
        assert ("cannot be watched" in caplog.text) is not allowed
    finally:
        await access.remove()
        await provider.remove()
        await forget(cluster)


async def settled(kept: list[Kept]) -> bool:
    """Whether every replica found all wired."""
    return all(each.details is not None and each.details.wired == (GATEWAYS,) for each in kept)


async def trusts(cluster: HttpCluster, bundle: Bundle) -> bool:
    """Whether the CRD names a webhook, and has all of a bundle."""
    crd = await read_crd(cluster, GATEWAYS)
    return crd.strategy == "Webhook" and bundle_of(crd) >= bundle


async def trusted(cluster: HttpCluster) -> bool:
    """Whether the CRD has a bundle."""
    return len(await current(cluster)) == 1


async def rotated(cluster: HttpCluster, first: Bundle) -> bool:
    """Whether the CRD has another CA than the first, and no more than that, and it is settled."""
    now = await current(cluster)
    return len(now) == 1 and not now & first and {*await data(cluster, f"{NAME}-ca")} == {"ca.crt", "ca.key"}


async def enough(succeeded: int) -> bool:
    """Whether the clients were really at work."""
    return succeeded > 100


async def look(cluster: HttpCluster, instance: Instance) -> None:
    """Verify what is served by what the CRD says, over a new connection each time: there is no moment without it."""
    while True:
        crd = await read_crd(cluster, GATEWAYS)
        try:
            await probe(crd, Url(url_of(instance.port, GATEWAYS)), bundle_of(crd))
        except NotAnswering:
            # The CRD may have changed between reading it and connecting; then, and only then, once more.
            again: Crd = await read_crd(cluster, GATEWAYS)
            if again.generation == crd.generation:
                raise
        await asyncio.sleep(0.02)


async def hurry(instance: Instance, folder: Path) -> None:
    """Have the server load what is new in its folder at once; by itself it looks every five seconds."""
    seen = (folder / "..data").readlink()
    while True:
        await asyncio.sleep(0.1)
        if (now := (folder / "..data").readlink()) != seen:
            seen = now
            instance.reload()


async def test_the_documented_rights_are_enough(
    control_plane: ControlPlane, cluster: HttpCluster, tmp_path: Path
) -> None:
    """People copy them: a right too few leaves a webhook without a certificate."""
    await forget(cluster)
    rules = documented_rules()
    provider, access = Provider(cluster), Access(control_plane, cluster)
    await provider.create_crd(GATEWAYS)
    user = await access.user("keeper", *rules["ClusterRole"])
    await access.grant(user, *rules["Role"], namespace="default")
    try:
        async with connect(user.kubeconfig) as keeper:
            await Kept(keeper, tmp_path, 1).certificates.prepare()
            async with serving(tmp_path) as instance:
                kept = Kept(keeper, tmp_path, instance.port)
                await kept.certificates.reconcile()
                await kept.certificates.rotate_authority()
                await kept.certificates.reconcile()
                assert kept.details is not None and kept.details.wired == (GATEWAYS,)
                assert len(await current(cluster)) == 2
    finally:
        await access.remove()
        await provider.remove()
        await forget(cluster)


def documented_rules() -> dict[str, list[Right]]:
    """The rules of docs/certificates.md, for the names of these tests."""
    text = (ROOT / "docs" / "certificates.md").read_text(encoding="utf-8")
    (block,) = (each for each in re.findall(r"```yaml\n(.*?)```", text, re.DOTALL) if "kind: Role" in each)
    block = block.replace("my-webhook", NAME).replace("widgets.example.com", GATEWAYS)
    return {
        document["kind"]: [
            Right(group, resource, tuple(rule["verbs"]), name)
            for rule in document["rules"]
            for group in rule["apiGroups"]
            for resource in rule["resources"]
            for name in rule.get("resourceNames", [""])
        ]
        for document in yaml.safe_load_all(block)
    }
