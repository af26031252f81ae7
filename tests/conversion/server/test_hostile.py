"""Hostile clients: each is refused or ended, costs no more than it sends, and does not affect other clients.

A webhook does not authenticate its clients: every process in the cluster can connect.
"""

from __future__ import annotations

import asyncio
import gzip
import json
import logging
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import pytest

from restow.conversion.server import Limits
from tests.conversion.server.apiserver import ApiServer, review
from tests.conversion.server.clocks import HeldClock
from tests.conversion.server.gateways import HUB, OLD, new, old
from tests.conversion.server.rawhttp import Client, connected, head, probe
from tests.conversion.server.webhooks import LOOPBACK, Authority, Running, running

SMALL = Limits(body=300_000, object=100_000, in_flight=600_000, drain_seconds=0)


@pytest.fixture
async def webhook(authority: Authority) -> AsyncIterator[Running]:
    """A webhook with small limits; after whatever a test did to it, it is as good as before."""
    async with running(authority, limits=SMALL) as found:
        yield found
        assert (await probe(found, "/readyz")).status == 200
        async with connected(found) as client:
            assert (await client.post(review(old()))).status == 200
        assert found.webhook.counts.snapshot().gauges["restow_webhook_bytes_in_flight",] == 0


def refused(webhook: Running) -> dict[str, float]:
    counters = webhook.webhook.counts.snapshot().counters
    return {key[1]: value for key, value in counters.items() if key[0] == "restow_webhook_refused_total" and value}


# Too much.


async def test_a_body_that_is_announced_too_large_is_not_read(webhook: Running) -> None:
    """Reading it only to refuse it would be what the client wants."""
    async with connected(webhook) as client:
        await client.send(head(content_length=str(SMALL.body + 1)))
        answer = await client.answer()
    assert (answer.status, answer.headers["connection"]) == (413, "close")
    assert "larger than 300000 bytes" in answer.message
    assert refused(webhook) == {"too-large": 1}


async def test_a_body_that_never_ends_is_cut_off(webhook: Running) -> None:
    """Chunked, it announces nothing: it is counted while it comes, and the connection is closed."""
    async with connected(webhook) as client:
        await client.send(head(transfer_encoding="chunked"))
        with pytest.raises(ConnectionError):
            await _send_for_ever(client, b"4000\r\n" + b" " * 0x4000 + b"\r\n")
    assert refused(webhook) == {"too-large": 1}


async def _send_for_ever(client: Client, data: bytes) -> None:
    while True:
        await client.send(data)
        await asyncio.sleep(0)


async def test_a_bomb_is_not_inflated(webhook: Running) -> None:
    """A compressed body of a thousand bytes may be a million bytes when inflated."""
    bomb = gzip.compress(b" " * 50_000_000)
    for encoding in ("gzip", "deflate", "br", "zstd", "x-gzip"):
        async with connected(webhook) as client:
            answer = await client.post(bomb, content_encoding=encoding)
        assert (answer.status, answer.headers["accept-encoding"]) == (415, "identity")
    async with connected(webhook) as client:
        assert (await client.post(review(old()), content_encoding="identity")).status == 200


async def test_an_object_that_is_too_large_is_refused(webhook: Running) -> None:
    """Small enough as a body, it may be too large as a tree."""
    async with connected(webhook) as client:
        answer = await client.post(review(old(), old(host="x" * 150_000)))
    assert answer.status == 413
    assert "an object of the review is larger than 100000 bytes" in answer.message


async def test_many_tiny_objects_are_refused_cheaply(webhook: Running) -> None:
    """Eighty thousand objects, none of which is one."""
    body = review().replace(b'"objects":[]', b'"objects":[' + b",".join([b"{}"] * 80_000) + b"]")
    async with connected(webhook) as client:
        answer = await client.post(body)
    assert json.loads(answer.body)["response"]["result"]["message"].startswith("1000 of 1000 objects")
    assert len(answer.body) < 4000


