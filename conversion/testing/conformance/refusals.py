"""Cases of objects that cannot be converted and must fail as a whole and with a reason; and of the idle connection."""

from __future__ import annotations

import asyncio
import re

from restow.conversion.model.values import Json
from restow.conversion.reviews.responsechecks import ResponseRejected, check_result, check_uid, converted_objects
from restow.conversion.testing.conformance.case import (
    Exchange,
    NotConformant,
    Skipped,
    WebhookUnderTest,
    asked,
    expect,
    must,
    should,
)

_NO_VERSION = "v0unknown"
_BAD_NAME = "the-bad-one"


@must(
    "unknown-version",
    "While CRD and webhook differ in an upgrade, objects would be stored unconverted.",
    "kubevirt/hyperconverged-cluster-operator#4549",
)
async def _unknown_version(webhook: WebhookUnderTest) -> None:
    """A version that the webhook does not know fails."""
    exchange = await _to_no_version(webhook)
    expect(not _succeeded(exchange), "a version that does not exist was answered with Success")


@should("unknown-kind", "A CRD that points to the wrong webhook would corrupt its objects.", "webhook_converter.go")
async def _unknown_kind(webhook: WebhookUnderTest) -> None:
    """A kind that the webhook does not know fails."""
    source, target = webhook.samples.ways[0]
    exchange = await webhook.ask([{**webhook.samples.full(source), "kind": "NoSuchKind"}], target)
    expect(not _succeeded(exchange), "a kind that does not exist was answered with Success")


@must(
    "one-bad-object",
    "It would be stored unconverted, or others taken for it.",
    "webhook_converter.go (never partial)",
)
async def _one_bad_object(webhook: WebhookUnderTest) -> None:
    """One object that cannot be converted fails its review."""
    exchange = await _with_a_bad_one(webhook)
    expect(not _succeeded(exchange), "a review with an object of an unknown version was answered with Success")


@should(
    "failure-says-why",
    "With any other status clients see only that the webhook failed.",
    "webhook_converter.go; client-go NewGenericServerResponse",
)
async def _failure_says_why(webhook: WebhookUnderTest) -> None:
    """A failure is a 200 with the uid, `Failure` and a message."""
    exchange = await _to_no_version(webhook)
    if _succeeded(exchange):
        raise Skipped("what cannot be converted did not fail")
    expect(exchange.http.status == 200, f"a failure was answered with the status {exchange.http.status}, not 200")
    with asked("a version that does not exist"):
        check_uid(exchange.sent, exchange.answer)
    expect(exchange.result.get("status") == "Failure", "result.status of a failure is not `Failure`")
    expect(exchange.result.get("message"), "a failure came without result.message")


@should(
    "bad-object-named",
    "One bad object hides all of its kind, and the message does not name it.",
    "openservicemesh#4601",
)
async def _bad_object_named(webhook: WebhookUnderTest) -> None:
    """The message names the object that cannot be converted."""
    exchange = await _with_a_bad_one(webhook)
    if _succeeded(exchange):
        raise Skipped("what cannot be converted did not fail")
    with asked("a review with an object of an unknown version"):
        message = str(exchange.result.get("message", ""))
    expect(_BAD_NAME in message, "result.message does not name the object that could not be converted")


@should("malformed-body", "A crash would look like an outage.", "HTTP")
async def _malformed(webhook: WebhookUnderTest) -> None:
    """A body that is no JSON is refused with a 4xx."""
    answer = await webhook.caller.call(b'{"kind": "ConversionReview", "apiVersion": ')
    expect(400 <= answer.status < 500, f"a body that is no JSON was answered with the status {answer.status}")


@should("wrong-method", "Probes that miss their path would look healthy.", "HTTP")
async def _wrong_method(webhook: WebhookUnderTest) -> None:
    """A GET is refused with 405."""
    answer = await webhook.caller.call(b"", method="GET")
    expect(answer.status in (404, 405), f"a GET was answered with the status {answer.status}, not 405")


_KEPT_S = 90  # apimachinery pkg/util/net/http.go IdleConnTimeout


@must(
    "keep-alive",
    "A request that meets the close fails with EOF; POSTs are not sent again.",
    "apimachinery pkg/util/net/http.go; kubernetes#127335",
)
async def keep_alive(webhook: WebhookUnderTest) -> None:
    """An idle connection stays open for more than 90 s (tested for as long as --idle says)."""
    async with webhook.alone() as other:
        first = await other.ask_first()
        closing = first.http.headers.get("Connection", "").lower() == "close"
        expect(not closing, "the answer closes the connection (Connection: close)")
        announced = re.search(r"timeout=(\d+)", first.http.headers.get("Keep-Alive", ""))
        if announced is not None and int(announced[1]) <= _KEPT_S:
            raise NotConformant(f"the server announces to close idle connections after {announced[1]} s, not after 90")
        await asyncio.sleep(other.idle_s)
        expect((await other.ask_first()).http.reused, f"the connection was closed within {other.idle_s:g} s")


async def _to_no_version(webhook: WebhookUnderTest) -> Exchange:
    source, _ = webhook.samples.ways[0]
    return await webhook.ask([webhook.samples.full(source)], _NO_VERSION)


async def _with_a_bad_one(webhook: WebhookUnderTest) -> Exchange:
    source, target = webhook.samples.ways[0]
    good, last = webhook.samples.full(source, 1), webhook.samples.full(source, 2)
    bad: Json = {**good, "apiVersion": webhook.samples.api_version(_NO_VERSION)}
    bad["metadata"] = {**good["metadata"], "name": _BAD_NAME}
    return await webhook.ask([good, bad, last], target)


def _succeeded(exchange: Exchange) -> bool:
    """Whether an API server would accept the answer."""
    try:
        check_result(exchange.answer)
    except ResponseRejected:
        return False
    return bool(converted_objects(exchange.answer))
