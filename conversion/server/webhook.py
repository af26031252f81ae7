"""The webhook: selects the endpoint of a request, and answers requests that no endpoint can.

This module opens no socket: ``restow.conversion.server.run`` listens, and passes the requests on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from enum import Enum
from http import HTTPStatus
from types import MappingProxyType
from typing import Final, Protocol, TypeVar

from aiohttp import web

from restow.conversion.compile.graph import Graph
from restow.conversion.server.admission import AdmissionEndpoint, AdmissionStep, ReviewQueues
from restow.conversion.server.bodybudget import BodyReader
from restow.conversion.server.clientconnection import BUFFER, ClientConnection
from restow.conversion.server.connections import HEADERS
from restow.conversion.server.conversion import ConversionEndpoint, Elsewhere, KeptHook
from restow.conversion.server.failures import RateLimitedLog
from restow.conversion.server.limits import Limits, Refusal
from restow.conversion.server.metrics import ServerMetrics
from restow.conversion.server.timeslices import TimeSlices
from restow.conversion.server.tls import Clients
from restow.kube.clock import SYSTEM_CLOCK, Clock

Response = TypeVar("Response", bound=web.StreamResponse)

#: Other tasks run each time this many bytes of an answer are written.
_PART: Final = 8 * BUFFER

_ALL_CLIENTS: Final = Clients()
_NO_STEPS: Final[Mapping[str, AdmissionStep]] = MappingProxyType({})


class ServerPhase(Enum):
    """The phase of a webhook. Only SERVING is ready; DRAINING still answers, and closes each connection."""

    STARTING = "starting"
    SERVING = "serving"
    DRAINING = "draining"
    STOPPING = "stopping"


class _Endpoint(Protocol):
    most: int

    async def answer(self, body: bytes | bytearray) -> bytes: ...


class WebhookServer:
    """Conversions at ``/convert/<crd>``, validating steps at ``/admit/<name>``, mutating ones at ``/mutate/<name>``.

    Its phase is STARTING, and it answers 503 with Retry-After, until the embedding program sets ``phase``. A program
    whose steps need caches waits for these caches first.

    Args:
        conversions: by the name of the CRD; see ``conversions_by_crd``.
        validating, mutating: admission steps by name.
        clients: which requests need a client certificate; needs a ServingCertificate that trusts their authority.
        kept: called for each value that a rule could not convert, and kept (``KeptEvents.note``).
    """

    def __init__(
        self,
        conversions: Mapping[str, Graph],
        *,
        validating: Mapping[str, AdmissionStep] = _NO_STEPS,
        mutating: Mapping[str, AdmissionStep] = _NO_STEPS,
        clients: Clients = _ALL_CLIENTS,
        limits: Limits | None = None,
        clock: Clock = SYSTEM_CLOCK,
        kept: KeptHook | None = None,
    ) -> None:
        self.phase = ServerPhase.STARTING
        self.limits = limits or Limits()
        self.clock = clock
        self.counts = ServerMetrics()
        self._clients = clients
        self._kept = kept
        self.request_log = RateLimitedLog(clock)
        self._bodies = BodyReader(self.limits, clock, self._make_room)
        self._time_slices = TimeSlices(self.limits.slice_seconds)
        self._queues = ReviewQueues()
        converting = {f"/convert/{crd}": self._converting(crd, graph) for crd, graph in conversions.items()}
        self._at_once = {} if clients.conversion else converting
        self._suspended: dict[str, tuple[HTTPStatus, str]] = {}
        self._endpoints: dict[str, _Endpoint] = {
            **converting,
            **{f"/admit/{name}": self._admitting(name, step, patches=False) for name, step in validating.items()},
            **{f"/mutate/{name}": self._admitting(name, step, patches=True) for name, step in mutating.items()},
        }
        self.counts.gauge("restow_webhook_bytes_in_flight", lambda: self._bodies.in_flight)
        for crd in conversions:
            self.counts.add("restow_conversion_reviews_total", crd, "failure", amount=0)
        for name in (*validating, *mutating):
            self.counts.add("restow_admission_reviews_total", name, "failed", amount=0)

    def serve(self, crd: str, graph: Graph, elsewhere: Elsewhere | None = None) -> None:
        """Convert the objects of a CRD by a graph from the next review on; the graph replaces an earlier one.

        ``elsewhere`` converts by the same graph in another process.
        """
        path, endpoint = f"/convert/{crd}", self._converting(crd, graph, elsewhere)
        self._suspended.pop(path, None)
        self._endpoints[path] = endpoint
        if not self._clients.conversion:
            self._at_once[path] = endpoint
        self.counts.add("restow_conversion_reviews_total", crd, "failure", amount=0)

    def suspend(self, crd: str, why: str, *, elsewhere: bool) -> None:
        """Refuse the reviews of a CRD, which this process should convert and cannot, until ``serve`` or ``withdraw``.

        ``why`` is a sentence for the API server's client. ``elsewhere``: whether another process can convert them. The
        API server then asks again, over a new connection. Otherwise its client need not wait ten seconds for an error.
        """
        self.withdraw(crd)
        status = HTTPStatus.SERVICE_UNAVAILABLE if elsewhere else HTTPStatus.INTERNAL_SERVER_ERROR
        self._suspended[f"/convert/{crd}"] = (status, why)

    def withdraw(self, crd: str) -> None:
        """Stop converting the objects of a CRD."""
        path = f"/convert/{crd}"
        self._endpoints.pop(path, None)
        self._at_once.pop(path, None)
        self._suspended.pop(path, None)

    @property
    def paths(self) -> Iterable[str]:
        """The paths that the webhook serves."""
        return self._endpoints.keys()

    def answer_at_once(self, path: str, body: bytes) -> bytes | None:
        """Return the answer to a small ConversionReview, or None if ``handle`` has to answer, as for every refusal.

        A request with None is neither counted nor logged here.
        """
        endpoint = self._at_once.get(path.partition("?")[0])
        if endpoint is None or self.phase is not ServerPhase.SERVING or not self._bodies.has_room(len(body)):
            return None
        try:
            return endpoint.answer_at_once(body, most=BUFFER)
        except Exception:  # noqa: BLE001 - whatever it is, ``handle`` meets it again, and tells it
            return None

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer one HTTP request."""
        try:
            return await self._answer(request)
        except Refusal as refusal:
            self.counts.add("restow_webhook_refused_total", refusal.why)
            self.request_log.tell(refusal.why, request.remote or "", str(refusal))
            return self._refuse(refusal)
        except (asyncio.CancelledError, ConnectionError):
            raise
        except Exception as error:  # noqa: BLE001 - a defect of ours; what it says might show a body
            self.counts.add("restow_webhook_refused_total", "defect")
            self.request_log.add("defect", error=type(error).__name__, place=_place(error))
            message = "the webhook failed because of a defect of its own; its log says where"
            return self._refuse(Refusal(HTTPStatus.INTERNAL_SERVER_ERROR, "defect", message))

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        endpoint = self._endpoint(request)
        body = await self._bodies.read(request, endpoint.most)
        try:
            answer = await endpoint.answer(body)
        finally:
            self._bodies.release(body)
        del body
        if len(answer) <= BUFFER:
            return self._closing(web.Response(body=answer, headers=HEADERS))
        with self._bodies.sending(request, len(answer)):
            return await self._send(request, memoryview(answer))

    async def _send(self, request: web.BaseRequest, answer: memoryview) -> web.StreamResponse:
        """Write a large answer in pieces: other tasks run in between, and the client's speed is measured."""
        connection = request.protocol
        if isinstance(connection, ClientConnection):
            connection.answering(len(answer))
        response = self._closing(web.StreamResponse(headers={**HEADERS, "Content-Length": str(len(answer))}))
        await response.prepare(request)
        for start in range(0, len(answer), BUFFER):
            await response.write(answer[start : start + BUFFER])
            if not start % _PART:
                await asyncio.sleep(0)
        await response.write_eof()
        return response

    def _make_room(self, request: web.BaseRequest) -> None:
        """End a request whose client is slow, because other requests need the room."""
        connection = request.protocol
        doing = connection.doing.value if isinstance(connection, ClientConnection) else "body"
        self.counts.add("restow_webhook_aborted_total", doing)
        self.request_log.tell("too-slow", request.remote or "", doing)
        if request.transport is not None:
            request.transport.abort()

    def _closing(self, response: Response) -> Response:
        """Unless the phase is SERVING, close the connection, so that the client sends its next request elsewhere."""
        if self.phase is not ServerPhase.SERVING:
            response.force_close()
        return response

    def _endpoint(self, request: web.BaseRequest) -> _Endpoint:
        path = request.raw_path.partition("?")[0]
        endpoint = self._endpoints.get(path)
        if endpoint is None:
            raise self._missing(path)
        if request.method != "POST":
            message = f"{path} takes POST only"
            raise Refusal(HTTPStatus.METHOD_NOT_ALLOWED, "method", message, hangs_up=True)
        if self.phase in (ServerPhase.STARTING, ServerPhase.STOPPING):
            message = f"the webhook is {self.phase.value}; try again in a second"
            raise Refusal(HTTPStatus.SERVICE_UNAVAILABLE, self.phase.value, message, hangs_up=True)
        transport = request.transport
        certificate = None if transport is None else transport.get_extra_info("peercert")
        self._clients.check("conversion" if path.startswith("/convert/") else "admission", certificate)
        return endpoint

    def _missing(self, path: str) -> Refusal:
        """Return the answer to a request for a path without endpoint."""
        if (suspended := self._suspended.get(path)) is not None:
            status, why = suspended
            return Refusal(status, "not-compiled", why, hangs_up=True)
        message = f"this webhook has no {path[:200]!r}, only {', '.join(self._endpoints) or 'nothing'}"
        return Refusal(HTTPStatus.NOT_FOUND, "no-such-path", message, hangs_up=True)

    def _refuse(self, refusal: Refusal) -> web.Response:
        response = web.Response(status=refusal.status, body=refusal.body, headers={**HEADERS, **refusal.headers})
        if refusal.hangs_up:
            response.force_close()
        return self._closing(response)

    def _converting(self, crd: str, graph: Graph, elsewhere: Elsewhere | None = None) -> ConversionEndpoint:
        return ConversionEndpoint(
            crd,
            graph,
            limits=self.limits,
            counts=self.counts,
            time_slices=self._time_slices,
            request_log=self.request_log,
            clock=self.clock,
            kept=self._kept,
            elsewhere=elsewhere,
        )

    def _admitting(self, name: str, step: AdmissionStep, *, patches: bool) -> AdmissionEndpoint:
        return AdmissionEndpoint(
            name,
            step,
            patches=patches,
            limits=self.limits,
            queues=self._queues,
            counts=self.counts,
            request_log=self.request_log,
            clock=self.clock,
        )


def _place(error: Exception) -> str:
    """Return where an error was raised, without its message."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return "" if trace is None else f"{trace.tb_frame.f_code.co_filename}:{trace.tb_lineno}"
