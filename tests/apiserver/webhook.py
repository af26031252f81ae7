"""A conversion webhook as a provider would run one, and a custom resource that needs it.

v0 and v1 say ``spec.host`` where v2 says ``spec.address``; all else is the same. Objects that a webhook is sent can be
partial (no spec, no field), and what is absent in one version is absent in the other.
"""

from __future__ import annotations

import asyncio
import base64
import ssl
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from aiohttp import web

from restow.controlplane.etcd import Etcd
from restow.controlplane.users import ControlPlaneAuthority
from restow.kube.client import HttpCluster
from tests.apiserver.kind import Document, Kind

Fails = Callable[[Document, str], bool]
Converts = Callable[[Document, str], Document]
Answers = Callable[[web.Request], web.StreamResponse | None]


@dataclass(frozen=True)
class Review:
    """A ConversionReview that was asked: by whom (User-Agent), to which version, of which objects."""

    agent: str
    desired: str
    objects: list[Document] = field(repr=False)


class Webhook:
    """The webhook, while it runs.

    Attributes:
        url, ca_bundle: where the API server finds it.
        calls: ConversionReviews answered.
        asked: those that restow asked.
        fails: tells, by an object and the version asked for, whether its conversion fails.
        converts: how an object is converted to an apiVersion.
        instead: gives an answer to restow that is none, or None.
    """

    def __init__(self, ca_bundle: str) -> None:
        self.url = ""
        self.ca_bundle = ca_bundle
        self.calls = 0
        self.asked: list[Review] = []
        self.fails: Fails = never
        self.converts: Converts = _converted
        self.instead: Answers = nothing

    async def answer(self, request: web.Request) -> web.StreamResponse:
        """Answer one ConversionReview."""
        self.calls += 1
        review = await request.json()
        asked = review["request"]
        desired = asked["desiredAPIVersion"]
        if (agent := request.headers["User-Agent"]).startswith("restow"):
            self.asked.append(Review(agent, desired.split("/")[-1], asked["objects"]))
            if (other := self.instead(request)) is not None:
                return other
        response: Document = {"uid": asked["uid"], "result": {"status": "Success"}, "convertedObjects": []}
        failed = [found["metadata"]["name"] for found in asked["objects"] if self.fails(found, desired.split("/")[-1])]
        if failed:
            message = f"the converter is out of order for {', '.join(failed)}"
            response["result"] = {"status": "Failure", "message": message}
        else:
            response["convertedObjects"] = [self.converts(found, desired) for found in asked["objects"]]
        return web.json_response({key: review[key] for key in ("apiVersion", "kind")} | {"response": response})


def never(_found: Document, _desired: str) -> bool:
    """A webhook in good health."""
    return False


def nothing(_request: web.Request) -> None:
    """No other answer than the right one."""


@asynccontextmanager
async def conversion_webhook(folder: Path, *, address: str = "127.0.0.1", name: str = "") -> AsyncIterator[Webhook]:
    """Run the webhook on a free port (of the loopback), with a certificate of its own (for its address)."""
    authority = ControlPlaneAuthority.create("webhook")
    pair = authority.issue_server([name or address], not_after=datetime.now(UTC) + timedelta(days=1))
    bundle = folder / "webhook.pem"
    bundle.write_bytes(pair.certificate + pair.key)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(bundle)
    webhook = Webhook(base64.b64encode(authority.certificate).decode())
    application = web.Application(client_max_size=2**27)
    application.router.add_post("/convert", webhook.answer)
    runner = web.AppRunner(application, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    try:
        site = web.TCPSite(runner, address, 0, ssl_context=context)
        await site.start()
        port = runner.addresses[0][1]
        webhook.url = f"https://{address}:{port}/convert"
        yield webhook
    finally:
        await _hang_up(runner)
        await runner.cleanup()


async def _hang_up(runner: web.AppRunner) -> None:
    """Break the connections that the API server keeps open: it would not close them before the test's loop ends."""
    assert runner.server is not None
    await asyncio.gather(*(site.stop() for site in list(runner.sites)))
    async with asyncio.timeout(10):
        while open_ones := [each.transport for each in runner.server.connections if each.transport is not None]:
            for transport in open_ones:
                transport.abort()
            await asyncio.sleep(0)


def _converted(found: Document, desired: str) -> Document:
    was, wanted = (_field(version) for version in (found["apiVersion"], desired))
    moved = found | {"apiVersion": desired}
    if was in found.get("spec", {}):
        spec = dict(found["spec"])
        spec[wanted] = spec.pop(was)
        moved["spec"] = spec
    return moved


def _field(api_version: str) -> str:
    return "address" if api_version.endswith("v2") else "host"


def _schema(version: str) -> Document:
    part = {
        "type": "object",
        "required": ["name"],
        "properties": {"name": {"type": "string"}, "count": {"type": "integer"}},
    }
    keyed = {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]}
    spec = {
        "size": {"type": "integer"},
        _field(version): {"type": "string"},
        "parts": {"type": "array", "items": part} | keyed,
    }
    return {
        "type": "object",
        "properties": {
            "spec": {"type": "object", "properties": spec},
            "status": {"type": "object", "properties": {"phase": {"type": "string"}}},
        },
    }


class ConvertedKind(Kind):
    """Widgets with strategy Webhook: v2 has ``address`` where v0 and v1 have ``host``.

    A kind whose versions differ in another way overrides ``schemas`` and ``converts``.
    """

    schemas: Mapping[str, Document] = {version: _schema(version) for version in ("v0", "v1", "v2")}
    converts: Converts = staticmethod(_converted)

    def __init__(self, cluster: HttpCluster, etcd: Etcd, group: str, webhook: Webhook) -> None:
        super().__init__(cluster, etcd, group)
        self.webhook = webhook
        webhook.converts = self.converts

    def document(
        self, *, storage: str, versions: Sequence[str] = (), served: Sequence[str] | None = None, **_other: Any
    ) -> Document:
        """The CRD with these versions; all that there are, where none are named."""
        made = super().document(storage=storage, versions=versions or tuple(self.schemas), served=served)
        for version in made["spec"]["versions"]:
            version["schema"] = {"openAPIV3Schema": self.schemas[version["name"]]}
        client = {"url": self.webhook.url, "caBundle": self.webhook.ca_bundle}
        webhook = {"clientConfig": client, "conversionReviewVersions": ["v1"]}
        made["spec"]["conversion"] = {"strategy": "Webhook", "webhook": webhook}
        return made
