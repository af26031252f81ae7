"""The look at each API server, where servers leave, or answer with what is no CRD. No network."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from restow.crds import Crd
from restow.kube.cluster import Cluster, Reply, Request
from restow.kube.errors import KubeError, Unreachable
from restow.kube.resources import CRDS
from restow.kube.retry import RetryingCluster
from restow.migrator.requests.apiservers import ApiServers
from tests.memory.cluster import MemoryCluster
from tests.migrator import builders as b

NAME = f"widgets.{b.GROUP}"


def endpoints(*addresses: str) -> dict[str, Any]:
    """The EndpointSlice of the Service ``kubernetes``."""
    return {
        "metadata": {
            "name": "kubernetes",
            "namespace": "default",
            "labels": {"kubernetes.io/service-name": "kubernetes"},
        },
        "ports": [{"name": "https", "port": 6443}],
        "endpoints": [{"addresses": [address], "conditions": {"ready": True}} for address in addresses],
    }


class Gone(MemoryCluster):
    """An API server whose process has ended: no answer comes, a moment later."""

    def __init__(self, host: str) -> None:
        super().__init__()
        self.host = host

    async def send(self, request: Request) -> Reply:
        await asyncio.sleep(0)
        msg = "the connection was refused"
        raise Unreachable(msg)


class Several(MemoryCluster):
    """A CRD, and the servers behind other addresses."""

    def __init__(self, *addresses: str) -> None:
        super().__init__()
        self.seed(CRDS.plural, b.crd_document())
        if addresses:
            self.seed("endpointslices", endpoints(*addresses))

    @asynccontextmanager
    async def at(self, host: str = "", server_name: str = "") -> AsyncIterator[Cluster]:
        yield Gone(host) if host else self

    @property
    def crd(self) -> Crd:
        """The CRD as it is stored."""
        return Crd.from_document(self.find(CRDS.plural, NAME))


async def test_two_looks_at_a_server_that_left_do_not_disturb_each_other() -> None:
    """A server that leaves while a pass ends would end the run with a traceback, after all its writes."""
    cluster = Several("10.0.0.1")
    async with ApiServers(RetryingCluster(cluster, patience_s=0.0)) as servers:
        assert await asyncio.gather(servers.behind(cluster.crd), servers.behind(cluster.crd)) == ["", ""]
        assert len(servers.unseen) == 1 and "https://10.0.0.1:6443" in servers.unseen[0]


class Restarting(Several):
    """One more API server, whose process ends and comes back; ``behind`` is how many generations it lags by."""

    def __init__(self) -> None:
        super().__init__("10.0.0.1")
        self.up = False
        self.behind = 0
        self.asked = 0

    @asynccontextmanager
    async def at(self, host: str = "", server_name: str = "") -> AsyncIterator[Cluster]:
        yield _Restarted(host, self) if host else self


class _Restarted(MemoryCluster):
    def __init__(self, host: str, world: Restarting) -> None:
        super().__init__()
        self.host = host
        self._world = world

    async def send(self, request: Request) -> Reply:
        if request.resource is None:
            return await self._world.send(request)
        self._world.asked += 1
        if not self._world.up:
            msg = "the connection was refused"
            raise Unreachable(msg)
        found = (await self._world.send(request)).json()
        found["metadata"]["generation"] -= self._world.behind
        return Reply(json.dumps(found).encode())


async def test_a_server_that_comes_back_is_looked_at_again() -> None:
    """A server that restarts, and lags, would store at the old version after one failed look, and the proof say yes."""
    cluster = Restarting()
    async with ApiServers(RetryingCluster(cluster, patience_s=0.0)) as servers:
        assert await servers.behind(cluster.crd) == ""
        assert len(servers.unseen) == 1
        cluster.up, cluster.behind = True, 1
        assert "https://10.0.0.1:6443 has not seen the last change" in await servers.behind(cluster.crd)
        cluster.behind = 0
        assert await servers.behind(cluster.crd) == ""
        assert len(servers.unseen) == 1, "what it stored before that look is not known"


async def test_a_server_that_was_seen_may_go() -> None:
    """A server that has seen the change stores at its version also after a restart: a note would be a false alarm."""
    cluster = Restarting()
    cluster.up = True
    async with ApiServers(RetryingCluster(cluster, patience_s=0.0)) as servers:
        assert await servers.behind(cluster.crd) == ""
        cluster.up = False
        assert await servers.behind(cluster.crd) == ""
        assert servers.unseen == []
        assert cluster.asked == 2


async def test_a_server_out_of_reach_costs_little_after_its_first_look() -> None:
    """Endpoints drop packets of clients outside of the cluster: each look of each CRD would wait for them in full."""

    class Silent(Restarting):
        async def wait(self) -> None:
            self.asked += 1
            if self.asked > 1:
                await asyncio.Event().wait()
            msg = "no answer came"
            raise Unreachable(msg)

        @asynccontextmanager
        async def at(self, host: str = "", server_name: str = "") -> AsyncIterator[Cluster]:
            if host:
                silent = MemoryCluster()
                silent.host = host
                silent.before = lambda _request: self.wait()
                yield silent
            else:
                yield self

    cluster = Silent()
    async with ApiServers(RetryingCluster(cluster, patience_s=0.0), again_s=0.01) as servers:
        for _ in range(3):
            assert await servers.behind(cluster.crd) == ""
        assert cluster.asked == 3
        assert len(servers.unseen) == 1


class Shapeless(Several):
    """An API server behind a proxy that answers with JSON of another shape."""

    def __init__(self, verb: str, body: bytes) -> None:
        super().__init__()
        self._verb = verb
        self._body = body

    async def send(self, request: Request) -> Reply:
        verb = request.verb if request.resource is not None else "discover"
        return Reply(self._body) if verb == self._verb else await super().send(request)


@pytest.mark.parametrize("verb", ["get", "discover", "list"])
@pytest.mark.parametrize("body", [b"{}", b"[]", b"null", b'{"metadata": null}', b'{"resources": [1]}', b'{"items": 1}'])
async def test_json_of_another_shape_is_no_answer(verb: str, body: bytes) -> None:
    """A KeyError would end the run with a traceback, or a server that shows nothing would count as current."""
    cluster = Shapeless(verb, body)
    async with ApiServers(RetryingCluster(cluster, patience_s=0.0)) as servers:
        with pytest.raises(KubeError):
            await servers.behind(cluster.crd)


async def test_an_endpoint_may_be_a_host_name() -> None:
    """An EndpointSlice with host names, as a mirrored API server has it, would end each run with a traceback."""
    cluster = Several("apiserver.example.com", "fd00::1")
    async with ApiServers(RetryingCluster(cluster, patience_s=0.0)) as servers:
        assert await servers.behind(cluster.crd) == ""
        assert [text.split(" ")[4] for text in servers.unseen] == [
            "https://[fd00::1]:6443",
            "https://apiserver.example.com:6443",
        ]
