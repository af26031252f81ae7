"""The fields of `clientConfig`: the address of a webhook, and the CA bundle that verifies it.

A bundle is an ordered set of certificates, whatever its text looks like. Any change of a CRD's spec, even of white
space in `caBundle`, makes the API server rebuild all watch caches of the CRD (apiextensions
`customresource_handler.go`). So two texts with the same certificates count as the same bundle.

Sources: apiextensions `validation.go` (exactly one of service and url; https, no query, fragment or user), apiserver
`pkg/util/webhook/client.go` (host, server name and port of a Service), client-go `util/cert/pem.go` (text around blocks
and blocks of other types are skipped).

Pure.
"""

from __future__ import annotations

import base64
import binascii
import re
import ssl
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from restow.kube.resources import qualified_name


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
    def server(self) -> tuple[str, str]:
        """The webhook that it leads to, whatever the path and the named port."""
        return self.namespace, self.name

    @property
    def host(self) -> str:
        """The name that an API server expects in the serving certificate."""
        return f"{self.name}.{self.namespace}.svc"

    @property
    def hosts(self) -> frozenset[str]:
        """The DNS names of the Service, as used by API servers, by pods of its namespace and by pods of others."""
        short = f"{self.name}.{self.namespace}"
        return frozenset({self.name, short, self.host, f"{self.host}.cluster.local"})

    @property
    def url(self) -> str:
        """The URL under which pods also reach the webhook."""
        return f"https://{self.host}:{self.port}{self.path or '/'}"

    @property
    def fields(self) -> Mapping[tuple[str, ...], Any]:
        """The leaves of ``clientConfig`` for this address."""
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
    def server(self) -> tuple[str, int]:
        """The webhook that it leads to, whatever the path."""
        return self.host, self.port

    @property
    def host(self) -> str:
        """The name or IP address that an API server expects in the serving certificate."""
        return urlsplit(self.url).hostname or ""

    @property
    def hosts(self) -> frozenset[str]:
        """The host alone: a certificate needs no other name."""
        return frozenset({self.host})

    @property
    def port(self) -> int:
        """The port that an API server connects to."""
        return urlsplit(self.url).port or 443

    @property
    def path(self) -> str:
        """The path; it may be empty."""
        return urlsplit(self.url).path

    @property
    def fields(self) -> Mapping[tuple[str, ...], Any]:
        """The leaves of ``clientConfig`` for this address."""
        return {("url",): self.url}


Address = Service | Url


def address_of(client_config: Mapping[str, Any]) -> Address:
    """Return the address that a ``clientConfig`` names.

    Raises:
        ValueError: it names none or both of ``url`` and ``service``, or a malformed one.
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


def address_in(webhook: Mapping[str, Any] | None) -> Address | None:
    """Return the address that a webhook of a CRD or of a configuration names; None for a missing or malformed one."""
    try:
        return address_of((webhook or {}).get("clientConfig") or {})
    except ValueError:
        return None


def differing(live: Mapping[str, Any], wanted: Address) -> list[tuple[str, ...]]:
    """Return the leaves by which a ``clientConfig`` names another webhook than the wanted one.

    Path and port do not tell webhooks at one Service apart, and the port of a URL may be spelled or left out. The paths
    of a URL do: a proxy may have the webhooks of several projects behind one host.
    """
    told = dict(leaves({name: live[name] for name in ("url", "service") if live.get(name) is not None}))
    found = [path for path in (("url",), ("service", "namespace"), ("service", "name")) if path in told]
    return [path for path in found if _comparable(told[path]) != _comparable(wanted.fields.get(path))]


def _comparable(value: Any) -> Any:
    try:
        url = Url(value)
        return url.host, url.port, url.path
    except (ValueError, TypeError, AttributeError):
        return value


_NAMED = re.compile(r"([a-z0-9.-]+)/([a-z0-9.-]+)(?::([0-9]{1,5}))?(/\S*)?")


def address_named(text: str) -> Address:
    """Read an address as ``name_of`` writes it: ``<namespace>/<Service>[:port][/path]``, or a URL.

    Raises:
        ValueError: the text is neither.
    """
    if "://" in text:
        return Url(text)
    found = _NAMED.fullmatch(text)
    if found is None:
        msg = "it is neither a URL nor <namespace>/<Service>[:port][/path]"
        raise ValueError(msg)
    return Service(found[1], found[2], found[4] or "", int(found[3] or 443))


def name_of(address: Address) -> str:
    """Return an address as ``address_named`` reads it."""
    return str(address).removeprefix("Service ")


def is_named(address: Address, named: Address) -> bool:
    """Return whether an address is the named one; a name without a path stands for all paths."""
    same = (address.server, address.port) == (named.server, named.port)
    return same and named.path.rstrip("/") in ("", address.path)


def names_server(address: Address, server: Address) -> bool:
    """Return whether an address leads to a server: also a URL with a DNS name of its Service, or the reverse."""
    of_service = isinstance(address, Service) is not isinstance(server, Service)
    return address.server == server.server or (of_service and bool(address.hosts & server.hosts))


def client_config(address: Address) -> dict[str, Any]:
    """Return the ``clientConfig`` of an address, without a CA bundle."""
    return assembled(address.fields)


def leaves(node: Mapping[str, Any], path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield the values of an object with their paths; a list is one value."""
    for name, value in node.items():
        if isinstance(value, Mapping):
            yield from leaves(value, (*path, name))
        else:
            yield (*path, name), value


