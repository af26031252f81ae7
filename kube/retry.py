"""One policy for requests that fail for a reason that passes: wait, send again, and give up after a budget of time.

An API server that restarts, a leader election of etcd, a plugin for credentials that hiccups: each of them ends by
itself, and nothing that has to be run again by hand may come of it. ``Patient`` is a ``Cluster`` that waits them out:

- Waited for are no answer at all, 429, 5xx, and answers that cannot be read; ``Retry-After`` is obeyed. A 401, or
  credentials that cannot be renewed, are waited for once the API server has accepted the credentials before; so is a
  403 of the authorizer for a moment after an outage, since an API server that was just started has not read its RBAC
  rules yet. What would fail in the same way for ever is not waited for.
- Reads are sent again, and so is a create: an ``AlreadyExists`` after it is the caller's to judge.
- A write with a precondition is not sent again blindly. Where no answer tells whether it was carried out, the caller
  gets ``Doubtful``, a conflict, once the wait is over: it reads again, which waits out the outage, and judges.

Where objects are listed and written many at a time, tables of their own decide for each error (``bare``).
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from typing import Protocol

import msgspec

from restow.kube.backoff import Backoff
from restow.kube.cluster import Cluster, PatchType, Reply
from restow.kube.errors import (
    ApiError,
    ConfigError,
    CredentialsExpired,
    Doubtful,
    Forbidden,
    KubeError,
    ServerError,
    TooManyRequests,
    Unauthorized,
    Unreachable,
    read_json,
)
from restow.kube.resources import Resource

__all__ = ["LOOK_S", "Patient", "Stop", "bare", "patient"]

_log = logging.getLogger(__name__)

LOOK_S = 30.0
"""Seconds that a request is tried again for where somebody waits for the answer, and nothing is lost without one."""

_BACKOFF = Backoff(first=0.5, most=15.0)
_LONGEST_ASKED_FOR = 60.0  # of what a server asks for by Retry-After
_STARTING_S = 30.0  # after an outage, in which a 403 may be that of a server that has not read its RBAC rules yet
_FORBIDDEN = 6  # tries against that
_SHORTEST_TOLD = 2.0  # seconds of a wait that is worth a word
_is_json = msgspec.json.Decoder(msgspec.Raw)


class Stop(Protocol):
    """The end of a run before its end: true once it was asked for, with sleeps that end then."""

    def __bool__(self) -> bool: ...

    async def sleep(self, seconds: float, what: str = "") -> None:
        """Sleep; ``what`` the wait is for, as the end of a sentence that begins with "waiting 8 s"."""
        ...


class _Never:
    """Nobody asks; long waits are told in the log."""

    def __bool__(self) -> bool:
        return False

    async def sleep(self, seconds: float, what: str = "") -> None:
        if seconds >= _SHORTEST_TOLD:
            _log.warning("waiting %.0f s %s", seconds, what)
        await asyncio.sleep(seconds)


@dataclass(slots=True)
class _Spell:
    """Failures in a row, and the time they took."""

    since: float
    failures: int = 0
    forbidden: int = 0
    slept: float = 0.0

    def lasted(self, now: float) -> float:
        return max(now - self.since, self.slept)


@dataclass(slots=True)
class _Known:
    """What the answers so far tell of the server, whatever they were about."""

    accepted: bool = False
    granted: set[str] = field(default_factory=set)
    shaken_until: float = float("-inf")


class Patient:
    """A ``Cluster`` whose requests are sent again while their errors may pass; see the module.

    Args:
        cluster: the API server; if that is patient itself, what it has learned is taken over.
        stop: ends every wait, and then the error is raised.
        patience_s: how long one request is tried again for; 0 for not at all.
        clock: a monotonic clock, in seconds.
        chance: spreads waits.
    """

    def __init__(
        self,
        cluster: Cluster,
        stop: Stop | None = None,
        *,
        patience_s: float = LOOK_S,
        clock: Callable[[], float] = time.monotonic,
        chance: random.Random | None = None,
    ) -> None:
        self._known: _Known = cluster._known if isinstance(cluster, Patient) else _Known()  # noqa: SLF001 - its own class
        self.bare: Cluster = cluster.bare if isinstance(cluster, Patient) else cluster
        self.patience_s = patience_s
        self._stop = stop if stop is not None else _Never()
        self._clock = clock
        self._chance = chance or random.Random()
        self._doubts: dict[str, _Spell] = {}

    @property
    def host(self) -> str:
        return self.bare.host

    @property
    def default_namespace(self) -> str:
        return self.bare.default_namespace

    @property
    def shaken(self) -> bool:
        """Whether the server was out of reach a moment ago: it may not have read its RBAC rules yet."""
        return self._clock() < self._known.shaken_until

    async def get(
        self,
        resource: Resource,
        name: str,
        namespace: str | None = None,
        *,
        metadata_only: bool = False,
        cached: bool = False,
    ) -> Reply:
        target = f"get {resource.describe(namespace, name)}"
        return await self._again(
            target, lambda: self.bare.get(resource, name, namespace, metadata_only=metadata_only, cached=cached)
        )

    async def discover(self, path: str) -> Reply:
        return await self._again(f"get {path}", lambda: self.bare.discover(path))

    @asynccontextmanager
    async def at(
        self, host: str = "", server_name: str = "", *, patience_s: float | None = None
    ) -> AsyncIterator[Patient]:
        """As ``Cluster.at``; ``patience_s``: less patience with another server, which may well be out of reach."""
        patience_s = self.patience_s if patience_s is None else min(patience_s, self.patience_s)
        async with self.bare.at(host, server_name) as opened:
            yield Patient(opened, self._stop, patience_s=patience_s, clock=self._clock, chance=self._chance)

    async def list_page(
        self,
        resource: Resource,
        namespace: str | None = None,
        *,
        params: Mapping[str, str] | None = None,
        metadata_only: bool = False,
    ) -> Reply:
        target = f"list {resource.describe(namespace)}"
        return await self._again(
            target, lambda: self.bare.list_page(resource, namespace, params=params, metadata_only=metadata_only)
        )

    async def create(
        self, resource: Resource, body: bytes, namespace: str | None = None, *, params: Mapping[str, str] | None = None
    ) -> Reply:
        target = f"create {resource.describe(namespace)}"
        return await self._again(target, lambda: self.bare.create(resource, body, namespace, params=params))

    async def replace(
        self,
        resource: Resource,
        name: str,
        body: bytes,
        namespace: str | None = None,
        *,
        subresource: str | None = None,
        params: Mapping[str, str] | None = None,
    ) -> Reply:
        """As ``Cluster.replace``.

        Raises:
            Doubtful: the outcome of the request is not known.
        """
        target = f"update {resource.describe(namespace, name, subresource)}"
        return await self._doubting(
            target, lambda: self.bare.replace(resource, name, body, namespace, subresource=subresource, params=params)
        )

    async def patch(
        self,
        resource: Resource,
        name: str,
        body: bytes,
        namespace: str | None = None,
        *,
        patch_type: PatchType,
        subresource: str | None = None,
        params: Mapping[str, str] | None = None,
        metadata_only: bool = False,
    ) -> Reply:
        """As ``Cluster.patch``.

        Raises:
            Doubtful: the outcome of the request is not known.
        """
        target = f"patch {resource.describe(namespace, name, subresource)}"
        return await self._doubting(
            target,
            lambda: self.bare.patch(
                resource,
                name,
                body,
                namespace,
                patch_type=patch_type,
                subresource=subresource,
                params=params,
                metadata_only=metadata_only,
            ),
        )

    async def delete(
        self, resource: Resource, name: str, namespace: str | None = None, *, body: bytes | None = None
    ) -> Reply:
        """As ``Cluster.delete``; NotFound may be the answer to the second one of two."""
        target = f"delete {resource.describe(namespace, name)}"
        return await self._again(target, lambda: self.bare.delete(resource, name, namespace, body=body))

    def watch(
        self,
        resource: Resource,
        namespace: str | None = None,
        *,
        params: Mapping[str, str],
        metadata_only: bool = False,
    ) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """As ``Cluster.watch``: ``restow.kube.watching`` begins watches again by its own rules."""
        return self.bare.watch(resource, namespace, params=params, metadata_only=metadata_only)

    async def _again(self, what: str, send: Callable[[], Awaitable[Reply]]) -> Reply:
        """Send until there is an answer that counts."""
        spell: _Spell | None = None
        while True:
            try:
                return self._answered(what, await send())
            except KubeError as error:
                spell = spell or _Spell(self._clock())
                if not await self._wait(spell, error, what):
                    raise

    async def _doubting(self, what: str, send: Callable[[], Awaitable[Reply]]) -> Reply:
        """Send a write with a precondition until there is an answer, or a doubt."""
        while True:
            try:
                reply = self._answered(what, await send())
            except KubeError as error:
                spell = self._doubts.setdefault(what, _Spell(self._clock()))
                if not await self._wait(spell, error, what):
                    self._doubts.pop(what, None)
                    raise
                if not isinstance(error, (TooManyRequests, Unauthorized, Forbidden, CredentialsExpired)):
                    message = f"no answer tells whether it was carried out ({error.said})"
                    verb, _, target = what.partition(" ")
                    raise Doubtful(status=409, verb=verb, target=target, message=message) from error
            else:
                self._doubts.pop(what, None)
                return reply

    def _answered(self, what: str, reply: Reply) -> Reply:
        read_json(_is_json, reply.body, what, f"{self.host} answered with success, but the body is not JSON")
        self._known.accepted = True
        self._known.granted.add(what)
        return reply

    async def _wait(self, spell: _Spell, error: KubeError, what: str) -> bool:
        """Wait until a request is to be sent again; whether it is."""
        now = self._clock()
        if isinstance(error, (Unreachable, ServerError)):
            self._known.shaken_until = now + _STARTING_S
        if not self._passes(spell, error, what):
            return False
        lasted = spell.lasted(now)
        left = self.patience_s - lasted
        if left <= 0 or self._stop:
            error.waited_s = lasted
            return False
        spell.failures += 1
        asked = error.retry_after if isinstance(error, ApiError) else None
        wait = _BACKOFF.delay(spell.failures, self._chance.random())
        wait = min(max(wait, min(asked or 0.0, _LONGEST_ASKED_FOR)), left)
        await self._stop.sleep(wait, f"to {what} again (try {spell.failures + 1}, for {left:.0f} s more): {error.said}")
        spell.slept += wait
        return not self._stop

    def _passes(self, spell: _Spell, error: KubeError, what: str) -> bool:
        if isinstance(error, (Unauthorized, ConfigError)):
            return self._known.accepted
        if isinstance(error, Forbidden):
            spell.forbidden += 1
            starting = self.shaken or what in self._known.granted
            return error.by_authorizer and starting and spell.forbidden < _FORBIDDEN
        return error.may_pass


def patient(cluster: Cluster) -> Patient:
    """Return the cluster as a patient one, with the patience of a look unless it has its own."""
    return cluster if isinstance(cluster, Patient) else Patient(cluster)


def bare(cluster: Cluster) -> Cluster:
    """Return the cluster without its patience, for whoever decides on each error by a table of its own."""
    return cluster.bare if isinstance(cluster, Patient) else cluster
