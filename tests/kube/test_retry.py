"""The one policy of retries, in virtual time: what is waited for, for how long, and what is never sent twice."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from restow.kube.cluster import PatchType, Reply, Request
from restow.kube.errors import (
    BadRequest,
    CertificateUntrusted,
    Conflict,
    Forbidden,
    KubeError,
    NotFound,
    OutcomeUnknown,
    ServerError,
    TimedOut,
    TooManyRequests,
    Unauthorized,
    Unreachable,
    api_error,
)
from restow.kube.resources import CRDS
from restow.kube.retry import RetryingCluster
from tests.kube.conftest import RunInVirtualTime
from tests.memory.stub import StubCluster

NAME = "widgets.example.com"
_NO_RIGHT = 'customresourcedefinitions is forbidden: User "alice" cannot get resource'


def said(status: int, message: str = "", retry_after: float | None = None) -> KubeError:
    """An answer with an error status."""
    error = api_error(status=status, body=message.encode(), headers={}, verb="get", target="it")
    error.retry_after = retry_after
    return error


class Server(StubCluster):
    """A ``Cluster`` that answers with what it was given, one after the other, and the last one for ever."""

    def __init__(self, *answers: KubeError | bytes) -> None:
        self._answers = list(answers)
        self.times: list[float] = []

    async def send(self, request: Request) -> Reply:
        self.times.append(asyncio.get_running_loop().time())
        answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        if isinstance(answer, KubeError):
            raise answer
        return Reply(answer)


class Stop:
    """A stop that is asked for after so many seconds."""

    def __init__(self, after: float) -> None:
        self._until = asyncio.get_running_loop().time() + after

    def __bool__(self) -> bool:
        return asyncio.get_running_loop().time() >= self._until

    async def sleep(self, seconds: float, _what: str = "") -> None:
        await asyncio.sleep(min(seconds, max(0.0, self._until - asyncio.get_running_loop().time())))


def patient(server: Server, stop: Stop | None = None, patience_s: float = 300.0) -> RetryingCluster:
    clock = asyncio.get_running_loop().time
    return RetryingCluster(server, stop, patience_s=patience_s, clock=clock, chance=random.Random(1))


PASSING: list[KubeError | bytes] = [
    Unreachable("refused"),
    TimedOut("silence"),
    said(429),
    said(500),
    said(502),
    said(503),
    said(504),
    b'{"half',
]
LASTING = [
    CertificateUntrusted("a wrong CA"),
    said(400),
    said(404),
    said(409),
    said(422),
    said(501),
    said(403, _NO_RIGHT),
    said(401),
]


@pytest.mark.parametrize("error", PASSING, ids=str)
def test_what_passes_is_waited_for(error: KubeError | bytes, run_in_virtual_time: RunInVirtualTime) -> None:
    """One such answer at any request would end a run for good that would have finished a second later."""

    async def main() -> None:
        server = Server(error, error, error, b"{}")
        assert (await patient(server).get(CRDS, NAME)).body == b"{}"
        assert (await patient(Server(error, b"{}")).create(CRDS, b"{}")).body == b"{}"
        waits = [after - before for before, after in zip(server.times, server.times[1:], strict=False)]
        assert waits == sorted(waits) and 0.25 <= waits[0] <= 0.5

    run_in_virtual_time(main())


@pytest.mark.parametrize("error", LASTING, ids=str)
def test_what_lasts_is_told_at_once(error: KubeError, run_in_virtual_time: RunInVirtualTime) -> None:
    """Minutes of waiting for an answer that stays the same hide the reason, and nothing comes of them."""

    async def main() -> None:
        server = Server(error)
        with pytest.raises(type(error)) as raised:
            await patient(server).get(CRDS, NAME)
        assert len(server.times) == 1 and not raised.value.out_of_reach

    run_in_virtual_time(main())


def test_patience_ends(run_in_virtual_time: RunInVirtualTime) -> None:
    """A run that waits for ever says nothing; one that gives up says that running again may help."""

    async def main() -> None:
        server = Server(said(503))
        with pytest.raises(ServerError) as raised:
            await patient(server, patience_s=60.0).get(CRDS, NAME)
        assert 59.9 <= server.times[-1] - server.times[0] <= 60.1
        assert raised.value.out_of_reach and raised.value.waited_s >= 59.9

    run_in_virtual_time(main())


def test_retry_after_is_obeyed(run_in_virtual_time: RunInVirtualTime) -> None:
    """A server that says when to come back is not to be asked before, nor to hold a run for an hour."""

    async def main() -> None:
        server = Server(said(429, retry_after=7.0), said(429, retry_after=3600.0), b"{}")
        await patient(server).get(CRDS, NAME)
        first, second, third = server.times
        assert second - first == pytest.approx(7.0) and third - second == pytest.approx(60.0)

    run_in_virtual_time(main())


def test_a_stop_ends_the_wait(run_in_virtual_time: RunInVirtualTime) -> None:
    """A pod has 30 seconds after SIGTERM: waiting on would have it killed without a report."""

    async def main() -> None:
        server = Server(Unreachable("refused"))
        with pytest.raises(Unreachable):
            await patient(server, Stop(after=3.0)).get(CRDS, NAME)
        assert asyncio.get_running_loop().time() - server.times[0] == pytest.approx(3.0)

    run_in_virtual_time(main())


def _patching(cluster: RetryingCluster) -> Any:
    return cluster.patch(CRDS, NAME, b"{}", patch_type=PatchType.MERGE, subresource="status")


async def _error_of(sent: Any) -> KubeError | None:
    try:
        await sent
    except KubeError as error:
        return error
    return None


@pytest.mark.parametrize("write", [_patching, lambda cluster: cluster.replace(CRDS, NAME, b"{}")], ids=["patch", "put"])
@pytest.mark.parametrize("error", [each for each in PASSING if not isinstance(each, TooManyRequests)], ids=str)
def test_a_write_without_an_answer_is_the_callers_to_judge(
    error: KubeError | bytes, write: Callable[[RetryingCluster], Any], run_in_virtual_time: RunInVirtualTime
) -> None:
    """Sent again blindly, a prune that was carried out looks like one that others prevented."""

    async def main() -> None:
        server = Server(error, error, b"{}")
        cluster = patient(server)
        for sent in (1, 2):
            with pytest.raises(OutcomeUnknown):
                await write(cluster)
            assert len(server.times) == sent
        assert (await write(cluster)).body == b"{}"
        # The wait was over when the doubt was told, and grew from one to the next.
        assert server.times[2] - server.times[1] > server.times[1] - server.times[0] >= 0.25

    run_in_virtual_time(main())


def test_a_write_that_was_surely_not_carried_out_is_sent_again(run_in_virtual_time: RunInVirtualTime) -> None:
    """A 429 comes before anything is done: there is nothing to read again."""

    async def main() -> None:
        server = Server(said(429, retry_after=1.0), b"{}")
        assert (await _patching(patient(server))).body == b"{}"

    run_in_virtual_time(main())


def test_doubts_come_to_an_end(run_in_virtual_time: RunInVirtualTime) -> None:
    """Whoever judges after each doubt would go on for ever."""

    async def main() -> None:
        server = Server(TimedOut("silence"))
        cluster = patient(server, patience_s=60.0)
        doubts = 0
        while not isinstance(error := await _error_of(_patching(cluster)), TimedOut):
            assert isinstance(error, OutcomeUnknown)
            doubts += 1
        assert doubts > 5
        assert 59.0 <= asyncio.get_running_loop().time() - server.times[0] <= 61.0

    run_in_virtual_time(main())


def test_a_doubt_that_was_resolved_long_ago_does_not_count(run_in_virtual_time: RunInVirtualTime) -> None:
    """A prune after a pass of ten minutes would fail for good at its first 503."""

    async def main() -> None:
        cluster = patient(Server(Unreachable("reset"), said(503), b"{}"))
        assert isinstance(await _error_of(_patching(cluster)), OutcomeUnknown)
        await asyncio.sleep(600.0)  # the read showed that it was carried out, and the pass went on
        assert isinstance(await _error_of(_patching(cluster)), OutcomeUnknown)
        assert (await _patching(cluster)).body == b"{}"

    run_in_virtual_time(main())


def test_an_answer_to_a_write_is_an_answer(run_in_virtual_time: RunInVirtualTime) -> None:
    """A conflict, or a refusal, is judged by whoever wrote."""

    async def main() -> None:
        for answer, kind in ((said(409), Conflict), (said(400), BadRequest), (said(404), NotFound)):
            with pytest.raises(kind) as raised:
                await _patching(patient(Server(answer)))
            assert not isinstance(raised.value, OutcomeUnknown)

    run_in_virtual_time(main())


def test_credentials_that_were_good_are_waited_for(run_in_virtual_time: RunInVirtualTime) -> None:
    """A plugin that hiccups in mid-run must not end it; wrong credentials are told at once (above)."""

    async def main() -> None:
        server = Server(b"{}", said(401), said(401), b"{}", said(401))
        cluster = patient(server)
        await cluster.get(CRDS, NAME)
        await cluster.get(CRDS, NAME)
        with pytest.raises(Unauthorized) as raised:
            await cluster.get(CRDS, NAME)
        assert raised.value.out_of_reach

    run_in_virtual_time(main())


def test_a_server_that_just_started_is_asked_again_for_a_right(run_in_virtual_time: RunInVirtualTime) -> None:
    """Until it has read its RBAC rules it denies what it allows; a right that stays missing is told in time."""

    async def main() -> None:
        server = Server(Unreachable("refused"), said(403, _NO_RIGHT), said(403, _NO_RIGHT), b"{}")
        assert (await patient(server).get(CRDS, NAME)).body == b"{}"
        server = Server(Unreachable("refused"), said(403, _NO_RIGHT))
        with pytest.raises(Forbidden) as raised:
            await patient(server).get(CRDS, NAME)
        assert len(server.times) <= 7 and not raised.value.out_of_reach

    run_in_virtual_time(main())


class Behind(Server):
    """A load balancer: each connection of its own meets a server that has just started."""

    @asynccontextmanager
    async def at(self, _host: str = "", _server_name: str = "") -> AsyncIterator[Server]:
        yield Server(said(403, _NO_RIGHT), said(401), b"{}")


def test_a_server_behind_another_connection_may_have_just_started_too(run_in_virtual_time: RunInVirtualTime) -> None:
    """While API servers restart one after the other, a right that was used a moment ago would count as withdrawn."""

    async def main() -> None:
        cluster = patient(Behind(b"{}"))
        await cluster.get(CRDS, NAME)
        async with cluster.at() as other:
            assert (await other.get(CRDS, NAME)).body == b"{}"
        async with patient(Behind(b"{}")).at() as other:
            with pytest.raises(Forbidden):
                await other.get(CRDS, NAME)

    run_in_virtual_time(main())
