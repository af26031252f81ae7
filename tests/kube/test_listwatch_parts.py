"""Lists that are consumed page by page: nothing is missing, nothing is void, and memory holds one page."""

from __future__ import annotations

import asyncio
import tracemalloc
from collections.abc import Mapping
from typing import Any

import msgspec
import pytest

from restow.kube.clock import Clock
from restow.kube.cluster import Reply, Request
from restow.kube.errors import Gone, ServerError, api_error
from restow.kube.listwatch import Selection, watch_parts
from restow.kube.store import Informer, Store
from restow.kube.watchevents import ListedPart
from tests.kube.test_listwatch import WIDGETS
from tests.kube.test_store_informer import Fed


class Paged(Fed):
    """A server that pages a list as it is asked to, and answers some requests with an error."""

    def __init__(self, objects: int, *, size: int = 10, failures: Mapping[int, int] | None = None) -> None:
        super().__init__()
        self.names = [f"w{number:04}" for number in range(objects)]
        self.size = size
        self.failures = dict(failures or {})  # the status of the n-th request
        self.limits: list[int | None] = []

    async def send(self, request: Request) -> Reply:
        params = request.params or {}
        self.limits.append(int(params["limit"]) if "limit" in params else None)
        if (status := self.failures.get(len(self.limits))) is not None:
            raise api_error(status=status, body=b"", headers={}, verb="list", target=request.target)
        start = int(params.get("continue", "0"))
        names = self.names[start:][: self.limits[-1]]
        token = str(start + len(names)) if start + len(names) < len(self.names) else ""
        metadata = {"resourceVersion": "9", "continue": token}
        return Reply(msgspec.json.encode({"metadata": metadata, "items": [self.made(name) for name in names]}))

    def made(self, name: str) -> dict[str, Any]:
        """An object of about so many bytes."""
        return {"metadata": {"name": name, "uid": name, "resourceVersion": "1"}, "spec": {"text": name * self.size}}


async def _no_wait(_seconds: float) -> None:
    await asyncio.sleep(0)


CLOCK = Clock(monotonic=lambda: 0.0, sleep=_no_wait)


async def listed(server: Paged) -> list[ListedPart]:
    """The parts up to the last one."""
    parts: list[ListedPart] = []
    async with watch_parts(server, Selection(WIDGETS), clock=CLOCK, chance=lambda: 0.0) as events:
        async for event in events:
            assert isinstance(event, ListedPart)
            parts.append(event)
            if event.last:
                return parts
    raise AssertionError("the list did not end")


async def stored(server: Paged) -> list[str]:
    """The names that an informer has once it is synced."""
    store = Store(lambda obj: {"metadata": obj["metadata"]})
    informer = Informer(server, {WIDGETS: store}, clock=CLOCK, chance=lambda: 0.0)
    async with asyncio.timeout(60), asyncio.TaskGroup() as group:
        task = group.create_task(informer.run())
        await informer.wait_for_sync()
        task.cancel()
    return sorted(obj["metadata"]["name"] for obj in store.all())


async def test_every_object_is_in_one_part() -> None:
    """An object of a middle page that got lost would not exist for any controller."""
    server = Paged(1200)
    parts = await listed(server)
    assert [item.metadata.name for part in parts for item in part.items] == server.names
    assert [(part.first, part.last) for part in parts] == [(True, False), *[(False, False)] * 2, (False, True)]
    assert server.limits == [10, 500, 500, 500]


async def test_an_empty_list_is_one_part() -> None:
    """A kind without objects would never be synced."""
    (part,) = await listed(Paged(0))
    assert (part.items, part.first, part.last) == ((), True, True)


@pytest.mark.parametrize(("size", "limits"), [(4 * 1024, [10, 407, 407]), (512 * 1024, [10, *[5] * 6])])
async def test_large_objects_come_in_small_pages(size: int, limits: list[int]) -> None:
    """A page of 500 objects of a megabyte would take more memory than the container has."""
    server = Paged(500 if len(limits) == 3 else 40, size=size)
    await listed(server)
    assert server.limits == limits


@pytest.mark.parametrize(("status", "error"), [(410, Gone), (503, ServerError)])
async def test_a_list_that_breaks_off_is_void(status: int, error: type[Exception]) -> None:
    """Objects of its first pages may be gone when the list begins again, and would stay in the store for ever."""
    assert isinstance(api_error(status=status, body=b"", headers={}, verb="list", target="w"), error)
    server = Paged(1200, failures={3: status})
    first, *_ = server.names
    at_failure = server.send

    async def send(request: Request) -> Reply:
        if len(server.limits) == 3:
            server.names = server.names[1:]
        return await at_failure(request)

    server.send = send  # type: ignore[method-assign]
    found = await stored(server)
    assert found == server.names
    assert first not in found
    assert server.limits[3] == (None if status == 410 else 10)


async def test_the_first_list_holds_one_page() -> None:
    """An operator would need the memory of all objects, whole, only to keep a small part of each."""
    server = Paged(1000, size=20_000)  # 5 bytes a name: 100 MB in all
    tracemalloc.start()
    try:
        assert await stored(server) == server.names
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(server.limits) > 3
    # A page of 8 MiB exists several times: as what the server encodes, as its answer, and as the objects of a part.
    assert peak < 1000 * 100_000 / 2