async def test_one_connection_too_many_ends_the_one_that_waits_longest(
    authority: Authority, caplog: pytest.LogCaptureFixture
) -> None:
    """Ending the newcomer would let a thousand silent connections take the webhook away from all API servers."""
    held = HeldClock()
    limits = Limits(connections=6, probe_connections=2, drain_seconds=0)
    async with AsyncExitStack() as stack, running(authority, limits=limits, clock=held.clock()) as webhook:
        served, working = [await stack.enter_async_context(connected(webhook)) for _ in range(2)]
        assert (await served.post(review(old()))).status == 200
        await working.send(head(content_length=str(len(review(old())))) + review(old())[:10])
        await reaches(webhook, "restow_webhook_bytes_in_flight", 10)
        held.seconds += 2
        silent = []
        for _ in range(7):
            silent.append(await stack.enter_async_context(connected(webhook)))
            held.seconds += 0.5
        for each in silent[:3]:
            assert await each.closed() == b""
        assert refused(webhook) == {"too-many-connections": 3}
        assert (await silent[3].post(review(old()))).status == 200
        assert (await served.post(review(old()))).status == 200, "one that was of use outlives those that were not"
        await working.send(review(old())[10:])
        assert (await working.answer()).status == 200, "a request that has begun goes on"
        others = [await stack.enter_async_context(connected(webhook, probes=True)) for _ in range(3)]
        held.seconds += 2
        assert await others[0].closed() == b""
        assert (await probe(webhook, "/readyz")).status == 200
    (line,) = (json.loads(each.message) for each in caplog.records if "too-many-connections" in each.message)
    assert (line["event"], line["peer"], line["count"]) == ("refused", LOOPBACK, 1)


async def test_connections_in_their_first_second_are_left_alone(authority: Authority) -> None:
    """A request is on its way on most of them; only from twice the bound on the oldest ends."""
    held = HeldClock()
    limits = Limits(connections=2, drain_seconds=0)
    async with AsyncExitStack() as stack, running(authority, limits=limits, clock=held.clock()) as webhook:
        clients = [await stack.enter_async_context(connected(webhook)) for _ in range(5)]
        assert await clients[0].closed() == b""
        assert (await clients[1].post(review(old()))).status == 200
        assert refused(webhook) == {"too-many-connections": 1}
        held.seconds += 2
        assert await clients[2].closed() == b""
        assert (await clients[4].post(review(old()))).status == 200


async def test_one_handshake_too_many_ends_the_one_that_waits_longest(authority: Authority) -> None:
    """Handshakes have a bound of their own: nothing is cheaper than a connection that never says a word."""
    async with running(authority, limits=Limits(handshakes=2, drain_seconds=0)) as webhook:
        mute = [await asyncio.open_connection(LOOPBACK, webhook.port) for _ in range(5)]
        assert await Client(*mute[0]).closed() == b""
        assert refused(webhook) == {"too-many-connections": 1}
        async with connected(webhook) as client:
            assert (await client.post(review(old()))).status == 200
        for _, writer in mute:
            writer.transport.abort()


async def test_requests_ahead_of_their_answers_are_answered_in_order(webhook: Running) -> None:
    """Pipelining is HTTP/1.1; how much of it is read ahead is aiohttp's limit."""
    async with connected(webhook) as client:
        bodies = [review(old(f"g{number}"), uid=f"u{number}") for number in range(100)]
        await client.send(b"".join(head(content_length=str(len(body))) + body for body in bodies))
        for number in range(100):
            assert json.loads((await client.answer()).body)["response"]["uid"] == f"u{number}"


# Too slow.


@asynccontextmanager
async def in_held_time(authority: Authority) -> AsyncIterator[tuple[Running, HeldClock]]:
    held = HeldClock()
    async with running(authority, limits=Limits(drain_seconds=0), clock=held.clock()) as webhook:
        yield webhook, held
        assert (await probe(webhook, "/readyz")).status == 200


