"""Convert by a CRD's own conversion webhook, and send it ConversionReviews as an API server does.

``Reviewer`` is the converter: it sends reviews in slices, with retries. It writes and reads reviews as an API server
does (apiextensions-apiserver ``webhook_converter.go``, 1.36), and makes every check that the API server makes of an
answer: a migration must not use a converted object that the server would refuse. A review fails or succeeds as a whole,
so the reviewer halves one that fails, to find the objects that the webhook refuses or cannot process. It waits for a
webhook that is out of reach, for a bounded time, and gives up a webhook that answers for no object.

``open_converter`` opens the connection. It uses a URL unchanged. It reaches a Service of the cluster by its DNS name
in a pod, and elsewhere through the API server's service proxy. The proxy uses the same route as the API server's own
reviews, but does not verify the webhook's certificate.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import functools
import socket
import ssl
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import msgspec

from restow.crds import Crd
from restow.kube.client import PlainErrors
from restow.kube.cluster import Cluster
from restow.kube.errors import BadReply, KubeError, TimedOut, Unreachable, api_error, one_line
from restow.kube.resources import Resource
from restow.kube.retry import without_retries
from restow.migrator.decide.errortable import Attempts, BrokenOff, ErrorAction, ErrorOutcome, is_outage, of_review_error
from restow.migrator.model.converter import Answer, Converter, ConverterDown, Json, Unconverted
from restow.migrator.model.options import Options, url_problem
from restow.migrator.model.report import Requests, again
from restow.migrator.requests.environment import Environment

_KIND = "ConversionReview"
_LONGEST_MESSAGE = 300

MOST_OBJECTS = 500
MOST_BYTES = 4 * 2**20
"""The most bytes of one review; a larger object is sent alone."""


class ReviewFailed(Exception):
    """The converter reports that an object of the review cannot be converted; the message is the converter's."""


class _Result(msgspec.Struct, frozen=True):
    status: str = ""
    message: str = ""


class _Response(msgspec.Struct, frozen=True):
    uid: str = ""
    result: _Result = _Result()
    converted: list[dict[str, Any]] | None = msgspec.field(name="convertedObjects", default=None)


class _Answer(msgspec.Struct, frozen=True):
    api_version: str = msgspec.field(name="apiVersion", default="")
    kind: str = ""
    response: _Response | None = None


_decoder = msgspec.json.Decoder(_Answer)


def slices(sizes: Sequence[int], most: int = MOST_OBJECTS) -> Iterator[slice]:
    """Split objects of these sizes (bytes) into reviews within the limits."""
    begin, size = 0, 0
    for place, each in enumerate(sizes):
        if place > begin and (place - begin >= most or size + each > MOST_BYTES):
            yield slice(begin, place)
            begin, size = place, 0
        size += each
    if sizes:
        yield slice(begin, len(sizes))


def write_review(objects: Sequence[bytes], api_version: str, *, uid: str, review_version: str) -> bytes:
    """Return the body of a review; the objects are encoded JSON."""
    request = {"uid": uid, "desiredAPIVersion": api_version, "objects": [msgspec.Raw(each) for each in objects]}
    return msgspec.json.encode({"apiVersion": review_version, "kind": _KIND, "request": request})


def read_answer(body: bytes, sent: Sequence[Json], api_version: str, *, uid: str, review_version: str) -> list[Json]:
    """Return the converted objects of an answer.

    Raises:
        ReviewFailed: the converter reports a failure.
        BadReply: the body does not answer that review, or does not return the same objects.
    """
    try:
        answer = _decoder.decode(body)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise BadReply(f"the answer is no {_KIND}, or is nested too deeply to be read here") from error
    response = answer.response
    if response is None or (answer.api_version, answer.kind) != (review_version, _KIND) or response.uid != uid:
        raise BadReply(f"the answer is no {_KIND} of {review_version}, or not to the one that was sent")
    if response.result.status != "Success":
        raise ReviewFailed(one_line(response.result.message, _LONGEST_MESSAGE) or "the converter gives no reason")
    converted = response.converted or []
    if len(converted) != len(sent):
        raise BadReply(f"{len(sent)} objects were sent, and {len(converted)} came back")
    for before, after in zip(sent, converted, strict=True):
        if (after.get("apiVersion"), after.get("kind"), _names(after)) != (api_version, before["kind"], _names(before)):
            raise BadReply(f"an object did not come back as the same object at {api_version}")
    return converted


