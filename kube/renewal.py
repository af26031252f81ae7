"""The credentials at hand: renewed before they end, and kept where a renewal fails while they are still good.

As client-go does: a plugin that fails once, or a token file that is missing for a moment, ends nothing while the API
server takes what is at hand. Once that has ended, requests fail as ``CredentialsExpired``, which passes: each later
one tries again. Only the first load of a configuration raises ``ConfigError``.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta

from restow.kube.credentials import Connection
from restow.kube.errors import ConfigError, CredentialsExpired

__all__ = ["Credentials"]

_log = logging.getLogger(__name__)

_PAUSE_WHILE_GOOD = timedelta(seconds=10)  # from an attempt that failed to the next one, while requests go through
_PAUSE = timedelta(seconds=1)  # and when they do not: sixteen writers must not run a plugin one after the other
_PATIENCE_WHILE_GOOD = 10.0  # seconds for a plugin that hangs, before requests go on without waiting for it
_PATIENCE = 60.0


class Credentials:
    """How to reach the API server, and as whom, at this moment; shared by all tasks and sessions of one ``connect``."""

    def __init__(
        self,
        connection: Connection,
        reload: Callable[[], Awaitable[Connection]],
        now: Callable[[], datetime],
    ) -> None:
        self._held = connection
        self._reload = reload
        self._now = now
        self._attempt: asyncio.Task[None] | None = None
        self._begun = 0.0
        self._failure: ConfigError | None = None
        self._failed_at = now()
        self._told = False

    @property
    def held(self) -> Connection:
        """What is at hand, due for renewal or not."""
        return self._held

    async def current(self) -> Connection:
        """Return what to send a request with, renewed if that is due.

        Raises:
            CredentialsExpired: they have ended, and no attempt to renew them has succeeded.
        """
        held = self._held
        if held.renew_at is not None and self._now() >= held.renew_at:
            await self._renew(held, good=held.valid_until is None or self._now() < held.valid_until)
        return self._held

    async def refused(self, used: Connection) -> None:
        """Renew what the API server did not accept, unless another task just did.

        Raises:
            CredentialsExpired: that failed.
        """
        if self._held is used:
            await self._renew(used, good=False)

    async def close(self) -> None:
        """End an attempt that is under way."""
        if self._attempt is not None and not self._attempt.done():
            self._attempt.cancel()
            await asyncio.wait({self._attempt})

    async def _renew(self, held: Connection, *, good: bool) -> None:
        """Take part in an attempt, or begin one if none failed a moment ago."""
        moment = asyncio.get_running_loop().time
        if (self._attempt is None or self._attempt.done()) and not self._failed_just_now(good=good):
            self._begun = moment()
            self._attempt = asyncio.create_task(self._load())
        attempt = self._attempt
        if attempt is not None and not attempt.done():
            until = self._begun + (_PATIENCE_WHILE_GOOD if good else _PATIENCE)
            await asyncio.wait({attempt}, timeout=max(0.0, until - moment()))
        if attempt is not None and attempt.done() and not attempt.cancelled() and (error := attempt.exception()):
            raise error  # no failure of the configuration: an error of this program
        if self._held is not held:
            return
        why: object = self._failure
        if attempt is not None and not attempt.done():
            why = f"an attempt that was begun {moment() - self._begun:.0f} s ago did not end yet"
        if not good:
            msg = f"the credentials for {held.host} are no longer good, and could not be renewed: {why}"
            raise CredentialsExpired(msg) from self._failure
        if not self._told:
            self._told = True
            _log.warning("the credentials for %s could not be renewed, and are used until they end: %s", held.host, why)

    def _failed_just_now(self, *, good: bool) -> bool:
        if self._failure is None:
            return False
        # A clock that was set back must not put the next attempt off for hours.
        return abs(self._now() - self._failed_at) < (_PAUSE_WHILE_GOOD if good else _PAUSE)

    async def _load(self) -> None:
        try:
            self._held = await self._reload()
        except ConfigError as error:
            self._failure, self._failed_at = error, self._now()
        else:
            self._failure, self._told = None, False
