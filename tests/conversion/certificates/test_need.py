"""Which objects need a conversion webhook, on the API server in memory; ``test_unwire.py`` has a real one."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence

import pytest

from restow.conversion.certificates.unwire import WebhookNeed, webhook_need
from restow.crds import Crd
from restow.kube import Reply, cluster
from restow.kube.errors import NotFound, api_error
from tests.apiserver.kind import Document, Kind
from tests.memory.cluster import MemoryCluster, Request

OLD, NEW = "v1alpha1", "v1beta1"
BOTH = (OLD, NEW)


class Converting(MemoryCluster):
    """An API server whose objects a webhook converts as ``converts`` says when they are read at the old version."""

    converts: Callable[[Document], object] = lambda _self, _found: None

    async def send(self, request: cluster.Request) -> Reply:
        """Convert at the old version."""
        reply = await super().send(request)
        if request.verb == "get" and request.resource is not None and request.resource.version == OLD:
            found = reply.json()
            self.converts(found)
            return Reply(json.dumps(found).encode())
        return reply


class World:
    """Widgets, and the versions at which they may be stored."""

    def __init__(self) -> None:
        self.memory = Converting()
        self.kind = Kind(self.memory, self.memory, "example.com")  # type: ignore[arg-type]  # it has what is used of both
        self.stored: Sequence[str] = (NEW,)

    async def create(self, count: int = 1, *, served: Sequence[str] = BOTH) -> None:
        """Create the CRD and widgets."""
        await self.kind.create(self.kind.document(storage=NEW, served=BOTH))
        await self.kind.populate(count)
        await self.kind.change(self.kind.document(storage=NEW, served=served))
        self.memory.requests = []

    async def need(self) -> WebhookNeed:
        """Ask."""
        crd = Crd.from_document(self.memory.find("customresourcedefinitions", self.kind.name))
        return await webhook_need(self.memory, crd, lambda _crd: self.stored)


@pytest.fixture
def world() -> World:
    """One without a CRD."""
    return World()


async def test_of_one_version_nothing_is_converted(world: World) -> None:
    """A million objects would be read for nothing, and an uninstall would need the webhook that is gone."""
    await world.create(served=(NEW,))
    assert (await world.need(), world.memory.requests) == (WebhookNeed(), [])


@pytest.mark.parametrize(
    ("served", "stored", "said"),
    [
        ((NEW,), BOTH, f"may be stored at {OLD}, which cannot be read: run restow migrate widgets.example.com"),
        ((NEW,), ("v0", NEW), "may be stored at v0, which cannot be read: run restow migrate widgets.example.com"),
        ((OLD,), (NEW,), f"does not serve its storage version {NEW}"),
    ],
)
async def test_what_cannot_be_read_cannot_be_compared(
    world: World, served: Sequence[str], stored: Sequence[str], said: str
) -> None:
    """What the strategy None would make of an object shows only at the version at which it is stored."""
    await world.create(served=served)
    world.stored = stored
    assert said in (await world.need()).reason
    await world.kind.delete(served[0], "w00")
    assert await world.need() == WebhookNeed(), "without an object nothing can be lost"


@pytest.mark.parametrize(
    ("change", "place"),
    [
        (lambda found: found["spec"].update(size=True), "/spec/size"),
        (lambda found: found["spec"].update(size=1.0), "/spec/size"),
        (lambda found: found["spec"].update(color=None), "/spec/color"),
        (lambda found: found.pop("spec"), "/spec/size"),
        (lambda found: found.update(status={}), "/status"),
        (lambda found: found["metadata"].update(annotations={"a": "b"}), "/metadata/annotations"),
        (lambda found: found["metadata"].update(labels={"a": "b"}), "/metadata/labels"),
        (lambda found: found["metadata"].update(managedFields=[]), ""),
    ],
)
async def test_any_other_content_needs_the_webhook(
    world: World, change: Callable[[Document], object], place: str
) -> None:
    """What readers of one version saw would change under them, or be stored without."""
    await world.create(count=2)
    world.memory.converts = change  # type: ignore[method-assign]
    need = await world.need()
    assert (f"default/w01 at {place}" in need.reason) is bool(place)
    assert bool(need.notes) is not bool(place)
    assert all((each.verb, each.resource.version) == ("get", OLD) for each in world.memory.requests[1:])


async def test_each_version_that_may_be_stored_is_the_source_of_a_comparison(world: World) -> None:
    """A conversion to the storage version that loses a value shows only in the object as it is stored."""
    await world.create()
    world.stored = BOTH
    assert not (await world.need()).reason
    assert [(each.verb, each.resource.version) for each in world.memory.requests] == [
        ("list", NEW),
        ("get", OLD),
        ("list", OLD),
        ("get", NEW),
    ]


async def test_an_object_that_changes_meanwhile_is_read_again(world: World) -> None:
    """A controller that writes a status would look like a webhook that converts, and hold up an uninstall."""
    await world.create()
    writes = 1

    async def write(request: Request) -> None:
        nonlocal writes
        if request.verb == "get" and writes:
            writes -= 1
            await world.kind.merge(NEW, "w00", {"spec": {"size": 7 + writes}}, "bob")

    world.memory.before = write
    assert not (await world.need()).reason and writes == 0
    writes = 100
    assert "default/w00, which is written too often to be compared" in (await world.need()).reason


async def test_an_object_that_is_gone_needs_nothing_and_a_version_that_is_gone_is_an_error(world: World) -> None:
    """On an API server that does not serve a version yet, no object at all would differ there."""
    await world.create()

    async def delete(request: Request) -> None:
        if request.verb == "get":
            await world.kind.delete(NEW, "w00")

    world.memory.before = delete
    assert not (await world.need()).reason
    await world.kind.populate(1)

    async def unserved(request: Request) -> None:
        if request.verb == "get":
            raise api_error(status=404, body=b"404 page not found", headers={}, verb="get", target="widgets")

    world.memory.before = unserved
    with pytest.raises(NotFound):
        await world.need()


async def test_a_webhook_that_is_away_is_asked_for_no_further_object(world: World) -> None:
    """Each of thousands of requests would wait until its retries end."""
    await world.create(count=40)

    async def fail(request: Request) -> None:
        if request.verb == "get":
            await asyncio.sleep(0)
            said = 'conversion webhook for example.com/v1beta1, Kind=Widget failed: Post "https://gone/": no host'
            raise world.memory.error(request, 500, "InternalError", said)

    world.memory.before = fail
    assert "it is not known whether objects of widgets.example.com need its webhook" in (await world.need()).reason
    assert len(world.memory.requests) < 20
