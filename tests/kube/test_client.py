"""The client's promises: no status swallowed, no wait without an end, no secret in a log, no byte of a stream lost."""

from __future__ import annotations

import asyncio
import base64
import json
import logging
import math
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from importlib import metadata
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import parse_qs, urlsplit

import pytest
from aiohttp import web

from restow.controlplane.etcd import Etcd
from restow.controlplane.plane import ControlPlane
from restow.kube import PatchType, Resource, connect
from restow.kube.client import HttpCluster
from restow.kube.errors import (
    AlreadyExists,
    ApiError,
    BadReply,
    BadRequest,
    Conflict,
    Forbidden,
    Gone,
    Invalid,
    MethodNotAllowed,
    NotFound,
    ServerError,
    TimedOut,
    TooLarge,
    TooManyRequests,
    Unauthorized,
    Unreachable,
    UnsupportedMediaType,
)
from restow.kube.resources import CONFIG_MAPS, CRDS, EVENTS
from tests.kube.recording import (
    Answer,
    Recording,
    always,
    closed_port,
    cut_off,
    kubeconfig,
    serving,
    tunnelling,
)

WIDGETS = Resource("example.com", "v1", "widgets", namespaced=True)
SECRET = "hunter2-is-not-for-logs"

Verb: TypeAlias = Callable[[HttpCluster], Awaitable[object]]


async def watched(cluster: HttpCluster, *, metadata_only: bool = False) -> list[bytes]:
    """All lines of one watch request."""
    async with cluster.watch(WIDGETS, "ns", params={"resourceVersion": "5"}, metadata_only=metadata_only) as lines:
        return [line async for line in lines]


VERBS: dict[str, Verb] = {
    "get": lambda cluster: cluster.get(WIDGETS, "w", "ns"),
    "list": lambda cluster: cluster.list_page(WIDGETS, "ns"),
    "create": lambda cluster: cluster.create(WIDGETS, b"{}", "ns"),
    "update": lambda cluster: cluster.replace(WIDGETS, "w", b"{}", "ns"),
    "patch": lambda cluster: cluster.patch(WIDGETS, "w", b"{}", "ns", patch_type=PatchType.MERGE),
    "delete": lambda cluster: cluster.delete(WIDGETS, "w", "ns"),
    "watch": watched,
}
every_verb = pytest.mark.parametrize("verb", VERBS)

CLASSES = {
    400: BadRequest,
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    405: MethodNotAllowed,
    409: Conflict,
    410: Gone,
    413: TooLarge,
    415: UnsupportedMediaType,
    422: Invalid,
    429: TooManyRequests,
}


@asynccontextmanager
async def answered(answer: Answer, folder: Path, **options: Any) -> AsyncIterator[tuple[HttpCluster, Recording]]:
    """A client of a server that answers so, with a token."""
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(serving(answer))
        config = kubeconfig(folder / "kubeconfig", server.url, {"token": SECRET})
        yield await stack.enter_async_context(connect(config, **options)), server


@every_verb
async def test_every_error_status_raises_its_class(verb: str, tmp_path: Path) -> None:
    """A client that swallowed one would count a refused write as done; kubernetes-asyncio swallows all of them."""
    status = 0

    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        return await always(status, {"kind": "Status", "message": "no", "details": {"name": "w"}})(request)

    async with answered(answer, tmp_path) as (cluster, _server):
        for status in (*range(300, 309), *range(400, 600)):
            with pytest.raises(ApiError) as caught:
                await VERBS[verb](cluster)
            expected = CLASSES.get(status, ServerError if status >= 500 else ApiError)
            assert type(caught.value) is expected, status
            assert (caught.value.status, caught.value.verb) == (status, verb)
            if status != 304:  # has no body in HTTP
                assert (caught.value.message, caught.value.details.name) == ("no", "w")
            assert caught.value.target.startswith("widgets.example.com")