def _names(obj: Json) -> tuple[Any, ...]:
    metadata = obj.get("metadata")
    if not isinstance(metadata, dict):
        return ()
    return metadata.get("namespace"), metadata.get("name"), metadata.get("uid")


IN_FLIGHT = 4
"""Concurrent reviews: enough for a webhook with several replicas, and not too many for one with a single replica."""

_SILENT_OBJECTS = 3
"""Objects in a row that got no answer in a separate review, after which the reviewer gives up all others."""


@dataclass(frozen=True, slots=True)
class Way:
    """The connection to a webhook.

    Attributes:
        post: sends a review and returns the answer; raises KubeError.
        review_version: the apiVersion of reviews that the webhook accepts.
        help: a sentence about what to do if it does not answer.
    """

    post: Callable[[bytes], Awaitable[bytes]]
    review_version: str
    help: str


class Reviewer:
    """A ``Converter`` over a webhook.

    Args:
        name: the name of the webhook, for messages.
        find: returns the connection to it, once, on first use; may raise ConverterDown.
        environment: its chance makes the uids of reviews; once its stop is set, the reviewer sends no further review.
        requests: counts the reviews.
        patience_s: seconds to wait for an unreachable webhook, beyond the usual attempts.
    """

    def __init__(
        self,
        name: str,
        find: Callable[[], Awaitable[Way]],
        environment: Environment,
        requests: Requests,
        patience_s: float = 0.0,
    ) -> None:
        self._name = name
        self._find = find
        self._stop = environment.stop
        self._environment = environment
        self._requests = requests
        self._patience_s = patience_s
        self._finding = asyncio.Lock()
        self._way: Way | None = None
        self._in_flight = asyncio.Semaphore(IN_FLIGHT)
        self._most = MOST_OBJECTS
        self._heard = False
        self._silent = 0

    async def convert(self, objects: Sequence[Json], api_version: str) -> Sequence[Answer]:
        bodies = [msgspec.json.encode(obj) for obj in objects]
        try:
            async with asyncio.TaskGroup() as group:
                tasks = [
                    group.create_task(self._ask(objects[part], bodies[part], api_version))
                    for part in slices([len(body) for body in bodies], self._most)
                ]
        except ExceptionGroup as errors:
            raise errors.exceptions[0] from None
        return [answer for task in tasks for answer in task.result()]

    async def _ask(self, objects: Sequence[Json], bodies: Sequence[bytes], api_version: str) -> list[Answer]:
        """Send a review of some objects; if it fails, send a review of each half."""
        attempts, failures = Attempts(self._patience_s), 0
        while True:
            try:
                answers: list[Answer] = [*await self._review(objects, bodies, api_version)]
            except ReviewFailed as failure:
                self._hear()
                if len(objects) == 1:
                    return [Unconverted(str(failure))]
                return await self._ask_by_halves(objects, bodies, api_version)
            except KubeError as error:
                failures += 1
                attempt = attempts.failed(error, self._stop.now(), 0.0) if is_outage(error) else failures
                outcome = of_review_error(error, attempt=attempt, objects=len(objects), heard=self._heard)
                if outcome.action is ErrorAction.SPLIT:
                    self._most = len(objects) // 2 if outcome.slow_down else self._most
                    return await self._ask_by_halves(objects, bodies, api_version)
                if outcome.action is not ErrorAction.RETRY:
                    return [self._give_up(outcome, lasting=is_outage(error) or isinstance(error, TimedOut))]
                self._requests.retried += 1
                what = again("ask the conversion webhook", attempt, outcome.attempts, error.said)
                await self._stop.sleep(self._environment.jitter(outcome.wait), what)
            else:
                self._hear()
                return answers

    async def _ask_by_halves(self, objects: Sequence[Json], bodies: Sequence[bytes], api_version: str) -> list[Answer]:
        half = len(objects) // 2
        first = await self._ask(objects[:half], bodies[:half], api_version)
        return [*first, *await self._ask(objects[half:], bodies[half:], api_version)]

    def _hear(self) -> None:
        self._heard, self._silent = True, 0

    def _give_up(self, outcome: ErrorOutcome, *, lasting: bool) -> Unconverted:
        """Give up one object, or all objects if the outcome says so or several in a row got no answer."""
        self._silent += 1
        if outcome.action is ErrorAction.STOP or self._silent >= _SILENT_OBJECTS:
            help_ = self._way.help if self._way is not None else ""
            msg = f"{self._name} does not convert objects: {outcome.message}. {help_}"
            raise ConverterDown(msg, unreachable=self._name if lasting else "")
        return Unconverted(outcome.message, refused=False)

    async def _review(self, objects: Sequence[Json], bodies: Sequence[bytes], api_version: str) -> list[Json]:
        async with self._in_flight:
            if self._stop:
                raise ConverterDown(self._stop.why, unreachable=self._stop.unreachable)
            async with self._finding:
                self._way = self._way or await self._find()
            uid = str(uuid.UUID(int=self._environment.random.getrandbits(128), version=4))
            review = write_review(bodies, api_version, uid=uid, review_version=self._way.review_version)
            self._requests.review += 1
            answer = await self._way.post(review)
        return read_answer(answer, objects, api_version, uid=uid, review_version=self._way.review_version)


