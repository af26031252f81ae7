"""What the webhook answers, over TLS."""

from __future__ import annotations

import asyncio
import json
import logging

import pytest
from prometheus_client.parser import text_string_to_metric_families

from restow.conversion.server import Limits, ServerPhase
from tests.conversion.server.apiserver import ApiServer, Failed, review
from tests.conversion.server.gateways import CRD_NAME, HUB, OLD, new, old
from tests.conversion.server.rawhttp import connected, probe
from tests.conversion.server.webhooks import GATEWAYS, Authority, Running, running


async def test_objects_are_converted(webhook: Running, api: ApiServer) -> None:
    """In the order they came, whatever version each has."""
    answered = await api.convert(webhook.url, old("a", timeoutSeconds=5), new("b"), old("c"))
    assert answered == [new("a", timeout="5s"), new("b"), new("c")]
    assert await api.convert(webhook.url, new("a", timeout="5s"), to=OLD) == [old("a", timeoutSeconds=5)]


async def test_large_reviews_are_converted_the_same(webhook: Running, api: ApiServer) -> None:
    """Large reviews are read and written in another way; the answers must not differ."""
    objects = [old(f"g{number}", listeners=[{"title": "é" * 50}]) for number in range(3000)]
    answered = await api.convert(webhook.url, *objects)
    assert answered == [new(each["metadata"]["name"], listeners=[{"name": "é" * 50}]) for each in objects]


async def test_the_connection_is_used_again(webhook: Running) -> None:
    """A handshake for each object would cost more than its conversion."""
    async with connected(webhook) as client:
        for _ in range(3):
            answer = await client.post(review(old()))
            assert (answer.status, answer.headers.get("connection")) == (200, None)
        assert answer.headers["content-type"] == "application/json"


