"""How a webhook ends: every request that arrives in the meantime is answered."""

from __future__ import annotations

import asyncio
import socket
import ssl
import time
from contextlib import AsyncExitStack

import pytest

from restow.conversion.reviews.admission import AdmissionRequest, AdmissionResponse
from restow.conversion.server import Limits, ServerPhase
from restow.kube.clock import Clock
from tests.conversion.server.apiserver import ApiServer, review
from tests.conversion.server.balancer import balancing
from tests.conversion.server.clocks import HeldClock
from tests.conversion.server.gateways import CRD_NAME, new, old
from tests.conversion.server.rawhttp import Client, connected, head, probe
from tests.conversion.server.test_admission import admission
from tests.conversion.server.webhooks import GATEWAYS, LOOPBACK, Authority, Running, running

LONG = Limits(drain_seconds=3600.0, finish_seconds=3600.0)


async def reaches(webhook: Running, phase: ServerPhase) -> None:
    while webhook.webhook.phase is not phase:
        await asyncio.sleep(0.005)


async def test_while_draining_it_serves_and_says_goodbye(authority: Authority) -> None:
    """Endpoints are still named for a while; a client that keeps its connection has to go elsewhere with its next."""
    async with running(authority, limits=Limits(drain_seconds=0.3)) as webhook, connected(webhook) as kept:
        assert (await kept.post(review(old()))).headers.get("connection") is None
        webhook.stop.set()
        await reaches(webhook, ServerPhase.DRAINING)
        answer = await kept.post(review(old()))
        assert (answer.status, answer.headers["connection"]) == (200, "close")
        assert await kept.closed() == b""
        async with connected(webhook) as later:
            answer = await later.post(review(old()))
            assert (answer.status, answer.headers["connection"]) == (200, "close")
        assert (await probe(webhook, "/readyz")).body == b"draining\n"
        assert (await probe(webhook, "/livez")).status == 200, "or the kubelet kills what drains"
        await webhook.ended


async def test_it_is_unready_before_it_does_anything_else(authority: Authority) -> None:
    """Readiness is what takes it out of the endpoints; all the rest has to wait for that."""
    held = HeldClock()
    async with running(authority, limits=LONG, clock=held.clock()) as webhook:
        webhook.stop.set()
        await webhook.ended
    assert held.slept[0] == 3600.0


async def test_what_is_in_flight_finishes(authority: Authority) -> None:
    """A review that was begun before the end is answered after it."""
    limits = Limits(drain_seconds=0.0, finish_seconds=20.0)
    body = review(old())
    async with running(authority, limits=limits) as webhook, connected(webhook) as slow, connected(webhook) as idle:
        await slow.send(head(content_length=str(len(body))) + body[:50])
        while webhook.webhook.counts.snapshot().gauges["restow_webhook_bytes_in_flight",] < 50:
            await asyncio.sleep(0.005)
        webhook.stop.set()
        await reaches(webhook, ServerPhase.STOPPING)
        assert await idle.closed() == b"", "idle connections are closed"
        with pytest.raises(OSError, match=r"refused|Connect"):
            await asyncio.open_connection(LOOPBACK, webhook.port)
        assert not webhook.ended.done()
        await slow.send(body[50:])
        answer = await slow.answer()
        assert (answer.status, answer.headers["connection"]) == (200, "close")
        await webhook.ended


async def test_what_comes_too_late_is_sent_elsewhere(authority: Authority) -> None:
    """A request that is only complete when nothing is accepted any more: 503 with Retry-After, never a reset."""
    limits = Limits(drain_seconds=0.0, finish_seconds=20.0)
    body = review(old())
    async with running(authority, limits=limits) as webhook, connected(webhook) as late:
        request = head(content_length=str(len(body))) + body
        await late.send(request[:20])
        await asyncio.sleep(0.05)
        webhook.stop.set()
        await reaches(webhook, ServerPhase.STOPPING)
        await late.send(request[20:])
        answer = await late.answer()
        assert (answer.status, answer.headers["retry-after"], answer.headers["connection"]) == (503, "1", "close")
        await webhook.ended


async def test_a_connection_that_is_still_shaking_hands_is_not_reset(authority: Authority) -> None:
    """The connection was accepted before the end, so its client gets at least 503 with Retry-After."""
    limits = Limits(drain_seconds=0.0, finish_seconds=20.0)
    async with running(authority, limits=limits) as webhook:
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        client = authority.client().wrap_bio(incoming, outgoing, server_hostname=LOOPBACK)
        reader, writer = await asyncio.open_connection(LOOPBACK, webhook.port)
        with pytest.raises(ssl.SSLWantReadError):
            client.do_handshake()
        writer.write(outgoing.read())
        incoming.write(await reader.read(1 << 16))
        webhook.stop.set()
        await reaches(webhook, ServerPhase.STOPPING)
        client.do_handshake()
        body = review(old())
        client.write(head(content_length=str(len(body))) + body)
        writer.write(outgoing.read())
        while not (answer := _decrypted(client)):
            incoming.write(await reader.read(1 << 16))
        assert answer.startswith(b"HTTP/1.1 503 ")
        assert b"Retry-After: 1" in answer
        await webhook.ended
        writer.close()


