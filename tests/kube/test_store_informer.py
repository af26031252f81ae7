"""The informer as a cluster: what a controller sees of it."""

from __future__ import annotations

import asyncio
import json
import logging
import runpy
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from restow.cloudprofile.controllers import index
from restow.cloudprofile.objects import CLOUD_PROFILES
from restow.kube.cluster import PatchType, Reply, Request
from restow.kube.errors import Gone, NotFound, api_error
from restow.kube.store import Informer, Store
from tests.cloudprofile.memory import Memory

EXAMPLE = Path(__file__).parents[2] / "docs" / "examples" / "embedding" / "informer_controller.py"
OPEN = {"resourceVersion": "1", "timeoutSeconds": "300"}


class Fed(Memory):
    """A server whose watch says what the test feeds it."""

    def __init__(self, **held: list[dict[str, Any]]) -> None:
        super().__init__(**held)
        self.fed: asyncio.Queue[bytes] = asyncio.Queue()

    @asynccontextmanager
    async def _fed(self) -> AsyncIterator[AsyncIterator[bytes]]:
        async def lines() -> AsyncIterator[bytes]:
            while True:
                yield await self.fed.get()

        yield lines()

    def stream(self, request: Request) -> Any:
        assert request.resource is not None
        self.note("watch", request.resource)
        return self._fed()

    def feed(self, what: str, made: dict[str, Any]) -> None:
        self.fed.put_nowait(json.dumps({"type": what, "object": made}).encode())


def profile(version: int, **spec: Any) -> dict[str, Any]:
    """Return a CloudProfile at a resourceVersion."""
    return {"metadata": {"name": "a", "uid": "u", "resourceVersion": str(version)}, "spec": spec}


@asynccontextmanager
async def running_informer(server: Fed) -> AsyncIterator[Informer]:
    """An informer of CloudProfiles that follows the server."""
    informer = Informer(server, {CLOUD_PROFILES: Store(index.transform_profile)})
    async with asyncio.timeout(10), asyncio.TaskGroup() as group:
        task = group.create_task(informer.run())
        await informer.wait_for_sync()
        yield informer
        task.cancel()


async def next_line(lines: AsyncIterator[bytes]) -> tuple[str, dict[str, Any]]:
    """Return the next event."""
    event = json.loads(await anext(lines))
    return event["type"], event["object"]


async def test_a_list_and_what_follows_it_come_without_a_request() -> None:
    """Each controller would list and watch for itself, and an event between its two requests would be lost."""
    server = Fed(cloudprofiles=[profile(1, x=1)])
    async with running_informer(server) as informer:
        listed = (await informer.list_page(CLOUD_PROFILES, metadata_only=True)).json()
        assert [set(each) for each in listed["items"]] == [{"metadata"}]
        server.feed("MODIFIED", profile(2, x=2))
        server.feed("DELETED", profile(3, x=2))
        async with informer.watch(CLOUD_PROFILES, params=OPEN) as lines:
            assert await next_line(lines) == ("MODIFIED", profile(2, x=2))
            assert await next_line(lines) == ("DELETED", profile(3, x=2))
    assert server.asked == ["list cloudprofiles", "watch cloudprofiles"]


async def test_a_write_through_the_informer_is_known_at_once() -> None:
    """A reconciler would read the object from before its own write; a dry run changes nothing."""
    server = Fed(cloudprofiles=[profile(1, x=1)])
    async with running_informer(server) as informer:
        change = json.dumps({"metadata": {"resourceVersion": "1"}, "spec": {"x": 2}}).encode()
        merge = PatchType.MERGE
        await informer.patch(CLOUD_PROFILES, "a", change, patch_type=merge, params={"dryRun": "All"})
        assert (await informer.list_page(CLOUD_PROFILES)).json()["items"] == [profile(1, x=1)]
        await informer.patch(CLOUD_PROFILES, "a", change, patch_type=merge)
        assert (await informer.list_page(CLOUD_PROFILES)).json()["items"] == [profile(2, x=2)]
        async with informer.watch(CLOUD_PROFILES, params=OPEN) as lines:
            assert await next_line(lines) == ("MODIFIED", profile(2, x=2))


