"""A validating admission webhook that denies updates of some objects, in its own words."""

from __future__ import annotations

import base64
import json
import ssl
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from aiohttp import web

from restow.controlplane.certificates import CertificateAuthority
from restow.kube.cluster import PatchType
from restow.kube.errors import ApiError
from restow.kube.resources import Resource
from tests.apiserver.kind import Kind, until

WEBHOOKS = Resource("admissionregistration.k8s.io", "v1", "validatingwebhookconfigurations", namespaced=False)


@asynccontextmanager
async def denying(
    kind: Kind, folder: Path, version: str, names: Sequence[str], status: dict[str, Any]
) -> AsyncIterator[None]:
    """Deny updates of these objects in ``default`` with this ``status``; waits until that is in force."""

    async def answer(request: web.Request) -> web.Response:
        review = await request.json()
        asked = review["request"]
        allowed = asked["name"] not in names
        response = {"uid": asked["uid"], "allowed": allowed} | ({} if allowed else {"status": status})
        return web.json_response({key: review[key] for key in ("apiVersion", "kind")} | {"response": response})

    authority = CertificateAuthority.create("admission")
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
    rule = {"apiGroups": [kind.group], "apiVersions": ["*"], "operations": ["UPDATE"], "resources": [kind.plural]}
    name = f"deny.{kind.group}"
    webhook = {"name": name, "clientConfig": client, "rules": [rule], "sideEffects": "None"}
    body = {"metadata": {"name": name}, "webhooks": [webhook | {"admissionReviewVersions": ["v1"]}]}
    await kind.cluster.create(WEBHOOKS, json.dumps(body).encode())

    async def denied() -> bool:
        labelled = b'{"metadata": {"labels": {"probe": "yes"}}}'
        try:
            await kind.cluster.patch(
                kind.at(version), names[0], labelled, "default", patch_type=PatchType.MERGE, params={"dryRun": "All"}
            )
        except ApiError:
            return True
        return False

    try:
        await until(denied, "the admission webhook is not in force")
        yield
    finally:
        await kind.cluster.delete(WEBHOOKS, name)
        await runner.cleanup()
