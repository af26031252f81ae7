"""Runs the server: the listening socket, its connections, probes and metrics, and an ordered shutdown.

A rolling restart loses no request if the endpoint is withdrawn before the server stops. A request to stop therefore
first makes the webhook unready. The webhook continues to serve while the endpoints change, with `Connection: close` on
every answer, so a client with open connections sends its next request elsewhere. Only then the socket and all idle
connections are closed, and requests in flight finish.

An embedding program runs it so:

    webhook = WebhookServer(conversions_by_crd(graph, crds))
    certificate = ServingCertificate(cert, key, counts=webhook.counts, clock=webhook.clock)
    webhook.phase = ServerPhase.SERVING
    await run_alone(webhook, certificate, bind("", 9443), bind("", 8080), stop)
"""

from __future__ import annotations

import asyncio
import platform
import socket
import ssl
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from http import HTTPStatus
from itertools import accumulate
from typing import Final, TypeVar

from aiohttp import web
from prometheus_client import CollectorRegistry, GCCollector, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric as Family
from prometheus_client.registry import Collector

from restow import __version__
from restow.conversion.server.connections import ClientConnections
from restow.conversion.server.metrics import BUCKETS, METRICS, Metric, Snapshot
from restow.conversion.server.tls import ServingCertificate
from restow.conversion.server.webhook import ServerPhase, WebhookServer

_BACKLOG: Final = 1024

#: How many connections are accepted before the open ones get their turn.
_ACCEPT: Final = 64

#: How many seconds to wait after accepting failed, so that a file can be closed meanwhile.
_AGAIN_SECONDS: Final = 0.1


def bind(host: str, port: int) -> socket.socket:
    """Return a listening TCP socket. Port 0: a free port. Empty host: all addresses, with IPv6 where possible.

    An IPv6 address may stand in brackets.

    Raises:
        OSError: the address cannot be bound, for example because the port is in use.
    """
    host = host.removeprefix("[").removesuffix("]")
    family = socket.AF_INET6 if ":" in host or (not host and socket.has_dualstack_ipv6()) else socket.AF_INET
    listener = socket.create_server(
        (host, port), family=family, backlog=_BACKLOG, dualstack_ipv6=not host and family == socket.AF_INET6
    )
    listener.setblocking(False)
    return listener


class _Acceptor:
    """Accepts connections on a socket until it is closed. asyncio's own way logs a traceback for each failed accept."""

    def __init__(self, connections: ClientConnections, listener: socket.socket, context: ssl.SSLContext | None) -> None:
        self._connections = connections
        self._listener = listener
        self._context = context
        self._loop = asyncio.get_running_loop()
        self._again: asyncio.TimerHandle | None = None
        self._making: set[asyncio.Task[None]] = set()

    def begin(self) -> None:
        """Accept connections from now on."""
        self._loop.add_reader(self._listener.fileno(), self._accept)

    async def finish(self) -> None:
        """Take the connections that the kernel has already established, then accept no more.

        The kernel connects clients before the process accepts them; closing the socket would reset these connections.
        """
        for _ in range(0, _BACKLOG, _ACCEPT):
            if self._listener.fileno() >= 0:
                self._accept()
        self.close()
        if self._making:
            await asyncio.wait(self._making)

    def close(self) -> None:
        """Stop accepting, and close the socket."""
        if self._again is not None:
            self._again.cancel()
        if self._listener.fileno() >= 0:
            self._loop.remove_reader(self._listener.fileno())
            self._listener.close()

    def _accept(self) -> None:
        for _ in range(_ACCEPT):
            try:
                accepted, _peer = self._listener.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                self._connections.lacks_files(error.strerror or type(error).__name__)
                self._loop.remove_reader(self._listener.fileno())
                self._again = self._loop.call_later(_AGAIN_SECONDS, self.begin)
                return
            accepted.setblocking(False)
            task = self._loop.create_task(self._make(accepted))
            self._making.add(task)
            task.add_done_callback(self._making.discard)

    async def _make(self, accepted: socket.socket) -> None:
        try:
            await self._loop.connect_accepted_socket(lambda: self._connections.protocol(self._context), accepted)
        except OSError:
            accepted.close()


@asynccontextmanager
async def listening(
    connections: ClientConnections, listener: socket.socket, context: ssl.SSLContext | None = None
) -> AsyncIterator[_Acceptor]:
    """Accept connections on a socket, with TLS if ``context`` is set; at the end close the socket and all of them."""
    acceptor = _Acceptor(connections, listener, context)
    acceptor.begin()
    connections.watch()
    try:
        yield acceptor
    finally:
        acceptor.close()
        connections.close()


