"""The client: a ``Cluster`` over one aiohttp session. Nothing else in restow sends HTTP requests to an API server.

Guarantees, each tested: every status that is not 2xx raises, and so does a ``v1.Status`` of a failure; every request
has a timeout; bodies and credentials never reach a log; expiring credentials are renewed in time, and once more after a
401; requests have their own User-Agent, so that audit logs and API Priority and Fairness can identify restow.
"""

from __future__ import annotations

import dataclasses
import logging
import math
import os
import re
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from functools import lru_cache, partial
from typing import TypeVar

import aiohttp
import msgspec
from multidict import CIMultiDict
from yarl import URL

from restow import __version__
from restow.kube.cluster import Cluster, Reply, Request
from restow.kube.credentials import ConnectionSettings, Credentials, load_connection
from restow.kube.deadlines import Deadlines
from restow.kube.errors import (
    BadReply,
    CertificateUntrusted,
    KubeError,
    TimedOut,
    Unauthorized,
    Unreachable,
    api_error,
    failure_in,
    http_date,
)
from restow.kube.impersonation import Impersonation

_T = TypeVar("_T")

_log = logging.getLogger(__name__)

_METHODS = {
    "get": "GET",
    "list": "GET",
    "watch": "GET",
    "create": "POST",
    "update": "PUT",
    "patch": "PATCH",
    "delete": "DELETE",
}
_JSON = "application/json"
_METADATA = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
_METADATA_LIST = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
_TABLE = "application/json;as=Table;g=meta.k8s.io;v=v1"

_REQUEST_TIMEOUT = 75.0  # seconds; an API server gives up after 60, with a better message
_CONNECT_TIMEOUT = 10.0
_ASIDE_CONNECT_TIMEOUT = 4.0
_ASIDE_TIMEOUT = 10.0  # requests to a single API server read small documents, and other work waits for them
_WATCH_SILENCE = 150.0  # seconds without a byte; bookmarks come about every 60
_WATCH_TIMEOUT = aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_TIMEOUT, sock_read=_WATCH_SILENCE)
_CONNECTIONS = 128
_STATUS = re.compile(rb'\s*\{\s*"kind"\s*:\s*"Status"')


@asynccontextmanager
async def connect(
    kubeconfig: str | os.PathLike[str] | None = None,
    context: str | None = None,
    *,
    cluster: str | None = None,
    user: str | None = None,
    impersonate: Impersonation | None = None,
    request_timeout: float = _REQUEST_TIMEOUT,
    now: Callable[[], datetime] = lambda: datetime.now(UTC),
) -> AsyncIterator[HttpCluster]:
    """Open a client of the configured cluster; sends no request yet.

    Args:
        kubeconfig: as kubectl's flag; see ``load_connection`` for the default.
        context: as kubectl's flag.
        cluster, user: as kubectl's flags: names of the kubeconfig, in place of the context's own.
        impersonate: as kubectl's --as flags; replaces what the kubeconfig's user sets, field by field.
        request_timeout: seconds for one whole request, 0 or infinity for no limit; does not apply to watches.
        now: the clock that decides when credentials have to be renewed.

    Raises:
        ConfigError: the kubeconfig is missing or malformed, or gives no credentials. Requests raise
            ``CredentialsExpired``, which is temporary, if it cannot be loaded again later.
    """
    load = partial(load_connection, kubeconfig, cluster=cluster, user=user, impersonate=impersonate, now=now)
    first = await load(context)

    async def reload() -> ConnectionSettings:
        return await load(context or first.context, known=credentials.held)

    credentials = Credentials(first, reload, now)
    client = HttpCluster(credentials, request_timeout=request_timeout)
    try:
        yield client
    finally:
        await client.close()
        await credentials.close()


