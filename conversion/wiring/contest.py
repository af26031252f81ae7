"""How often one object had to be wired again by this process, and so whether somebody undoes it all the time.

A tool that replaces a CRD every second is answered every second: each time all versions but the stored one are down.
Two writers that answer each other at once would keep an API server busy with rebuilding watch caches; so writes are
rationed. Of two restows, each with a CA of its own, neither takes the other's certificates out for good: after a few
tries they stay, and both are trusted.

Pure: the clock is passed in.
"""

from __future__ import annotations

from collections import deque
from datetime import datetime, timedelta
from typing import Final

__all__ = ["Contest"]

_BURST: Final = (10, timedelta(seconds=5))  # so many writes in so short a time: two a second, whoever answers them
_CONTESTED: Final = (5, timedelta(minutes=1))
_REMOVALS: Final = (3, timedelta(minutes=10))


class Contest:
    """The writes of one object."""

    def __init__(self) -> None:
        self._writes: deque[datetime] = deque(maxlen=_BURST[0])
        self._removals: deque[datetime] = deque(maxlen=_REMOVALS[0])
        self.keeps_certificates = False
        """Whether somebody puts back each certificate that is taken out: then it has to stay."""

    def wrote(self, now: datetime, *, removed: bool) -> None:
        """Note a write; ``removed`` says whether it took certificates out."""
        self._writes.append(now)
        if removed:
            self._removals.append(now)
            self.keeps_certificates |= _within(self._removals, _REMOVALS, now)

    def may_write(self, now: datetime) -> bool:
        """Say whether the object may be written now."""
        return not _within(self._writes, _BURST, now)

    def is_contested(self, now: datetime) -> bool:
        """Say whether another writer undoes again and again what restow writes."""
        return self.keeps_certificates or _within(self._writes, _CONTESTED, now)


def _within(times: deque[datetime], rate: tuple[int, timedelta], now: datetime) -> bool:
    number, period = rate
    return len(times) >= number and now - times[-number] < period