@every_verb
async def test_a_redirect_is_not_followed(verb: str, tmp_path: Path) -> None:
    """The token would be sent to whatever host the redirect names."""
    async with serving(always(200, {})) as elsewhere:
        async with answered(always(307, "", Location=f"{elsewhere.url}/x"), tmp_path) as (cluster, _server):
            with pytest.raises(ApiError):
                await VERBS[verb](cluster)
        assert not elsewhere.requests


@pytest.mark.parametrize("status", [200, 201, 202])
@every_verb
async def test_success_is_success(verb: str, status: int, tmp_path: Path) -> None:
    """An accepted create (201) or delete (202) told as a failure would be done twice; a watch knows only 200."""
    async with answered(always(status, {"kind": "Widget"}), tmp_path) as (cluster, _server):
        if verb == "watch" and status != 200:
            with pytest.raises(ApiError):
                await watched(cluster)
        else:
            assert await VERBS[verb](cluster)


@pytest.mark.parametrize("verb", [verb for verb in VERBS if verb != "watch"])
async def test_a_failure_in_a_success_raises(verb: str, tmp_path: Path) -> None:
    """An aggregator that answers 200 with a Status would have a write done, and an object read, that never was."""
    failure = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": "no backend"}
    async with answered(always(200, failure), tmp_path) as (cluster, _server):
        with pytest.raises(BadReply, match="no backend"):
            await VERBS[verb](cluster)
    async with answered(always(200, failure | {"status": "Success"}), tmp_path) as (cluster, _server):
        assert await VERBS[verb](cluster)


async def test_the_servers_wait_reaches_the_error(tmp_path: Path) -> None:
    """Header names come in any case over the wire; a missed Retry-After hammers a busy server."""
    async with answered(always(429, "busy", RETRY_AFTER="17"), tmp_path) as (cluster, _server):
        with pytest.raises(TooManyRequests) as caught:
            await cluster.get(WIDGETS, "w", "ns")
    assert caught.value.retry_after == 17
    assert caught.value.message == "busy"


@pytest.mark.parametrize("status", [200, 409, 503])
@pytest.mark.parametrize("chunked", [False, True], ids=["length", "chunked"])
@every_verb
async def test_an_answer_that_breaks_off_is_no_answer(verb: str, chunked: bool, status: int, tmp_path: Path) -> None:
    """Half a page taken for a whole one loses objects; half an error says nothing of what was carried out."""
    async with answered(cut_off(status, chunked=chunked), tmp_path) as (cluster, _server):
        with pytest.raises(Unreachable, match=r"cannot be reached \(the answer broke off\)"):
            await VERBS[verb](cluster)


@pytest.mark.parametrize("head", [False, True], ids=["nothing", "half"])
async def test_a_slow_server_times_out(head: bool, tmp_path: Path) -> None:
    """Without an end to the wait one lost packet hangs a whole upgrade."""
    forever = asyncio.Event()

    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        response = web.StreamResponse()
        if head:
            await response.prepare(request)
            await response.write(b'{"items": [')
        await forever.wait()
        return response

    async with answered(answer, tmp_path, request_timeout=0.2) as (cluster, server):
        with pytest.raises(TimedOut, match=f"list widgets.example.com in ns: {server.url} did not answer in time"):
            await cluster.list_page(WIDGETS, "ns")
        forever.set()


@pytest.mark.parametrize("seconds", [0.0, math.inf])
async def test_a_request_can_have_no_time_limit(seconds: float, tmp_path: Path) -> None:
    """``--request-timeout 0`` asks for no limit, and must not end every request."""
    async with answered(always(200, b"{}"), tmp_path, request_timeout=seconds) as (cluster, _server):
        assert (await cluster.get(WIDGETS, "w", "ns")).body == b"{}"


async def test_a_client_that_is_closed_leaves_no_request_without_an_end(tmp_path: Path) -> None:
    """A request in flight has no time limit any more once its client is closed, so it must fail at once."""
    arrived, forever = asyncio.Event(), asyncio.Event()

    async def answer(_request: web.BaseRequest) -> web.StreamResponse:
        arrived.set()
        await forever.wait()
        return web.Response()

    async with answered(answer, tmp_path) as (cluster, _server):
        request = asyncio.create_task(cluster.get(WIDGETS, "w", "ns"))
        await arrived.wait()
        await cluster.close()
        with pytest.raises(Unreachable):
            await request
        forever.set()


