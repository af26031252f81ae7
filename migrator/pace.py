"""How much load the API server is given: a window of writes in flight, and a rate.

The window follows the rules of TCP: slow start, then additive increase and multiplicative decrease (AIMD). One write
at a time reaches about half of an API server's rate, enough in flight reach all of it (``docs/benchmarks.md``), and the
server's own 429s say when it is too many. Pure: the clock is an argument.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

__all__ = ["Bucket", "Window"]

_START = 8.0
_DECREASE_PERIOD = 1.0  # seconds: the answers to one burst say "slow down" once, not once each


@dataclass(frozen=True, slots=True)
class Window:
    """How many writes may be in flight.

    Attributes:
        most: the limit that was asked for.
        size: the limit now; its whole part counts, at least 1.
        lowered_at: clock of the last decrease.
    """

    most: int
    size: float
    lowered_at: float = float("-inf")

    @classmethod
    def starting(cls, most: int) -> Window:
        """A window that has seen nothing yet."""
        return cls(most=most, size=min(_START, most))

    @property
    def limit(self) -> int:
        """Writes allowed in flight."""
        return max(1, int(self.size))

    @property
    def full_size(self) -> bool:
        """Whether there is nothing to win by further successes."""
        return self.size >= self.most

    def after_success(self) -> Window:
        """One more write in flight for every success until the server first objects, then for every window's worth."""
        objected = self.lowered_at > float("-inf")
        return replace(self, size=min(float(self.most), self.size + (1.0 / self.size if objected else 1.0)))

    def after_slow_down(self, now: float) -> Window:
        """Half as many, at most once a second."""
        if now - self.lowered_at < _DECREASE_PERIOD:
            return self
        return replace(self, size=max(1.0, self.size / 2), lowered_at=now)


@dataclass(frozen=True, slots=True)
class Bucket:
    """A rate of writes per second, as the time at which the next one may start."""

    rate: float
    next_at: float = float("-inf")

    def take(self, now: float) -> tuple[Bucket, float]:
        """Book one write; return the bucket after it and the seconds to wait before sending it."""
        start = max(now, self.next_at)
        return replace(self, next_at=start + 1.0 / self.rate), start - now
