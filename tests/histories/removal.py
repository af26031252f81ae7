"""What removing a version does: the truth that a yes stands for."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import Any

from restow.kube.client import HttpCluster
from restow.kube.cluster import PatchType
from restow.kube.errors import ApiError, NotFound, TooManyRequests
from restow.kube.resources import CRDS, Resource
from tests.apiserver.kind import until
from tests.histories.life import Life

_PATIENCE = 20
"""Looks at a list that is being set up: it stays so for as long as an object cannot be converted."""


async def remove(life: Life, versions: Sequence[str], clusters: Sequence[HttpCluster]) -> list[str]:
    """Take versions out of the CRD; return what does not work afterwards, through any of the API servers."""
    storage = next(each["name"] for each in (await life.crd())["spec"]["versions"] if each["storage"])
    names = sorted(await life.stored())
    try:
        await life.without(versions)
    except ApiError as error:
        return [f"the CRD without {', '.join(versions)} was refused: {error}"]
    except AssertionError as error:
        return [f"without {', '.join(versions)}: {error}"]
    wrong: list[str] = []
    for cluster in clusters:
        wrong += await _works(life, cluster, storage, names)
    return wrong or await _delete(life)


async def _works(life: Life, cluster: HttpCluster, storage: str, names: Sequence[str]) -> list[str]:
    resource = life.at(storage)
    wrong = []
    try:
        listed = await _listed(cluster, resource)
        if sorted(each["metadata"]["name"] for each in listed) != list(names):
            wrong.append(f"a list at {storage} has {len(listed)} of {len(names)} objects")
    except ApiError as error:
        wrong.append(f"a list at {storage} fails: {error}")
    for name in names:
        body = json.dumps(life.manifest(storage, name, metadata={"labels": {"applied": "yes"}})).encode()
        manager = {"fieldManager": "zoe", "force": "true"}
        try:
            await cluster.get(resource, name, "default")
            await cluster.patch(resource, name, body, "default", patch_type=PatchType.APPLY, params=manager)
        except ApiError as error:
            wrong.append(f"{name} cannot be read and applied at {storage}: {error}")
    return wrong


async def _listed(cluster: HttpCluster, resource: Resource) -> list[Any]:
    for _ in range(_PATIENCE):
        try:
            return list((await cluster.list_page(resource)).json()["items"])
        except (NotFound, TooManyRequests):
            await asyncio.sleep(0.1)
    return list((await cluster.list_page(resource)).json()["items"])


async def _delete(life: Life) -> list[str]:
    try:
        await life.cluster.delete(CRDS, life.name)
        await until(life.gone, "it is not gone")
    except (ApiError, AssertionError) as error:
        return [f"the CRD cannot be deleted: {error}"]
    return []
