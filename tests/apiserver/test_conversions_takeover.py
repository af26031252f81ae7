"""Webhooks of other projects in CRDs, on a real API server: they stay, or are taken over by name and come back.

The webhook that answers is controller-runtime's, as most operators have it.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path

import pytest

from benchmarks.conversion.kinds import GROUP, crd_of, keyed, struct
from benchmarks.conversion.webhooks import Webhook, certificate, controller_runtime
from restow.conversion.certificates import Bundle, Service, Url, Wiring, WiringRefused, wire
from restow.conversion.certificates.wiring.clientconfig import Address, client_config, name_of
from restow.conversion.operate.revisions import BREAK_GLASS, LOST, Former, record_name
from restow.crds.conversionrules import CONVERSION_RULES
from restow.kube import PatchType
from restow.kube.client import HttpCluster
from restow.kube.errors import ApiError, NotFound, TooManyRequests
from restow.kube.resources import CONFIG_MAPS, CRDS, Resource
from tests.apiserver.kind import Document, until
from tests.apiserver.serving import certified
from tests.apiserver.test_conversions_in_cluster import Jobs, Replicas, gone, replicas

__all__ = ["replicas"]  # a fixture

HOWS = ("create", "update", "apply", "nobody known")
THEIRS: dict[str, Address] = {
    "Service": Service("their-system", "webhook", "/convert"),
    "URL": Url("https://127.0.0.1:1/convert"),
}
OURS = (Service("restow-system", "restow-webhook", "/convert"), Url("https://127.0.0.1:2/convert"))


def conversion(address: Address, bundle: Bundle) -> Document:
    """What another project writes."""
    config = {**client_config(address), "caBundle": bundle.base64}
    return {"strategy": "Webhook", "webhook": {"clientConfig": config, "conversionReviewVersions": ["v1"]}}


async def install(jobs: Jobs, how: str, theirs: Document) -> Document:
    """Have another client make the CRD, with its conversion; return it as it was read."""
    document = jobs.crd()
    whole = {**document, "spec": {**document["spec"], "conversion": theirs}}
    if how == "apply":
        params = {"fieldManager": "argocd"}
        await jobs.cluster.patch(CRDS, jobs.name, encoded(whole), patch_type=PatchType.APPLY, params=params)
    else:
        first = document if how == "update" else whole
        await jobs.cluster.create(CRDS, encoded(first), params={"fieldManager": "kubectl-create"})
    if how == "update":
        await write(jobs, {"spec": {"conversion": theirs}}, "kubectl-edit")
    if how == "nobody known":
        await write(jobs, {"metadata": {"managedFields": [{}]}}, "kubectl-edit")
    await jobs.served()
    return await crd(jobs)


async def write(jobs: Jobs, change: Document, manager: str) -> None:
    """Change the CRD by a merge patch."""
    params = {"fieldManager": manager}
    await jobs.cluster.patch(CRDS, jobs.name, encoded(change), patch_type=PatchType.MERGE, params=params)


async def crd(jobs: Jobs) -> Document:
    """The CRD as it is."""
    found: Document = (await jobs.cluster.get(CRDS, jobs.name)).json()
    return found


async def remembered(jobs: Jobs) -> Former | None:
    """What the record says of the webhook that was there before."""
    record = (await jobs.cluster.get(CONFIG_MAPS, record_name(jobs.name), "default")).json()
    return Former.read(record["data"]["former"])


async def stays(jobs: Jobs, before: Document) -> None:
    """Fail if anyone has written spec.conversion, or taken a field of it."""
    after = await crd(jobs)
    assert json.dumps(after["spec"]["conversion"]) == json.dumps(before["spec"]["conversion"])
    assert after["metadata"]["generation"] == before["metadata"]["generation"]
    assert after["metadata"].get("managedFields") == before["metadata"].get("managedFields")


def encoded(document: Document) -> bytes:
    return json.dumps(document).encode()


@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize("theirs", THEIRS)
async def test_another_projects_webhook_is_not_written(
    how: str, theirs: str, cluster: HttpCluster, group: str, tmp_path: Path
) -> None:
    """From a Service and from a URL, to a Service and to a URL: the webhook would be gone, and no one would be told."""
    jobs, bundle = Jobs(cluster, group), certified(tmp_path)
    try:
        before = await install(jobs, how, conversion(THEIRS[theirs], bundle))
        for ours in OURS:
            with pytest.raises(WiringRefused, match=f"{jobs.name} names the webhook at .* restow did not write it"):
                await wire(cluster, jobs.name, Wiring(bundle, ours), probe=unasked)
            other = {**before["spec"]["conversion"], "strategy": "None"}
            with pytest.raises(WiringRefused):
                await wire(cluster, jobs.name, Wiring(bundle, ours, replaces=other), probe=unasked)
        await stays(jobs, before)
    finally:
        await cluster.delete(CRDS, jobs.name)


async def unasked(*_probed: object) -> None:
    """Answer for every webhook."""


async def test_rules_leave_another_projects_webhook(
    cluster: HttpCluster, group: str, replicas: Replicas, tmp_path: Path
) -> None:
    """Rules for a kind of another project would take its conversions away, and deleting them would leave it none."""
    bundle, made = certified(tmp_path), {}
    kinds = {how: Jobs(cluster, f"{how.replace(' ', '-')}.{group}") for how in HOWS}
    await replicas.start()
    try:
        for (how, jobs), address in zip(kinds.items(), (*THEIRS.values(), *THEIRS.values()), strict=True):
            made[how] = await install(jobs, how, conversion(address, bundle))
            # One that names another webhook than the one that is there asks for nothing.
            await jobs.declare(jobs.rules(takeOver="their-system/another"))
        for how, jobs in kinds.items():
            told = await jobs.condition("Wired", "False")
            assert told["reason"] == "ForeignWebhook" and jobs.name in told["message"]
            there = name_of(THEIRS["Service" if how in ("create", "apply") else "URL"])
            assert there in told["message"] and ("by argocd" in told["message"]) == (how == "apply")
            assert (f"say {there} there" in told["message"]) == (how != "apply")
            await jobs.change(jobs.rules(takeOver=there if how == "apply" else "their-system/webhook:444"))
            told = await jobs.condition("Wired", "False", 2)
            assert told["reason"] == "ForeignWebhook"
            await cluster.delete(CONVERSION_RULES, jobs.name)
        for how, jobs in kinds.items():
            await until(partial(gone, cluster, jobs.name), f"the rules of {how} stay")
            await stays(jobs, made[how])
    finally:
        for jobs in kinds.values():
            await jobs.remove()


DATA = "cluster.x-k8s.io/conversion-data"
TEXT = {"type": "string"}
UP = """
!has(self.classification) && !has(self.expirationDate) ? absent
: [{"classification": self.?classification.orValue("supported")}]
  + (has(self.expirationDate) ? [{"classification": "expired", "startTime": self.expirationDate}] : [])
