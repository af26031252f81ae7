"""One conversion webhook for all scenarios, which can be out of order for any of them; and the same conversion without.

Each scenario's CRD has a path of its own, so that an outage concerns one scenario only.
"""

from __future__ import annotations

import base64
import ssl
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

from aiohttp import web

from restow.controlplane.users import ControlPlaneAuthority
from tests.faults.truth import Document, converted


class ConversionWebhook:
    """The webhook, while it runs. ``down`` is how many of the next reviews of a kind fail, and ``failed`` did."""

    def __init__(self, authority: bytes) -> None:
        self.port = 0
        self.authority = authority
        self.down: dict[str, int] = {}
        self.failed: dict[str, int] = {}

    def client_config(self, plural: str, *, bundles: int = 1) -> Document:
        """What the CRD says of it; ``bundles`` only makes the CA bundle another one."""
        bundle = base64.b64encode(self.authority * bundles).decode()
        return {"url": f"https://127.0.0.1:{self.port}/{plural}", "caBundle": bundle}

    async def answer(self, request: web.Request) -> web.StreamResponse:
        """Answer one ConversionReview, or fail in one of three ways, in turn."""
        review = await request.json()
        plural = request.match_info["plural"]
        if self.down.get(plural, 0) > 0:
            self.down[plural] -= 1
            self.failed[plural] = self.failed.get(plural, 0) + 1
            return self._out_of_order(request, review, self.failed[plural] % 3)
        asked = review["request"]
        answers = [converted(found, asked["desiredAPIVersion"]) for found in asked["objects"]]
        return _said(review, {"result": {"status": "Success"}, "convertedObjects": answers})

    def _out_of_order(self, request: web.Request, review: Document, how: int) -> web.StreamResponse:
        if how == 0:
            return web.Response(status=503, text="starting")
        if how == 1 and request.transport is not None:
            request.transport.abort()
            return web.Response()
        result = {"status": "Failure", "message": "the converter is out of order"}
        return _said(review, {"result": result, "convertedObjects": []})


def _said(review: Document, response: Document) -> web.Response:
    told = {key: review[key] for key in ("apiVersion", "kind")}
    return web.json_response(told | {"response": response | {"uid": review["request"]["uid"]}})


class InProcess:
    """The conversion as an embedder gives it to a migration: a ``Converter``."""

    async def convert(self, objects: Sequence[Document], api_version: str) -> Sequence[Document]:
        return [converted(found, api_version) for found in objects]


@asynccontextmanager
async def conversion_webhook(folder: Path) -> AsyncIterator[ConversionWebhook]:
    """Run the webhook on a free port of the loopback."""
    authority = ControlPlaneAuthority.create("webhook")
    pair = authority.issue_server(["127.0.0.1"], not_after=datetime.now(UTC) + timedelta(days=1))
    bundle = folder / "faults-webhook.pem"
    bundle.write_bytes(pair.certificate + pair.key)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(bundle)
    webhook = ConversionWebhook(authority.certificate)
    application = web.Application(client_max_size=2**27)
    application.router.add_post("/{plural}", webhook.answer)
    runner = web.AppRunner(application, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context).start()
        webhook.port = runner.addresses[0][1]
        yield webhook
    finally:
        for each in list(runner.server.connections if runner.server is not None else ()):
            if each.transport is not None:
                each.transport.abort()
        await runner.cleanup()
