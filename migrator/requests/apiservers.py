"""Find API servers that lag behind a CRD, and so may store objects at another version than the storage version.

An API server learns of a CRD by a watch, and encodes objects at the last storage version that it saw. A server that
lags behind a flip stores objects at the old version, with a resourceVersion newer than the flip (Kubernetes issue
130235), while its answers about the CRD itself come from etcd and are current. Two facts show the lag:

- its watch cache: a GET with ``resourceVersion=0`` returns the CRD from there, with the generation that it has reached;
- its discovery: ``storageVersionHash`` of a resource is base64 of the first 8 bytes of the SHA-256 of
  ``group/version/Kind``, of the version that it stores at (apiextensions-apiserver, ``DiscoveryController``).

After v2→v1→v2 only the generation shows the lag: a server that is still at the first v2 has the right hash, and passes
through v1 later.

The API servers are the endpoints of the Service ``kubernetes``, if rights and network allow, and the servers at the
client's own address: behind a load balancer each new connection may reach another server, so the module opens several.

A server that cannot be reached once is looked at again with the others: it may restart, and lag when it is back.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import ipaddress
from collections.abc import Iterable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from types import TracebackType
from typing import Self

import msgspec

from restow.crds import Crd
from restow.kube.cluster import Cluster
from restow.kube.errors import Forbidden, KubeError, NotFound, TimedOut
from restow.kube.pager import ObjectList
from restow.kube.resources import CRDS, ENDPOINT_SLICES
from restow.kube.retry import RetryingCluster, with_retries

_OF_KUBERNETES = {"labelSelector": "kubernetes.io/service-name=kubernetes"}
_SERVER_NAME = "kubernetes.default.svc"
"""A name in every API server's certificate, which may lack the addresses of endpoints."""

_CONNECTIONS = 4
"""New connections to the client's own address: enough to reach each of three servers behind a round-robin balancer."""

_ASIDE_S = 5.0
"""Seconds to try an endpoint: many cannot be reached from outside, and are then only reported."""

_AGAIN_S = 1.0
"""Seconds to try an endpoint again that has never answered, because every look of a run waits for it."""


def storage_version_hash(group: str, version: str, kind: str) -> str:
    """Return the hash that discovery shows for a resource that is stored at this version."""
    return base64.b64encode(hashlib.sha256(f"{group}/{version}/{kind}".encode()).digest()[:8]).decode()


class _Port(msgspec.Struct, frozen=True):
    name: str | None = None
    port: int | None = None


class _Conditions(msgspec.Struct, frozen=True):
    ready: bool | None = None


class _Endpoint(msgspec.Struct, frozen=True):
    addresses: tuple[str, ...] | None = None
    conditions: _Conditions | None = None


class EndpointSlice(msgspec.Struct, frozen=True):
    """The part of an EndpointSlice that says where its servers are."""

    endpoints: tuple[_Endpoint, ...] | None = None
    ports: tuple[_Port, ...] | None = None


class _CrdMetadata(msgspec.Struct, frozen=True):
    uid: str = ""
    generation: int = 0


class _CrdHead(msgspec.Struct, frozen=True):
    metadata: _CrdMetadata


class _ApiResource(msgspec.Struct, frozen=True):
    name: str = ""
    storage_hash: str | None = msgspec.field(name="storageVersionHash", default=None)


class _ApiResources(msgspec.Struct, frozen=True):
    resources: tuple[_ApiResource, ...] | None


_slices = msgspec.json.Decoder(ObjectList[EndpointSlice])
_crd_head = msgspec.json.Decoder(_CrdHead)
_api_resources = msgspec.json.Decoder(_ApiResources)


def endpoint_urls(slices: Iterable[EndpointSlice]) -> tuple[str, ...]:
    """Return the URLs of the ready endpoints of EndpointSlices, sorted."""
    found: set[str] = set()
    for each in slices:
        ports = [port.port for port in each.ports or () if port.name == "https" and port.port]
        for endpoint in each.endpoints or ():
            if endpoint.conditions is not None and endpoint.conditions.ready is False:
                continue
            for address in endpoint.addresses or ():
                found.update(f"https://{_host(address)}:{port}" for port in ports)
    return tuple(sorted(found))


def _host(address: str) -> str:
    """Return an address as a URL has it; an EndpointSlice may also have host names (addressType FQDN)."""
    try:
        return f"[{address}]" if ipaddress.ip_address(address).version == 6 else address
    except ValueError:
        return address


@dataclass(frozen=True, slots=True)
class View:
    """One API server's state of a CRD.

    Attributes:
        server: the address of the server.
        generation: the generation of the CRD in its watch cache; 0 if the CRD is missing there.
        storage_hash: the hash of the version that it stores at; None if discovery does not show it.
    """

    server: str
    generation: int
    storage_hash: str | None

    def behind(self, crd: Crd) -> str:
        """Return why this server may store objects at another version than that of the CRD as read, else empty.

        A server may also be ahead, if the CRD changed after it was read.
        """
        wanted = storage_version_hash(crd.group, crd.storage.name, crd.kind)
        if self.generation >= crd.generation and self.storage_hash in (None, wanted):
            return ""
        if self.generation < crd.generation:
            return (
                f"the API server at {self.server} has not seen the last change of {crd.name} yet (generation "
                f"{self.generation} of {crd.generation}), and may store objects at another version"
            )
        return (
            f"the API server at {self.server} does not store {crd.plural}.{crd.group} at {crd.storage.name} yet, as "
            "its discovery shows"
        )


