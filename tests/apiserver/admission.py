"""Admission webhooks of tests: one denies some objects in its own words, one holds one, one empties managedFields."""

from __future__ import annotations

import asyncio
import base64
import json
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from aiohttp import web

from restow.controlplane.users import ControlPlaneAuthority
from restow.kube.cluster import PatchType
from restow.kube.errors import ApiError
from restow.kube.resources import Resource
from tests.apiserver.kind import Kind, until

WEBHOOKS = Resource("admissionregistration.k8s.io", "v1", "validatingwebhookconfigurations", namespaced=False)
MUTATING = Resource("admissionregistration.k8s.io", "v1", "mutatingwebhookconfigurations", namespaced=False)

Judge = Callable[[dict[str, Any]], Awaitable[dict[str, Any] | None]]
"""Is given the request of a review, and returns the ``status`` of a denial, or None."""


@asynccontextmanager
async def asking(
    kind: Kind,
    folder: Path,
    operation: str,
    judge: Judge,
    *,
    patch: Sequence[dict[str, Any]] = (),
    labels: Mapping[str, str] | None = None,
) -> AsyncIterator[None]:
    """Have API servers ask ``judge`` about each object of the kind (with labels); they take a moment to begin.

    With a JSON ``patch`` they change what it admits.
    """
    configurations = MUTATING if patch else WEBHOOKS
    changes = {"patchType": "JSONPatch", "patch": base64.b64encode(json.dumps(patch).encode()).decode()}

    async def answer(request: web.Request) -> web.Response:
        review = await request.json()
        status = await judge(review["request"])
        response = {"uid": review["request"]["uid"], "allowed": status is None}
        response |= {"status": status} if status is not None else changes if patch else {}
        return web.json_response({key: review[key] for key in ("apiVersion", "kind")} | {"response": response})

    authority = ControlPlaneAuthority.create("admission")
    pair = authority.issue_server(["127.0.0.1"], not_after=datetime.now(UTC) + timedelta(days=1))
    bundle = folder / "admission.pem"
    bundle.write_bytes(pair.certificate + pair.key)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(bundle)
    application = web.Application()
    application.router.add_post("/", answer)
    runner = web.AppRunner(application, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context).start()
    client = {
        "url": f"https://127.0.0.1:{runner.addresses[0][1]}/",
        "caBundle": base64.b64encode(authority.certificate).decode(),
    }
    rule = {"apiGroups": [kind.group], "apiVersions": ["*"], "operations": [operation], "resources": [kind.plural]}
    name = f"asks.{kind.group}"
    webhook = {"name": name, "clientConfig": client, "rules": [rule], "sideEffects": "None", "timeoutSeconds": 30}
    webhook |= {"admissionReviewVersions": ["v1"], "objectSelector": {"matchLabels": labels or {}}}
    body = {"metadata": {"name": name}, "webhooks": [webhook]}
    await kind.cluster.create(configurations, json.dumps(body).encode())
    try:
        yield
    finally:
        await kind.cluster.delete(configurations, name)
        await runner.cleanup()


@asynccontextmanager
async def denying(
    kind: Kind, folder: Path, version: str, names: Sequence[str], status: dict[str, Any]
) -> AsyncIterator[None]:
    """Deny updates of these objects in ``default`` with this ``status``; waits until that is in force."""

    async def judge(asked: dict[str, Any]) -> dict[str, Any] | None:
        return status if asked["name"] in names else None

    async def denied() -> bool:
        labelled = b'{"metadata": {"labels": {"probe": "yes"}}}'
        try:
            await kind.cluster.patch(
                kind.at(version), names[0], labelled, "default", patch_type=PatchType.MERGE, params={"dryRun": "All"}
            )
        except ApiError:
            return True
        return False

    async with asking(kind, folder, "UPDATE", judge):
        await until(denied, "the admission webhook is not in force")
        yield


@asynccontextmanager
async def emptying(kind: Kind, folder: Path, version: str, name: str) -> AsyncIterator[None]:
    """Empty the managedFields of every object at its update; waits until that is in force, as a dry run shows."""

    async def admit(_asked: dict[str, Any]) -> None:
        return None

    async def emptied() -> bool:
        labelled = b'{"metadata": {"labels": {"probe": "yes"}}}'
        params = {"dryRun": "All"}
        answer = await kind.cluster.patch(
            kind.at(version), name, labelled, "default", patch_type=PatchType.MERGE, params=params
        )
        return "managedFields" not in answer.json()["metadata"]

    patch = [{"op": "replace", "path": "/metadata/managedFields", "value": []}]
    async with asking(kind, folder, "UPDATE", admit, patch=patch):
        await until(emptied, "the admission webhook is not in force")
        yield


@dataclass
class Held:
    """A create that an admission webhook holds: ``came`` once it does, until ``free`` is set."""

    came: asyncio.Event = field(default_factory=asyncio.Event)
    free: asyncio.Event = field(default_factory=asyncio.Event)


@asynccontextmanager
async def holding(kind: Kind, folder: Path, version: str, name: str) -> AsyncIterator[Held]:
    """Hold the create of one object; waits until that is in force."""
    held, asked_before = Held(), asyncio.Event()

    async def judge(asked: dict[str, Any]) -> dict[str, Any] | None:
        asked_before.set()
        if asked["name"] == name:
            held.came.set()
            await held.free.wait()
        return None

    async def is_asked() -> bool:
        probe = json.dumps(kind.manifest(version, "probe", spec={"size": 1})).encode()
        await kind.cluster.create(kind.at(version), probe, "default", params={"dryRun": "All"})
        return asked_before.is_set()

    async with asking(kind, folder, "CREATE", judge):
        await until(is_asked, "the admission webhook is not in force")
        try:
            yield held
        finally:
            held.free.set()
