"""How long certificates live, and how long the steps of a rotation wait for the world to follow.

Pure.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

__all__ = ["Lifetimes"]


@dataclass(frozen=True, slots=True)
class Lifetimes:
    """Durations of a self-managed authority; the defaults suit a cluster.

    Attributes:
        authority: validity of a CA. Long: each rotation makes the API server rebuild the CRDs' watch caches, twice.
        authority_renewal: this long before its end a CA gets a successor.
        leaf: validity of a serving certificate. Its rotation costs a handshake.
        leaf_renewal: this long before its end a leaf is replaced.
        settle: how long every CRD must have had the successor in its bundle before it signs leaves: every API server
            has to see the CRD's change first. Clocks that differ count against it.
        margin: how long an old CA stays in the bundles after the last leaf that it signed was replaced: every replica
            has to load the new one first (a mounted Secret follows within about two minutes).

    Raises:
        ValueError: it is given durations by which something would end before its replacement is in place.
    """

    authority: timedelta = timedelta(days=2 * 365)
    authority_renewal: timedelta = timedelta(days=180)
    leaf: timedelta = timedelta(days=30)
    leaf_renewal: timedelta = timedelta(days=10)
    settle: timedelta = timedelta(minutes=1)
    margin: timedelta = timedelta(hours=1)

    def __post_init__(self) -> None:
        zero = timedelta(0)
        if not zero < self.leaf_renewal < self.leaf:
            msg = f"a leaf that lives {self.leaf} cannot be renewed {self.leaf_renewal} before its end"
            raise ValueError(msg)
        if not self.leaf + self.settle + self.margin < self.authority_renewal < self.authority:
            msg = (
                f"a CA that lives {self.authority} cannot be renewed {self.authority_renewal} before its end: that "
                f"must be shorter than its life, and longer than a leaf ({self.leaf}), settle and margin together"
            )
            raise ValueError(msg)
        if self.settle < zero or self.margin < zero:
            msg = "settle and margin cannot be negative"
            raise ValueError(msg)
