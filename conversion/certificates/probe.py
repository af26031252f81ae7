"""Calls a webhook as an API server does, and probes one before a CRD names it.

A CRD that names a webhook which does not answer takes down every version but the storage version at once: reads, watch
caches, garbage collection, namespace deletion. One review per direction and version, of an object with nothing but a
name, shows beforehand that address, certificate, path, kind and versions are right.

Sources: apiserver `pkg/util/webhook/client.go` and `authentication.go`, client-go `rest/request.go` and
`transport/cache.go` (HTTP/1.1 with keep-alive, 25 idle connections to a host, 30 seconds in all). Certificates are
verified as Go does: any certificate of the bundle is a root, and names count only in subjectAltName.
"""

from __future__ import annotations

import asyncio
import io
import ssl
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from types import TracebackType
from typing import Any, Final, Self

import aiohttp
import msgspec
from aiohttp.abc import AbstractResolver, ResolveResult

from restow.conversion.certificates.wiring.clientconfig import Address, Bundle
from restow.conversion.model.errors import NotAnswering
from restow.conversion.model.values import Json
from restow.conversion.reviews.responsechecks import ResponseRejected, SentReview, accept, review_body
from restow.crds import Crd

_TIMEOUT: Final = 30.0  # seconds, as webhook/authentication.go sets them
_CONNECT: Final = 10.0
_CONNECTIONS: Final = 25
_HEADERS: Final = {"Accept": "application/json, */*", "User-Agent": "restow"}


@dataclass(frozen=True, slots=True)
class WebhookAnswer:
    """The answer. ``reused``: whether the request used a connection that an earlier request had opened."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    reused: bool


class WebhookClient:
    """A session with one webhook: ``async with WebhookClient(address, bundle) as client``.

    ``connect_to`` (host, port) replaces the address's own host and port for connections; certificates are verified
    against the address's name all the same.
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
        """Close the session."""
        if self._session is not None:
            await self._session.close()

    def another(self) -> WebhookClient:
        """Return a session with the same webhook, over connections of its own."""
        return WebhookClient(self.address, self._bundle, timeout=self._timeout_s, connect_to=self._connect_to)

    async def call(self, body: bytes, *, method: str = "POST") -> WebhookAnswer:
        """Send one request.

        Raises:
            NotAnswering: no complete answer arrives in time.
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
                return WebhookAnswer(response.status, response.headers, await response.read(), seen.reused)
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


_STUB: Final[Json] = {"uid": "", "convertedObjects": None, "result": {"metadata": {}}}


def probe_reviews(crd: Crd) -> tuple[SentReview, ...]:
    """Return the reviews: from the storage version to every other served one and back; for one version an empty one."""
    storage = crd.storage.api_version
    others = [f"{crd.group}/{name}" for name in crd.served if name != crd.storage.name]
    ways = [way for other in others for way in ((storage, other), (other, storage))]
    if not ways:
        return (SentReview("restow-probe", storage, ()),)
    return tuple(
        SentReview(
            f"restow-probe-{number}", target, ({"apiVersion": source, "kind": crd.kind, "metadata": _metadata(crd)},)
        )
        for number, (source, target) in enumerate(ways)
    )


async def probe(
    crd: Crd,
    address: Address,
    bundle: Bundle,
    *,
    timeout: float = 10.0,
    connect_to: tuple[str, int] | None = None,
) -> None:
    """Send the reviews and check the answers as an API server would.

    Args:
        crd: the kind and its versions.
        address, bundle: those of its current or planned ``clientConfig``.
        timeout: seconds for each review.
        connect_to: (host, port) to connect to instead of the address's own, if its name does not resolve.

    Raises:
        NotAnswering: the webhook does not answer, or an API server would reject its answer.
    """
    async with WebhookClient(address, bundle, timeout=timeout, connect_to=connect_to) as caller:
        for sent in probe_reviews(crd):
            answer = await caller.call(review_body(sent, response=_STUB))
            content_type = answer.headers.get("Content-Type", "")
            try:
                accept(sent, status=answer.status, content_type=content_type, body=answer.body)
            except ResponseRejected as error:
                raise NotAnswering(
                    f"the webhook at {address} does not convert {crd.kind} to {sent.desired}: {error}"
                ) from error


def _metadata(crd: Crd) -> dict[str, str]:
    metadata = {"name": "restow-probe", "uid": "00000000-0000-0000-0000-000000000000"}
    return metadata | ({"namespace": "default"} if crd.namespaced else {})


Probe = Callable[[Crd, Address, Bundle], Awaitable[None]]
"""Probes the webhook of a CRD; raises NotAnswering."""

HookProbe = Callable[[Address, Bundle], Awaitable[None]]
"""Probes an admission webhook; raises NotAnswering."""


async def probe_hook(address: Address, bundle: Bundle, *, timeout: float = 10.0) -> None:
    """Call an admission webhook with a DELETE request without an object. Any decision counts as an answer.

    A webhook that requires a client certificate counts as answering: API servers have one, this caller has none.

    Raises:
        NotAnswering: the webhook does not answer, or an API server would reject its answer.
    """
    body = msgspec.json.encode(_PROBE)
    async with WebhookClient(address, bundle, timeout=timeout) as caller:
        answer = await caller.call(body)
    if answer.status == HTTPStatus.UNAUTHORIZED:
        return
    try:
        review = msgspec.json.decode(answer.body) if answer.status == 200 else None
    except (msgspec.MsgspecError, ValueError):
        review = None
    response = review.get("response") if isinstance(review, dict) else None
    if not isinstance(response, dict) or response.get("uid") != _UID:
        raise NotAnswering(f"the webhook at {address} answers no AdmissionReview (status {answer.status})")


_UID: Final = "restow-probe"
_PROBE: Final[Json] = {
    "apiVersion": "admission.k8s.io/v1",
    "kind": "AdmissionReview",
    "request": {
        "uid": _UID,
        "kind": {"group": "", "version": "", "kind": ""},
        "resource": {"group": "", "version": "", "resource": ""},
        "operation": "DELETE",
        "userInfo": {"username": "restow"},
        "dryRun": True,
    },
}
