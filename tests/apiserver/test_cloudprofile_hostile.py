"""Hostile manifests on the real API server, with conversion and admission in force: it never answers 5xx."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final

import pytest
import pytest_asyncio

from restow.controlplane.etcd import Etcd
from restow.kube.errors import ApiError
from tests.apiserver.profile_world import CLOUD_PROFILE, NAMESPACED, SHOOT, Family, living
from tests.cloudprofile.hostile import PARENTS, HostileRequest, hostile, whole

pytestmark = pytest.mark.asyncio(loop_scope="module")

MANY: Final = 300


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def family(kubeconfig: Path, etcd: Etcd, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Family]:
    """The family with its controllers, and the objects that the requests refer to or replace."""
    async with living(kubeconfig, etcd, tmp_path_factory.mktemp("family")) as (made, _), made.controlled():
        for parent in PARENTS:
            await made.new.create(parent)
            await made.settles(parent["kind"], parent["metadata"]["name"])
        for kind in (CLOUD_PROFILE, NAMESPACED, SHOOT):
            await made.new.create(whole(kind, "v1beta2"))
        yield made


async def answered(family: Family, request: HostileRequest) -> tuple[int, str]:
    """Send a request as a dry run; return the status and the refusal."""
    new, metadata = request.new, request.new["metadata"]
    api = family.old if new["apiVersion"].endswith("v1beta1") else family.new
    resource, namespace, params = api.at(new["kind"]), metadata.get("namespace"), {"dryRun": "All"}
    try:
        if request.old is None:
            metadata["name"] = "another"
            await family.cluster.create(resource, json.dumps(new).encode(), namespace, params=params)
        else:
            stored = await family.at(api.version, new["kind"], metadata["name"])
            metadata["resourceVersion"] = stored["metadata"]["resourceVersion"]
            body = json.dumps(new).encode()
            await family.cluster.replace(resource, metadata["name"], body, namespace, params=params)
    except ApiError as error:
        return error.status, error.message
    return 200, ""


async def test_no_manifest_makes_the_server_fail(family: Family) -> None:
    """A client would be told to try again later, and not what to change; pure tests know no real server's order."""
    codes: Counter[int] = Counter()
    for request in hostile(range(MANY), damaged=False):
        code, refusal = await answered(family, request)
        codes[code] += 1
        assert code < 500, (request.seed, refusal)
        assert "failed with" not in refusal, (request.seed, refusal)
    assert codes.keys() >= {200, 422}
    print(dict(codes))
