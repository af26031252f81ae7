"""Cases of objects that cannot be converted and must fail as a whole and with a reason; and of the idle connection."""

from __future__ import annotations

import asyncio
import re

from restow.conversion.model.values import Json
from restow.conversion.reviews.responsechecks import ResponseRejected, check_result, check_uid, converted_objects
from restow.conversion.testing.conformance.case import (
    Case,
    Exchange,
    NotConformant,
    Severity,
    Skipped,
    WebhookUnderTest,
    asked,
    expect,
)

_NO_VERSION = "v0unknown"
_BAD_NAME = "the-bad-one"


async def _unknown_version(webhook: WebhookUnderTest) -> None:
    exchange = await _to_no_version(webhook)
    expect(not _succeeded(exchange), "a version that does not exist was answered with Success")


async def _unknown_kind(webhook: WebhookUnderTest) -> None:
    source, target = webhook.samples.ways[0]
    obj = {**webhook.samples.full(source), "kind": "NoSuchKind"}
    exchange = await webhook.ask([obj], target)
    expect(not _succeeded(exchange), "a kind that does not exist was answered with Success")


async def _failure_says_why(webhook: WebhookUnderTest) -> None:
    exchange = await _to_no_version(webhook)
    if _succeeded(exchange):
        raise Skipped("what cannot be converted did not fail")
    expect(exchange.http.status == 200, f"a failure was answered with the status {exchange.http.status}, not 200")
    with asked("a version that does not exist"):
        check_uid(exchange.sent, exchange.answer)
    expect(exchange.result.get("status") == "Failure", "result.status of a failure is not `Failure`")
    expect(exchange.result.get("message"), "a failure came without result.message")


async def _one_bad_object(webhook: WebhookUnderTest) -> None:
    exchange = await _with_a_bad_one(webhook)
    expect(not _succeeded(exchange), "a review with an object of an unknown version was answered with Success")


async def _bad_object_named(webhook: WebhookUnderTest) -> None:
    exchange = await _with_a_bad_one(webhook)
    if _succeeded(exchange):
        raise Skipped("what cannot be converted did not fail")
    with asked("a review with an object of an unknown version"):
        message = str(exchange.result.get("message", ""))
    expect(_BAD_NAME in message, "result.message does not name the object that could not be converted")


async def _malformed(webhook: WebhookUnderTest) -> None:
    answer = await webhook.caller.call(b'{"kind": "ConversionReview", "apiVersion": ')
    expect(400 <= answer.status < 500, f"a body that is no JSON was answered with the status {answer.status}")


async def _wrong_method(webhook: WebhookUnderTest) -> None:
    answer = await webhook.caller.call(b"", method="GET")
    expect(answer.status in (404, 405), f"a GET was answered with the status {answer.status}, not 405")


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


_KEPT_S = 90  # apimachinery pkg/util/net/http.go IdleConnTimeout


async def _keep_alive(webhook: WebhookUnderTest) -> None:
    source, target = webhook.samples.ways[0]
    obj = webhook.samples.full(source)
    async with webhook.alone() as other:
        await _kept(other, obj, target)


async def _kept(webhook: WebhookUnderTest, obj: Json, target: str) -> None:
    first = await webhook.ask([obj], target)
    closing = first.http.headers.get("Connection", "").lower() == "close"
    expect(not closing, "the answer closes the connection (Connection: close)")
    announced = re.search(r"timeout=(\d+)", first.http.headers.get("Keep-Alive", ""))
    if announced is not None and int(announced[1]) <= _KEPT_S:
        raise NotConformant(f"the server announces to close idle connections after {announced[1]} s, not after 90")
    await asyncio.sleep(webhook.idle_s)
    again = await webhook.ask([obj], target)
    expect(again.http.reused, f"the connection was closed within {webhook.idle_s:g} s")


KEEP_ALIVE = Case(
    "keep-alive",
    Severity.MUST,
    "An idle connection stays open for more than 90 s (tested for as long as --idle says).",
    "A request that meets the close fails with EOF; POSTs are not sent again.",
    "apimachinery pkg/util/net/http.go; kubernetes#127335",
    _keep_alive,
)

CASES = (
    Case(
        "unknown-version",
        Severity.MUST,
        "A version that the webhook does not know fails.",
        "While CRD and webhook differ in an upgrade, objects would be stored unconverted.",
        "kubevirt/hyperconverged-cluster-operator#4549",
        _unknown_version,
    ),
    Case(
        "unknown-kind",
        Severity.SHOULD,
        "A kind that the webhook does not know fails.",
        "A CRD that points to the wrong webhook would corrupt its objects.",
        "webhook_converter.go",
        _unknown_kind,
    ),
    Case(
        "one-bad-object",
        Severity.MUST,
        "One object that cannot be converted fails its review.",
        "It would be stored unconverted, or others taken for it.",
        "webhook_converter.go (never partial)",
        _one_bad_object,
    ),
    Case(
        "failure-says-why",
        Severity.SHOULD,
        "A failure is a 200 with the uid, `Failure` and a message.",
        "With any other status clients see only that the webhook failed.",
        "webhook_converter.go; client-go NewGenericServerResponse",
        _failure_says_why,
    ),
    Case(
        "bad-object-named",
        Severity.SHOULD,
        "The message names the object that cannot be converted.",
        "One bad object hides all of its kind, and the message does not name it.",
        "openservicemesh#4601",
        _bad_object_named,
    ),
    Case(
        "malformed-body",
        Severity.SHOULD,
        "A body that is no JSON is refused with a 4xx.",
        "A crash would look like an outage.",
        "HTTP",
        _malformed,
    ),
    Case(
        "wrong-method",
        Severity.SHOULD,
        "A GET is refused with 405.",
        "Probes that miss their path would look healthy.",
        "HTTP",
        _wrong_method,
    ),
    KEEP_ALIVE,
)
