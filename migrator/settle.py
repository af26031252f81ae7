"""How long to wait before listing: an API server may encode the old version for a moment after a flip.

Seen up to 157 ms after the flip, on objects with resourceVersions newer than it (Kubernetes issue
130235); with several API servers the lag is theirs. Objects written in that moment would be missed by a pass that
began in it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime

from restow.crds import Crd

__all__ = ["Sightings", "last_spec_change", "remaining_settle_time"]


_CLOCKS_APART_S = 60.0
"""Seconds by which clocks may differ: the server that answers need not be the one that took the change."""


@dataclass(slots=True)
class Sightings:
    """When this process first saw each generation of each CRD.

    That it saw an earlier one long ago says nothing: the CRD may have been flipped a moment before it was read again,
    for another pass say.
    """

    first: dict[tuple[str, int], float] = field(default_factory=dict)

    def seen_for(self, crd: Crd, now: float) -> float:
        """Note a CRD as just read; return the seconds since it was first seen in this generation."""
        return now - self.first.setdefault((crd.uid, crd.generation), now)


def remaining_settle_time(crd: Crd, *, settle_s: float, server_now: datetime | None, seen_for_s: float) -> float:
    """Return the seconds that still have to pass.

    Args:
        crd: the CRD as just read.
        settle_s: seconds that must lie between its last change and the list.
        server_now: the API server's clock with that read, or None where it was not told.
        seen_for_s: seconds since this process saw the CRD in this generation first. It counts for changes of the last
            minute, and where the CRD itself does not tell when its spec changed.
    """
    changed = last_spec_change(crd)
    if changed is None or server_now is None:
        return max(0.0, settle_s - seen_for_s)
    age = (server_now - changed).total_seconds() - _CLOCKS_APART_S
    return min(settle_s, max(0.0, settle_s - max(age, seen_for_s)))


def last_spec_change(crd: Crd) -> datetime | None:
    """When a manager last wrote the CRD's spec, by the newest entry that owns some of it."""
    times = [
        datetime.fromisoformat(str(entry["time"]))
        for entry in crd.managed_fields
        if "f:spec" in (entry.get("fieldsV1") or {}) and "time" in entry
    ]
    return max(times, default=None)
