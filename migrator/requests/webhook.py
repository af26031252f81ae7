"""Connect to a CRD's own conversion webhook, and use it as a converter.

The module uses a URL unchanged. It reaches a Service of the cluster by its DNS name in a pod, and elsewhere through the
API server's service proxy. The proxy uses the same route as the API server's own reviews, but does not verify the
webhook's certificate.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import functools
import random
import socket
import ssl
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import aiohttp

from restow.crds import Crd
from restow.kube.client import PlainErrors
from restow.kube.cluster import Cluster
from restow.kube.errors import Unreachable, api_error
from restow.kube.resources import Resource
from restow.kube.retry import without_retries
from restow.migrator.decide.errortable import BrokenOff
from restow.migrator.model.converter import ConverterDown
from restow.migrator.model.options import url_problem
from restow.migrator.model.report import Requests
from restow.migrator.requests.reviewer import IN_FLIGHT, Reviewer, Way
from restow.migrator.requests.stop import RunStop

_REVIEW_VERSIONS = ("v1", "v1beta1")


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A conversion webhook.

    Attributes:
        url: the URL for reviews.
        server_name: the name that its certificate must have.
        ca: PEM of the authority that must have signed it; empty for the system's authorities.
        review_version: the apiVersion of reviews that it accepts.
        proxied: the same webhook behind the API server's service proxy; None if it is not a Service of the cluster.
        namespace: the namespace of that Service.
    """

    url: str
    server_name: str
    ca: str
    review_version: str
    proxied: Resource | None = None
    namespace: str = ""

    @property
    def host(self) -> str:
        """The URL without its path, for messages."""
        parts = urlsplit(self.url)
        return f"{parts.scheme}://{parts.netloc}"


def endpoint(crd: Crd, url: str | None = None) -> Endpoint:
    """Return the endpoint for the reviews of a CRD.

    Args:
        crd: a CRD with strategy Webhook.
        url: another URL of the same webhook, such as a port-forward, with or without a path. Its certificate is still
            verified with the name and the authority in the CRD.

    Raises:
        ConverterDown: the CRD has no address of its webhook, the webhook accepts no known version of ConversionReview,
            or ``url`` is not a URL of a webhook.
    """
    webhook = crd.webhook or {}
    config = webhook.get("clientConfig") or {}
    known = [version for version in webhook.get("conversionReviewVersions") or () if version in _REVIEW_VERSIONS]
    if not known:
        raise ConverterDown(f"the conversion webhook of {crd.name} takes no version of ConversionReview known here")
    found = Endpoint(
        url=_url(crd, config),
        server_name="",
        ca=_ca(crd, config.get("caBundle") or ""),
        review_version=f"apiextensions.k8s.io/{known[0]}",
    )
    server_name = urlsplit(found.url).hostname or ""
    if url is not None:
        return Endpoint(_other_url(url, urlsplit(found.url).path), server_name, found.ca, found.review_version)
    proxied, namespace = _proxied(config.get("service"))
    return Endpoint(found.url, server_name, found.ca, found.review_version, proxied, namespace)


def _url(crd: Crd, config: Mapping[str, Any]) -> str:
    if config.get("url"):
        return str(config["url"])
    service = config.get("service")
    if not service:
        raise ConverterDown(f"{crd.name} does not say where its conversion webhook is")
    return f"https://{service['name']}.{service['namespace']}.svc:{_port(service)}{_path(service)}"


def _port(service: Mapping[str, Any]) -> int:
    return int(service.get("port") or 443)


def _path(service: Mapping[str, Any]) -> str:
    path = service.get("path") or ""
    return path if not path or path.startswith("/") else f"/{path}"


def _proxied(service: Mapping[str, Any] | None) -> tuple[Resource | None, str]:
    """Return the Service's proxy subresource, whose path continues with the webhook's path, and the namespace."""
    if not service:
        return None, ""
    plural = f"services/https:{service['name']}:{_port(service)}/proxy{_path(service)}"
    return Resource("", "v1", plural, namespaced=True), service["namespace"]


def _other_url(url: str, path: str) -> str:
    if why := url_problem(url):
        raise ConverterDown(why)
    parts = urlsplit(url)
    return url if parts.path.strip("/") else f"{parts.scheme}://{parts.netloc}{path}"


def _ca(crd: Crd, bundle: str) -> str:
    try:
        return base64.b64decode(bundle, validate=True).decode("ascii").strip()
    except (binascii.Error, UnicodeDecodeError) as error:
        raise ConverterDown(f"the caBundle of the conversion webhook of {crd.name} is no base64 of PEM") from error


_TIMEOUT = aiohttp.ClientTimeout(total=30.0, sock_connect=10.0)  # an API server waits as long
_PARAMS = {"timeout": "30s"}
_LOOKUP_S = 5.0


@asynccontextmanager
async def webhook_converter(
    crd: Crd,
    cluster: Cluster,
    *,
    url: str | None,
    stop: RunStop,
    jitter: Callable[[float], float],
    chance: random.Random,
    requests: Requests,
    patience_s: float = 0.0,
) -> AsyncIterator[Reviewer]:
    """Open the CRD's webhook; the first conversion sends the first request.

    Args:
        crd: a CRD with strategy Webhook.
        cluster: its API server.
        url: another URL of the same webhook, see ``Options.conversion_url``.
        stop, jitter, chance, requests, patience_s: see ``Reviewer``.
    """
    async with aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=IN_FLIGHT, keepalive_timeout=75),
        cookie_jar=aiohttp.DummyCookieJar(),
        headers={"User-Agent": "restow", "Accept": "application/json", "Content-Type": "application/json"},
    ) as session:
        yield Reviewer(
            f"the conversion webhook of {crd.name}",
            functools.partial(_find, crd, cluster, session, url),
            stop=stop,
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
    """Return whether a Service's DNS name can be resolved here, as in a pod."""
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
    # An API server (Go) accepts certificates that violate RFC 5280, which many webhooks create themselves.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    return context


async def _post(session: aiohttp.ClientSession, where: Endpoint, tls: ssl.SSLContext | None, body: bytes) -> bytes:
    """Send a review directly to the webhook."""
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
    """Send a review through the API server's service proxy, by the verb ``create`` on ``services/proxy``."""
    assert where.proxied is not None
    reply = await without_retries(cluster).create(where.proxied, body, where.namespace, params=_PARAMS)
    return reply.body


class _Errors(PlainErrors):
    """Distinguishes a connection that broke after it was established, because a single object may break it."""

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