"""
DOWN = """
{"classification": self.filter(s, s.classification != "expired")[?0].?classification.orValue(absent),
 "expirationDate": self.filter(s, s.classification == "expired")[?0].?startTime.orValue(absent)}
"""
V1 = {"versions": [{"version": "1.30", "classification": "supported", "expirationDate": "2027-01-01"}]}
V2 = {
    "versions": [
        {
            "version": "1.30",
            "lifecycle": [
                {"classification": "supported"},
                {"classification": "expired", "startTime": "2027-01-01"},
            ],
        }
    ]
}


class Profiles(Jobs):
    """The kind of the Go webhook, with the fields that this test needs."""

    def __init__(self, cluster: HttpCluster, *, storage: str = "v2") -> None:
        super().__init__(cluster, GROUP)
        self.name, self.kind, self._storage = f"profiles.{GROUP}", "Profile", storage

    def crd(self, *, more: Document | None = None) -> Document:
        """The CRD, without spec.conversion."""
        stages = {"type": "array", "items": struct(classification=TEXT, startTime=TEXT)}
        old = struct(version=TEXT, classification=TEXT, expirationDate=TEXT)
        new, paused = struct(version=TEXT, lifecycle=stages), {"paused": {"type": "boolean"}}
        schemas = (
            struct(spec=struct(kubernetes=struct(versions=keyed(each, "version")), **own))
            for each, own in ((old, {}), (new, paused))
        )
        document: Document = dict(crd_of("Profile", *schemas).document)
        for version in document["spec"]["versions"]:
            version["storage"] = version["name"] == self._storage
        return document

    @staticmethod
    def versions_rule() -> Document:
        """The rule of the list that both versions have."""
        pair = {"spoke": ["classification", "expirationDate"], "hub": "lifecycle", "up": UP, "down": DOWN}
        return {"each": {"spoke": "spec.kubernetes.versions", "rules": [{"pair": {**pair, "loses": "both"}}]}}

    def rules(self, *rules: Document, name: str | None = None, **spec: object) -> Document:
        """The conversions that the Go webhook has."""
        document = super().rules(
            *(rules or (self.versions_rule(), {"stash": {"hub": "spec.paused"}})), name=name, **spec
        )
        document["spec"] |= {"target": {"group": GROUP, "kind": "Profile"}, "hub": "v2"}
        document["spec"]["spokes"][0]["version"] = "v1"
        return document

    def at(self, version: str) -> Resource:
        """The resource at a version."""
        return Resource(GROUP, version, "profiles", namespaced=True)

    async def annotations(self, version: str, name: str) -> Document:
        """The annotations of an object at a version."""
        metadata = (await self.cluster.get(self.at(version), name, "default")).json()["metadata"]
        found: Document = metadata.get("annotations", {})
        return found

    async def edit(self, version: str, name: str, spec: Document) -> None:
        """Change an object at a version."""
        body = encoded({"spec": spec})
        await self.cluster.patch(self.at(version), name, body, "default", patch_type=PatchType.MERGE)

    async def served(self) -> None:
        """Wait until the CRD is served at both versions."""

        async def listed() -> bool:
            try:
                for version in ("v1", "v2"):
                    await self.cluster.list_page(self.at(version))
            except ApiError:
                return False
            return True

        await until(listed, f"{self.name} is not served")


class Reads:
    """Reads of an object at both versions, one after the other, while a test runs."""

    def __init__(self) -> None:
        self.done = 0
        self.failed: list[str] = []

    async def until(self, jobs: Jobs) -> None:
        """Read until cancelled."""
        while True:
            try:
                await self.once(jobs)
                with suppress(TooManyRequests):  # as after any change of a CRD: client-go asks again
                    await jobs.cluster.list_page(jobs.at("v1"))
            except (ApiError, AssertionError) as error:
                self.failed.append(str(error))
            self.done += 1
            await asyncio.sleep(0.01)

    async def once(self, jobs: Jobs) -> None:
        """Read the object at both versions."""
        assert await jobs.spec("v1", "a") == {"kubernetes": V1}
        assert await jobs.spec("v2", "a") == {"kubernetes": V2}

    @asynccontextmanager
    async def reading(self, jobs: Jobs) -> AsyncIterator[None]:
        """Read meanwhile."""
        task = asyncio.create_task(self.until(jobs))
        try:
            yield
        finally:
            task.cancel()
            await asyncio.wait([task])


class Paused(Reads):
    """Reads of ``spec.paused`` at v2."""

    async def once(self, jobs: Jobs) -> None:
        """Read."""
        for name in ("a", "edited"):
            assert "paused" in await jobs.spec("v2", name)
            await jobs.spec("v1", name)


@asynccontextmanager
async def profiles(
    cluster: HttpCluster, go: Webhook, bundle: Bundle
) -> AsyncIterator[tuple[Profiles, Document, Reads]]:
    """The kind, converted by the Go webhook, with an object that is read all the time; and the CRD as it was made."""
    kind, reads = Profiles(cluster), Reads()
    theirs = conversion(Url(f"https://127.0.0.1:{go.port}{go.path}"), bundle)
    try:
        made = await install(kind, "create", theirs)
        await kind.create("v2", "a", kubernetes=V2)
        await kind.create("v1", "b", kubernetes=V1)
        async with reads.reading(kind):
            yield kind, made, reads
    finally:
        await kind.remove()


@pytest.fixture
async def go(tmp_path: Path) -> AsyncIterator[tuple[Webhook, Bundle]]:
    """controller-runtime's webhook, and what verifies it."""
    made = certificate(tmp_path)
    async with controller_runtime(made) as webhook:
        yield webhook, Bundle.from_pem(made.ca)