async def serve(webhook: WebhookServer, listener: socket.socket, context: ssl.SSLContext, stop: asyncio.Event) -> None:
    """Serve a webhook on a socket until asked to stop, then drain. Cancelling ends all connections at once."""
    connections = ClientConnections(
        webhook.handle,
        webhook.limits,
        webhook.counts,
        webhook.clock,
        webhook.request_log,
        at_once=webhook.answer_at_once,
    )
    webhook.counts.gauge("restow_webhook_connections", lambda: len(connections))
    async with listening(connections, listener, context) as accepting:
        await stop.wait()
        webhook.phase = ServerPhase.DRAINING
        await webhook.clock.sleep(webhook.limits.drain_seconds)
        await accepting.finish()
        webhook.phase = ServerPhase.STOPPING
        await connections.finish(webhook.limits.finish_seconds)


#: The content type that prometheus_client's own server sends.
_METRICS = {"Content-Type": "text/plain; version=0.0.4; charset=utf-8"}


@dataclass(frozen=True, slots=True)
class Probes:
    """Answers probes.

    Attributes:
        unready: why the process should get no requests now; empty if it is ready.
        metrics: returns the text of ``/metrics``.
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


Number = TypeVar("Number")


_BUILD: Final = GaugeMetricFamily("restow_build_info", "1; the versions are labels.", labels=("version", "python"))
_BUILD.add_metric((__version__, platform.python_version()), 1)


def exposition(snapshot: Snapshot) -> bytes:
    """Return the text of all metrics, including those that have no number yet.

    Without /proc, the memory and the CPU time of the process are missing.
    """
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Numbers(snapshot))
    ProcessCollector(registry=registry)
    GCCollector(registry=registry)
    return generate_latest(registry)


class _Numbers(Collector):
    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot

    def collect(self) -> Iterator[Family]:
        yield _BUILD
        for name, metric in METRICS.items():
            yield _family(name, metric, self._snapshot)


def _family(name: str, metric: Metric, snapshot: Snapshot) -> Family:
    match metric.kind:
        case "counter":
            counter = CounterMetricFamily(name.removesuffix("_total"), metric.help, labels=metric.labels)
            numbers = snapshot.counters if metric.labels else {(name,): 0.0} | snapshot.counters
            for labels, value in _of(name, numbers.items()):
                counter.add_metric(labels, value)
            return counter
        case "gauge":
            gauge = GaugeMetricFamily(name, metric.help, labels=metric.labels)
            for labels, value in _of(name, snapshot.gauges.items()):
                gauge.add_metric(labels, value)
            return gauge
        case "histogram":
            histogram = HistogramMetricFamily(name, metric.help, labels=metric.labels)
            for labels, each in _of(name, snapshot.histograms.items()):
                bounds = (*map(str, BUCKETS), "+Inf")
                histogram.add_metric(labels, list(zip(bounds, accumulate(each.buckets), strict=True)), each.sum)
            return histogram


def _of(name: str, numbers: Iterable[tuple[tuple[str, ...], Number]]) -> Iterator[tuple[list[str], Number]]:
    return ((list(key[1:]), value) for key, value in sorted(numbers, key=lambda item: item[0]) if key[0] == name)


async def run_alone(
    webhook: WebhookServer,
    certificate: ServingCertificate,
    listener: socket.socket,
    probes: socket.socket,
    stop: asyncio.Event,
    *,
    further_metrics: Callable[[], bytes] = bytes,
    unready: Callable[[], str] = str,
) -> None:
    """Serve a webhook and its probes in this process until asked to stop, then drain. Cancelling ends it at once.

    ``further_metrics`` returns more Prometheus text for ``/metrics``. ``unready`` returns why the process should get no
    requests although it serves; empty if it should.
    """
    async with asyncio.TaskGroup() as group, probed(webhook, probes, further_metrics, unready):
        watching = group.create_task(certificate.watch())
        await serve(webhook, listener, certificate.context, stop)
        watching.cancel()


@asynccontextmanager
async def probed(
    webhook: WebhookServer,
    probes: socket.socket,
    further_metrics: Callable[[], bytes],
    unready: Callable[[], str] = str,
) -> AsyncIterator[None]:
    """Answer the probes of a process as long as the block runs; see ``run_alone``."""

    def metrics() -> bytes:
        return exposition(webhook.counts.snapshot()) + further_metrics()

    probing = Probes(lambda: _unready(webhook) or unready(), metrics)
    answers = ClientConnections(
        probing.handle, webhook.limits.of_probes, webhook.counts, webhook.clock, webhook.request_log
    )
    async with listening(answers, probes):
        yield


def _unready(webhook: WebhookServer) -> str:
    return "" if webhook.phase is ServerPhase.SERVING else webhook.phase.value
