"""How long to wait after the n-th failure in a row: exponential, capped, jittered. Pure.

The jitter takes off up to half: clients that failed together do not come back together, and none comes back
much earlier than the growth of the delay promises.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Backoff"]

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
