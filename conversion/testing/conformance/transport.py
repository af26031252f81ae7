"""The case of the connection: an API server keeps it for 90 seconds, and does not send a lost POST again."""

from __future__ import annotations

import asyncio
import re

from restow.conversion.model.values import Json
from restow.conversion.testing.conformance.case import Case, NotConformant, Severity, WebhookUnderTest, expect

__all__ = ["CASES", "KEEP_ALIVE"]

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

CASES = (KEEP_ALIVE,)