def assembled(leaves: Mapping[tuple[str, ...], Any]) -> dict[str, Any]:
    """Return the object that has these leaves."""
    whole: dict[str, Any] = {}
    for path, value in leaves.items():
        node = whole
        for name in path[:-1]:
            node = node.setdefault(name, {})
        node[path[-1]] = value
    return whole


_BLOCK = re.compile(rb"-----BEGIN CERTIFICATE-----\s*([A-Za-z0-9+/=\s]+?)-----END CERTIFICATE-----")


class BundleError(ValueError):
    """The bytes are no CA bundle."""


@dataclass(frozen=True, slots=True)
class Bundle:
    """Certificates (DER), each once, in order."""

    certificates: tuple[bytes, ...] = ()

    @classmethod
    def of(cls, certificates: Iterable[bytes]) -> Bundle:
        """Return the bundle of some certificates (DER); of equal certificates the first one counts."""
        return cls(tuple(dict.fromkeys(certificates)))

    @classmethod
    def from_pem(cls, pem: bytes) -> Bundle:
        """Read a PEM file; white space alone is an empty bundle.

        Raises:
            BundleError: the bundle is malformed.
        """
        found = cls.of(_blocks(pem))
        if pem.strip() and not found:
            message = "the CA bundle has no PEM block of the type CERTIFICATE"
            raise BundleError(message)
        return found

    @classmethod
    def from_base64(cls, text: str) -> Bundle:
        """Read the ``caBundle`` of a CRD: PEM in base64.

        Raises:
            BundleError: the bundle is malformed.
        """
        try:
            pem = base64.b64decode(text, validate=True)
        except (binascii.Error, ValueError) as error:
            message = "the CA bundle is no base64"
            raise BundleError(message) from error
        return cls.from_pem(pem)

    @property
    def pem(self) -> bytes:
        """The bundle as PEM: the same bytes for the same certificates in the same order."""
        return b"".join(ssl.DER_cert_to_PEM_cert(certificate).encode() for certificate in self.certificates)

    @property
    def base64(self) -> str:
        """The bundle as the ``caBundle`` of a CRD."""
        return base64.b64encode(self.pem).decode()

    def __len__(self) -> int:
        return len(self.certificates)

    def __or__(self, other: Bundle) -> Bundle:
        """Return the union: the certificates of this bundle in their order, then the others of ``other``."""
        return Bundle.of((*self.certificates, *other.certificates))

    def __sub__(self, other: Bundle) -> Bundle:
        """Return the certificates of this bundle that ``other`` lacks."""
        return Bundle(tuple(each for each in self.certificates if each not in other.certificates))

    def __and__(self, other: Bundle) -> Bundle:
        """Return the certificates of this bundle that ``other`` also has."""
        return Bundle(tuple(each for each in self.certificates if each in other.certificates))

    def __ge__(self, other: Bundle) -> bool:
        """Whether this bundle has every certificate of ``other``."""
        return not other - self

    def matches(self, other: Bundle) -> bool:
        """Return whether both have the same certificates, in any order."""
        return self >= other >= self


NO_BUNDLE = Bundle()
"""No certificate; a CRD without a bundle is called with the API server's system roots."""


def bundle_in(webhook: Mapping[str, Any] | None) -> tuple[Bundle, str]:
    """Return the bundle of a webhook and the defect of its text; a defective bundle is returned empty."""
    config = (webhook or {}).get("clientConfig") or {}
    try:
        return Bundle.from_base64(str(config.get("caBundle") or "")), ""
    except BundleError as error:
        return NO_BUNDLE, str(error)


def _blocks(pem: bytes) -> Iterator[bytes]:
    for match in _BLOCK.finditer(pem):
        try:
            yield base64.b64decode(b"".join(match[1].split()), validate=True)
        except binascii.Error as error:
            message = "the CA bundle has a CERTIFICATE block that is no base64"
            raise BundleError(message) from error
