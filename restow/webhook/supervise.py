"""Keeps background tasks running while a process serves.

No error of a background task ends the serving. When the work of a leader ends (its CRDs are gone, a right is missing,
a defect), it releases its lease, so that another replica can try. This replica stands for election again later.

Only the start of a process can fail. It waits for an API server that restarts (``start_patiently``): a container that
ends instead is started again later and later. A request to stop ends the wait, even if no answer ever comes.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any, Final

from restow.kube import KubeError
from restow.kube.clock import SYSTEM_CLOCK, Clock
from restow.kube.errors import Forbidden, describe_failure, first_error
from restow.kube.retry import READ_PATIENCE_S, Backoff, requested_wait

_log = logging.getLogger(__name__)

_BACKOFF: Final = Backoff(first=2.0, most=60.0)
_STARTING: Final = Backoff(first=0.5, most=4.0)
_LASTING: Final = 300.0  # seconds; work that ran this long did not fail at its start


@asynccontextmanager
async def run_alongside(*works: Coroutine[Any, Any, None]) -> AsyncIterator[tuple[asyncio.Task[None], ...]]:
    """Run works as tasks while the block runs, then cancel them and wait for their end.

    Unlike in a TaskGroup, an error of one task does not cancel the block: it is logged. Work in ``keep_running`` raises
    no errors.
    """
    tasks = tuple(asyncio.create_task(_told(work)) for work in works)
    try:
        yield tasks
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _told(work: Coroutine[Any, Any, None]) -> None:
    try:
        await work
    except (asyncio.CancelledError, KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # noqa: BLE001 - a panic of a library is no Exception; serving goes on without it
        _log.critical(
            "%s ended for good: %s; restart this process",
            getattr(work, "__qualname__", "a task"),
            describe_failure(error),
        )


async def keep_running(
    name: str,
    work: Callable[[], Awaitable[None]],
    *,
    ended: Callable[[str], None],
    clock: Clock = SYSTEM_CLOCK,
    chance: Callable[[], float] = random.random,
) -> None:
    """Run some work repeatedly until cancelled.

    Args:
        name: the name of the work, for the log and for ``ended``.
        work: does the work; the work of a leader stands for election first.
        ended: called each time the work ends; errors of the work are logged.
        clock: gives ``monotonic`` and ``sleep``.
        chance: random numbers from [0, 1).
    """
    failures = 0
    while True:
        began = clock.monotonic()
        error: Exception | None = None
        try:
            await work()
        except Exception as raised:  # noqa: BLE001 - whatever it is, it must not end the serving
            error = raised
        failures = 1 if clock.monotonic() - began >= _LASTING else failures + 1
        delay = _BACKOFF.delay(failures, chance(), requested_wait(error))
        level = logging.WARNING if isinstance(error, KubeError) else logging.ERROR
        reason = "by itself" if error is None else f"by an error: {describe_failure(error)}"
        _log.log(level, "%s ended %s; again in %.0f s", name, reason, delay)
        ended(name)
        await clock.sleep(delay)


class StartStopped(Exception):
    """The process was asked to stop before its start was complete."""


async def start_patiently(
    step: Callable[[], Awaitable[None]],
    stop: asyncio.Event,
    *,
    clock: Clock = SYSTEM_CLOCK,
    chance: Callable[[], float] = random.random,
) -> None:
    """Take a step of the start; take it again for half a minute while the API server cannot be reached.

    Args:
        step: the step; it may have been carried out in part before.
        stop: once it is set, the step is cancelled.
        clock: gives ``monotonic`` and ``sleep``.
        chance: random numbers from [0, 1).

    Raises:
        KubeError: the API server refuses a request, or stays out of reach.
        StartStopped: ``stop`` was set before the step was complete.
    """
    try:
        async with asyncio.TaskGroup() as group:
            stopping = group.create_task(_stopped(stop))
            await _taken(step, clock, chance)
            stopping.cancel()
    except BaseExceptionGroup as group_of_errors:
        raise first_error(group_of_errors) from None


async def _stopped(stop: asyncio.Event) -> None:
    await stop.wait()
    raise StartStopped


async def _taken(step: Callable[[], Awaitable[None]], clock: Clock, chance: Callable[[], float]) -> None:
    began, failures = clock.monotonic(), 0
    while True:
        try:
            await step()
        except KubeError as error:
            # After an outage an API server may not have read its RBAC rules yet.
            passes = error.may_pass or (failures and isinstance(error, Forbidden))
            if not passes or clock.monotonic() - began >= READ_PATIENCE_S:
                raise
            failures += 1
            delay = _STARTING.delay(failures, chance(), requested_wait(error))
            _log.warning("the start waits %.1f s for the API server: %s", delay, describe_failure(error))
            await clock.sleep(delay)
        else:
            return