class HttpCluster(Cluster):
    """A ``Cluster`` over HTTPS, made by ``connect``; the tasks of one event loop can share it."""

    def __init__(
        self,
        credentials: Credentials,
        *,
        request_timeout: float,
        aside: Callable[[ConnectionSettings], ConnectionSettings] | None = None,
    ) -> None:
        self._credentials = credentials
        self._aside = aside
        connect_timeout = _ASIDE_CONNECT_TIMEOUT if aside else _CONNECT_TIMEOUT
        self._timeout = aiohttp.ClientTimeout(total=None, sock_connect=connect_timeout)
        self._deadlines = Deadlines(request_timeout or math.inf)
        connector = (
            aiohttp.TCPConnector(limit=_CONNECTIONS, keepalive_timeout=75)
            if not aside
            else aiohttp.TCPConnector(limit=1)
        )
        self._session = aiohttp.ClientSession(
            connector=connector,
            cookie_jar=aiohttp.DummyCookieJar(),
            headers={
                "User-Agent": f"restow/{__version__}",
                # Compressing a page costs the API server more than a cluster's network does.
                "Accept-Encoding": "identity",
            },
        )

    async def close(self) -> None:
        """Close the session; requests in flight fail as Unreachable."""
        self._deadlines.close()
        await self._session.close()

    @property
    def host(self) -> str:
        return self._route_of(self._credentials.held).host

    @property
    def default_namespace(self) -> str:
        return self._credentials.held.namespace

    @asynccontextmanager
    async def at(self, host: str = "", server_name: str = "") -> AsyncIterator[HttpCluster]:
        def there(connection: ConnectionSettings) -> ConnectionSettings:
            if not host:
                return connection
            return dataclasses.replace(connection, host=host.rstrip("/"), server_hostname=server_name or None)

        cluster = HttpCluster(self._credentials, request_timeout=_ASIDE_TIMEOUT, aside=there)
        try:
            yield cluster
        finally:
            await cluster.close()

    async def send(self, request: Request) -> Reply:
        target = request.target

        async def attempt(connection: ConnectionSettings) -> Reply:
            with PlainErrors(request.verb, target, connection.host), self._deadlines.within():
                async with await self._begin(connection, request, self._timeout) as response:
                    answer = await response.read()
                    status, said = response.status, response.headers
            if _log.isEnabledFor(logging.DEBUG):
                _log.debug("%s %s: %d, %d bytes", request.verb, target, status, len(answer))
            if not 200 <= status < 300:
                raise api_error(status=status, body=answer, headers=said, verb=request.verb, target=target)
            if _STATUS.match(answer) and (failure := failure_in(answer)) is not None:
                msg = f"{request}: {connection.host} answered with success, and in it with a failure: {failure}"
                raise BadReply(msg)
            return Reply(answer, _date(said.get("Date")), _warnings(said))

        return await self._authorized(attempt)

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[AsyncIterator[bytes]]:
        target = request.target
        errors = PlainErrors(request.verb, target, self.host)
        request = msgspec.structs.replace(request, params={**(request.params or {}), "watch": "true"})

        async def attempt(connection: ConnectionSettings) -> aiohttp.ClientResponse:
            with errors:
                response = await self._begin(connection, request, _WATCH_TIMEOUT)
                if response.status == 200:
                    return response
                async with response:
                    body = await response.read()
            said = response.headers
            raise api_error(status=response.status, body=body, headers=said, verb=request.verb, target=target)

        # What the caller raises while it holds the watch open is the caller's: only reading is translated.
        async with await self._authorized(attempt) as response:
            yield _lines(response.content, errors)

    async def _begin(
        self, connection: ConnectionSettings, request: Request, timeout: aiohttp.ClientTimeout
    ) -> aiohttp.ClientResponse:
        """Send the request, and return the response as soon as its headers are there.

        TLS is a parameter of each request, because a renewed client certificate needs new connections.
        """
        return await self._session.request(
            _METHODS[request.verb],
            _url(connection, request),
            headers=_headers(connection, request),
            data=request.body,
            timeout=timeout,
            allow_redirects=False,
            ssl=connection.tls if connection.tls is not None else False,
            server_hostname=connection.server_hostname,
            proxy=connection.proxy,
        )

    async def _authorized(self, send: Callable[[ConnectionSettings], Awaitable[_T]]) -> _T:
        """Send; after a 401, renew the credentials and send once more.

        A token may be rotated or revoked before it expires, and a plugin's certificate may have no known expiry.
        """
        used = await self._credentials.current()
        try:
            return await send(self._route_of(used))
        except Unauthorized:
            await self._credentials.refused(used)
        return await send(self._route_of(self._credentials.held))

    def _route_of(self, connection: ConnectionSettings) -> ConnectionSettings:
        return connection if self._aside is None else self._aside(connection)


def _url(connection: ConnectionSettings, request: Request) -> URL:
    query = f"?{_query(tuple(request.params.items()))}" if request.params else ""
    return URL(f"{connection.host}{request.path}{query}", encoded=True)