_REVIEW_VERSIONS = ("v1", "v1beta1")


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A conversion webhook.

    Attributes:
        url: the URL for reviews.
        server_name: the name that its certificate must have.
        ca: PEM of the authority that must have signed it; empty for the system's authorities.
        review_version: the apiVersion of reviews that it accepts.
        proxied: the same webhook behind the API server's service proxy; None if it is not a Service of the cluster.
        namespace: the namespace of that Service.
    """

    url: str
    server_name: str
    ca: str
    review_version: str
    proxied: Resource | None = None
    namespace: str = ""

    @property
    def host(self) -> str:
        """The URL without its path, for messages."""
        parts = urlsplit(self.url)
        return f"{parts.scheme}://{parts.netloc}"


def endpoint(crd: Crd, url: str | None = None) -> Endpoint:
    """Return the endpoint for the reviews of a CRD.

    Args:
        crd: a CRD with strategy Webhook.
        url: another URL of the same webhook, such as a port-forward, with or without a path. Its certificate is still
            verified with the name and the authority in the CRD.

    Raises:
        ConverterDown: the CRD has no address of its webhook, the webhook accepts no known version of ConversionReview,
            or ``url`` is not a URL of a webhook.
    """
    webhook = crd.webhook or {}
    config = webhook.get("clientConfig") or {}
    known = [version for version in webhook.get("conversionReviewVersions") or () if version in _REVIEW_VERSIONS]
    if not known:
        raise ConverterDown(f"the conversion webhook of {crd.name} takes no version of ConversionReview known here")
    found = Endpoint(
        url=_url(crd, config),
        server_name="",
        ca=_ca(crd, config.get("caBundle") or ""),
        review_version=f"apiextensions.k8s.io/{known[0]}",
    )
    server_name = urlsplit(found.url).hostname or ""
    if url is not None:
        return Endpoint(_other_url(url, urlsplit(found.url).path), server_name, found.ca, found.review_version)
    proxied, namespace = _proxied(config.get("service"))
    return Endpoint(found.url, server_name, found.ca, found.review_version, proxied, namespace)


def _url(crd: Crd, config: Mapping[str, Any]) -> str:
    if config.get("url"):
        return str(config["url"])
    service = config.get("service")
    if not service:
        raise ConverterDown(f"{crd.name} does not say where its conversion webhook is")
    return f"https://{service['name']}.{service['namespace']}.svc:{_port(service)}{_path(service)}"


def _port(service: Mapping[str, Any]) -> int:
    return int(service.get("port") or 443)


def _path(service: Mapping[str, Any]) -> str:
    path = service.get("path") or ""
    return path if not path or path.startswith("/") else f"/{path}"


def _proxied(service: Mapping[str, Any] | None) -> tuple[Resource | None, str]:
    """Return the Service's proxy subresource, whose path continues with the webhook's path, and the namespace."""
    if not service:
        return None, ""
    plural = f"services/https:{service['name']}:{_port(service)}/proxy{_path(service)}"
    return Resource("", "v1", plural, namespaced=True), service["namespace"]


def _other_url(url: str, path: str) -> str:
    if why := url_problem(url):
        raise ConverterDown(why)
    parts = urlsplit(url)
    return url if parts.path.strip("/") else f"{parts.scheme}://{parts.netloc}{path}"


def _ca(crd: Crd, bundle: str) -> str:
    try:
        return base64.b64decode(bundle, validate=True).decode("ascii").strip()
    except (binascii.Error, UnicodeDecodeError) as error:
        raise ConverterDown(f"the caBundle of the conversion webhook of {crd.name} is no base64 of PEM") from error


_TIMEOUT = aiohttp.ClientTimeout(total=30.0, sock_connect=10.0)  # an API server waits as long
_PARAMS = {"timeout": "30s"}
_LOOKUP_S = 5.0


@asynccontextmanager
async def open_converter(
    chosen: Converter | None, environment: Environment, crd: Crd, options: Options, requests: Requests
) -> AsyncIterator[Converter]:
    """Open the converter that was chosen, or the CRD's own webhook; the first conversion sends the first request.

    Args:
        chosen: the converter; None for the CRD's own webhook.
        environment: the API server, the clock and the end of the run.
        crd: the CRD, with strategy Webhook if a conversion is asked for.
        options: the options of the run.
        requests: counts the reviews.
    """
    if chosen is not None:
        yield chosen
        return
    patience_s = min(options.patience_s, environment.longest_patience_s)
    async with aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=IN_FLIGHT, keepalive_timeout=75),
        cookie_jar=aiohttp.DummyCookieJar(),
        headers={"User-Agent": "restow", "Accept": "application/json", "Content-Type": "application/json"},
    ) as session:
        find = functools.partial(_find, crd, environment.cluster, session, options.conversion_url)
        yield Reviewer(f"the conversion webhook of {crd.name}", find, environment, requests, patience_s)


async def _find(crd: Crd, cluster: Cluster, session: aiohttp.ClientSession, url: str | None) -> Way:
    where = endpoint(crd, url)
    if where.proxied is not None and not await _is_known(where.server_name):
        return Way(functools.partial(_post_by_proxy, cluster, where), where.review_version, _HELP_PROXIED)
    tls = _tls(where) if where.url.startswith("https:") else None
    return Way(functools.partial(_post, session, where, tls), where.review_version, _HELP)


async def _is_known(host: str) -> bool:
    """Return whether a Service's DNS name can be resolved here, as in a pod."""
    try:
        async with asyncio.timeout(_LOOKUP_S):
            await asyncio.get_running_loop().getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except (OSError, TimeoutError):
        return False
    return True