@pytest.mark.timeout(1800)  # the first time, the webhook is built
async def test_a_go_webhook_is_taken_over_and_comes_back(
    cluster: HttpCluster, go: tuple[Webhook, Bundle], replicas: Replicas
) -> None:
    """A takeover with one failed read, or without a way back, is none that anyone can try in production."""
    await replicas.start()
    await replicas.start(port=0)
    async with profiles(cluster, *go) as (kind, made, reads):
        there = made["spec"]["conversion"]["webhook"]["clientConfig"]["url"]
        await kind.declare(kind.rules())
        told = await kind.condition("Wired", "False")
        assert told["reason"] == "ForeignWebhook" and f"spec.takeOver: {there}" in told["message"]
        await stays(kind, made)

        await kind.change(kind.rules(takeOver=there))
        told = await kind.condition("Ready", "True", 2)
        ours = (await crd(kind))["spec"]["conversion"]
        assert ours["webhook"]["clientConfig"]["url"] == f"https://127.0.0.1:{replicas.port}/convert/{kind.name}"
        assert Bundle.from_base64(ours["webhook"]["clientConfig"]["caBundle"]) & go[1] == Bundle()
        assert await remembered(kind) == Former(made["spec"]["conversion"], "kubectl-create", permitted=True)
        served = (await kind.status())["served"]

        # What was remembered outlives the replicas, and spec.takeOver. While no replica runs, nothing can be read.
        assert reads.failed == []
        await replicas.started[0].stop()
        await replicas.started[1].stop()
        await replicas.start()
        await kind.change(kind.rules(takeOver=None))
        await kind.condition("Ready", "True", 3)
        assert await remembered(kind) == Former(made["spec"]["conversion"], "kubectl-create")
        assert (await kind.status())["served"]["revision"] == served[
            "revision"
        ]  # it converts nothing, so it is no part
        reads.failed.clear()

        await cluster.delete(CONVERSION_RULES, kind.name)
        await until(lambda: gone(cluster, kind.name), "the rules stay")
        after = await crd(kind)
        assert json.dumps(after["spec"]["conversion"]) == json.dumps(made["spec"]["conversion"])
        assert owners(after) == owners(made)
        at = reads.done + 20
        await until(lambda: reads_on(reads, at), "nothing is read")
        assert reads.failed == []


