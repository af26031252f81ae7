"""One policy for requests that fail for a passing reason: wait, send again, and give up after a budget of time."""

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

from restow.kube.cluster import Cluster, PatchType, Reply
from restow.kube.errors import (
    ApiError,
    ConfigError,
    CredentialsExpired,
    Forbidden,
    KubeError,
    OutcomeUnknown,
    ServerError,
    TooManyRequests,
    Unauthorized,
    Unreachable,
    read_json,
)
from restow.kube.resources import Resource

__all__ = ["READ_PATIENCE_S", "Backoff", "RetryingCluster", "Stop", "with_retries", "without_retries"]


_MOST_DOUBLINGS = 63  # keeps the power finite, however long something has been failing


@dataclass(frozen=True, slots=True)
class Backoff:
    """Delays in seconds: ``first`` after the first failure, ``factor`` times more after each further one.

    Raises:
        ValueError: it is given delays that do not grow from a positive first to a cap.
    """

    first: float
    most: float
    factor: float = 2.0

    def __post_init__(self) -> None:
        if not (0 < self.first <= self.most and self.factor >= 1):
            msg = f"{self}: needs 0 < first <= most and factor >= 1"
            raise ValueError(msg)

    def delay(self, failures: int, chance: float) -> float:
        """Return the seconds to wait after ``failures`` failures in a row; 0 after none.

        ``chance`` is a random number from [0, 1): the delay lies between half of its size and all of it.
        """
        if failures <= 0:
            return 0.0
        whole = min(self.most, self.first * self.factor ** min(failures - 1, _MOST_DOUBLINGS))
        return whole * (0.5 + 0.5 * chance)


_log = logging.getLogger(__name__)

READ_PATIENCE_S = 30.0
"""Seconds that a request is tried again for where somebody waits for the answer, and nothing is lost without one."""

_BACKOFF = Backoff(first=0.5, most=15.0)
_LONGEST_ASKED_FOR = 60.0  # of what a server asks for by Retry-After
_STARTING_S = 30.0  # after an outage, in which a 403 may be that of a server that has not read its RBAC rules yet
_FORBIDDEN = 6  # tries against that
_SHORTEST_LOGGED = 2.0  # seconds of a wait that is worth a word
_is_json = msgspec.json.Decoder(msgspec.Raw)


class Stop(Protocol):
    """The end of a run before its end: true once it was asked for, with sleeps that end then."""

    def __bool__(self) -> bool: ...

    async def sleep(self, seconds: float, what: str = "") -> None:
        """Sleep; ``what`` the wait is for, as the end of a sentence that begins with "waiting 8 s"."""
        ...


class _NeverStop:
    """Nobody asks; long waits are told in the log."""

    def __bool__(self) -> bool:
        return False

    async def sleep(self, seconds: float, what: str = "") -> None:
        if seconds >= _SHORTEST_LOGGED:
            _log.warning("waiting %.0f s %s", seconds, what)
        await asyncio.sleep(seconds)


@dataclass(slots=True)
class _FailureStreak:
    """Failures in a row, and the time they took."""

    since: float
    failures: int = 0
    forbidden: int = 0
    slept: float = 0.0

    def lasted(self, now: float) -> float:
        return max(now - self.since, self.slept)


@dataclass(slots=True)
class _ServerState:
    """What the answers so far tell of the server, whatever they were about."""

    accepted: bool = False
    granted: set[str] = field(default_factory=set)
    shaken_until: float = float("-inf")


class RetryingCluster:
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
        patience_s: float = READ_PATIENCE_S,
        clock: Callable[[], float] = time.monotonic,
        chance: random.Random | None = None,
    ) -> None:
        self._known: _ServerState = cluster._known if isinstance(cluster, RetryingCluster) else _ServerState()  # noqa: SLF001 - its own class
        self.bare: Cluster = cluster.bare if isinstance(cluster, RetryingCluster) else cluster
        self.patience_s = patience_s
        self._stop = stop if stop is not None else _NeverStop()
        self._clock = clock
        self._chance = chance or random.Random()
        self._doubts: dict[str, _FailureStreak] = {}

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
    ) -> AsyncIterator[RetryingCluster]:
        """As ``Cluster.at``; ``patience_s``: less patience with another server, which may well be out of reach."""
        patience_s = self.patience_s if patience_s is None else min(patience_s, self.patience_s)
        async with self.bare.at(host, server_name) as opened:
            yield RetryingCluster(opened, self._stop, patience_s=patience_s, clock=self._clock, chance=self._chance)

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
        """As ``Cluster.watch``: ``restow.kube.watch`` begins watches again by its own rules."""
        return self.bare.watch(resource, namespace, params=params, metadata_only=metadata_only)

    async def _again(self, what: str, send: Callable[[], Awaitable[Reply]]) -> Reply:
        """Send until there is an answer that counts."""
        spell: _FailureStreak | None = None
        while True:
            try:
                return self._answered(what, await send())
            except KubeError as error:
                spell = spell or _FailureStreak(self._clock())
                if not await self._wait(spell, error, what):
                    raise

    async def _doubting(self, what: str, send: Callable[[], Awaitable[Reply]]) -> Reply:
        """Send a write with a precondition until there is an answer, or a doubt."""
        while True:
            try:
                reply = self._answered(what, await send())
            except KubeError as error:
                spell = self._doubts.setdefault(what, _FailureStreak(self._clock()))
                if not await self._wait(spell, error, what):
                    self._doubts.pop(what, None)
                    raise
                if not isinstance(error, (TooManyRequests, Unauthorized, Forbidden, CredentialsExpired)):
                    message = f"no answer tells whether it was carried out ({error.said})"
                    verb, _, target = what.partition(" ")
                    raise OutcomeUnknown(status=409, verb=verb, target=target, message=message) from error
            else:
                self._doubts.pop(what, None)
                return reply

    def _answered(self, what: str, reply: Reply) -> Reply:
        read_json(_is_json, reply.body, what, f"{self.host} answered with success, but the body is not JSON")
        self._known.accepted = True
        self._known.granted.add(what)
        return reply

    async def _wait(self, spell: _FailureStreak, error: KubeError, what: str) -> bool:
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

    def _passes(self, spell: _FailureStreak, error: KubeError, what: str) -> bool:
        if isinstance(error, (Unauthorized, ConfigError)):
            return self._known.accepted
        if isinstance(error, Forbidden):
            spell.forbidden += 1
            starting = self.shaken or what in self._known.granted
            return error.by_authorizer and starting and spell.forbidden < _FORBIDDEN
        return error.may_pass


def with_retries(cluster: Cluster) -> RetryingCluster:
    """Return the cluster as a patient one, with the patience of a look unless it has its own."""
    return cluster if isinstance(cluster, RetryingCluster) else RetryingCluster(cluster)


def without_retries(cluster: Cluster) -> Cluster:
    """Return the cluster without its patience, for whoever decides on each error by a table of its own."""
    return cluster.bare if isinstance(cluster, RetryingCluster) else cluster
