"""List-then-watch against a server that misbehaves in every way that a real one cannot be asked for."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from aiohttp import web

from restow.kube import Resource, connect
from restow.kube.clock import Clock
from restow.kube.errors import ApiError, BadReply, Forbidden, Gone, KubeError, NotFound, TimedOut, Unauthorized
from restow.kube.listwatch import Interruption, Selection, watch
from restow.kube.watchevents import Added, Bookmark, Deleted, Listed, Modified, WatchEvent

WIDGETS = Resource("example.com", "v1", "widgets", namespaced=True)
ENDING = web.AppKey("ending", asyncio.Event)
Answer: TypeAlias = Callable[[web.Request], Awaitable[web.StreamResponse]]


class FaultServer:
    """Answers the n-th request with the n-th answer, and the rest with the last one."""

    def __init__(self, answers: tuple[Answer, ...], kubeconfig: Path) -> None:
        self.answers = answers
        self.kubeconfig = kubeconfig
        self.requests: list[dict[str, str]] = []
        self.paths: list[str] = []
        self.ending = asyncio.Event()

    @property
    def watches(self) -> list[str]:
        """The resourceVersions that watches were opened at."""
        return [query["resourceVersion"] for query in self.requests if "watch" in query]

    async def handle(self, request: web.Request) -> web.StreamResponse:
        number = min(len(self.requests), len(self.answers) - 1)
        self.requests.append(dict(request.query))
        self.paths.append(request.path)
        return await self.answers[number](request)

    @classmethod
    @asynccontextmanager
    async def running(cls, *answers: Answer, folder: Path) -> AsyncIterator[FaultServer]:
        server = cls(answers, folder / "kubeconfig")
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", server.handle)
        app[ENDING] = server.ending
        runner = web.AppRunner(app)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        host, port = runner.addresses[0]
        config = {
            "current-context": "c",
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
            "clusters": [{"name": "c", "cluster": {"server": f"http://{host}:{port}"}}],
            "users": [{"name": "u", "user": {}}],
        }
        server.kubeconfig.write_text(json.dumps(config))
        try:
            yield server
        finally:
            server.ending.set()
            await runner.cleanup()


def page(*names: str, version: str, token: str = "") -> Answer:
    """A list, or one page of it."""

    async def answer(_request: web.Request) -> web.StreamResponse:
        items = [{"metadata": {"name": name, "namespace": "ns"}} for name in names]
        return web.json_response({"metadata": {"resourceVersion": version, "continue": token}, "items": items})

    return answer


def refuse(status: int, text: str = "no", **headers: str) -> Answer:
    async def answer(_request: web.Request) -> web.StreamResponse:
        return web.Response(status=status, text=text, headers={k.replace("_", "-"): v for k, v in headers.items()})

    return answer


async def at_once() -> None:
    pass


def stream(*lines: bytes, end: str = "close", before_end: Callable[[], Awaitable[None]] = at_once) -> Answer:
    """A watch that sends some lines and then is closed, cut off, or stays open until the test ends."""

    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        for line in lines:
            await response.write(line)
        await before_end()
        if end == "cut":
            assert request.transport is not None
            request.transport.abort()
        if end == "stay":
            await request.app[ENDING].wait()
        return response

    return answer


def event(kind: str, name: str, version: str) -> bytes:
    thing = {"metadata": {"name": name, "namespace": "ns", "resourceVersion": version}}
    return json.dumps({"type": kind, "object": thing}).encode() + b"\n"


def error(code: int, **details: object) -> bytes:
    status = {"kind": "Status", "code": code, "message": "said so", "details": details}
    return json.dumps({"type": "ERROR", "object": status}).encode() + b"\n"


class Follower:
    """A consumer that notes events, interruptions and waits; waiting costs no time but moves the clock."""

    def __init__(self) -> None:
        self.now = 0.0
        self.waits: list[float] = []
        self.events: list[WatchEvent] = []
        self.interruptions: list[Interruption] = []
        self.came = asyncio.Condition()

    async def sleep(self, seconds: float) -> None:
        self.waits.append(seconds)
        self.now += seconds
        await asyncio.sleep(0)

    def passes(self, seconds: float, *, after: int) -> Callable[[], Awaitable[None]]:
        """Return what waits for the consumer to have seen so many events, and then moves the clock."""

        async def move() -> None:
            async with self.came:
                await self.came.wait_for(lambda: len(self.events) >= after)
            self.now += seconds

        return move

    async def follow(
        self, server: FaultServer, *, events: int, selection: Selection | None = None, interruptions: int = 1000
    ) -> None:
        """Follow until that many events, or interruptions, came."""

        class Enough(Exception):
            pass

        def interrupted(interruption: Interruption) -> None:
            self.interruptions.append(interruption)
            if len(self.interruptions) == interruptions:
                raise Enough

        async with connect(kubeconfig=server.kubeconfig) as cluster:
            following = watch(
                cluster,
                selection or Selection(WIDGETS),
                on_interruption=interrupted,
                clock=Clock(monotonic=lambda: self.now, sleep=self.sleep),
                chance=lambda: 0.0,
            )
            try:
                async with following as stream_of_events:
                    async for one in stream_of_events:
                        async with self.came:
                            self.events.append(one)
                            self.came.notify_all()
                        if len(self.events) == events:
                            return
            except Enough:
                pass

    @property
    def told(self) -> list[str]:
        return [tell(one) for one in self.events]


def tell(one: WatchEvent) -> str:
    match one:
        case Listed(items=items, resource_version=version):
            return f"listed {','.join(item.metadata.name for item in items)} @{version}"
        case Bookmark(resource_version=version):
            return f"bookmark @{version}"
        case Added(item=item) | Modified(item=item) | Deleted(item=item):
            return f"{type(one).__name__.lower()} {item.metadata.name} @{item.metadata.resource_version}"


async def follow(
    folder: Path, *answers: Answer, events: int, follower: Follower | None = None, **more: Any
) -> tuple[Follower, FaultServer]:
    follower = follower or Follower()
    async with FaultServer.running(*answers, folder=folder) as server:
        await follower.follow(server, events=events, **more)
    return follower, server


async def test_list_then_watch(tmp_path: Path) -> None:
    """All pages come first as one Listed, then every kind of event, from the list's resourceVersion on."""
    lines = [event("ADDED", "c", "11"), event("MODIFIED", "a", "12"), event("BOOKMARK", "", "15")]
    answers = (
        page("a", version="10", token="next"),
        page("b", version="10"),
        stream(*lines, event("DELETED", "b", "16"), end="stay"),
    )
    follower, server = await follow(tmp_path, *answers, events=5)
    assert follower.told == ["listed a,b @10", "added c @11", "modified a @12", "bookmark @15", "deleted b @16"]
    assert server.requests == [
        {"limit": "500"},
        {"limit": "500", "continue": "next"},
        {"watch": "true", "resourceVersion": "10", "allowWatchBookmarks": "true", "timeoutSeconds": "300"},
    ]
    assert follower.waits == []