@dataclass(slots=True)
class _Server:
    """A server with an address of its own.

    Attributes:
        cluster: the client of the server.
        named: whether the caller named its address, so that it has to answer.
        asked, answered: whether it was ever looked at, and ever answered.
        current_for: uid and generation of the CRD that it was last seen to follow: it never falls behind that again,
            even if it restarts.
        noted: whether ``unseen`` names it.
    """

    cluster: RetryingCluster
    named: bool = False
    asked: bool = False
    answered: bool = False
    current_for: tuple[str, int] | None = None
    noted: bool = False

    async def look(self, crd: Crd, again_s: float) -> View | KubeError:
        """Check the server; one that never answered gets ``again_s`` seconds from the second look on."""
        brief = self.asked and not (self.named or self.answered)
        self.asked = True
        try:
            async with asyncio.timeout(again_s if brief else None):
                found = await _look(self.cluster, crd)
        except TimeoutError:
            return TimedOut(f"no answer within {again_s:g} s")
        if isinstance(found, View):
            self.answered = True
            if not found.behind(crd):
                self.current_for = (crd.uid, crd.generation)
        return found


class ApiServers:
    """The API servers of a cluster, as a context manager: ``async with ApiServers(cluster) as servers``.

    Args:
        cluster: the client, whose address may lead to several API servers.
        urls: further addresses of API servers, ``https://host:port``.
        again_s: the seconds to try an endpoint again that has never answered.

    Attributes:
        unseen: sentences about servers that could not be checked when they had to be, also if a later look succeeded:
            what such a server stored before that look is not known.
    """

    def __init__(self, cluster: Cluster, urls: Sequence[str] = (), *, again_s: float = _AGAIN_S) -> None:
        self._cluster = with_retries(cluster)
        self._urls = urls
        self._again_s = again_s
        self._stack = AsyncExitStack()
        self._each: list[_Server] = []
        self._found = False
        self._turn = asyncio.Lock()
        self.unseen: list[str] = []

    async def __aenter__(self) -> Self:
        """Send no request yet, because many runs have no work."""
        return self

    async def _find(self) -> None:
        """Open connections to the servers with separate addresses."""
        endpoints = await self._endpoints()
        for url in self._urls:
            self._each.append(_Server(await self._stack.enter_async_context(self._cluster.at(url)), named=True))
        for url in endpoints:
            aside = self._cluster.at(url, _SERVER_NAME, patience_s=_ASIDE_S)
            self._each.append(_Server(await self._stack.enter_async_context(aside)))
        self._found = True

    async def _endpoints(self) -> tuple[str, ...]:
        """Return the endpoints of the Service ``kubernetes``; none if they may not be listed."""
        try:
            reply = await self._cluster.list_page(ENDPOINT_SLICES, "default", params=_OF_KUBERNETES)
            return endpoint_urls(reply.decode(_slices).items or ())
        except (Forbidden, NotFound) as error:
            self.unseen.append(
                f"the endpoints of the Service kubernetes may not be listed ({error.said}), so only the API servers "
                f"that answer at {self._cluster.host} were looked at"
            )
        return ()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the connections."""
        await self._stack.aclose()

    async def views(self, crd: Crd) -> list[View]:
        """Check every server. Concurrent calls take turns, because a check notes which servers have gone.

        Raises:
            KubeError: the client's own address, or a server of ``urls``, cannot be reached.
        """
        async with self._turn:
            return await self._views(crd)

    async def _views(self, crd: Crd) -> list[View]:
        if not self._found:
            await self._find()
        async with AsyncExitStack() as stack:
            # Both answers of a check use one connection, and so come from one server.
            at_hand = [
                _Server(await stack.enter_async_context(self._cluster.at()), named=True) for _ in range(_CONNECTIONS)
            ]
            asked = at_hand + self._each
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(each.look(crd, self._again_s)) for each in asked]
        found = []
        for server, task in zip(asked, tasks, strict=True):
            view = task.result()
            if isinstance(view, View):
                found.append(view)
            elif server.named:
                raise view
            else:
                self._note(server, crd, view)
        return found

    def _note(self, server: _Server, crd: Crd, error: KubeError) -> None:
        """Note a server that cannot be checked, unless it is known to follow the CRD."""
        if server.noted or server.current_for == (crd.uid, crd.generation):
            return
        server.noted = True
        self.unseen.append(
            f"the API server at {server.cluster.host} could not be looked at from here ({error.said}), so whether it "
            f"had seen the last change of {crd.name} is not known"
        )

    async def behind(self, crd: Crd) -> str:
        """Return a sentence about the first server that may store an object at another version, else empty.

        Raises:
            KubeError: the client's own address, or a server of ``urls``, cannot be reached.
        """
        return next(filter(None, (view.behind(crd) for view in await self.views(crd))), "")


async def _look(server: RetryingCluster, crd: Crd) -> View | KubeError:
    """Check one server; return its error, so that the check of the others continues."""
    try:
        return View(server.host, await _generation(server, crd), await _storage_hash(server, crd))
    except KubeError as error:
        return error


async def _generation(server: RetryingCluster, crd: Crd) -> int:
    try:
        metadata = (await server.get(CRDS, crd.name, metadata_only=True, cached=True)).decode(_crd_head).metadata
    except NotFound:
        return 0
    return metadata.generation if metadata.uid == crd.uid else 0


async def _storage_hash(server: RetryingCluster, crd: Crd) -> str | None:
    try:
        reply = await server.discover(f"/apis/{crd.group}/{crd.storage.name}")
        resources = reply.decode(_api_resources).resources or ()
    except NotFound:
        return ""
    except Forbidden:
        return None
    return next((each.storage_hash for each in resources if each.name == crd.plural), "")