@pytest.mark.timeout(1800)  # the first time, the webhook is built
async def test_what_a_go_webhook_stashed_is_taken_over(
    cluster: HttpCluster, go: tuple[Webhook, Bundle], replicas: Replicas
) -> None:
    """Objects that the Go webhook stored at v1 hold spec.paused in its annotation: v2 must show it at all times."""
    await replicas.start()
    kind, paused = Profiles(cluster, storage="v1"), Paused()
    rules = partial(kind.rules, kind.versions_rule(), {"stash": {"hub": "spec.paused"}})
    adopt = [{"annotation": DATA, "version": "v2"}]
    there = f"https://127.0.0.1:{go[0].port}{go[0].path}"
    try:
        await install(kind, "create", conversion(Url(there), go[1]))
        for name in ("a", "edited"):
            await kind.create("v2", name, kubernetes=V2, paused=True)
        await kind.edit("v1", "edited", {"kubernetes": {"versions": []}})
        assert DATA in await kind.annotations("v1", "a")
        async with paused.reading(kind):
            await kind.declare(rules(takeOver=there, adopt=adopt))
            told = await kind.condition("Rehearsed", "True")
            assert "2 objects converted to every version and back" in told["message"]
            await kind.condition("Ready", "True")
            at = paused.done + 20
            await until(lambda: reads_on(paused, at), "nothing is read")
            assert DATA not in await kind.annotations("v2", "a")
            await kind.edit("v2", "a", {"paused": False})  # the first write: the annotation goes
            assert (await kind.spec("v2", "a"))["paused"] is False
            assert DATA not in await kind.annotations("v1", "a")
            await kind.edit("v2", "a", {"paused": True})
        assert paused.failed == []
    finally:
        await kind.remove()


async def reads_on(reads: Reads, at: int) -> bool:
    """Whether so many reads are done."""
    return reads.done > at


def owners(document: Document) -> dict[str, object]:
    """Who owns which field of spec.conversion."""
    return {
        each["manager"]: each["fieldsV1"]["f:spec"]["f:conversion"]
        for each in document["metadata"]["managedFields"]
        if "f:conversion" in each["fieldsV1"].get("f:spec", {})
    }


@pytest.fixture
async def jobs(cluster: HttpCluster, group: str, replicas: Replicas, tmp_path: Path) -> AsyncIterator[Jobs]:
    """A kind whose CRD names a webhook that does not answer, and an operator."""
    found = Jobs(cluster, group)
    await replicas.start()
    try:
        await install(found, "create", conversion(THEIRS["URL"], certified(tmp_path)))
        yield found
    finally:
        await found.remove()