def aborted(webhook: Running) -> dict[str, float]:
    counters = webhook.webhook.counts.snapshot().counters
    return {key[1]: value for key, value in counters.items() if key[0] == "restow_webhook_aborted_total" and value}


async def reaches(webhook: Running, name: str, value: float) -> None:
    while webhook.webhook.counts.snapshot().gauges[name,] < value:
        await asyncio.sleep(0.01)


async def closed_in_time(client: Client, held: HeldClock, seconds: float) -> bytes:
    """Let time pass, in such steps, until the connection is closed; return what came before."""
    closed = asyncio.create_task(client.closed())
    while not closed.done():
        held.seconds += seconds
        await asyncio.wait((closed,), timeout=0.1)
    return closed.result()


async def test_half_sent_headers_end(authority: Authority) -> None:
    """One byte a minute would keep a connection, and what is read for it, for ever."""
    async with in_held_time(authority) as (webhook, held), connected(webhook) as slow, connected(webhook) as idle:
        await slow.send(head()[:-2])
        await reaches(webhook, "restow_webhook_connections", 2)
        held.seconds += 9
        await slow.send(b"X-More: 1\r\n")
        assert (await idle.post(review(old()))).status == 200
        assert await closed_in_time(slow, held, 2) == b""
        assert aborted(webhook) == {"headers": 1}
        assert (await idle.post(review(old()))).status == 200, "an idle connection has nothing to hurry with"


async def test_half_sent_headers_of_a_later_request_end_too(authority: Authority) -> None:
    """A connection that was good for one request is not trusted with the next."""
    async with in_held_time(authority) as (webhook, held), connected(webhook) as slow:
        assert (await slow.post(review(old()))).status == 200
        held.seconds += 60
        await slow.send(head()[:20])
        assert await closed_in_time(slow, held, 11) == b""
        assert aborted(webhook) == {"headers": 1}


async def test_half_sent_bodies_end(authority: Authority) -> None:
    """A client that announces a body and stalls would hold its share of memory."""
    async with in_held_time(authority) as (webhook, held), connected(webhook) as slow, connected(webhook) as crawling:
        await slow.send(head(content_length="1000") + b"{" * 500)
        await crawling.send(head(content_length="10000000") + b"{" * 2_000_000)
        await reaches(webhook, "restow_webhook_bytes_in_flight", 2_000_500)
        held.seconds += 4
        assert aborted(webhook) == {}
        held.seconds += 2
        assert await slow.closed() == b""
        assert aborted(webhook) == {"body": 1}
        await crawling.send(b"{" * 100)
        held.seconds += 6
        assert await crawling.closed() == b""
        assert aborted(webhook) == {"body": 2}
        while webhook.webhook.counts.snapshot().gauges["restow_webhook_bytes_in_flight",]:
            await asyncio.sleep(0.01)


async def test_a_body_that_gets_on_has_the_time_of_a_request(authority: Authority) -> None:
    """A slow link is no attack; but an API server gives up after 30 seconds, so a later body is not worth reading."""
    async with in_held_time(authority) as (webhook, held), connected(webhook) as slow:
        await slow.send(head(content_length="10000000") + b"{" * 2_000_000)
        async with connected(webhook) as stalled:
            await stalled.send(head(content_length="1000") + b"{")
            await reaches(webhook, "restow_webhook_bytes_in_flight", 2_000_001)
            held.seconds += 6
            assert await stalled.closed() == b""
        assert aborted(webhook) == {"body": 1}
        await slow.send(b"{" * 2_000_000)
        await reaches(webhook, "restow_webhook_bytes_in_flight", 4_000_000)
        held.seconds += 30
        assert await slow.closed() == b""
        assert aborted(webhook) == {"body": 2}


