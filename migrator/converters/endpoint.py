"""Where a CRD's conversion webhook is, and whose certificate it has to show. Pure."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from restow.crds import Crd
from restow.kube.resources import Resource
from restow.migrator.converters.converter import ConverterDown

__all__ = ["Endpoint", "endpoint", "url_problem"]

_REVIEW_VERSIONS = ("v1", "v1beta1")
_LOOPBACK = ("localhost", "127.0.0.1", "::1")


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A conversion webhook.

    Attributes:
        url: where to send reviews.
        server_name: the name that its certificate has to be for.
        ca: PEM of the authority that has to have signed it; empty for those that the system trusts.
        review_version: apiVersion of the reviews that it takes.
        proxied: the same webhook behind the API server's service proxy; None where it is no service of the cluster.
        namespace: of that service.
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
    """Return where to send the reviews of a CRD.

    Args:
        crd: a CRD with strategy Webhook.
        url: another way to the same webhook (a port-forward, say), with a path or without one. Its certificate is
            still verified for the name, and by the authority, that the CRD gives.

    Raises:
        ConverterDown: the CRD does not tell, or the URL cannot be used.
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
    """The service's own proxy subresource, which takes the path of the webhook as the rest of its own."""
    if not service:
        return None, ""
    plural = f"services/https:{service['name']}:{_port(service)}/proxy{_path(service)}"
    return Resource("", "v1", plural, namespaced=True), service["namespace"]


def url_problem(url: str) -> str:
    """Return why this cannot be the URL of a conversion webhook, or an empty string."""
    try:
        parts = urlsplit(url)
        plain = parts.scheme == "http" and parts.hostname in _LOOPBACK
        more = parts.query or parts.fragment or parts.username or parts.port == 0
    except ValueError:  # of the port, or of an IPv6 address
        plain, more = False, True
    if not more and parts.hostname and (parts.scheme == "https" or plain):
        return ""
    return "this is no URL of a conversion webhook: give https://HOST:PORT/PATH (http only for this machine)"


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