async def test_a_connection_that_waits_to_be_accepted_is_not_reset(authority: Authority) -> None:
    """For its client it is open: the kernel has said so, and the webhook may be too busy to have taken it yet."""
    made: list[socket.socket] = []

    async def sleep(seconds: float) -> None:
        if seconds == LONG.drain_seconds:
            made.append(socket.create_connection((LOOPBACK, webhook.port)))
        else:
            await asyncio.sleep(seconds)

    async with running(authority, limits=LONG, clock=Clock(sleep=sleep)) as webhook:
        webhook.stop.set()
        await reaches(webhook, ServerPhase.STOPPING)
        reader, writer = await asyncio.open_connection(sock=made[0], ssl=authority.client(), server_hostname=LOOPBACK)
        answer = await Client(reader, writer).post(review(old()))
        assert (answer.status, answer.headers["retry-after"]) == (503, "1")
        await webhook.ended
        writer.close()


async def test_a_process_that_stood_still_ends_no_connection_for_it(authority: Authority) -> None:
    """After a pause of the process, unread requests must not count as slow clients."""
    ahead = 0.0

    async def sleep(seconds: float) -> None:
        nonlocal ahead
        ahead += 0.0 if seconds == LONG.drain_seconds else 5.0
        await asyncio.sleep(0.0 if seconds == LONG.drain_seconds else seconds)

    clock = Clock(monotonic=lambda: time.monotonic() + ahead, sleep=sleep)
    async with running(authority, limits=LONG, clock=clock) as webhook, connected(webhook) as silent:
        async with connected(webhook) as kept:
            assert (await kept.post(review(old()))).status == 200
            webhook.stop.set()
            await reaches(webhook, ServerPhase.STOPPING)
            for client in (kept, silent):
                answer = await client.post(review(old()))
                assert (answer.status, answer.headers["retry-after"]) == (503, "1")
        await webhook.ended


def _decrypted(client: ssl.SSLObject) -> bytes:
    try:
        return client.read(1 << 16)
    except ssl.SSLWantReadError:
        return b""


async def test_what_does_not_finish_is_ended(authority: Authority) -> None:
    """The pod is killed at the end of its grace period; until then its own end has to be reached."""
    started = asyncio.Event()

    async def hang(_request: AdmissionRequest) -> AdmissionResponse:
        started.set()
        await asyncio.sleep(3600)
        return AdmissionResponse()

    limits = Limits(drain_seconds=0.0, finish_seconds=0.1, admission_seconds=3600)
    async with running(authority, limits=limits, validating={"hang": hang}) as webhook, connected(webhook) as client:
        body = admission()
        await client.send(head(path="/admit/hang", content_length=str(len(body))) + body)
        await started.wait()
        webhook.stop.set()
        await webhook.ended
        assert await client.closed() == b""


async def test_cancelled_it_ends_at_once(authority: Authority) -> None:
    """A second signal ends the process without waiting for connections."""
    async with AsyncExitStack() as stack:
        webhook = await stack.enter_async_context(running(authority, limits=LONG))
        client = await stack.enter_async_context(connected(webhook))
        assert (await client.post(review(old()))).status == 200
        webhook.stop.set()
        await reaches(webhook, ServerPhase.DRAINING)
        webhook.ended.cancel()
        assert await client.closed() == b""
        with pytest.raises(asyncio.CancelledError):
            await webhook.ended
        stack.pop_all()


# Rolling restarts.

RESTARTS = 30


def reviews(webhook: Running) -> float:
    """How many reviews it has answered."""
    counters = webhook.webhook.counts.snapshot().counters
    return counters.get(("restow_conversion_reviews_total", CRD_NAME, "success"), 0.0)


async def test_rolling_restarts_fail_no_request(authority: Authority, api: ApiServer) -> None:
    """Thirty times a new one comes and the old one drains, under constant load through a balancer.

    However slow the machine is, the time to drain is as long as the balancer takes to notice, and no longer.
    """
    converted = 0
    done = asyncio.Event()

    async def ask(url: str) -> None:
        nonlocal converted
        while not done.is_set():
            assert await api.convert(url, old(timeoutSeconds=5)) == [new(timeout="5s")]
            converted += 1

    async with balancing() as balancer, AsyncExitStack() as stack:

        async def start() -> Running:
            async def sleep(seconds: float) -> None:
                await asyncio.sleep(0.0 if seconds == LONG.drain_seconds else seconds)
                while seconds == LONG.drain_seconds and not balancer.is_done_with(made):
                    await asyncio.sleep(0.005)

            made = await stack.enter_async_context(running(authority, limits=LONG, clock=Clock(sleep=sleep)))
            balancer.add(made)
            while made not in balancer.ready:
                await asyncio.sleep(0.005)
            return made

        current = await start()
        url = f"https://{LOOPBACK}:{balancer.port}{GATEWAYS}"
        served = []
        async with asyncio.TaskGroup() as group:
            for _ in range(4):
                group.create_task(ask(url))
            for _ in range(RESTARTS):
                following = await start()
                while reviews(current) < 3:
                    await asyncio.sleep(0.005)
                current.stop.set()
                await current.ended
                balancer.remove(current)
                served.append(reviews(current))
                assert current.webhook.counts.snapshot().gauges["restow_webhook_connections",] == 0
                current = following
            done.set()
    assert converted >= sum(served)