async def test_stalled_bodies_make_room(authority: Authority) -> None:
    """Two clients that send all but the last byte of the largest bodies would have everybody else come again."""
    held = HeldClock()
    limits = Limits(body=4_000_000, object=1_000_000, in_flight=8_000_000, drain_seconds=0)
    async with AsyncExitStack() as stack, running(authority, limits=limits, clock=held.clock()) as webhook:
        clients = [await stack.enter_async_context(connected(webhook)) for _ in range(10)]
        for number in range(8):  # three large ones are more than large ones may hold; five small ones take the rest
            await clients[number].send(head(content_length=str(3_000_000 if number < 3 else 950_000)))
        for client in clients[:2]:
            await client.send(b"x" * 2_999_999)
        await reaches(webhook, "restow_webhook_bytes_in_flight", 5_999_998)
        await clients[2].send(b"x" * 1_100_000)
        assert (await clients[2].answer()).status == 429, "a share is left for small ones"
        for number, client in enumerate(clients[3:5], 1):
            await client.send(b"x" * 949_999)
            await reaches(webhook, "restow_webhook_bytes_in_flight", 5_999_998 + number * 949_999)
        assert (await clients[8].post(review(old(host="x" * 500_000)))).status == 429, "nobody was slow yet"
        held.seconds += 1.5
        assert (await clients[9].post(review(old(host="x" * 500_000)))).status == 200
        assert await clients[0].closed() == b"", "the one that has been coming longest makes room"
        assert aborted(webhook) == {"body": 1}


async def test_answers_that_nobody_reads_end(authority: Authority) -> None:
    """A large answer that waits for its client holds the whole of its memory."""
    body = review(*(old(f"g{number}", host="x" * 10_000) for number in range(2000)))
    async with in_held_time(authority) as (webhook, held), connected(webhook, reads=False) as slow:
        await slow.send(head(content_length=str(len(body))) + body)
        while not webhook.webhook.counts.snapshot().counters.get(
            ("restow_conversion_reviews_total", "gateways.edge.example.dev", "success")
        ):
            await asyncio.sleep(0.01)
        held.seconds += 36
        while aborted(webhook) != {"answer": 1}:
            await asyncio.sleep(0.01)
        while webhook.webhook.counts.snapshot().gauges["restow_webhook_bytes_in_flight",]:
            await asyncio.sleep(0.01)


async def test_answers_that_nobody_reads_make_room(authority: Authority) -> None:
    """A client that sends reviews and reads no answer would hold all memory for bodies."""
    held = HeldClock()
    limits = Limits(body=9_000_000, object=9_000_000, in_flight=20_000_000, drain_seconds=0)
    body = review(*(old(f"g{number}", host="x" * 100_000) for number in range(80)))
    async with AsyncExitStack() as stack, running(authority, limits=limits, clock=held.clock()) as webhook:
        converted = ("restow_conversion_reviews_total", "gateways.edge.example.dev", "success")
        for number in range(4):
            client = await stack.enter_async_context(connected(webhook, reads=False))
            await client.send(head(content_length=str(len(body))) + body)
            while webhook.webhook.counts.snapshot().counters.get(converted, 0) <= number:
                await asyncio.sleep(0.01)
            held.seconds += 1
        async with connected(webhook) as other:
            assert (await other.post(review(old()))).status == 200
        assert aborted(webhook).keys() == {"answer"}
        assert webhook.webhook.counts.snapshot().gauges["restow_webhook_bytes_in_flight",] <= 20_000_000


async def test_slow_clients_of_the_probes_end(authority: Authority) -> None:
    """The plain port is open to the same people."""
    async with in_held_time(authority) as (webhook, held), connected(webhook, probes=True) as slow:
        await slow.send(b"GET /livez HTTP/1.1\r\nHos")
        assert await closed_in_time(slow, held, 11) == b""


async def test_a_client_that_leaves_takes_its_review_with_it(webhook: Running) -> None:
    """The review of a client that has left is not converted, and its memory is free again."""
    async with connected(webhook) as client:
        await client.send(head(content_length="1000") + b"{" * 500)
        await reaches(webhook, "restow_webhook_bytes_in_flight", 500)