def _tls(where: Endpoint) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cadata=where.ca or None)
    except ssl.SSLError as error:
        raise ConverterDown("the caBundle of the conversion webhook is no PEM certificate") from error
    # An API server (Go) accepts certificates that violate RFC 5280, which many webhooks create themselves.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    return context


async def _post(session: aiohttp.ClientSession, where: Endpoint, tls: ssl.SSLContext | None, body: bytes) -> bytes:
    """Send a review directly to the webhook."""
    with _Errors("post", _REVIEW, where.host):
        async with session.post(
            where.url,
            params=_PARAMS,
            data=body,
            timeout=_TIMEOUT,
            allow_redirects=False,
            ssl=tls if tls is not None else False,
            server_hostname=where.server_name if tls is not None else None,
        ) as response:
            answer = await response.read()
    if not 200 <= response.status < 300:
        raise api_error(status=response.status, body=answer, headers=response.headers, verb="post", target=_REVIEW)
    return answer


async def _post_by_proxy(cluster: Cluster, where: Endpoint, body: bytes) -> bytes:
    """Send a review through the API server's service proxy, by the verb ``create`` on ``services/proxy``."""
    assert where.proxied is not None
    reply = await without_retries(cluster).create(where.proxied, body, where.namespace, params=_PARAMS)
    return reply.body


class _Errors(PlainErrors):
    """Distinguishes a connection that broke after it was established, because a single object may break it."""

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        try:
            super().__exit__(kind, error, trace)
        except Unreachable as plain:
            if isinstance(error, (aiohttp.ClientConnectorError, TimeoutError)):
                raise
            raise BrokenOff(str(plain)) from error


_REVIEW = "a ConversionReview"

_HELP = (
    "See that it runs and that its certificate fits the CRD's caBundle, then run again; or convert in this process "
    "(--registry), or leave managedFields as they are for now (--managed-fields keep)"
)

_HELP_PROXIED = (
    "Its service name is not known here, so it was asked through the API server's service proxy, which takes the right "
    "to create services/proxy: run in the cluster, or forward a port (kubectl port-forward) and give "
    "--conversion-url, or convert in this process (--registry)"
)