@lru_cache(maxsize=16)
def _query(params: tuple[tuple[str, str], ...]) -> str:
    """Return an encoded query: the writes of a run have the same one."""
    return URL().with_query(dict(params)).raw_query_string


def _headers(connection: ConnectionSettings, request: Request) -> Mapping[str, str]:
    headers = {"Accept": _accepted(request)}
    if request.body is not None:
        headers["Content-Type"] = request.patch_type.value if request.patch_type is not None else _JSON
    if connection.authorization is not None:
        headers["Authorization"] = connection.authorization
    if connection.impersonation:
        return CIMultiDict([*headers.items(), *connection.impersonation])  # a header for each group
    return headers


def _accepted(request: Request) -> str:
    """Return the media type of the wanted reply."""
    if request.as_table:
        return _TABLE
    if not request.metadata_only:
        return _JSON
    return _METADATA_LIST if request.verb == "list" else _METADATA


async def _lines(content: aiohttp.StreamReader, errors: PlainErrors) -> AsyncIterator[bytes]:
    """Split into lines of any length: an object of etcd's maximum size is one line."""
    parts: list[bytes] = []
    while True:
        with errors:
            chunk = await content.readany()
        if not chunk:
            break
        first, *rest = chunk.split(b"\n")
        parts.append(first)
        for piece in rest:
            if line := b"".join(parts):
                yield line
            parts = [piece]
    if line := b"".join(parts):
        yield line


@lru_cache(maxsize=4)
def _date(value: str | None) -> datetime | None:
    """Read a ``Date`` header; all replies of a second have the same one."""
    return http_date(value) if value else None


def _warnings(headers: Mapping[str, str]) -> tuple[str, ...]:
    """Return the texts of RFC 7234 Warning headers (``299 - "text"``), KEP-1693."""
    if "Warning" not in headers:
        return ()
    values = headers.getall("Warning") if hasattr(headers, "getall") else [headers["Warning"]]
    return tuple(value.split('"', 1)[1].rsplit('"', 1)[0].replace('\\"', '"') for value in values if '"' in value)


class PlainErrors:
    """Turn errors of aiohttp and the socket into a ``KubeError`` with a sentence; the original is its cause."""

    __slots__ = ("_host", "_target", "_verb")

    def __init__(self, verb: str, target: str, host: str) -> None:
        self._verb = verb
        self._target = target
        self._host = host

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _trace: object) -> None:
        if error is None or isinstance(error, KubeError):
            return
        if isinstance(error, TimeoutError):
            msg = f"{self._verb} {self._target}: {self._host} did not answer in time"
            raise TimedOut(msg) from error
        if isinstance(error, (aiohttp.ClientError, OSError)):
            msg = f"{self._verb} {self._target}: {self._host} cannot be reached ({_why(error)})"
            unknown = isinstance(getattr(error, "certificate_error", error), ssl.SSLCertVerificationError)
            raise (CertificateUntrusted if unknown else Unreachable)(msg) from error


def _why(error: Exception) -> str:
    """Return a description of a network error: the texts of aiohttp and the socket show objects and tuples."""
    if isinstance(error, aiohttp.ClientHttpProxyError):
        return f"its proxy answered {error.status} {error.message}".rstrip()
    if isinstance(error, aiohttp.ClientPayloadError):
        return "the answer broke off"
    if isinstance(error, aiohttp.ServerDisconnectedError):
        return "it closed the connection without an answer"
    cause = getattr(error, "certificate_error", None) or getattr(error, "os_error", None) or error
    via = "its proxy: " if isinstance(error, aiohttp.ClientProxyConnectionError) else ""
    if isinstance(cause, ssl.SSLCertVerificationError):
        return f"{via}its certificate is not to be trusted: {cause.verify_message}"
    if isinstance(cause, ssl.SSLError):
        return f"{via}no TLS connection: {(cause.reason or 'failed').replace('_', ' ').lower()}"
    if isinstance(cause, socket.gaierror):
        return f"{via}its name is not known"
    if isinstance(cause, OSError) and cause.errno:
        return f"{via}{os.strerror(cause.errno).lower()}"
    if isinstance(cause, ConnectionError):
        return f"{via}it closed the connection"
    return f"{via}{str(cause).strip() or type(cause).__name__}"
