"""Calls a webhook as an API server does: HTTP/1.1 with keep-alive, TLS against a CA bundle, 30 seconds in all.

Sources: apiserver ``pkg/util/webhook/client.go`` and ``authentication.go``, client-go ``rest/request.go`` and
``transport/cache.go`` (25 idle connections to a host). Certificates are judged as Go does: any certificate of the
bundle is a root, and names count only in subjectAltName.
"""

from __future__ import annotations

import asyncio
import io
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Final, Self

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult

from restow.conversion.wiring.address import Address
from restow.conversion.wiring.bundle import Bundle
from restow.conversion.wiring.errors import NotAnswering

__all__ = ["Answer", "Caller"]

_TIMEOUT: Final = 30.0  # seconds, as webhook/authentication.go sets them
_CONNECT: Final = 10.0
_CONNECTIONS: Final = 25
_HEADERS: Final = {"Accept": "application/json, */*", "User-Agent": "restow"}


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back. ``reused`` says whether the request went over a connection that an earlier one had opened."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    reused: bool


class Caller:
    """A session with one webhook: ``async with Caller(address, bundle) as caller``.

    ``connect_to`` (host, port) is where connections go instead of the address's own; names are verified as ever.
    """

    def __init__(
        self,
        address: Address,
        bundle: Bundle,
        *,
        timeout: float = _TIMEOUT,
        connect_to: tuple[str, int] | None = None,
    ) -> None:
        self.address = address
        self._bundle = bundle
        self._timeout_s = timeout
        self._timeout = aiohttp.ClientTimeout(total=timeout, sock_connect=_CONNECT)
        self._connect_to = connect_to
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        """Open the session; nothing is sent yet."""
        traces = aiohttp.TraceConfig()
        traces.on_connection_reuseconn.append(_note_reuse)
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(
                ssl=_tls(self._bundle),
                limit=_CONNECTIONS,
                keepalive_timeout=600.0,
                resolver=None if self._connect_to is None else _Fixed(*self._connect_to),
                use_dns_cache=False,
            ),
            cookie_jar=aiohttp.DummyCookieJar(),
            headers=_HEADERS,
            trace_configs=[traces],
            auto_decompress=True,
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close it."""
        if self._session is not None:
            await self._session.close()

    def another(self) -> Caller:
        """Return a session with the same webhook, over connections of its own."""
        return Caller(self.address, self._bundle, timeout=self._timeout_s, connect_to=self._connect_to)

    async def call(self, body: bytes, *, method: str = "POST") -> Answer:
        """Send one request.

        Raises:
            NotAnswering: no complete answer comes in time.
        """
        assert self._session is not None
        seen = _Seen()
        try:
            async with self._session.request(
                method,
                self.address.url,
                params={"timeout": "30s"},
                data=io.BytesIO(body) if method == "POST" else None,
                headers={"Content-Type": "application/json"},
                timeout=self._timeout,
                trace_request_ctx=seen,
            ) as response:
                return Answer(response.status, response.headers, await response.read(), seen.reused)
        except aiohttp.ClientConnectorCertificateError as error:
            raise NotAnswering(self._untrusted(error.certificate_error)) from error
        except aiohttp.ClientError as error:
            reason = str(error) or type(error).__name__
            raise NotAnswering(f"the webhook at {self.address} did not answer: {reason}") from error
        except TimeoutError as error:
            seconds = f"{self._timeout_s:g} s"
            raise NotAnswering(f"the webhook at {self.address} did not answer within {seconds}") from error
        except (OSError, asyncio.IncompleteReadError) as error:
            raise NotAnswering(f"the webhook at {self.address} broke the connection ({error})") from error

    def _untrusted(self, error: Exception) -> str:
        said = getattr(error, "verify_message", "") or type(error).__name__
        roots = f"the CA bundle ({len(self._bundle)} certificates)" if self._bundle else "the system's roots"
        return (
            f"the certificate of the webhook at {self.address} does not verify for the name {self.address.host} "
            f"against {roots}: {said}"
        )


@dataclass(slots=True)
class _Seen:
    reused: bool = False


async def _note_reuse(_session: object, context: Any, _params: object) -> None:
    context.trace_request_ctx.reused = True


def _tls(bundle: Bundle) -> ssl.SSLContext:
    context = ssl.create_default_context(cadata=bundle.pem.decode() if bundle else None)
    context.hostname_checks_common_name = False
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    context.set_alpn_protocols(["http/1.1"])
    return context


class _Fixed(AbstractResolver):
    """Resolves every name to one place."""

    def __init__(self, host: str, port: int) -> None:
        self._host = host
        self._port = port

    async def resolve(self, host: str, port: int = 0, family: Any = 0) -> list[ResolveResult]:
        return [ResolveResult(hostname=host, host=self._host, port=self._port or port, family=family, proto=0, flags=0)]

    async def close(self) -> None:
        pass