async def test_a_selection_goes_with_every_request(tmp_path: Path) -> None:
    """Namespace and selectors that got lost on one of the requests would show foreign objects."""
    chosen = Selection(WIDGETS, "ns", label_selector="a=b,c", field_selector="metadata.name=x")
    answers = (page("a", version="10", token="next"), page(version="10"), stream(event("ADDED", "x", "11"), end="stay"))
    _, server = await follow(tmp_path, *answers, events=2, selection=chosen)
    assert set(server.paths) == {"/apis/example.com/v1/namespaces/ns/widgets"}
    for query in server.requests:
        assert (query["labelSelector"], query["fieldSelector"]) == ("a=b,c", "metadata.name=x")


async def test_lines_that_arrive_in_pieces(tmp_path: Path) -> None:
    """An event may arrive in any number of pieces, and several in one."""
    whole = event("ADDED", "a", "11") + event("ADDED", "b", "12")
    answers = (page(version="10"), stream(whole[:9], whole[9:100], whole[100:], end="stay"))
    follower, _ = await follow(tmp_path, *answers, events=3)
    assert follower.told == ["listed  @10", "added a @11", "added b @12"]


async def test_a_watch_that_ends_is_reopened_where_it_was(tmp_path: Path) -> None:
    """The regular end of a watch is no gap: no list, no wait, and the last bookmark's resourceVersion counts."""
    follower = Follower()
    answers = (
        page(version="10"),
        stream(event("ADDED", "a", "11"), event("BOOKMARK", "", "15"), before_end=follower.passes(300, after=3)),
        stream(event("BOOKMARK", "", "16"), before_end=follower.passes(300, after=4)),
        stream(event("MODIFIED", "a", "17"), end="stay"),
    )
    _, server = await follow(tmp_path, *answers, events=5, follower=follower)
    assert follower.told == ["listed  @10", "added a @11", "bookmark @15", "bookmark @16", "modified a @17"]
    assert server.watches == ["10", "15", "16"]
    assert (follower.waits, follower.interruptions) == ([], [])