@every_verb
async def test_a_closed_port_is_told_in_plain_words(verb: str, tmp_path: Path) -> None:
    """A user must read which server refuses, not the address of an object in memory."""
    with closed_port() as port:
        async with connect(kubeconfig(tmp_path / "kubeconfig", f"https://127.0.0.1:{port}")) as cluster:
            with pytest.raises(Unreachable) as caught:
                await VERBS[verb](cluster)
    what = "widgets.example.com in ns" if verb in ("list", "create", "watch") else "widgets.example.com ns/w"
    assert str(caught.value) == f"{verb} {what}: https://127.0.0.1:{port} cannot be reached (connection refused)"
    assert not isinstance(caught.value, TimedOut)


async def test_an_unknown_name_is_told_in_plain_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A misspelt server in a kubeconfig is the commonest reason not to reach one."""

    def unknown(*_args: object, **_more: object) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    async with connect(kubeconfig(tmp_path / "kubeconfig", "https://api.example.test:6443")) as cluster:
        with pytest.raises(Unreachable) as caught:
            await cluster.get(WIDGETS, "w", "ns")
    assert str(caught.value).endswith(": https://api.example.test:6443 cannot be reached (its name is not known)")


async def test_a_server_that_hangs_up_is_told_in_plain_words(tmp_path: Path) -> None:
    """So do balancers without a backend."""

    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        assert request.transport is not None
        request.transport.close()
        return web.Response()

    async with answered(answer, tmp_path) as (cluster, _server):
        with pytest.raises(Unreachable, match=r"cannot be reached \(it closed the connection without an answer\)"):
            await cluster.create(WIDGETS, b"{}", "ns")


@pytest.mark.apiserver
async def test_a_server_of_another_authority_is_not_trusted(control_plane: ControlPlane, tmp_path: Path) -> None:
    """Whoever stands in the way would read the token; the message must say certificate, not a line of C."""
    async with connect(kubeconfig(tmp_path / "kubeconfig", control_plane.server, {"token": SECRET})) as cluster:
        with pytest.raises(Unreachable) as caught:
            await cluster.list_page(CRDS)
    assert "its certificate is not to be trusted: unable to get local issuer certificate" in str(caught.value)
    assert "ssl" not in str(caught.value).lower()


@pytest.mark.apiserver
async def test_what_does_not_speak_tls_is_told_in_plain_words(etcd: Etcd, tmp_path: Path) -> None:
    """A kubeconfig with https for a plain http port."""
    server = etcd.url.replace("http://", "https://")
    async with connect(kubeconfig(tmp_path / "kubeconfig", server)) as cluster:
        with pytest.raises(Unreachable, match=r"cannot be reached \([a-z :]+\)$"):
            await cluster.list_page(CRDS)


@pytest.mark.parametrize("status", [200, 401, 409, 500])
@every_verb
async def test_no_body_and_no_token_reaches_a_log(
    verb: str, status: int, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Debug logs are collected and read by many; Secrets and tokens pass through this client."""
    caplog.set_level(logging.DEBUG)
    document = {"kind": "Secret", "data": SECRET, "message": "refused", "metadata": {"annotations": {"x": SECRET}}}
    body = json.dumps(document).encode()
    sending: dict[str, Verb] = VERBS | {
        "create": lambda cluster: cluster.create(WIDGETS, body, "ns"),
        "update": lambda cluster: cluster.replace(WIDGETS, "w", body, "ns"),
        "patch": lambda cluster: cluster.patch(WIDGETS, "w", body, "ns", patch_type=PatchType.APPLY),
        "delete": lambda cluster: cluster.delete(WIDGETS, "w", "ns", body=body),
    }
    async with answered(always(status, document), tmp_path) as (cluster, server):
        if status == 200:
            await sending[verb](cluster)
        else:
            with pytest.raises(ApiError) as caught:
                await sending[verb](cluster)
            assert SECRET not in repr(caught.value) + str(caught.value)
        assert SECRET not in repr(cluster.__dict__)
    assert server.tokens[0] == f"Bearer {SECRET}"
    if verb != "watch":
        assert f"{verb} widgets.example.com" in caplog.text  # there is a debug log to look at
    assert SECRET not in caplog.text