async def test_a_body_may_come_in_any_pieces(webhook: Running) -> None:
    """Chunked, or byte by byte: that is up to the client's library."""
    body = review(old())
    async with connected(webhook) as client:
        chunked = b"".join(
            b"%x\r\n%s\r\n" % (len(body[at : at + 50]), body[at : at + 50]) for at in range(0, len(body), 50)
        )
        await client.send(_head("Transfer-Encoding: chunked") + chunked + b"0\r\n\r\n")
        assert (await client.answer()).status == 200
        await client.send(_head(f"Content-Length: {len(body)}"))
        for byte in body:
            await client.send(bytes([byte]))
        assert (await client.answer()).status == 200
        await client.send(_head(f"Content-Length: {len(body)}", "Expect: 100-continue"))
        assert (await client.reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 100 ")
        await client.send(body)
        assert (await client.answer()).status == 200


def _head(*lines: str) -> bytes:
    return "\r\n".join((f"POST {GATEWAYS}?timeout=30s HTTP/1.1", "Host: x", *lines, "", "")).encode()


async def test_a_failed_review_is_http_200(webhook: Running, caplog: pytest.LogCaptureFixture) -> None:
    """The API server shows the message only with HTTP 200. It names every object; it and the log show no values."""
    body = review(old("fine"), old("bad", timeoutSeconds=-1, host="secret-host"), old("worse", timeoutSeconds=-2))
    with caplog.at_level(logging.DEBUG):
        async with connected(webhook) as client:
            answer = await client.post(body)
    assert answer.status == 200
    response = json.loads(answer.body)["response"]
    assert (response["result"]["status"], response["convertedObjects"]) == ("Failure", [])
    message = response["result"]["message"]
    assert "2 of 3 objects" in message
    assert "default/bad" in message
    assert "default/worse" in message
    (line,) = [json.loads(each.message) for each in caplog.records if each.name.startswith("restow")]
    assert (line["event"], line["crd"], line["to"], line["objects"], line["failed"]) == (
        "conversion failed",
        CRD_NAME,
        "v1",
        3,
        2,
    )
    assert "secret" not in caplog.text + message
    assert "-1" not in message


async def test_a_large_review_that_failed_stops_early(webhook: Running) -> None:
    """A hundred thousand failures would be collected for a message that shows ten."""
    objects = [old(f"g{number}", timeoutSeconds=-1, host="x" * 100) for number in range(3000)]
    async with connected(webhook) as client:
        answer = await client.post(review(*objects))
    result = json.loads(answer.body)["response"]["result"]
    assert result["status"] == "Failure"
    assert result["message"].startswith("1000 of 1000 objects")


@pytest.mark.parametrize(
    ("method", "path", "status", "message"),
    [
        (
            "POST",
            "/convert/nothing.example.dev",
            404,
            f"this webhook has no '/convert/nothing.example.dev', only {GATEWAYS}",
        ),
        ("POST", "/", 404, "this webhook has no '/'"),
        ("POST", f"{GATEWAYS}/", 404, "this webhook has no"),
        ("GET", GATEWAYS, 405, f"{GATEWAYS} takes POST only"),
        ("PUT", GATEWAYS, 405, f"{GATEWAYS} takes POST only"),
        ("POST", GATEWAYS, 400, "the body is no ConversionReview"),
    ],
)
async def test_what_is_not_served_is_told_in_a_sentence(
    webhook: Running, method: str, path: str, status: int, message: str
) -> None:
    """The API server shows the message of a Status; without one its user reads that something was not found."""
    async with connected(webhook) as client:
        answer = await client.post(b"{}", method=method, path=path)
    assert (answer.status, answer.headers["content-type"]) == (status, "application/json")
    assert answer.message.startswith(message)


async def test_while_starting_it_asks_to_come_again(authority: Authority, api: ApiServer) -> None:
    """An API server does so by itself after 503 with Retry-After; any other error it passes on to its user."""
    async with running(authority, phase=ServerPhase.STARTING) as webhook:
        async with connected(webhook) as client:
            answer = await client.post(review(old()))
        assert (answer.status, answer.headers["retry-after"]) == (503, "1")
        assert (await probe(webhook, "/readyz")).status == 503
        assert (await probe(webhook, "/livez")).status == 200
        asked = asyncio.create_task(api.convert(webhook.url, old()))
        while not api.retried:
            await asyncio.sleep(0.01)
        webhook.webhook.phase = ServerPhase.SERVING
        assert (await probe(webhook, "/readyz")).status == 200
        assert await asked == [new()]


async def test_too_many_bytes_at_once_are_asked_to_come_again(authority: Authority, api: ApiServer) -> None:
    """Beyond what the process can hold the answer is 429: better late than the process killed with all it does."""
    limits = Limits(body=100_000, in_flight=100_000, drain_seconds=0)
    async with running(authority, limits=limits) as webhook:
        async with connected(webhook) as hog:
            await hog.send(_head("Content-Length: 99000") + b" " * 98_000)
            while webhook.webhook.counts.snapshot().gauges["restow_webhook_bytes_in_flight",] < 98_000:
                await asyncio.sleep(0.01)
            async with connected(webhook) as client:
                answer = await client.post(review(old(host="x" * 5000)))
                assert (answer.status, answer.headers["retry-after"]) == (429, "1")
            assert await api.convert(webhook.url, old()) == [new()], "what still fits is served"
            asked = asyncio.create_task(api.convert(webhook.url, old(host="x" * 5000)))
            while not api.retried:
                await asyncio.sleep(0.01)
        assert len(await asked) == 1
        assert webhook.webhook.counts.snapshot().gauges["restow_webhook_bytes_in_flight",] == 0


async def test_what_was_served_is_counted(webhook: Running, api: ApiServer) -> None:
    """Counters by CRD and version show that clients still use a version that is to be removed."""
    await api.convert(webhook.url, old("a"), old("b"), new("c"))
    await api.convert(webhook.url, new("a"), to=OLD)
    with pytest.raises(Failed):
        await api.convert(webhook.url, old("a"), old("bad", timeoutSeconds=-1), {"kind": "x"})
    with pytest.raises(Failed):
        await api.convert(webhook.url, old(), to="evil.example.dev/v1")
    with pytest.raises(Failed):
        await api.convert(webhook.url.replace("gateways", "others"), old())
    async with connected(webhook) as client:
        assert (await client.post(path="/")).status == 404
        async with connected(webhook):
            text = (await probe(webhook, "/metrics")).body.decode()
    samples = [each for family in text_string_to_metric_families(text) for each in family.samples]
    found = {(each.name, tuple(sorted(each.labels.items()))): each.value for each in samples}

    def counted(name: str, **labels: str) -> float:
        return found[name, tuple(sorted(labels.items()))]

    def objects(source: str, target: str, result: str) -> float:
        labels = {"crd": CRD_NAME, "from_version": source, "to_version": target, "result": result}
        return counted("restow_conversion_objects_total", **labels)

    assert counted("restow_conversion_reviews_total", crd=CRD_NAME, result="success") == 2
    assert counted("restow_conversion_reviews_total", crd=CRD_NAME, result="failure") == 2
    assert objects("v1alpha1", "v1", "success") == 3
    assert objects("v1", "v1", "success") == 1
    assert objects("v1", "v1alpha1", "success") == 1
    assert objects("v1alpha1", "v1", "failure") == 1
    assert objects("unknown", "v1", "failure") == 1
    assert objects("v1alpha1", "unknown", "failure") == 1
    assert counted("restow_webhook_refused_total", why="no-such-path") == 2
    assert counted("restow_conversion_seconds_count", crd=CRD_NAME) == 4
    assert counted("restow_conversion_request_bytes_total", crd=CRD_NAME) > 1000
    assert counted("restow_conversion_response_bytes_total", crd=CRD_NAME) > 500
    assert counted("restow_webhook_connections") == 1
    assert counted("restow_webhook_bytes_in_flight") == 0
    assert counted("restow_webhook_certificate_loads_total", result="loaded") == 1
    assert counted("restow_webhook_certificate_expiry_timestamp_seconds") > 1.7e9


async def test_probes_are_on_a_port_of_their_own(webhook: Running) -> None:
    """A kubelet, or a scraper, has no certificate to trust; and no client of the webhook reads its metrics."""
    assert (await probe(webhook, "/livez")).body == b"ok\n"
    assert (await probe(webhook, "/readyz")).body == b"ok\n"
    assert (await probe(webhook, "/metrics")).headers["content-type"].startswith("text/plain; version=0.0.4")
    assert (await probe(webhook, GATEWAYS)).status == 404
    async with connected(webhook) as client:
        assert (await client.post(method="GET", path="/metrics")).status == 404


async def test_a_large_review_leaves_probes_their_turn(authority: Authority, api: ApiServer) -> None:
    """A kubelet kills what does not answer; leases are lost, and small reviews wait, in the same way."""
    objects = [old(f"g{number}", listeners=[{"title": f"l{each}"} for each in range(40)]) for number in range(12000)]
    size = len(review(*objects))
    probes = 0
    limits = Limits(slice_seconds=0.001, drain_seconds=0)
    async with running(authority, limits=limits) as webhook, connected(webhook, probes=True) as client:
        asked = asyncio.create_task(api.convert(webhook.url, *objects))
        numbers = webhook.webhook.counts.snapshot
        while not asked.done() and numbers().gauges["restow_webhook_bytes_in_flight",] < size:
            await asyncio.sleep(0.001)
        success = ("restow_conversion_reviews_total", CRD_NAME, "success")
        while not asked.done() and not numbers().counters.get(success):
            assert (await client.post(path="/livez", method="GET")).status == 200
            probes += 1
        assert len(await asked) == len(objects)
    assert probes >= 10


async def test_a_defect_is_answered_and_told_without_the_body(
    webhook: Running, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The text of an exception or a traceback may show values of an object."""

    def broken(*_arguments: object, **_more: object) -> None:
        raise RuntimeError("secret-host")

    monkeypatch.setattr("restow.conversion.reviews.tally.Review", broken)
    with caplog.at_level(logging.DEBUG):
        async with connected(webhook) as client:
            answer = await client.post(review(old()))
    assert answer.status == 500
    line = json.loads(caplog.records[-1].message)
    assert (line["event"], line["error"]) == ("defect", "RuntimeError")
    assert "test_webhook.py:" in line["place"]
    assert "secret" not in caplog.text + answer.message


async def test_hub_and_version_are_those_of_the_tests() -> None:
    """The cases above are about this direction."""
    assert (OLD, HUB) == ("edge.example.dev/v1alpha1", "edge.example.dev/v1")
