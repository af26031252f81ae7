"""The way to a webhook: straight, by another URL, or through the API server; and what breaks on it, in words."""

from __future__ import annotations

import base64
import json
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import web

from restow.crds import Crd
from restow.kube.cluster import Reply
from restow.kube.resources import Resource
from restow.migrator.model.converter import ConverterDown, Unconverted
from restow.migrator.model.options import Options
from restow.migrator.model.report import Requests
from restow.migrator.requests import webhook
from restow.migrator.requests.environment import Environment, RunStop
from restow.migrator.requests.webhook import open_converter
from tests.migrator import builders as b

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

V1, V2 = b.api_version("v1"), b.api_version("v2")
OBJECT = {"apiVersion": V1, "kind": "Widget", "metadata": {"name": "a"}}
SERVICE = {"service": {"namespace": "ns", "name": "hook", "path": "/convert"}}


def crd(config: dict[str, Any]) -> Crd:
    """A CRD with this clientConfig."""
    document = dict(b.crd(webhook=True).document)
    conversion = {"strategy": "Webhook", "webhook": {"clientConfig": config, "conversionReviewVersions": ["v1"]}}
    return Crd.from_document(document | {"spec": document["spec"] | {"conversion": conversion}})


def answered(body: bytes) -> bytes:
    """The right answer to a review."""
    request = json.loads(body)["request"]
    converted = [each | {"apiVersion": request["desiredAPIVersion"]} for each in request["objects"]]
    response = {"uid": request["uid"], "result": {"status": "Success"}, "convertedObjects": converted}
    kind = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview"}
    return json.dumps(kind | {"response": response}).encode()


class ApiServer:
    """Stands for the API server's service proxy."""

    host = "https://api.example.com"

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def create(
        self, resource: Resource, body: bytes, namespace: str | None = None, *, params: dict[str, str] | None = None
    ) -> Reply:
        """Pass a review on."""
        assert params == {"timeout": "30s"}
        self.asked.append(resource.path(namespace))
        return Reply(answered(body))


async def convert(
    config: dict[str, Any], url: str | None = None, requests: Requests | None = None, server: ApiServer | None = None
) -> Any:
    """Convert one object through the CRD's webhook, without any wait."""
    environment = Environment(
        server or ApiServer(),  # type: ignore[arg-type]
        RunStop(),
        time.monotonic,
        random.Random(1),
        longest_wait=0.0,
        longest_patience_s=0.0,
    )
    options = Options(conversion_url=url)
    async with open_converter(None, environment, crd(config), options, requests or Requests()) as converter:
        return (await converter.convert([OBJECT], V2))[0]


@asynccontextmanager
async def serving(handler: Handler) -> AsyncIterator[str]:
    """A webhook on this machine without TLS."""
    application = web.Application()
    application.router.add_post("/convert", handler)
    runner = web.AppRunner(application, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


async def test_a_webhook_on_this_machine_is_asked_as_an_api_server_would() -> None:
    """Path, content type and time limit are what webhooks' frameworks look at."""
    seen: list[web.Request] = []

    async def answer(request: web.Request) -> web.Response:
        seen.append(request)
        return web.Response(body=answered(await request.read()), content_type="application/json")

    async with serving(answer) as url:
        assert await convert(SERVICE, url) == OBJECT | {"apiVersion": V2}
    [request] = seen
    assert (request.path, request.query["timeout"]) == ("/convert", "30s")
    assert request.content_type == "application/json" and request.headers["User-Agent"].startswith("restow")


async def test_a_service_that_is_not_known_here_is_asked_through_the_api_server(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its name means something in the cluster only."""

    async def unknown(_host: str) -> bool:
        return False

    monkeypatch.setattr(webhook, "_is_known", unknown)
    server = ApiServer()
    assert await convert(SERVICE, server=server) == OBJECT | {"apiVersion": V2}
    assert server.asked == ["/api/v1/namespaces/ns/services/https:hook:443/proxy/convert"]


@pytest.mark.parametrize(
    ("status", "headers", "tries"),
    [
        (404, {}, 1),
        (302, {"Location": "https://elsewhere.example.com"}, 1),
        (500, {}, 4),
        (503, {"Retry-After": "1"}, 8),
    ],
)
async def test_an_answer_that_is_none_is_told_and_asked_for_again_where_that_helps(
    status: int, headers: dict[str, str], tries: int
) -> None:
    """A redirect could send objects anywhere; a 404 stays one; a server that starts says when to come back."""
    requests = Requests()

    async def answer(_request: web.Request) -> web.Response:
        return web.Response(status=status, headers=headers, text="out of order")

    async with serving(answer) as url:
        try:
            found = await convert(SERVICE, url, requests)
            assert isinstance(found, Unconverted) and not found.refused
            said = found.message
        except ConverterDown as down:
            said = str(down)
    assert "out of order" in said and requests.review == tries


async def test_a_connection_that_breaks_off_may_be_the_objects_doing() -> None:
    """A handler that panics closes the connection: out of reach is something else, and ends the run."""

    async def answer(request: web.Request) -> web.Response:
        assert request.transport is not None
        request.transport.abort()
        return web.Response()

    async with serving(answer) as url:
        found = await convert(SERVICE, url)
    assert isinstance(found, Unconverted) and not found.refused


async def test_a_webhook_that_is_not_there_is_told_with_what_to_do() -> None:
    """The user has to learn where it was looked for, and which other ways there are."""
    with pytest.raises(ConverterDown, match=r"http://127.0.0.1:1 cannot be reached .*connection refused.*--registry"):
        await convert(SERVICE, "http://127.0.0.1:1")


async def test_a_ca_bundle_that_is_no_certificate_is_told() -> None:
    """One sentence instead of an SSLError."""
    bundle = base64.b64encode(b"no certificate").decode()
    with pytest.raises(ConverterDown, match="is no PEM certificate"):
        await convert({"url": "https://127.0.0.1:1/", "caBundle": bundle})
