"""The cases of the tables on the real API server: it answers as the steps do that tests ask in this process."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from restow.controlplane.etcd import Etcd
from restow.kube.errors import ApiError
from tests.apiserver.kind import Document
from tests.apiserver.profile_world import CLOUD_PROFILE, NAMESPACED, Family, MovedTime, living
from tests.cloudprofile.cases import Case, load, now_of
from tests.cloudprofile.requests import answer_to, server_of, written
from tests.cloudprofile.served import Answer, findings_in, version_of
from tests.cloudprofile.validation.test_namespaced_cases import parents_of

pytestmark = pytest.mark.asyncio(loop_scope="module")

CREATED = load("cloudprofile_validation", "create")
NAMESPACED_CREATED = load("namespaced_validation", "create")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def family(kubeconfig: Path, etcd: Etcd, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Family]:
    """The family without controllers, at the time of the cases."""
    clock = MovedTime(now_of(CREATED[0]))
    async with living(kubeconfig, etcd, tmp_path_factory.mktemp("family"), clock=clock) as (made, _):
        yield made


async def of_server(family: Family, kind: str, obj: Document | None) -> tuple[str, bool]:
    """Return how a server refuses an object, and whether a webhook does; an empty text if it takes it."""
    version = version_of(obj or {})
    api = family.old if version == "v1beta1" else family.new
    try:
        await api.rehearse(written(obj or {}, kind, version))
    except ApiError as error:
        return error.message, "admission webhook" in error.message
    return "", False


def compare(case: Case, refusal: str, answer: Answer, *, by_webhook: bool) -> list[str]:
    """Return in what the server's answer and the one of this process differ."""
    if bool(refusal) is answer.allowed:
        return [f"{case['name']}: the server says {refusal!r}, the steps {answer.refusal!r}"]
    if by_webhook:
        server, steps = (
            Counter((each.type, each.field, each.detail) for each in findings)
            for findings in (findings_in(refusal), answer.findings)
        )
        if not server or server - steps:
            return [f"{case['name']}: the server's webhook adds {server - steps}"]
    return []


async def test_cloudprofiles(family: Family) -> None:
    """The tables would be green in this process and wrong on a server."""
    wrong = []
    for case in CREATED:
        refusal, by_webhook = await of_server(family, CLOUD_PROFILE, case["input"]["object"])
        answer = await asyncio.to_thread(answer_to, server_of(case), CLOUD_PROFILE, case["input"]["object"])
        wrong += compare(case, refusal, answer, by_webhook=by_webhook)
    assert wrong == []


async def test_namespacedcloudprofiles(family: Family) -> None:
    """The same with another object that admission reads, a parent."""
    wrong = []
    for case in NAMESPACED_CREATED:
        obj = case["input"]["object"]
        if ((obj or {}).get("metadata") or {}).get("namespace", "default") != "default":
            obj = {**obj, "metadata": {**obj["metadata"], "namespace": "default"}}
        parents = parents_of(obj or {})
        for parent in parents:
            await family.new.create(written(parent, CLOUD_PROFILE))
        refusal, by_webhook = await of_server(family, NAMESPACED, obj)
        server = server_of(case, {"cloudProfiles": parents})
        answer = await asyncio.to_thread(answer_to, server, NAMESPACED, obj)
        wrong += compare(case, refusal, answer, by_webhook=by_webhook)
        for parent in parents:
            await family.new.delete(written(parent, CLOUD_PROFILE))
    assert wrong == []
