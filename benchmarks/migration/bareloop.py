"""The yardstick: the leanest asyncio program that sends a migration's requests, and does nothing else.

    python -m benchmarks.migration.bareloop '{"server": "https://127.0.0.1:6443", …}'

Its best rate over several concurrencies is called the API server's saturation rate. It lists page by page (metadata
only, with the next page requested during the work on the last one), sends each object's writes and checks each answer:
it decodes the managedFields and compares them with the intended ones. It imports nothing of restow. It has no retries,
rate limits, reports, settling or pruning: any unexpected answer ends it with an error.

It is lean because it makes URLs and headers once, joins bodies from bytes, decodes typed values without the field sets,
has no timers, cookies, compression or redirects, keeps connections open, and turns the cyclic garbage collector off.
"""

from __future__ import annotations

import asyncio
import gc
import resource
import ssl
import sys
import time
from collections.abc import Awaitable, Callable
from typing import Literal, TypeAlias

import aiohttp
import msgspec
from yarl import URL

WriteKind: TypeAlias = Literal["combined", "identity", "empty", "two"]


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """The job, as JSON on the command line.

    Attributes:
        server, ca, cert, key: the API server's URL, and files of a client certificate that it accepts.
        group, version, plural, kind: the namespaced custom resource, and the version to list, write and own at.
        write: one combined patch, identity apply or empty patch per object, or ``two``: an identity apply and then a
            combined patch.
        concurrency: writes in flight.
        limit: objects per page.
        renamed: the old and the new name of a field in field sets, which is all that the translation needs.
    """

    server: str
    ca: str
    cert: str
    key: str
    group: str
    version: str
    plural: str
    kind: str
    write: WriteKind
    concurrency: int
    limit: int = 500
    renamed: tuple[str, str] | None = None


class Done(msgspec.Struct, frozen=True, kw_only=True):
    """The result, as JSON on stdout: seconds from the first LIST to the last answer, and CPU seconds in that time."""

    objects: int
    lists: int
    writes: int
    seconds: float
    cpu_seconds: float


