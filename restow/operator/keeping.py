"""Keeps running what goes on beside the serving, for as long as the process lives.

Serving goes on whatever happens here. Work of a leader that ends (its CRDs are gone, a right is missing, a defect)
releases its lease, so that another replica may try; this one stands for election again after a while.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Awaitable, Callable
from typing import Final

from restow.kube import KubeError
from restow.kube.backoff import Backoff
from restow.kube.clock import SYSTEM_CLOCK, Clock
from restow.kube.failures import describe_failure

__all__ = ["keep_running"]

_log = logging.getLogger(__name__)

_BACKOFF: Final = Backoff(first=2.0, most=60.0)
_LASTING: Final = 300.0  # seconds; what went well for so long did not fail at its start


async def keep_running(
    name: str,
    work: Callable[[], Awaitable[None]],
    *,
    ended: Callable[[str], None],
    clock: Clock = SYSTEM_CLOCK,
    chance: Callable[[], float] = random.random,
) -> None:
    """Run some work, again and again, until cancelled.

    Args:
        name: of the work, for the log and for `ended`.
        work: does it; as a leader, it stands for election first.
        ended: told each time that it ended; what it raised is logged.
        clock: its `monotonic` and `sleep`.
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
        delay = _BACKOFF.delay(failures, chance())
        level = logging.WARNING if isinstance(error, KubeError) else logging.ERROR
        reason = "by itself" if error is None else f"by an error: {describe_failure(error)}"
        _log.log(level, "%s ended %s; again in %.0f s", name, reason, delay)
        ended(name)
        await clock.sleep(delay)
