"""Lists that are read page by page, on the API server in memory."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from restow.kube import Reply
from restow.kube.cluster import Request
from restow.kube.errors import BadReply, Forbidden, Gone
from restow.kube.pager import Table, list_pages, list_tables, request_list_page
from restow.kube.resources import NAMESPACES
from tests.memory.cluster import MemoryCluster
from tests.memory.stub import StubCluster

_TABLES = msgspec.json.Decoder(Table[dict[str, Any]])


def namespaces(number: int) -> MemoryCluster:
    """Return an API server with namespaces ``n00`` and on."""
    memory = MemoryCluster()
    for each in range(number):
        memory.seed("namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": f"n{each:02}"}})
    return memory


async def names(memory: MemoryCluster, limit: int, **more: Any) -> list[list[str]]:
    """Return the names of each page."""
    return [
        [item["metadata"]["name"] for item in page]
        async for page in list_pages(memory, NAMESPACES, limit=limit, **more)
    ]


async def test_every_object_comes_once_and_no_page_is_larger_than_asked() -> None:
    """A list would be read in one piece, or end after its first page."""
    memory = namespaces(5)
    found = await names(memory, 2)
    assert [len(page) for page in found][:-1] == [2] * (len(found) - 1)
    flat = [name for page in found for name in page]
    assert [name for name in flat if name.startswith("n")] == ["n00", "n01", "n02", "n03", "n04"]
    assert len(flat) == len(set(flat))


async def test_a_list_of_nothing_is_one_empty_page() -> None:
    """A reader that waits for objects would wait for ever, or fail."""
    assert await names(namespaces(2), 2, params={"fieldSelector": "metadata.name=none"}) == [[]]


async def test_an_expired_token_goes_on_where_it_was() -> None:
    """A long list would fail on a busy cluster, or name objects twice."""
    memory = namespaces(6)
    found: list[str] = []
    async for page in list_pages(memory, NAMESPACES, limit=2):
        found += [item["metadata"]["name"] for item in page]
        memory.seed("namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": f"z{len(found)}"}})
        memory.compact()
        memory.seed("namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": f"a{len(found)}"}})
        if len(found) > 20:
            break
    assert [name for name in found if name.startswith("n")] == [f"n{each:02}" for each in range(6)]


async def test_tables_come_page_by_page_with_their_columns() -> None:
    """Only the first page of a table would be read, or the cells of another column."""
    found = [
        (row.cells[table.column("Name") or 0], row.object["metadata"]["name"], table.column("Age"))
        async for table in list_tables(namespaces(5), NAMESPACES, _TABLES, limit=2)
        for row in table.rows or ()
    ]
    assert sorted(found) == [(name, name, None) for name in ["default", "n00", "n01", "n02", "n03", "n04"]]


class Refusing(StubCluster):
    """Answers every list with one error."""

    def __init__(self, error: Exception) -> None:
        self.error = error
        self.requests = 0

    async def send(self, request: Request) -> Reply:
        self.requests += 1
        raise self.error


def gone(token: str) -> Gone:
    """Return what an API server answers to an expired token."""
    error = Gone(status=410, verb="list", target="namespaces")
    error.continue_token = token
    return error


@pytest.mark.parametrize(
    ("error", "requests"),
    [(gone(""), 1), (gone("again"), 5), (Forbidden(status=403, verb="list", target="namespaces"), 1)],
)
async def test_what_cannot_be_continued_is_raised(error: Exception, requests: int) -> None:
    """A reader would ask for ever, or take half of a list for the whole."""
    server = Refusing(error)
    with pytest.raises(type(error)):
        await request_list_page(server, NAMESPACES, limit=2, token="t")
    assert server.requests == requests


@pytest.mark.parametrize("answer", [b"{}", b'{"metadata": {}}', b'{"metadata": {"continue": "token"}, "items": []}'])
async def test_a_page_that_cannot_be_one_ends_the_list_with_an_error(answer: bytes) -> None:
    """A search would find nothing where it was not answered, or read one page for ever."""

    class Proxied(StubCluster):
        async def send(self, request: Request) -> Reply:
            return Reply(answer)

    with pytest.raises(BadReply):
        await asyncio.wait_for(names(Proxied(), 2), 5.0)
