"""The bare loop, which the migrator is compared with."""

from __future__ import annotations

import asyncio

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from benchmarks.migration.bareloop import Job, Loop, WrongAnswerError


async def listed(*, later: str) -> list[str]:
    """List two pages of one object each; the token of the second one has expired, and names this token instead."""
    found: list[str] = []

    async def answer(request: web.Request) -> web.Response:
        token = request.query.get("continue", "")
        if token == "old":
            return web.json_response({"kind": "Status", "metadata": {"continue": later}}, status=410)
        name, following = ("b", "") if token else ("a", "old")
        about = {"name": name, "namespace": "n", "uid": "u", "resourceVersion": "1"}
        return web.json_response({"metadata": {"continue": following}, "items": [{"metadata": about}]})

    app = web.Application()
    app.router.add_get("/apis/g/v1/things", answer)
    async with TestServer(app) as server, aiohttp.ClientSession() as session:
        url = str(server.make_url("")).rstrip("/")
        about = {"server": url, "group": "g", "version": "v1", "plural": "things", "kind": "Thing"}
        loop = Loop(Job(**about, ca="", cert="", key="", write="empty", concurrency=1, limit=1), session)
        queue: asyncio.Queue[object] = asyncio.Queue()
        await loop._list(queue)
        while not queue.empty():
            found.append(queue.get_nowait().name)
    return found


async def test_a_list_that_takes_long_goes_on() -> None:
    """On a slow machine 100,000 objects take longer than etcd keeps a revision; the benchmark ended with an error."""
    assert await listed(later="new") == ["a", "b"]


@pytest.mark.parametrize("later", ["", "old"])
async def test_an_expired_list_without_a_way_on_is_an_error(later: str) -> None:
    """The loop would list the first page again, or ask for ever, and be slower for it."""
    with pytest.raises(WrongAnswerError, match="410"):
        await listed(later=later)
