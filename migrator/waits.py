"""What a run waits for right now, and until when: a run that says nothing looks like one that hangs. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

__all__ = ["Wait", "Waits", "again"]

_SHORTEST = 2.0
_LONGEST_REASON = 300


@dataclass(frozen=True, slots=True)
class Wait:
    """One wait.

    Attributes:
        what: the end of a sentence that begins with "waiting 8 s".
        seconds: how long it is, or how long at most.
        until: when it ends, by the monotonic clock of the run.
    """

    what: str
    seconds: float
    until: float


class Waits:
    """The waits of one run, whose tasks wait side by side.

    Args:
        clock: a monotonic clock, in seconds.
    """

    def __init__(self, clock: Callable[[], float] = lambda: 0.0) -> None:
        self._clock = clock
        self._now: dict[int, Wait] = {}

    @contextmanager
    def on(self, what: str, seconds: float) -> Iterator[None]:
        """Take note of a wait within the block."""
        wait = Wait(what, seconds, self._clock() + seconds)
        self._now[id(wait)] = wait
        try:
            yield
        finally:
            del self._now[id(wait)]

    def sentence(self) -> str:
        """Return a part of a sentence on the wait that ends last; empty where no wait is worth a word."""
        long = [each for each in self._now.values() if each.seconds >= _SHORTEST]
        if not long:
            return ""
        last = max(long, key=lambda each: each.until)
        return f"waiting {max(last.until - self._clock(), 0.0):.0f} s {last.what}"


def again(what: str, attempt: int, attempts: int, why: str) -> str:
    """Return what a wait between two tries is for.

    Args:
        what: ``list the objects``, say.
        attempt: the try that failed, from 1.
        attempts: how many there are.
        why: what the API server said; cut where it is long.
    """
    line = " ".join(why.split())
    line = line if len(line) <= _LONGEST_REASON else f"{line[:_LONGEST_REASON]}…"
    return f"to {what} again (try {attempt + 1} of {attempts}): {line}"
