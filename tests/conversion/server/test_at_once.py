"""Small requests are answered without aiohttp's tasks, and no client may notice it but by the time."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from aiohttp import web

from restow.conversion import Graph, Registry, rules
from restow.conversion.server import WebhookServer
from restow.conversion.server.clientconnection import BUFFER
from tests.conversion.server.apiserver import review
from tests.conversion.server.gateways import CRD_NAME, new, old
from tests.conversion.server.rawhttp import Client, connected, head
from tests.conversion.server.webhooks import GATEWAYS, Authority, Running, running


async def _chunked(client: Client, body: bytes) -> Any:
    """Send a body in a way that only aiohttp takes."""
    await client.send(head(transfer_encoding="chunked") + b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body))
    return await client.answer()


async def test_a_small_review_needs_no_task(authority: Authority, monkeypatch: pytest.MonkeyPatch) -> None:
    """Through aiohttp's handler one object takes half as long again, and API servers send one object a review."""

    async def handled(_webhook: WebhookServer, _request: web.BaseRequest) -> web.StreamResponse:
        return web.Response(status=418)

    monkeypatch.setattr(WebhookServer, "handle", handled)
    body = review(old())
    async with running(authority) as webhook, connected(webhook) as client:
        assert (await _chunked(client, body)).status == 418, "the handler was replaced"
        assert (await client.post(body)).status == 200
        assert (await client.post(body)).status == 200


async def test_rules_that_change_hold_for_small_reviews_at_once(authority: Authority) -> None:
    """Rules in the cluster come, change and go while the webhook serves, and their reviews are small ones, too."""

    def renaming(name: str) -> Graph:
        registry = Registry()
        registry.kind("edge.example.dev", "Gateway", hub="v1").spoke("v1alpha1")(lambda: [rules.rename("host", name)])
        return registry.freeze()

    thing = {"apiVersion": "edge.example.dev/v1alpha1", "kind": "Gateway", "metadata": {"name": "a"}, "host": "h"}
    body = review(thing, to="edge.example.dev/v1")
    async with running(authority, conversions={}) as webhook, connected(webhook) as client:
        for name in ("server", "address"):
            webhook.webhook.serve(CRD_NAME, renaming(name))
            assert webhook.webhook.answer_at_once(GATEWAYS, body) is not None
            (converted,) = json.loads((await client.post(body)).body)["response"]["convertedObjects"]
            assert converted[name] == "h"
        webhook.webhook.withdraw(CRD_NAME)
        assert (await client.post(body)).status == 404


async def test_both_ways_give_the_same_answer(webhook: Running) -> None:
    """A header or a byte more on one of the ways would show in some proxy, some day."""
    for body in (review(old(timeoutSeconds=3), new("b")), review(old(timeoutSeconds=-1)), b"{}"):
        async with connected(webhook) as client:
            at_once, handled = await client.post(body), await _chunked(client, body)
        assert (at_once.status, at_once.body) == (handled.status, handled.body)
        assert at_once.headers.keys() == handled.headers.keys()
        assert {**at_once.headers, "date": ""} == {**handled.headers, "date": ""}


async def test_each_review_is_counted_once(webhook: Running) -> None:
    """A request that is tried at once and then handled, as every refusal is, must not count twice."""
    async with connected(webhook) as client:
        for body in (review(old()), review(old(timeoutSeconds=-1)), b"{}"):
            await client.post(body)
    counted = webhook.webhook.counts.snapshot().counters
    crd = "gateways.edge.example.dev"
    assert counted["restow_conversion_reviews_total", crd, "success"] == 1
    assert counted["restow_conversion_reviews_total", crd, "failure"] == 1
    assert counted["restow_webhook_refused_total", "no-review"] == 1


async def test_a_body_may_come_after_its_headers(webhook: Running) -> None:
    """Go writes the headers first; what comes within a moment is answered at once, what comes later is too."""
    body = review(old())
    async with connected(webhook) as client:
        for seconds in (0.0, 0.05):
            for split in (0, 1, len(body) - 1):
                await client.send(head(content_length=str(len(body))) + body[:split])
                await asyncio.sleep(seconds)
                await client.send(body[split:])
                assert (await client.answer()).status == 200


async def test_requests_that_come_together_are_answered_in_their_order(webhook: Running) -> None:
    """An answer that overtakes another one would be taken for the other one's."""
    uids = [f"u{number}" for number in range(7)]
    requests = [(head(content_length=str(len(body))) + body) for body in (review(old(), uid=uid) for uid in uids)]
    whole = b"".join(requests)
    async with connected(webhook) as client:
        for at in (len(whole), len(requests[0]), len(requests[0]) + 30, len(requests[0]) * 2 - 1, 10):
            await client.send(whole[:at])
            await asyncio.sleep(0.01)
            await client.send(whole[at:])
            answered = [json.loads((await client.answer()).body)["response"]["uid"] for _ in uids]
            assert answered == uids


async def test_an_answer_that_is_large_is_sent_with_its_limits(authority: Authority) -> None:
    """A function may make much of little; such an answer waits for its client to read it, and counts as in flight."""
    registry = Registry()
    registry.kind("big.example.dev", "Big", hub="v2").spoke("v1")(
        lambda: [rules.pair("a", "b", up=lambda text: text * BUFFER, down=lambda text: text[0], loses="down")]
    )
    obj = {"apiVersion": "big.example.dev/v1", "kind": "Big", "metadata": {"name": "b"}, "a": "xy"}
    async with running(authority, conversions={"bigs": registry.freeze()}) as webhook, connected(webhook) as client:
        answer = await client.post(review(obj, to="big.example.dev/v2"), path="/convert/bigs")
        counted = webhook.webhook.counts.snapshot().counters
    assert len(json.loads(answer.body)["response"]["convertedObjects"][0]["b"]) == 2 * BUFFER
    assert counted["restow_conversion_reviews_total", "bigs", "success"] == 1


async def test_a_client_that_does_not_read_is_sent_no_more(webhook: Running) -> None:
    """A client that sends requests and reads no answer would fill the memory with answers."""
    body = review(old(listeners=[{"title": "x" * 100} for _ in range(200)]))
    async with connected(webhook) as client:
        asked = 2000
        sending = asyncio.create_task(client.send((head(content_length=str(len(body))) + body) * asked))
        for _ in range(100):
            await asyncio.sleep(0.01)
            success = webhook.webhook.counts.snapshot().counters.get(
                ("restow_conversion_reviews_total", "gateways.edge.example.dev", "success"), 0
            )
        assert 0 < success < asked
        for _ in range(asked):
            assert (await client.answer()).status == 200
        await sending
