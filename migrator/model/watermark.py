"""The settle time before a list, and the watermark: a resourceVersion that separates old writes from proved ones.

An API server may encode the old version for a moment after a flip of the storage version: up to 157 ms were measured,
on objects with resourceVersions newer than the flip (Kubernetes issue 130235). With several API servers, each has its
own lag. A pass that begins in that moment would miss such objects, so a run waits before it lists
(``remaining_settle_time``).

The watermark is the resourceVersion of a LIST that was made when the last change of the CRD had settled. An object with
a newer one was written since, by any client, and so is stored at the storage version; a run that resumes leaves out
re-encoding it. It says nothing about managedFields: clients of an older version write old entries at any time.

It is an annotation of the CRD, as the proof is, and is left before the first object is written:

- It takes the right to patch the CRD, which the proof takes too, and no other; a ConfigMap would need a namespace and
  rights in it. Without the right nothing is lost but the shortcut.
- It records a moment, not work done, so no kill can make it wrong: it is there or it is not.
- It goes where the CRD goes: away with it, and back with the objects when etcd is restored from a backup. A file or
  another store would then speak of resourceVersions that are given out a second time.

It is believed only for the same uid, and while the storage version is proven never to have been another one: in the
same generation, or the next with the same versions and flags (a rotated CA bundle); and only by runs that ask for no
more settle time than it was taken after. resourceVersions are compared as Kubernetes does since they are declared
comparable (KEP-5504, ``apimachinery/pkg/util/resourceversion``): positive decimal integers of any length, within one
resource; anything else compares to nothing.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, field
from datetime import datetime

import msgspec

from restow.crds import Crd

__all__ = [
    "ANNOTATION",
    "FirstSeen",
    "Watermark",
    "is_newer",
    "last_spec_change",
    "remaining_settle_time",
    "valid_watermark",
    "versions_digest",
]


_CLOCKS_APART_S = 60.0
"""Seconds by which clocks may differ: the server that answers need not be the one that took the change."""


@dataclass(slots=True)
class FirstSeen:
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
        server_now: the API server's clock with that read, or None where its answer had no date.
        seen_for_s: seconds since this process saw the CRD in this generation first. It counts for changes of the last
            minute, and where the CRD itself does not show when its spec changed.
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


ANNOTATION = "restow.dev/watermark"

_WELL_FORMED = re.compile(r"[1-9][0-9]*", re.ASCII)


_FORMAT = 2
"""Those of format 1 were taken without a look at the API servers."""


class Watermark(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """A resourceVersion, and what it holds for.

    Attributes:
        uid, generation, versions: of the CRD when the objects were listed; ``versions`` is ``versions_digest``.
        resource_version: of the first page of that list.
        settle_s: seconds that had passed since the CRD last changed, at least.
        format: of this value; another one is not read.
    """

    uid: str
    generation: int
    versions: str
    resource_version: str
    settle_s: float
    format: int = 2

    @classmethod
    def taken(cls, crd: Crd, resource_version: str, settle_s: float) -> Watermark | None:
        """Take one; None where the server's resourceVersions cannot be compared."""
        if not _WELL_FORMED.fullmatch(resource_version):
            return None
        return cls(crd.uid, crd.generation, versions_digest(crd), resource_version, settle_s)

    def renewed(self, crd: Crd) -> Watermark:
        """Return it for the CRD as it is now, for which it holds: so it outlives one CA bundle after the other."""
        return msgspec.structs.replace(self, generation=crd.generation)

    def encode(self) -> str:
        """Return the annotation's value."""
        return msgspec.json.encode(self).decode()

    def holds_for(self, crd: Crd, settle_s: float) -> bool:
        """Whether it may be believed, the CRD being as it is now, by a run that asks for this settle time."""
        return (
            self.format == _FORMAT
            and self.uid == crd.uid
            and self.versions == versions_digest(crd)
            and crd.generation - self.generation in (0, 1)
            and self.settle_s >= settle_s
            and _WELL_FORMED.fullmatch(self.resource_version) is not None
        )


def valid_watermark(crd: Crd, settle_s: float) -> Watermark | None:
    """Return the watermark that the CRD carries, if it is one and holds."""
    value = crd.annotations.get(ANNOTATION)
    if value is None:
        return None
    try:
        found = _decoder.decode(value)
    except msgspec.MsgspecError:
        return None
    return found if found.holds_for(crd, settle_s) else None


def is_newer(resource_version: str, than: str) -> bool:
    """Whether one resourceVersion is newer than another one of the same resource; never so where either is none."""
    if not (_WELL_FORMED.fullmatch(resource_version) and _WELL_FORMED.fullmatch(than)):
        return False
    return (len(resource_version), resource_version) > (len(than), than)


def versions_digest(crd: Crd) -> str:
    """A short hash of every version with its served and storage flags."""
    return hashlib.sha256(msgspec.json.encode(crd.fingerprint)).hexdigest()[:16]


_decoder = msgspec.json.Decoder(Watermark)
