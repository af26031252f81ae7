"""What a run leaves on a CRD before its first write: the watermark, and its token.

The watermark is a resourceVersion that separates old writes from proved ones. The token (``RUNS``) shows that the run
has not outlived a restore of etcd from a backup (``decide.premise``).

The watermark is the resourceVersion of a LIST made after the last change of the CRD had settled. An object with a newer
resourceVersion was written later, by any client, and so is stored at the storage version; a run that resumes does not
re-encode it. The watermark says nothing about managedFields: clients of an older version write old entries at any time.

The watermark is an annotation of the CRD, like the proof. A run writes it before the first object:

- It needs only the right to patch the CRD, which the proof needs too; a ConfigMap would need a namespace and rights in
  it. Without the right only the shortcut is lost.
- It records a moment, not finished work, so a kill cannot make it wrong: it exists or it does not.
- It shares the fate of the CRD: it is deleted with the CRD, and restored with the objects when etcd is restored from a
  backup. A file or another store would then refer to resourceVersions that are assigned a second time.

A watermark is valid only for the same uid, and while the storage version is proved not to have changed: in the same
generation, or in the next one with the same versions and flags (a rotated CA bundle). It is valid only for runs that
ask for no more settle time than it was taken after. resourceVersions are compared as in Kubernetes since they are
declared comparable (KEP-5504, ``apimachinery/pkg/util/resourceversion``): positive decimal integers of any length,
within one resource. Other values cannot be compared.
"""

from __future__ import annotations

import hashlib
import re
from datetime import datetime

import msgspec

from restow.crds import Crd


def last_spec_change(crd: Crd) -> datetime | None:
    """Return when a manager last wrote the CRD's spec: the time of the newest entry that owns a part of it."""
    times = [
        datetime.fromisoformat(str(entry["time"]))
        for entry in crd.managed_fields
        if "f:spec" in (entry.get("fieldsV1") or {}) and "time" in entry
    ]
    return max(times, default=None)


ANNOTATION = "restow.dev/watermark"

_WELL_FORMED = re.compile(r"[1-9][0-9]*", re.ASCII)


_FORMAT = 2
"""The format of watermarks. Those of format 1 were taken without a check of the API servers."""


class Watermark(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """A resourceVersion, and the state of the CRD for which it is valid.

    Attributes:
        uid, generation, versions: of the CRD when the objects were listed; ``versions`` is ``versions_digest``.
        resource_version: the resourceVersion of the first page of that list.
        settle_s: the least seconds that had passed since the last change of the CRD.
        format: the format of this value; other formats are ignored.
    """

    uid: str
    generation: int
    versions: str
    resource_version: str
    settle_s: float
    format: int = 2

    @classmethod
    def taken(cls, crd: Crd, resource_version: str, settle_s: float) -> Watermark | None:
        """Return a new watermark; None if the server's resourceVersions cannot be compared."""
        if not _WELL_FORMED.fullmatch(resource_version):
            return None
        return cls(crd.uid, crd.generation, versions_digest(crd), resource_version, settle_s)

    def renewed(self, crd: Crd) -> Watermark:
        """Return this valid watermark for the CRD's current state, so that it survives rotations of the CA bundle."""
        return msgspec.structs.replace(self, generation=crd.generation)

    def encode(self) -> str:
        """Return the annotation's value."""
        return msgspec.json.encode(self).decode()

    def holds_for(self, crd: Crd, settle_s: float) -> bool:
        """Return whether it is valid for the CRD's current state and a run with this settle time."""
        return (
            self.format == _FORMAT
            and self.uid == crd.uid
            and self.versions == versions_digest(crd)
            and crd.generation - self.generation in (0, 1)
            and self.settle_s >= settle_s
            and _WELL_FORMED.fullmatch(self.resource_version) is not None
        )


def valid_watermark(crd: Crd, settle_s: float) -> Watermark | None:
    """Return the CRD's watermark if it is well-formed and valid."""
    value = crd.annotations.get(ANNOTATION)
    if value is None:
        return None
    try:
        found = _decoder.decode(value)
    except msgspec.MsgspecError:
        return None
    return found if found.holds_for(crd, settle_s) else None


def is_newer(resource_version: str, than: str) -> bool:
    """Return whether a resourceVersion is newer than another one of the same resource; False if either is invalid."""
    if not (_WELL_FORMED.fullmatch(resource_version) and _WELL_FORMED.fullmatch(than)):
        return False
    return (len(resource_version), resource_version) > (len(than), than)


def versions_digest(crd: Crd) -> str:
    """Return a short hash of every version with its served and storage flags."""
    return hashlib.sha256(msgspec.json.encode(crd.fingerprint)).hexdigest()[:16]


RUNS = "restow.dev/runs"
"""The annotation of a CRD with the tokens of the runs that are at work on it, separated by blanks."""

TOKEN_LENGTH = 8
_MOST_TOKENS = 1000
"""The most tokens that are kept, the newest: a run that is killed, or that fails, leaves its token behind."""


def with_token(crd: Crd, token: str) -> str:
    """Return the value of the annotation ``RUNS`` with one more token."""
    return " ".join([*crd.annotations.get(RUNS, "").split(), token][-_MOST_TOKENS:])


_decoder = msgspec.json.Decoder(Watermark)