async def test_every_request_says_who_asks_and_for_what(tmp_path: Path) -> None:
    """Audit logs and flow control go by the User-Agent; metadata instead of objects is what keeps memory constant."""
    async with answered(always(200, {}), tmp_path) as (cluster, server):
        await cluster.get(WIDGETS, "w", "ns")
        await cluster.get(WIDGETS, "w", "ns", metadata_only=True)
        await cluster.list_page(WIDGETS)
        await cluster.list_page(WIDGETS, metadata_only=True)
        await cluster.patch(WIDGETS, "w", b"{}", "ns", patch_type=PatchType.MERGE, metadata_only=True)
        await watched(cluster)
        await watched(cluster, metadata_only=True)
    one, many = (
        f"application/json;as={kind};g=meta.k8s.io;v=v1"
        for kind in ("PartialObjectMetadata", "PartialObjectMetadataList")
    )
    plain = "application/json"
    assert [each.headers["Accept"] for each in server.requests] == [plain, one, plain, many, one, plain, one]
    assert {each.headers["User-Agent"] for each in server.requests} == {f"restow/{metadata.version('restow')}"}
    assert {each.headers["Accept-Encoding"] for each in server.requests} == {"identity"}


@pytest.mark.parametrize(
    ("verb", "method", "path", "content_type"),
    [
        ("get", "GET", "/widgets/w", None),
        ("list", "GET", "/widgets", None),
        ("create", "POST", "/widgets", "application/json"),
        ("update", "PUT", "/widgets/w", "application/json"),
        ("patch", "PATCH", "/widgets/w", "application/merge-patch+json"),
        ("delete", "DELETE", "/widgets/w", None),
        ("watch", "GET", "/widgets?resourceVersion=5&watch=true", None),
    ],
)
async def test_methods_paths_and_content_types(
    verb: str, method: str, path: str, content_type: str | None, tmp_path: Path
) -> None:
    """A patch with the wrong media type would be another patch."""
    async with answered(always(200, {"x": 1}), tmp_path) as (cluster, server):
        await VERBS[verb](cluster)
    (asked,) = server.requests
    assert (asked.method, asked.path) == (method, "/apis/example.com/v1/namespaces/ns" + path)
    if content_type is not None:
        assert asked.headers["Content-Type"] == content_type
    assert asked.body == (b"{}" if content_type else b"")


async def test_names_and_parameters_arrive_as_they_are(tmp_path: Path) -> None:
    """A continue token with a plus or slash, or a name with a colon, read otherwise is another page or object."""
    token = "eyJ2+x/y==&limit=0#%2B ü"
    async with answered(always(200, {}), tmp_path) as (cluster, server):
        await cluster.get(WIDGETS, "system:a/b?c", "n s")
        await cluster.list_page(WIDGETS, params={"continue": token, "labelSelector": "a in (b,c),!d"})
    got, listed = server.requests
    assert got.path == "/apis/example.com/v1/namespaces/n%20s/widgets/system%3Aa%2Fb%3Fc"
    query = parse_qs(urlsplit(listed.path).query, strict_parsing=True)
    assert query == {"continue": [token], "labelSelector": ["a in (b,c),!d"]}


async def test_warnings_and_the_servers_clock_are_kept(tmp_path: Path) -> None:
    """Deprecations come in no other way, and the settle time is measured on the server's clock."""

    async def answer(_request: web.BaseRequest) -> web.StreamResponse:
        response = web.Response(text="{}", headers={"Date": "Wed, 21 Oct 2026 07:28:00 GMT"})
        for text in ('299 - "v1 is \\"old\\""', '299 - "second"', "no quotes"):
            response.headers.add("Warning", text)
        return response

    async with answered(answer, tmp_path) as (cluster, _server):
        reply = await cluster.get(WIDGETS, "w", "ns")
    assert reply.date == datetime(2026, 10, 21, 7, 28, tzinfo=UTC)
    assert reply.warnings == ('v1 is "old"', "second")


