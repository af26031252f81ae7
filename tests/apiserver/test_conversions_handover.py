"""Two ``ConversionRules`` for one kind, and a kind whose CRD is made again, on a real API server."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

from restow.conversion.certificates import Url
from restow.conversion.operate.revisions import RevisionRecord, record_name
from restow.conversion.operate.wiring import WiringGate
from restow.crds import Crd
from restow.crds.conversionrules import CONVERSION_RULES
from restow.kube.client import HttpCluster
from restow.kube.errors import ApiError, NotFound
from restow.kube.resources import CONFIG_MAPS, CRDS
from restow.migrator import may_be_stored
from tests.apiserver.kind import until
from tests.apiserver.serving import certified
from tests.apiserver.test_conversions_in_cluster import Jobs, Replicas, gone, jobs, replicas

__all__ = ["jobs", "replicas"]


async def test_the_older_of_two_hands_over(cluster: HttpCluster, jobs: Jobs, replicas: Replicas) -> None:
    """Rules under a new name, in another chart for instance, could not replace the old ones while the CRD needs any."""
    await jobs.create("v1", "a", timeout="30s")
    await jobs.declare(jobs.rules())
    await jobs.condition("Ready", "True")
    younger = f"second.{jobs.group}"
    broken = jobs.rules({"rename": {"spoke": "spec.image", "hub": "spec.image"}}, name=younger)
    await jobs.declare(broken)
    await jobs.condition("Conflict", "True", name=younger)
    failures: list[str] = []
    reading = asyncio.create_task(read_always(jobs, failures))
    await cluster.delete(CONVERSION_RULES, jobs.name)
    told = await jobs.condition("Wired", "False")
    assert told["reason"] == "HandingOver"
    assert f"{younger} takes over once it has passed Rehearsed" in told["message"]
    # Rules that do not pass take nothing over.
    assert (await jobs.condition("Analyzed", "False", name=younger))["reason"] in ("Conflict", "Unaccounted")
    await until(lambda: analyzed(jobs, younger), "the younger rules are not looked at")
    assert not await gone(cluster, jobs.name)
    await jobs.change(jobs.rules(name=younger))
    await until(lambda: gone(cluster, jobs.name), "the older rules stay")
    await jobs.condition("Ready", "True", name=younger)
    reading.cancel()
    assert failures == []
    assert (await cluster.get(CONFIG_MAPS, record_name(jobs.name), "default")).json()["data"]["rules"] == younger
    assert await jobs.spec("v1beta1", "a") == {"timeoutSeconds": 30}


async def analyzed(jobs: Jobs, name: str) -> bool:
    """Whether rules are looked at by themselves, and not because of others."""
    conditions = {each["type"]: each["reason"] for each in (await jobs.status(name))["conditions"]}
    return conditions["Analyzed"] == "Unaccounted"


async def read_always(jobs: Jobs, failures: list[str]) -> None:
    """Read an object at the other version, again and again."""
    while True:
        try:
            assert await jobs.spec("v1beta1", "a") == {"timeoutSeconds": 30}
        except (ApiError, AssertionError) as error:
            failures.append(str(error))
        await asyncio.sleep(0.02)


async def test_a_crd_that_was_made_again_is_read_again(cluster: HttpCluster, group: str, tmp_path: Path) -> None:
    """The verdict about a former CRD of the same generation would count, and a webhook that fails would be Wired."""
    kind = Jobs(cluster, group)
    address, bundle = "https://127.0.0.1:1", certified(tmp_path)  # nothing listens there
    gate = WiringGate(cluster, lambda path: Url(f"{address}{path}"), may_be_stored)
    record = RevisionRecord(kind.name, active="one", wired=True)

    async def wired() -> Crd:
        document = kind.crd()
        config = {"url": f"{address}/convert/{kind.name}", "caBundle": bundle.base64}
        webhook = {"conversionReviewVersions": ["v1"], "clientConfig": config}
        document["spec"]["conversion"] = {"strategy": "Webhook", "webhook": webhook}
        await cluster.create(CRDS, json.dumps(document).encode())
        await kind.served()
        return Crd.from_document((await cluster.get(CRDS, kind.name)).json())

    try:
        former = await wired()
        assert (await gate.pass_([former], record, "v1")).state is True
        await cluster.delete(CRDS, kind.name)
        await until(lambda: crd_gone(kind), "the CRD stays")
        again = await wired()
        assert (again.generation, again.uid == former.uid) == (former.generation, False)
        await kind.create("v1", "a", timeout="30s")
        told = await gate.pass_([again], record, "v1")
        assert (told.state, told.reason) == (False, "NotAnswering")
    finally:
        await kind.remove()


async def crd_gone(kind: Jobs) -> bool:
    """Whether there is no such CRD."""
    try:
        await kind.cluster.get(CRDS, kind.name)
    except NotFound:
        return True
    return False