@pytest.mark.parametrize(
    "gone",
    [
        pytest.param(refuse(410, '{"kind":"Status","reason":"Expired","message":"too old"}'), id="status"),
        pytest.param(stream(error(410)), id="event"),
        pytest.param(stream(error(410), event("ADDED", "lost", "12"), end="stay"), id="event, more lines"),
    ],
)
async def test_gone_is_told_as_a_new_list(tmp_path: Path, gone: Answer) -> None:
    """When history is lost the consumer sees a second Listed: only so can it know that changes may be missing."""
    answers = (page("a", version="10"), gone, page("b", version="20"), stream(event("ADDED", "c", "21"), end="stay"))
    follower, server = await follow(tmp_path, *answers, events=3)
    assert follower.told == ["listed a @10", "listed b @20", "added c @21"]
    assert server.watches == ["10", "20"]
    (interruption,) = follower.interruptions
    assert (interruption.relist, type(interruption.error), follower.waits) == (True, Gone, [0.4])


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(refuse(500), id="500"),
        pytest.param(refuse(503, "<html>proxy</html>"), id="503 of a proxy"),
        pytest.param(stream(error(500)), id="error event"),
        pytest.param(stream(end="cut"), id="reset"),
        pytest.param(stream(event("ADDED", "x", "99")[:30], end="cut"), id="reset in a line"),
        pytest.param(stream(event("ADDED", "x", "99")[:30]), id="closed in a line"),
        pytest.param(stream(b"upstream connect error\n"), id="plain text"),
        pytest.param(stream(b'{"type":"ADDED","object":{"metadata":{"name":"x"}}}\n'), id="no version"),
        pytest.param(stream(), id="closed at once"),
    ],
)
async def test_what_may_pass_is_no_gap(tmp_path: Path, fault: Answer) -> None:
    """Faults in between cost waits that grow, but nothing is missed and nothing is listed again."""
    answers = (
        page(version="10"),
        stream(event("ADDED", "a", "11"), end="cut"),
        fault,
        fault,
        stream(event("ADDED", "b", "12"), end="stay"),
    )
    follower, server = await follow(tmp_path, *answers, events=3)
    assert follower.told == ["listed  @10", "added a @11", "added b @12"]
    assert server.watches == ["10", "11", "11", "11"]
    assert follower.waits == [0.4, 0.8, 1.6]
    assert [interruption.relist for interruption in follower.interruptions] == [False] * 3


LIST, EVENT = page(version="10"), stream(event("ADDED", "a", "11"), end="stay")


@pytest.mark.parametrize(
    "answers",
    [
        pytest.param((refuse(429, Retry_After="7"), LIST, EVENT), id="list"),
        pytest.param((LIST, refuse(429, "storage is (re)initializing", Retry_After="7"), EVENT), id="watch"),
        pytest.param((LIST, refuse(503, Retry_After="7"), EVENT), id="watch, 503"),
        pytest.param((LIST, stream(error(429, retryAfterSeconds=7)), EVENT), id="event"),
    ],
)
async def test_retry_after_is_respected(tmp_path: Path, answers: tuple[Answer, ...]) -> None:
    """A server that asks for time gets it, whatever it was asked."""
    follower, _ = await follow(tmp_path, *answers, events=2)
    assert follower.told == ["listed  @10", "added a @11"]
    assert follower.waits == [7.0]


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(stream(), id="closes at once"),
        pytest.param(stream(event("BOOKMARK", "", "11")), id="one event, then closes"),
        pytest.param(stream(error(410)), id="410 after every list"),
        pytest.param(refuse(500), id="500"),
        pytest.param(refuse(429, Retry_After="0"), id="429 without a wait"),
    ],
)
async def test_a_broken_server_is_not_hammered(tmp_path: Path, answer: Answer) -> None:
    """However a server fails, and for how long: waits grow to half a minute, so an hour sees few requests."""

    async def both(request: web.Request) -> web.StreamResponse:
        return await (answer if "watch" in request.query else page("a", version="10"))(request)

    follower, server = await follow(tmp_path, both, events=1000, interruptions=30)
    assert follower.waits[:6] == [0.4, 0.8, 1.6, 3.2, 6.4, 12.8]
    assert set(follower.waits[6:]) == {15.0}
    assert len(server.watches) == 30
    assert sum(follower.waits) > 300