@pytest.mark.parametrize(
    ("said", "date"),
    [
        ("Wed, 21 Oct 2026 07:28:00", datetime(2026, 10, 21, 7, 28, tzinfo=UTC)),
        ("Wed, 21 Oct 2026 07:28:00 -0000", datetime(2026, 10, 21, 7, 28, tzinfo=UTC)),
        ("Wed, 21 Oct 99999999999999 07:28:00 GMT", None),
        ("today", None),
    ],
)
async def test_a_strange_date_is_a_time_of_utc_or_none(said: str, date: datetime | None, tmp_path: Path) -> None:
    """A proxy's odd clock would end a run with a traceback, at its read or when ages of CRDs are compared."""
    async with answered(always(200, {}, Date=said), tmp_path) as (cluster, _server):
        assert (await cluster.get(WIDGETS, "w", "ns")).date == date


@pytest.mark.parametrize("body", [b"<html>welcome</html>", b'{"items": [', b""])
async def test_success_with_an_illegible_body_is_told_apart(body: bytes, tmp_path: Path) -> None:
    """A login page with status 200 is no answer of an API server."""
    async with answered(always(200, body), tmp_path) as (cluster, _server):
        reply = await cluster.get(WIDGETS, "w", "ns")
    with pytest.raises(BadReply, match="cannot be read"):
        reply.json()


async def test_watch_lines_of_any_length_are_split_right(tmp_path: Path) -> None:
    """An object may be as large as etcd takes, and chunks end anywhere: a limit or a lost byte ends the watch."""
    sent = [b"x" * 3_000_000, b"short", b"y" * 2_500_000 + b"z", b"last, without a newline"]
    stream = b"\n".join([sent[0], b"", *sent[1:]])

    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        for start in range(0, len(stream), 777_777):
            await response.write(stream[start : start + 777_777])
        return response

    async with answered(answer, tmp_path) as (cluster, _server):
        assert await watched(cluster) == sent


async def test_an_event_arrives_before_the_next_one_is_sent(tmp_path: Path) -> None:
    """A reader that waits for a full buffer would see a change minutes late."""
    seen = asyncio.Event()

    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b"first\n")
        await seen.wait()
        await response.write(b"second\n")
        return response

    async with (
        answered(answer, tmp_path) as (cluster, _server),
        cluster.watch(WIDGETS, params={}) as lines,
        asyncio.timeout(30),
    ):
        assert await anext(lines) == b"first"
        seen.set()
        assert await anext(lines) == b"second"


@pytest.mark.parametrize("mine", [OSError("disk full"), TimeoutError("mine"), ValueError("other")])
async def test_what_the_watcher_itself_raises_stays_what_it_is(mine: Exception, tmp_path: Path) -> None:
    """A full disk of whoever handles an event, told as an unreachable server, would be retried for ever."""

    async def handle_events(cluster: HttpCluster) -> None:
        async with cluster.watch(WIDGETS, params={}) as lines:
            assert await anext(lines) == b"line"
            raise mine

    async with answered(always(200, b"line\n"), tmp_path) as (cluster, _server):
        with pytest.raises(type(mine)) as caught:
            await handle_events(cluster)
    assert caught.value is mine


async def test_a_connection_is_used_again(tmp_path: Path) -> None:
    """A TLS handshake for each of a million objects would cost more than the migration."""
    peers: set[object] = set()

    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        assert request.transport is not None
        peers.add(request.transport.get_extra_info("peername"))
        return web.json_response({})

    async with answered(answer, tmp_path) as (cluster, _server):
        for _ in range(5):
            await cluster.get(WIDGETS, "w", "ns")
    assert len(peers) == 1


