"""A replica of ``restow operator --conversions`` that cannot compile the rules of a kind, on a real API server."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest

from restow.conversion.operate.members import Membership
from restow.conversion.operate.revisions import Report, Revision, RevisionRecord, StepState, record_name, report_key
from restow.conversion.operate.wiring import REFUSING
from restow.crds import Crd
from restow.kube.client import HttpCluster
from restow.kube.resources import CONFIG_MAPS, CRDS
from tests.apiserver.kind import Document, until
from tests.apiserver.operators import Operator
from tests.apiserver.test_conversions_in_cluster import Jobs, Replicas, replicas

__all__ = ["replicas"]


class Newer(Membership):
    """A replica of a newer release, as far as other replicas see it: its Lease."""

    async def begin(self) -> None:
        """Live."""
        await self.join()
        self._renewing = asyncio.create_task(self.renew_forever())

    async def leave(self) -> None:
        """End."""
        self._renewing.cancel()
        await super().leave()


@pytest.fixture
async def newer(cluster: HttpCluster) -> AsyncIterator[Newer]:
    """A live one."""
    member = Newer(cluster, "default", "newer")
    await member.begin()
    yield member
    await member.leave()


@pytest.fixture
async def shiny(cluster: HttpCluster, group: str, newer: Newer) -> AsyncIterator[Jobs]:
    """A kind that the newer replica converts by a rule which this release lacks, as after a downgrade."""
    jobs = Jobs(cluster, group)
    crd = (await cluster.create(CRDS, json.dumps(jobs.crd()).encode())).json()
    await jobs.served()
    revision = Revision.of(jobs.rules({"shiny": {"spoke": "spec.timeoutSeconds"}}), Crd.from_document(crd))
    parts = RevisionRecord(jobs.name).patch(
        rules=jobs.name,
        active=revision.name,
        candidate=revision.name,
        rehearsed=revision.name,
        wired=True,
        steps={REFUSING.name: StepState.WANTED},
        revisions={revision.name: revision.body},
    )
    parts["data"][report_key(newer.replica)] = Report((revision.name,), revision.name, wires=True).text
    metadata = {"name": record_name(jobs.name), "labels": {"restow.dev/conversions": "rules"}}
    await cluster.create(CONFIG_MAPS, json.dumps({"metadata": metadata, **parts}).encode(), "default")
    yield jobs
    await jobs.remove()


async def test_a_replica_that_lacks_a_kind_is_not_ready_while_another_converts_it(
    cluster: HttpCluster, shiny: Jobs, newer: Newer, replicas: Replicas
) -> None:
    """A rollout to a release that lacks a rule would replace every replica that converts; and a kind that none can
    convert would take the webhook of all other kinds down.
    """
    operator = await replicas.start()
    status, said = await operator.get("/readyz")
    assert (status, said.strip()) == (
        503,
        f"the rules of {shiny.name} cannot be compiled here, the log says why; the replica newer converts every kind",
    )
    assert any(f"{shiny.name}: revision" in line and "there is no rule shiny" in line for line in operator.log)
    status, again, answer = await asked(operator, f"/convert/{shiny.name}", {})
    assert (status, again) == (503, "1")
    assert f"cannot compile the active conversion rules of {shiny.name}" in answer["message"]
    _, _, answer = await asked(operator, f"/admit/{REFUSING.name}", admission_review(shiny))
    assert (answer["response"]["allowed"], answer["response"]["status"]["code"]) == (False, 503)

    # It drains, so it is not relied on; then it is gone.
    await newer.stop()
    await until(operator.ready, "the last replica is not ready")
    status, again, answer = await asked(operator, f"/convert/{shiny.name}", {})
    assert (status, again) == (500, None)
    await newer.leave()

    other = Jobs(cluster, f"other.{shiny.group}")
    await cluster.create(CRDS, json.dumps(other.crd()).encode())
    try:
        await other.served()
        await other.create("v1", "a", timeout="30s")
        await other.declare(other.rules())
        await other.condition("Ready", "True")
        assert await other.spec("v1beta1", "a") == {"timeoutSeconds": 30}
        # Rules that this release knows end it.
        await shiny.create("v1", "a", timeout="1m")
        await shiny.declare(shiny.rules())
        await shiny.condition("Ready", "True")
        assert await shiny.spec("v1beta1", "a") == {"timeoutSeconds": 60}
        assert await operator.ready()
    finally:
        await other.remove()


async def asked(operator: Operator, path: str, body: Document) -> tuple[int, str | None, Any]:
    """Post to the webhook; return the status, Retry-After, and the answer."""
    async with (
        aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=False)) as session,
        session.post(f"https://127.0.0.1:{operator.port}{path}", json=body) as reply,
    ):
        return reply.status, reply.headers.get("Retry-After"), await reply.json()


def admission_review(jobs: Jobs) -> Document:
    """A review about the creation of an object."""
    obj = {"apiVersion": f"{jobs.group}/v1", "kind": "Job", "metadata": {"name": "a"}, "spec": {"timeout": "1s"}}
    request = {
        "uid": "1",
        "kind": {"group": jobs.group, "version": "v1", "kind": "Job"},
        "resource": {"group": jobs.group, "version": "v1", "resource": "jobs"},
        "operation": "CREATE",
        "name": "a",
        "object": obj,
    }
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