async def test_a_reader_that_is_too_far_behind_lists_again() -> None:
    """It would wait for changes that nobody remembers."""
    async with running_informer(Fed(cloudprofiles=[profile(1)])) as informer:
        with pytest.raises(Gone):
            async with informer.watch(CLOUD_PROFILES, params=OPEN | {"resourceVersion": "0"}) as lines:
                await anext(lines)


async def test_a_watch_ends_in_time() -> None:
    """The one who watches would take the informer for a dead connection."""
    now = OPEN | {"timeoutSeconds": "0"}
    async with (
        running_informer(Fed(cloudprofiles=[profile(1)])) as informer,
        informer.watch(CLOUD_PROFILES, params=now) as lines,
    ):
        assert [line async for line in lines] == []


async def test_an_object_that_is_nested_too_deeply_is_left_out(caplog: pytest.LogCaptureFixture) -> None:
    """One object of one tenant would end the informer at each start, and with it every controller."""
    server = Fed(cloudprofiles=[profile(1, x=1)])
    async with running_informer(server) as informer:

        async def held() -> list[dict[str, Any]]:
            items: list[dict[str, Any]] = (await informer.list_page(CLOUD_PROFILES)).json()["items"]
            return items

        nested = b'{"a":' * 5_000 + b"1" + b"}" * 5_000
        for what in ("MODIFIED", "DELETED"):
            line = json.dumps({"type": what, "object": profile(2, x="NESTED")}).encode()
            server.fed.put_nowait(line.replace(b'"NESTED"', nested))
        async with informer.watch(CLOUD_PROFILES, params=OPEN) as lines:
            assert await next_line(lines) == ("DELETED", profile(2, x=1))
        assert await held() == []
        server.feed("ADDED", profile(3, x=3))
        while await held() != [profile(3, x=3)]:
            await asyncio.sleep(0)
    assert caplog.messages[0].startswith("a: an object is nested too deeply to be read here; make it flatter")


async def test_a_resource_that_is_not_served_ends_the_informer() -> None:
    """An operator could not catch the error by its type, or would run on with an empty store."""

    class NotServed(Fed):
        async def send(self, request: Request) -> Reply:
            raise api_error(status=404, body=b"", headers={}, verb="list", target=request.target)

    with pytest.raises(NotFound):
        await Informer(NotServed(), {CLOUD_PROFILES: Store(index.transform_profile)}).run()


async def test_the_example_of_the_documentation(caplog: pytest.LogCaptureFixture) -> None:
    """Users would copy an example that does not run."""
    caplog.set_level(logging.INFO, logger="example")
    run = runpy.run_path(str(EXAMPLE))["run"]
    held = [{"metadata": {"name": name, "namespace": "a", "resourceVersion": "1"}} for name in ("x", "y")]
    async with asyncio.timeout(10), asyncio.TaskGroup() as tasks:
        task = tasks.create_task(run(Fed(configmaps=held)))
        while "a has 2 ConfigMaps" not in caplog.messages:
            await asyncio.sleep(0.01)
        task.cancel()


async def test_selections_are_the_servers() -> None:
    """A selector that the informer passed over would select everything."""
    server = Fed(cloudprofiles=[profile(1)])
    async with running_informer(server) as informer:
        reply = await informer.list_page(CLOUD_PROFILES, params={"fieldSelector": "metadata.name=b"})
        assert reply.json()["items"] == []
    assert server.asked.count("list cloudprofiles") == 2


async def test_a_selected_watch_is_the_servers() -> None:
    """One who asked for some objects would be told of all."""
    server = Fed(cloudprofiles=[profile(1)])
    async with running_informer(server) as informer:
        server.feed("MODIFIED", profile(2, x=2))
        while (await informer.list_page(CLOUD_PROFILES)).json()["items"] != [profile(2, x=2)]:
            await asyncio.sleep(0)
        async with informer.watch(CLOUD_PROFILES, params=OPEN | {"labelSelector": "a=b"}) as lines:
            server.feed("BOOKMARK", profile(9))
            server.feed("BOOKMARK", profile(9))
            assert (await next_line(lines))[0] == "BOOKMARK"