async def test_a_connection_without_tls_ends(webhook: Running) -> None:
    """Plain HTTP on the TLS port is no handshake."""
    reader, writer = await asyncio.open_connection(LOOPBACK, webhook.port)
    plain = Client(reader, writer)
    await plain.send(head(content_length="0"))
    assert b"HTTP" not in await plain.closed()
    writer.close()


async def test_a_handshake_that_never_comes_ends(authority: Authority) -> None:
    """A connection that says nothing at all is not even HTTP yet."""
    async with running(authority, limits=Limits(handshake_seconds=0.05, drain_seconds=0)) as webhook:
        reader, writer = await asyncio.open_connection(LOOPBACK, webhook.port)
        assert await Client(reader, writer).closed() == b""
        assert aborted(webhook) == {"handshake": 1}
        writer.close()
        async with connected(webhook) as client:
            assert (await client.post(review(old()))).status == 200


def test_a_connection_is_kept_longer_than_an_api_server_keeps_it() -> None:
    """A connection closed just when it is used again is a failed request: a POST is not sent twice."""
    assert Limits().idle_seconds > 90
    assert Limits().request_seconds > 30


# Not what it should be.

DEEP = b"[" * 20_000 + b"]" * 20_000
OBJECT = json.dumps(old()).encode()


def with_object(text: bytes) -> bytes:
    return review().replace(b'"objects":[]', b'"objects":[' + text + b"]")


@pytest.mark.parametrize("pad", [0, 150_000])
@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\x00\xff\xfe",
        b"{" * 50_000,
        DEEP,
        b'{"request":' + DEEP + b"}",
        b'"ConversionReview"',
        with_object(OBJECT).replace(b"ConversionReview", b"conversionreview"),
        with_object(OBJECT).replace(b'"request":{', b'"request":[{'),
        with_object(OBJECT).replace(b'"uid":"u"', b'"uid":{}'),
        with_object(b"NaN"),
        with_object(b"Infinity"),
        with_object(b'{"a":1,}'),
        with_object(OBJECT + b","),
        with_object(OBJECT) + with_object(OBJECT),
        with_object(OBJECT.replace(b'"spec": {', b'"spec": {"listeners":' + DEEP.replace(b"]", b"}") + b",")),
        with_object(OBJECT.replace(b'"spec": {', b'"spec": {"listeners":' + DEEP + b",").replace(b"}", b"]")),
        with_object(OBJECT.replace(b'"metadata": {', b'"metadata": {"labels":' + DEEP[1:] + b",")),
    ],
)
async def test_what_is_no_review_is_refused(webhook: Running, body: bytes, pad: int) -> None:
    """Small or large: 400, a sentence, and the connection is good for the next one."""
    async with connected(webhook) as client:
        answer = await client.post(b" " * pad + body)
        assert answer.status == 400
        assert "the body is no ConversionReview" in answer.message
        assert (await client.post(review(old()))).status == 200


@pytest.mark.parametrize("pad", [0, 150_000])
@pytest.mark.parametrize(
    "text",
    [
        b"null",
        b"[]",
        b'"x"',
        b"{}",
        b'{"apiVersion":1,"kind":"Gateway"}',
        b'{"apiVersion":"edge.example.dev/v1alpha1","kind":{}}',
        b'{"apiVersion":"edge.example.dev/v1alpha1","kind":"Other"}',
        b'{"apiVersion":"edge.example.dev/v9","kind":"Gateway"}',
        b'{"apiVersion":"evil.example.dev/v1alpha1","kind":"Gateway"}',
        DEEP,
        OBJECT.replace(b'"spec": {', b'"spec": {"listeners":' + DEEP + b","),
        OBJECT.replace(b'"metadata": {', b'"metadata": {"labels":' + DEEP + b","),
        OBJECT.replace(b'"spec": {', b'"more": ' + DEEP + b',"spec": {'),
    ],
)
async def test_what_is_no_object_fails_its_review(webhook: Running, text: bytes, pad: int) -> None:
    """The envelope is fine, so the answer is one: Failure, with a message."""
    async with connected(webhook) as client:
        answer = await client.post(b" " * pad + with_object(OBJECT + b"," + text))
    result = json.loads(answer.body)["response"]["result"]
    assert (answer.status, result["status"]) == (200, "Failure")
    assert "1 of 2 objects cannot be converted" in result["message"]