@pytest.mark.parametrize(
    ("status", "expected"), [(400, ApiError), (401, Unauthorized), (403, Forbidden), (404, NotFound), (405, ApiError)]
)
async def test_what_does_not_pass_is_raised(tmp_path: Path, status: int, expected: type[ApiError]) -> None:
    """Missing rights, or a version that is not served, reach the consumer at once."""
    follower = Follower()
    with pytest.raises(expected) as caught:
        await follow(tmp_path, refuse(status), events=10, follower=follower)
    assert caught.value.status == status
    assert follower.waits == []


@pytest.mark.parametrize(("status", "expected"), [(401, Unauthorized), (403, Forbidden), (404, NotFound)])
async def test_what_lasts_is_raised(tmp_path: Path, status: int, expected: type[ApiError]) -> None:
    """Once it has worked, the same answers are believed only when they last."""
    follower = Follower()
    answers = (page(version="10"), refuse(status), stream(event("ADDED", "a", "11"), end="cut"), refuse(status))
    with pytest.raises(expected):
        await follow(tmp_path, *answers, events=10, follower=follower)
    assert follower.told == ["listed  @10", "added a @11"]
    assert len(follower.waits) == (6 if status == 401 else 7)  # a 401 is first met by new credentials, at once


async def test_a_list_that_outlives_the_history_is_made_in_one(tmp_path: Path) -> None:
    """Pages of different resourceVersions cannot be watched from, so the second try asks for all at once."""
    answers = (
        page("a", version="10", token="next"),
        refuse(410, '{"kind":"Status","metadata":{"continue":"inconsistent"}}'),
        page("a", "b", version="20"),
        stream(event("ADDED", "c", "21"), end="stay"),
    )
    follower, server = await follow(tmp_path, *answers, events=2)
    assert follower.told == ["listed a,b @20", "added c @21"]
    assert server.requests[2] == {}


async def test_pages_without_end_are_given_up(tmp_path: Path) -> None:
    """A server (or cache in between) that repeats a page must not fill the memory."""
    follower, server = await follow(tmp_path, page("a", version="10", token="same"), events=1, interruptions=3)
    assert [type(interruption.error) for interruption in follower.interruptions] == [BadReply] * 3
    assert len(server.requests) == 6


def test_a_server_that_forgets_to_end_a_watch(
    tmp_path: Path, run_in_virtual_time: Callable[[Coroutine[Any, Any, None]], None]
) -> None:
    """Bookmarks may keep a dead watch alive; half a minute after its time it is reopened all the same."""

    async def bookmarks_for_ever(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        for version in range(11, 100):
            await asyncio.sleep(60)
            await response.write(event("BOOKMARK", "", str(version)))
        return response

    async def main() -> None:
        answers = (page(version="10"), bookmarks_for_ever, stream(event("ADDED", "a", "99"), end="stay"))
        follower, server = await follow(tmp_path, *answers, events=7)
        assert follower.told == ["listed  @10", *(f"bookmark @{version}" for version in range(11, 16)), "added a @99"]
        assert [type(interruption.error) for interruption in follower.interruptions] == [TimedOut]
        assert server.watches == ["10", "15"]

    run_in_virtual_time(main())


async def test_no_object_reaches_the_log(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Lines that cannot be read are reported by their size, since they hold users' objects."""
    secret = b'{"type":"ADDED","object":{"metadata":{"name":"a"},"data":"hunter2"}}\n'
    answers = (page(version="10"), stream(secret), stream(event("ADDED", "a", "11"), end="stay"))
    with caplog.at_level("DEBUG"):
        follower, _ = await follow(tmp_path, *answers, events=2)
    assert isinstance(follower.interruptions[0].error, KubeError)
    assert "hunter2" not in caplog.text
    assert "not an event" in caplog.text or "without resourceVersion" in caplog.text