class TestProxies:
    """Through the proxy that a kubeconfig names; which one the environment means is tested with the credentials."""

    @pytest.mark.apiserver
    async def test_the_api_server_is_reached_through_a_tunnel(
        self, control_plane: ControlPlane, tmp_path: Path
    ) -> None:
        """Many clusters can only be reached so; TLS must still be verified against the server itself."""
        port = int(control_plane.server.rpartition(":")[2])
        async with tunnelling(("127.0.0.1", port)) as proxy:
            user = control_plane.admin
            config = kubeconfig(
                tmp_path / "kubeconfig",
                "https://kubernetes.example.test:6443",
                {"client-certificate": str(user.certificate_file), "client-key": str(user.key_file)},
                **{
                    "proxy-url": f"http://me:{SECRET}@127.0.0.1:{proxy.port}",
                    "certificate-authority": str(user.ca_file),
                    "tls-server-name": "localhost",
                },
            )
            async with connect(config) as cluster:
                assert (await cluster.list_page(CRDS, params={"limit": "1"})).json()["items"] is not None
        assert proxy.asked_for == ["kubernetes.example.test:6443"]
        assert proxy.authorizations[0].startswith("basic ")

    async def test_a_proxy_that_refuses_is_told_in_plain_words(self, tmp_path: Path) -> None:
        """Its 407 is not an answer of the API server."""
        async with tunnelling(("127.0.0.1", 1), refusal=b"407 Proxy Authentication Required") as proxy:
            config = kubeconfig(
                tmp_path / "kubeconfig",
                "https://api.example.test",
                **{"proxy-url": f"http://me:{SECRET}@127.0.0.1:{proxy.port}"},
            )
            async with connect(config) as cluster:
                with pytest.raises(Unreachable) as caught:
                    await cluster.get(WIDGETS, "w", "ns")
        assert "(its proxy answered 407 Proxy Authentication Required)" in str(caught.value)
        assert SECRET not in str(caught.value)

    async def test_a_proxy_that_is_not_there_is_told_in_plain_words(self, tmp_path: Path) -> None:
        """Otherwise one would look for the fault at the API server."""
        with closed_port() as port:
            proxy = f"http://127.0.0.1:{port}"
            config = kubeconfig(tmp_path / "kubeconfig", "https://api.example.test", **{"proxy-url": proxy})
            async with connect(config) as cluster:
                with pytest.raises(Unreachable, match=r"\(its proxy: connection refused\)"):
                    await cluster.get(WIDGETS, "w", "ns")


