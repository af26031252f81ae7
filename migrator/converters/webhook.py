"""The way to a CRD's own conversion webhook, and a converter over it.

A URL is spoken to as it is. A service of the cluster is reached by its DNS name where that is known, in a pod; from
elsewhere through the API server's service proxy, which takes the way that the API server's own reviews take, but does
not verify the certificate at its end.
"""

from __future__ import annotations

import asyncio
import functools
import random
import socket
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import aiohttp

from restow.crds import Crd
from restow.kube.cluster import Cluster
from restow.kube.errors import Unreachable, api_error
from restow.kube.outages import PlainErrors
from restow.kube.retry import bare
from restow.migrator.converters.converter import ConverterDown
from restow.migrator.converters.endpoint import Endpoint, endpoint
from restow.migrator.converters.reviewer import IN_FLIGHT, Reviewer, Way
from restow.migrator.halt import Halt
from restow.migrator.outcome import BrokenOff
from restow.migrator.report import Requests

__all__ = ["webhook_converter"]

_TIMEOUT = aiohttp.ClientTimeout(total=30.0, sock_connect=10.0)  # an API server waits as long
_PARAMS = {"timeout": "30s"}
_LOOKUP_S = 5.0


@asynccontextmanager
async def webhook_converter(
    crd: Crd,
    cluster: Cluster,
    *,
    url: str | None,
    halt: Halt,
    jitter: Callable[[float], float],
    chance: random.Random,
    requests: Requests,
    patience_s: float = 0.0,
) -> AsyncIterator[Reviewer]:
    """Open the CRD's webhook; nothing is looked up or sent before the first conversion.

    Args:
        crd: a CRD with strategy Webhook.
        cluster: its API server.
        url: another way to the same webhook, see ``endpoint``.
        halt, jitter, chance, requests, patience_s: see ``Reviewer``.
    """
    async with aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=IN_FLIGHT, keepalive_timeout=75),
        cookie_jar=aiohttp.DummyCookieJar(),
        headers={"User-Agent": "restow", "Accept": "application/json", "Content-Type": "application/json"},
    ) as session:
        yield Reviewer(
            f"the conversion webhook of {crd.name}",
            functools.partial(_find, crd, cluster, session, url),
            halt=halt,
            jitter=jitter,
            chance=chance,
            requests=requests,
            patience_s=patience_s,
        )


async def _find(crd: Crd, cluster: Cluster, session: aiohttp.ClientSession, url: str | None) -> Way:
    where = endpoint(crd, url)
    if where.proxied is not None and not await _is_known(where.server_name):
        return Way(functools.partial(_post_by_proxy, cluster, where), where.review_version, _HELP_PROXIED)
    tls = _tls(where) if where.url.startswith("https:") else None
    return Way(functools.partial(_post, session, where, tls), where.review_version, _HELP)


async def _is_known(host: str) -> bool:
    """Whether a service's DNS name means something here, as it does in a pod."""
    try:
        async with asyncio.timeout(_LOOKUP_S):
            await asyncio.get_running_loop().getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except (OSError, TimeoutError):
        return False
    return True


def _tls(where: Endpoint) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cadata=where.ca or None)
    except ssl.SSLError as error:
        raise ConverterDown("the caBundle of the conversion webhook is no PEM certificate") from error
    # An API server (Go) is content with certificates that RFC 5280 is not, as many webhooks make themselves.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    return context


async def _post(session: aiohttp.ClientSession, where: Endpoint, tls: ssl.SSLContext | None, body: bytes) -> bytes:
    """Straight to the webhook."""
    with _Errors("post", _REVIEW, where.host):
        async with session.post(
            where.url,
            params=_PARAMS,
            data=body,
            timeout=_TIMEOUT,
            allow_redirects=False,
            ssl=tls if tls is not None else False,
            server_hostname=where.server_name if tls is not None else None,
        ) as response:
            answer = await response.read()
    if not 200 <= response.status < 300:
        raise api_error(status=response.status, body=answer, headers=response.headers, verb="post", target=_REVIEW)
    return answer


async def _post_by_proxy(cluster: Cluster, where: Endpoint, body: bytes) -> bytes:
    """Through the API server's service proxy: the verb ``create`` on ``services/proxy``."""
    assert where.proxied is not None
    reply = await bare(cluster).create(where.proxied, body, where.namespace, params=_PARAMS)
    return reply.body


class _Errors(PlainErrors):
    """Tells apart a connection that broke after it was made: one object may be what breaks it."""

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        try:
            super().__exit__(kind, error, trace)
        except Unreachable as plain:
            if isinstance(error, (aiohttp.ClientConnectorError, TimeoutError)):
                raise
            raise BrokenOff(str(plain)) from error


_REVIEW = "a ConversionReview"

_HELP = (
    "See that it runs and that its certificate fits the CRD's caBundle, then run again; or convert in this process "
    "(--registry), or leave managedFields as they are for now (--managed-fields keep)"
)

_HELP_PROXIED = (
    "Its service name is not known here, so it was asked through the API server's service proxy, which takes the right "
    "to create services/proxy: run in the cluster, or forward a port (kubectl port-forward) and give "
    "--conversion-url, or convert in this process (--registry)"
)