async def test_an_object_that_is_too_deep_is_logged_and_counted(
    webhook: Running, caplog: pytest.LogCaptureFixture
) -> None:
    """An object that is too deep fails all reads of its kind, so the log and the counter show it as a failure."""
    deep = OBJECT.replace(b'"spec": {', b'"spec": {"more":' + DEEP + b",").replace(b'"g"', b'"deep"')
    with caplog.at_level(logging.INFO):
        async with connected(webhook) as client:
            answer = await client.post(with_object(OBJECT + b"," + deep))
    assert answer.status == 200
    counters = webhook.webhook.counts.snapshot().counters
    counted = {key[2:]: value for key, value in counters.items() if key[0] == "restow_conversion_objects_total"}
    assert counted == {("v1alpha1", "v1", "success"): 1, ("v1alpha1", "v1", "failure"): 1}
    (line,) = [json.loads(each.message) for each in caplog.records if "conversion failed" in each.message]
    assert line["first"].startswith("[1] Gateway default/deep (edge.example.dev/v1alpha1): it is, or became, nested")


async def test_what_is_odd_but_json_is_converted(webhook: Running, api: ApiServer) -> None:
    """Integers of any size, duplicate names, no objects, escapes: what Go would take is taken."""
    assert await api.convert(webhook.url) == []
    odd = OBJECT.replace(b'"spec": {', b'"spec": {"host":"first","big":' + b"9" * 30 + b',"low":-9223372036854775808,')
    async with connected(webhook) as client:
        answer = await client.post(with_object(odd.replace(b'"example.com"', b'"\\u003c\\ud83d\\ude00\\u0000"')))
    (found,) = json.loads(answer.body)["response"]["convertedObjects"]
    assert found["spec"]["host"] == "<😀\x00"
    assert found["spec"]["low"] == -(2**63)
    assert found["spec"]["big"] == pytest.approx(10**30)
    assert (found["apiVersion"], old()["apiVersion"]) == (HUB, OLD)
    assert {**found, "spec": {}} == {**new(), "spec": {}}


@pytest.mark.parametrize(
    "line",
    [
        b"\x16\x03\x01secret-bytes",
        b"POST\r\n\r\n",
        b"POST / HTTP/9.9\r\nsecret-header\r\n\r\n",
        b"POST / HTTP/1.1\r\nContent-Length: secret-length\r\n\r\n",
        b"POST / HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
        b"POST / HTTP/1.1\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"POST / HTTP/1.1\r\nX: " + b"secret" * 100_000 + b"\r\n\r\n",
        b"POST /" + b"x" * 100_000 + b" HTTP/1.1\r\n\r\n",
    ],
)
async def test_what_is_no_http_is_hung_up_on_and_not_quoted(
    webhook: Running, line: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    """A log line for every such byte would let anybody write into the log, and fill it."""
    with caplog.at_level(logging.DEBUG):
        for _ in range(3):
            async with connected(webhook) as client:
                await client.send(line)
                assert b" 400 " in (await client.closed())[:20]
    assert "secret" not in caplog.text
    (record,) = (each for each in caplog.records if each.name.startswith(("aiohttp", "restow")))
    assert json.loads(record.message) == {"event": "refused", "why": "no-http", "peer": LOOPBACK, "count": 1}
    assert refused(webhook) == {"no-http": 3}


async def test_a_chunk_that_is_none_is_refused(webhook: Running) -> None:
    """The body's end cannot be told any more, so the connection ends as well."""
    async with connected(webhook) as client:
        await client.send(head(transfer_encoding="chunked") + b"5\r\nhello\r\nsecret\r\n")
        assert b" 400 " in (await client.closed())[:20]