@pytest.mark.apiserver
class TestOnARealServer:
    """The same classes from the answers of a real API server."""

    @pytest.fixture
    async def cluster(self, kubeconfig: Path) -> AsyncIterator[HttpCluster]:
        async with connect(kubeconfig) as opened:
            yield opened

    @pytest.fixture
    async def config_map(self, cluster: HttpCluster, request: pytest.FixtureRequest) -> AsyncIterator[dict[str, Any]]:
        """A ConfigMap of this test's own."""
        name = request.node.name.replace("_", "-")
        document = {"metadata": {"name": name}, "data": {"a": "1"}}
        yield (await cluster.create(CONFIG_MAPS, json.dumps(document).encode(), "default")).json()
        await cluster.delete(CONFIG_MAPS, name, "default")

    async def test_not_found(self, cluster: HttpCluster) -> None:
        """Only the object's own 404 names it; a version that is not served, and the proxy's, do not."""
        with pytest.raises(NotFound) as caught:
            await cluster.get(CONFIG_MAPS, "absent", "default")
        assert caught.value.names("configmaps", "absent")
        with pytest.raises(NotFound) as caught:
            await cluster.get(Resource("apps", "v9", "deployments", namespaced=True), "absent", "default")
        assert not caught.value.names("deployments", "absent")

    async def test_conflict(self, cluster: HttpCluster, config_map: dict[str, Any]) -> None:
        """A stale resourceVersion must not overwrite, and a name that is taken is another thing."""
        name = config_map["metadata"]["name"]
        stale = json.dumps({"metadata": {"resourceVersion": "1"}}).encode()
        with pytest.raises(Conflict) as caught:
            await cluster.patch(CONFIG_MAPS, name, stale, "default", patch_type=PatchType.MERGE)
        assert type(caught.value) is Conflict
        with pytest.raises(AlreadyExists):
            await cluster.create(CONFIG_MAPS, json.dumps({"metadata": {"name": name}}).encode(), "default")

    async def test_invalid(self, cluster: HttpCluster) -> None:
        """A refused object is that object's failure, and says which field."""
        bad = json.dumps({"metadata": {"name": "a", "labels": {"x": "not a label"}}}).encode()
        with pytest.raises(Invalid) as caught:
            await cluster.create(CONFIG_MAPS, bad, "default")
        assert caught.value.details.causes[0]["field"] == "metadata.labels"

    async def test_bad_request_and_media_type(self, cluster: HttpCluster, config_map: dict[str, Any]) -> None:
        """Bodies that are no JSON, patches of a type that a resource does not take, and verbs that it has not."""
        with pytest.raises(BadRequest):
            await cluster.create(CONFIG_MAPS, b"{", "default")
        name: str = config_map["metadata"]["name"]
        neither: Any = StrEnum("neither", {"TEXT": "text/plain"}).TEXT
        with pytest.raises(UnsupportedMediaType):
            await cluster.patch(CONFIG_MAPS, name, b"{}", "default", patch_type=neither)
        with pytest.raises(MethodNotAllowed):
            await cluster.delete(Resource("", "v1", "componentstatuses", namespaced=False), "absent")

    async def test_gone(self, cluster: HttpCluster, config_map: dict[str, Any], etcd: Etcd) -> None:
        """A list that took longer than etcd keeps history goes on with the token that the error brings."""
        await etcd.compact()
        # Events are the resource that has no watch cache: etcd itself is asked.
        token = json.dumps({"v": "meta.k8s.io/v1", "rv": 1, "start": "default/\0"}).encode()
        begun = {"limit": "1", "continue": base64.b64encode(token).decode().rstrip("=")}
        with pytest.raises(Gone) as caught:
            await cluster.list_page(EVENTS, "default", params=begun)
        assert caught.value.reason == "Expired"
        assert await cluster.list_page(EVENTS, "default", params=begun | {"continue": caught.value.continue_token})

    async def test_forbidden_and_unauthorized(self, control_plane: ControlPlane) -> None:
        """Missing rights are for an administrator to grant, expired credentials for the user to renew."""
        nobody = control_plane.user("client-test-nobody")
        expired = control_plane.user("client-test-expired", valid_for=-timedelta(hours=1))
        async with connect(nobody.kubeconfig) as cluster:
            with pytest.raises(Forbidden, match="client-test-nobody"):
                await cluster.list_page(CRDS)
        async with connect(expired.kubeconfig) as cluster:
            with pytest.raises(Unauthorized):
                await cluster.list_page(CRDS)

    async def test_metadata_only_is_understood(self, cluster: HttpCluster, config_map: dict[str, Any]) -> None:
        """Asked in a way that the server does not know, it would answer whole objects or refuse."""
        name = config_map["metadata"]["name"]
        one = (await cluster.get(CONFIG_MAPS, name, "default", metadata_only=True)).json()
        many = (await cluster.list_page(CONFIG_MAPS, "default", metadata_only=True)).json()
        assert one.keys() == {"kind", "apiVersion", "metadata"}
        assert (one["kind"], many["kind"]) == ("PartialObjectMetadata", "PartialObjectMetadataList")
        assert all("data" not in item for item in many["items"])

    async def test_odd_names_reach_the_server(self, cluster: HttpCluster) -> None:
        """RBAC names hold colons; a slash in a name is refused, not taken for a subresource."""
        roles = Resource("rbac.authorization.k8s.io", "v1", "clusterroles", namespaced=False)
        assert (await cluster.get(roles, "system:basic-user")).json()["metadata"]["name"] == "system:basic-user"
        with pytest.raises(ApiError) as caught:
            await cluster.get(CONFIG_MAPS, "a/b", "default")
        assert not isinstance(caught.value, MethodNotAllowed)
