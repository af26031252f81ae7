"""``/livez``, ``/readyz`` and ``/metrics``, on a plain port: kubelets and scrapers have no certificate to trust."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus

from aiohttp import web

__all__ = ["Probes"]

#: What prometheus_client's own server says of the format.
_METRICS = {"Content-Type": "text/plain; version=0.0.4; charset=utf-8"}


@dataclass(frozen=True, slots=True)
class Probes:
    """Answers probes.

    Attributes:
        unready: why the process should get no requests now; empty if it should.
        metrics: the text that is scraped.
    """

    unready: Callable[[], str]
    metrics: Callable[[], bytes]

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer one HTTP request."""
        match request.raw_path.partition("?")[0]:
            case "/livez":
                return web.Response(text="ok\n")
            case "/readyz":
                reason = self.unready()
                status = HTTPStatus.SERVICE_UNAVAILABLE if reason else HTTPStatus.OK
                return web.Response(text=f"{reason or 'ok'}\n", status=status)
            case "/metrics":
                return web.Response(body=self.metrics(), headers=_METRICS)
        return web.Response(text="there are /livez, /readyz and /metrics\n", status=HTTPStatus.NOT_FOUND)
