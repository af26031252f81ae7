"""What a migration will cost: requests, conversions, and a time, estimated from writes that were tried. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from restow.crds import Crd

__all__ = ["Cost", "Measured", "ride_along", "server_conversions"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """What was measured on the way; durations in seconds.

    Attributes:
        writes, write_s: dry-run writes, and how long they took together, at ``concurrency``.
        conversions, conversion_s: conversions through the converter, in batches as a migration sends them.
        list_s: how long all LISTs took, one after the other.
        concurrency: writes in flight at most.
    """

    writes: int = 0
    write_s: float = 0.0
    conversions: int = 0
    conversion_s: float = 0.0
    list_s: float = 0.0
    concurrency: int = 0

    @property
    def writes_per_s(self) -> float | None:
        """The measured rate; None where nothing was measured."""
        return self.writes / self.write_s if self.writes and self.write_s > 0 else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What a migration will cost.

    Attributes:
        objects: objects to be written.
        lists, reads, writes: requests; ``writes`` with the second write where one is not enough.
        rehearsals: dry-run writes before those that take entries of other versions along.
        conversions: through the converter, for translation, at most.
        server_conversions: by the API server, through the CRD's webhook, at most.
        measured: from what the time is estimated.
    """

    objects: int = 0
    lists: int = 0
    reads: int = 0
    writes: int = 0
    rehearsals: int = 0
    conversions: int = 0
    server_conversions: int = 0
    measured: Measured = Measured()

    @property
    def seconds(self) -> float | None:
        """The estimated time, or None where nothing was measured to estimate it from.

        Writes go on while the lists are read and pages are converted, so the slower of the two counts. Settling
        and pruning come on top.
        """
        rate = self.measured.writes_per_s
        if rate is None or (self.conversions and not self.measured.conversions):
            return None
        converting = 0.0
        if self.conversions:
            converting = self.conversions * self.measured.conversion_s / self.measured.conversions
        return max(self.measured.list_s + converting, (self.writes + self.rehearsals) / rate)

    def to_json(self) -> dict[str, Any]:
        """Return ``cost`` of ``restow plan -o json``; numbers that were measured are in ``estimate``."""
        rate, seconds = self.measured.writes_per_s, self.seconds
        estimate = None
        if rate is not None and seconds is not None:
            estimate = {
                "seconds": round(seconds, 1),
                "writesPerSecond": round(rate, 1),
                "measuredWrites": self.measured.writes,
                "concurrency": self.measured.concurrency,
            }
        return {
            "objects": self.objects,
            "lists": self.lists,
            "reads": self.reads,
            "writes": self.writes,
            "rehearsals": self.rehearsals,
            "conversions": {"translation": self.conversions, "apiServer": self.server_conversions},
            "estimate": estimate,
        }


def server_conversions(crd: Crd, *, listed: int, writes: int, applies: int, rehearsals: int, riding_along: int) -> int:
    """Return how many conversions the API server asks of a CRD's webhook in a migration, at most if nobody else writes.

    Each object that it lists is converted (one ConversionReview each). A write converts what it finds stored, an
    apply once more, and what was stored is converted for the watch cache of every other served version. All of this
    was counted on a kube-apiserver 1.36.3.

    Args:
        crd: the CRD.
        listed: objects in the lists.
        writes: writes, rehearsals not among them.
        applies: server-side applies among these.
        rehearsals: dry runs of writes.
        riding_along: conversions of entries that stay, see ``ride_along``.
    """
    if crd.strategy == "None":
        return 0
    others = len(crd.served) - 1
    return listed + writes * (1 + others) + applies + rehearsals + riding_along


def ride_along(versions: int, entries: int) -> int:
    """Return the conversions that entries of other versions cost each write of their object.

    Args:
        versions: how many other versions they are of.
        entries: how many there are.
    """
    return 4 * versions + 2 * entries