async def test_what_was_there_is_handed_on(cluster: HttpCluster, jobs: Jobs, tmp_path: Path) -> None:
    """Rules under a new name would forget the former webhook, or a renewed CA of it, and put back what is outdated."""
    theirs, asked = (await crd(jobs))["spec"]["conversion"], "https://127.0.0.1:1"
    await jobs.declare(jobs.rules(takeOver=asked))
    await jobs.condition("Ready", "True")
    younger = f"second.{jobs.group}"
    await jobs.declare(jobs.rules(name=younger, takeOver=asked))
    await cluster.delete(CONVERSION_RULES, jobs.name)
    await until(lambda: gone(cluster, jobs.name), "the older rules stay")
    await jobs.condition("Ready", "True", name=younger)
    assert await remembered(jobs) == Former(theirs, "kubectl-create", permitted=True)

    # Its next release writes it again, with another CA: it is asked for, so it is replaced and remembered again.
    renewed = conversion(THEIRS["URL"], certified(tmp_path))
    assert renewed != theirs
    await write(jobs, {"spec": {"conversion": renewed}}, "helm")

    async def replaced() -> bool:
        return await remembered(jobs) == Former(renewed, "helm", permitted=True) and await is_ours(jobs)

    await until(replaced, "the webhook is not replaced again")
    # One that is not asked for stays.
    other = conversion(THEIRS["Service"], certified(tmp_path))
    config = {"url": None, **other["webhook"]["clientConfig"]}
    await write(jobs, {"spec": {"conversion": {"webhook": {"clientConfig": config}}}}, "helm")
    await jobs.condition("Wired", "False", name=younger, reason="ForeignWebhook")
    assert await remembered(jobs) == Former(renewed, "helm")
    left = await crd(jobs)
    assert left["spec"]["conversion"] == other
    await cluster.delete(CONVERSION_RULES, younger)
    await until(lambda: gone(cluster, younger), "the rules stay")
    await stays(jobs, left)


async def test_a_former_webhook_that_does_not_answer(cluster: HttpCluster, jobs: Jobs) -> None:
    """A webhook that converts would be replaced by one that was uninstalled long ago, and no object could be read."""
    theirs = (await crd(jobs))["spec"]["conversion"]
    await jobs.declare(jobs.rules(takeOver="https://127.0.0.1:1/convert"))
    await jobs.condition("Ready", "True")
    await cluster.delete(CONVERSION_RULES, jobs.name)
    told = await jobs.condition("Wired", "False")
    assert told["reason"] == "DeletionBlocked"
    assert "https://127.0.0.1:1/convert was taken over, and would come back, but the webhook at" in told["message"]
    assert await is_ours(jobs)
    await allow(jobs)
    await until(lambda: gone(cluster, jobs.name), "the rules stay")
    assert (await crd(jobs))["spec"]["conversion"] == theirs


async def test_a_lost_record_is_no_reason_to_take_it_away(cluster: HttpCluster, jobs: Jobs) -> None:
    """With the strategy None the former webhook would be gone for good, and nobody would know it."""
    theirs = (await crd(jobs))["spec"]["conversion"]
    await jobs.declare(jobs.rules(takeOver="https://127.0.0.1:1/convert"))
    await jobs.condition("Ready", "True")
    await cluster.delete(CONFIG_MAPS, record_name(jobs.name), "default")
    await until(lambda: is_lost(jobs), "the record does not come back")
    await cluster.delete(CONVERSION_RULES, jobs.name)
    told = await jobs.condition("Wired", "False")
    assert told["reason"] == "DeletionBlocked"
    assert "the record of what was there is lost: write the former spec.conversion into" in told["message"]
    await write(jobs, {"spec": {"conversion": theirs}}, "kubectl-edit")
    left = await crd(jobs)
    await until(lambda: gone(cluster, jobs.name), "the rules stay")
    await stays(jobs, left)


async def is_ours(jobs: Jobs) -> bool:
    """Whether the CRD names the operator."""
    url = (await crd(jobs))["spec"]["conversion"]["webhook"]["clientConfig"].get("url") or ""
    return bool(url.endswith(f"/convert/{jobs.name}"))


async def is_lost(jobs: Jobs) -> bool:
    """Whether the record says that something may have been taken over."""
    try:
        record = (await jobs.cluster.get(CONFIG_MAPS, record_name(jobs.name), "default")).json()
    except NotFound:
        return False
    return bool(record["data"]["former"] == LOST)


async def allow(jobs: Jobs) -> None:
    """Annotate the rules, so that they may go in any case."""
    change = encoded({"metadata": {"annotations": {BREAK_GLASS: ""}}})
    await jobs.cluster.patch(CONVERSION_RULES, jobs.name, change, patch_type=PatchType.MERGE)
