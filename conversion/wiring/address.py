"""Where an API server finds a webhook: a Service or a URL, as ``clientConfig`` has them.

Sources: apiextensions ``validation.go`` (exactly one of both; https, no query, fragment or user), apiserver
``pkg/util/webhook/client.go`` (host, server name and port of a Service).

Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from restow.kube.resources import qualified_name

__all__ = ["Address", "Service", "Url", "address_of", "client_config", "is_same_server"]


@dataclass(frozen=True, slots=True)
class Service:
    """A Service in the cluster. ``path`` begins with a slash, or is empty."""

    namespace: str
    name: str
    path: str = ""
    port: int = 443

    def __post_init__(self) -> None:
        if not (self.namespace and self.name and 0 < self.port < 65536):
            msg = f"a webhook's Service needs a namespace, a name and a port from 1 to 65535, not {self}"
            raise ValueError(msg)
        if self.path and not self.path.startswith("/"):
            name = qualified_name(self.namespace, self.name)
            msg = f"the path {self.path!r} of the Service {name} must begin with a slash"
            raise ValueError(msg)

    def __str__(self) -> str:
        return f"Service {qualified_name(self.namespace, self.name)}:{self.port}{self.path}"

    @property
    def host(self) -> str:
        """The name that an API server expects in the serving certificate."""
        return f"{self.name}.{self.namespace}.svc"

    @property
    def url(self) -> str:
        """The URL under which pods reach it too."""
        return f"https://{self.host}:{self.port}{self.path or '/'}"

    @property
    def fields(self) -> Mapping[tuple[str, ...], Any]:
        """The leaves of ``clientConfig`` that say so."""
        own = {"namespace": self.namespace, "name": self.name, "port": self.port}
        return {("service", name): value for name, value in (own | ({"path": self.path} if self.path else {})).items()}


@dataclass(frozen=True, slots=True)
class Url:
    """A URL outside of the cluster, or on the API server's own host."""

    url: str

    def __post_init__(self) -> None:
        parts = urlsplit(self.url)
        if parts.scheme != "https" or not parts.hostname:
            msg = f"a webhook's URL must begin with https:// and have a host, unlike {parts.scheme}://{parts.hostname}"
            raise ValueError(msg)
        if parts.query or parts.fragment or parts.username is not None or parts.password is not None:
            msg = f"the webhook's URL on {parts.hostname} must have no query, no fragment and no user"
            raise ValueError(msg)

    def __str__(self) -> str:
        return self.url

    @property
    def host(self) -> str:
        """The name or IP address that an API server expects in the serving certificate."""
        return urlsplit(self.url).hostname or ""

    @property
    def port(self) -> int:
        """The port that an API server connects to."""
        return urlsplit(self.url).port or 443

    @property
    def fields(self) -> Mapping[tuple[str, ...], Any]:
        """The leaves of ``clientConfig`` that say so."""
        return {("url",): self.url}


Address = Service | Url


def address_of(client_config: Mapping[str, Any]) -> Address:
    """Return the address that a ``clientConfig`` names.

    Raises:
        ValueError: it names none, or a malformed one.
    """
    url, service = client_config.get("url"), client_config.get("service")
    if isinstance(url, str) and service is None:
        return Url(url)
    if isinstance(service, Mapping) and url is None:
        return Service(
            str(service.get("namespace") or ""),
            str(service.get("name") or ""),
            str(service.get("path") or ""),
            int(service.get("port") or 443),
        )
    msg = "clientConfig needs exactly one of url and service"
    raise ValueError(msg)


def is_same_server(one: Address, other: Address) -> bool:
    """Say whether two addresses are of one webhook, whatever their paths, and whatever port of a Service they name."""
    if isinstance(one, Service) and isinstance(other, Service):
        return (one.namespace, one.name) == (other.namespace, other.name)
    if isinstance(one, Url) and isinstance(other, Url):
        return (one.host, one.port) == (other.host, other.port)
    return False


def client_config(address: Address) -> dict[str, Any]:
    """Return an address as a ``clientConfig`` has it, without a CA bundle."""
    config: dict[str, Any] = {}
    for (first, *rest), value in address.fields.items():
        if rest:
            config.setdefault(first, {})[rest[0]] = value
        else:
            config[first] = value
    return config