class Entry(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A managedFields entry."""

    manager: str = ""
    operation: str = ""
    apiVersion: str = ""  # noqa: N815 - the field's name on the wire
    time: str = ""
    fieldsType: str = ""  # noqa: N815
    fieldsV1: msgspec.Raw = msgspec.Raw(b"")  # noqa: N815
    subresource: str = ""


class Meta(msgspec.Struct, frozen=True):
    """The required fields of an object's metadata."""

    name: str
    namespace: str
    uid: str
    resourceVersion: str  # noqa: N815
    managedFields: tuple[Entry, ...] = ()  # noqa: N815


class Partial(msgspec.Struct, frozen=True):
    """PartialObjectMetadata."""

    metadata: Meta


class PageMeta(msgspec.Struct, frozen=True):
    """ListMeta."""

    continue_: str = msgspec.field(name="continue", default="")


class Page(msgspec.Struct, frozen=True):
    """PartialObjectMetadataList."""

    metadata: PageMeta
    items: list[Partial]


class Expired(msgspec.Struct, frozen=True):
    """The Status of a 410: where the list goes on, with newer objects."""

    metadata: PageMeta


class WrongAnswerError(Exception):
    """The API server gave an answer that the loop does not expect."""


METADATA = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
METADATA_LIST = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
MERGE = "application/merge-patch+json"
APPLY = "application/apply-patch+yaml"
MANAGER = "bare-loop"

_page = msgspec.json.Decoder(Page)
_expired = msgspec.json.Decoder(Expired)
_partial = msgspec.json.Decoder(Partial)
_encode = msgspec.json.Encoder().encode
_replace = msgspec.structs.replace

Write: TypeAlias = Callable[[Meta], Awaitable[None]]


class Loop:
    """One run of the loop over one session."""

    def __init__(self, job: Job, session: aiohttp.ClientSession) -> None:
        self._job = job
        self._session = session
        self._api_version = f"{job.group}/{job.version}"
        self._base = f"{job.server}/apis/{job.group}/{job.version}"
        self._renamed = tuple(f'"{name}"'.encode() for name in job.renamed or ())
        self._tail = f"?fieldManager={MANAGER}"
        self.lists = self.writes = self.objects = 0

    async def run(self) -> None:
        """List, write and check all objects."""
        kinds: dict[WriteKind, Write] = {
            "combined": self._combined,
            "identity": self._identity_only,
            "empty": self._empty,
            "two": self._two,
        }
        write = kinds[self._job.write]
        queue: asyncio.Queue[Meta | None] = asyncio.Queue(maxsize=self._job.limit)

        async def work() -> None:
            while (meta := await queue.get()) is not None:
                await write(meta)

        async with asyncio.TaskGroup() as group:
            for _ in range(self._job.concurrency):
                group.create_task(work())
            await self._list(queue)
            for _ in range(self._job.concurrency):
                await queue.put(None)

    async def _list(self, queue: asyncio.Queue[Meta | None]) -> None:
        url = f"{self._base}/{self._job.plural}?limit={self._job.limit}"
        token = ""
        while True:
            self.lists += 1
            address = URL(f"{url}&continue={token}" if token else url, encoded=True)
            async with self._session.get(address, headers={"Accept": METADATA_LIST}) as response:
                body = await response.read()
            if response.status == 410 and (later := _expired.decode(body).metadata.continue_) not in ("", token):
                token = later  # a list of many objects takes longer than etcd keeps its revision
                continue
            if response.status != 200:
                raise WrongAnswerError(f"LIST: {response.status} {body[:300]!r}")
            page = _page.decode(body)
            self.objects += len(page.items)
            for item in page.items:
                await queue.put(item.metadata)
            token = page.metadata.continue_
            if not token:
                return

    async def _combined(self, meta: Meta) -> None:
        api_version = self._api_version
        meant = tuple([_replace(entry, apiVersion=api_version) for entry in meta.managedFields])
        if self._renamed:
            old, new = self._renamed
            meant = tuple(
                [_replace(entry, fieldsV1=msgspec.Raw(bytes(entry.fieldsV1).replace(old, new))) for entry in meant]
            )
        body = b'{"metadata":{"resourceVersion":"%b","managedFields":%b}}'
        await self._patch(meta, body % (meta.resourceVersion.encode(), _encode(meant)), meant)

    async def _identity(self, meta: Meta) -> Meta:
        job = self._job
        body = (
            f'{{"apiVersion":"{self._api_version}","kind":"{job.kind}","metadata":{{"name":"{meta.name}",'
            f'"uid":"{meta.uid}","resourceVersion":"{meta.resourceVersion}"}}}}'
        )
        return await self._patch(meta, body.encode(), meta.managedFields, _APPLY_HEADERS)

    async def _identity_only(self, meta: Meta) -> None:
        await self._identity(meta)

    async def _empty(self, meta: Meta) -> None:
        body = f'{{"metadata":{{"resourceVersion":"{meta.resourceVersion}"}}}}'
        await self._patch(meta, body.encode(), meta.managedFields)

    async def _two(self, meta: Meta) -> None:
        await self._combined(await self._identity(meta))

    async def _patch(
        self, meta: Meta, body: bytes, meant: tuple[Entry, ...], headers: dict[str, str] | None = None
    ) -> Meta:
        self.writes += 1
        url = f"{self._base}/namespaces/{meta.namespace}/{self._job.plural}/{meta.name}{self._tail}"
        async with self._session.patch(URL(url, encoded=True), data=body, headers=headers) as response:
            answer = await response.read()
        if response.status != 200:
            raise WrongAnswerError(f"PATCH {meta.namespace}/{meta.name}: {response.status} {answer[:300]!r}")
        now = _partial.decode(answer).metadata
        if now.managedFields != meant:
            raise WrongAnswerError(f"PATCH {meta.namespace}/{meta.name}: other managedFields than were meant")
        return now


_APPLY_HEADERS = {"Content-Type": APPLY}


async def measure(job: Job) -> Done:
    """Do the job and tell how long it took."""
    tls = ssl.create_default_context(cafile=job.ca)
    tls.load_cert_chain(job.cert, job.key)
    async with aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(ssl=tls, limit=0, keepalive_timeout=600),
        cookie_jar=aiohttp.DummyCookieJar(),
        timeout=aiohttp.ClientTimeout(total=None),
        auto_decompress=False,
        headers={"Accept": METADATA, "Accept-Encoding": "identity", "Content-Type": MERGE, "User-Agent": MANAGER},
    ) as session:
        loop = Loop(job, session)
        begun, cpu_before = time.perf_counter(), _cpu()
        await loop.run()
        return Done(
            objects=loop.objects,
            lists=loop.lists,
            writes=loop.writes,
            seconds=time.perf_counter() - begun,
            cpu_seconds=_cpu() - cpu_before,
        )


def _cpu() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def main() -> None:
    """Read the job from the command line, print the result."""
    job = msgspec.json.decode(sys.argv[1], type=Job)
    gc.disable()
    sys.stdout.buffer.write(_encode(asyncio.run(measure(job))) + b"\n")


if __name__ == "__main__":
    main()
