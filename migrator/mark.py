"""The completion mark: an annotation by which a later run knows that this one finished, and for what.

It is a hash of everything that could make a phase due again: the CRD's uid, each version with its served and storage
flags, and the options. A CA bundle or a schema change leaves it valid; a flip of the storage version or an unserved
version does not. It is trusted only while storedVersions is exactly the storage version, which the API server itself
ends at the next flip. Losing it (``kubectl replace``, GitOps) costs one more pass and nothing else.
"""

from __future__ import annotations

import hashlib

import msgspec

from restow.crds import Crd
from restow.migrator.model import Options, Phase

__all__ = ["ANNOTATION", "completed", "mark"]

ANNOTATION = "restow.dev/migrated"

_encoder = msgspec.json.Encoder(order="sorted")


def mark(crd: Crd, options: Options) -> str:
    """Return the mark that a complete run with these options leaves."""
    told = {
        "format": 1,
        "uid": crd.uid,
        "versions": crd.fingerprint,
        "managedFields": options.managed_fields.value if options.does(Phase.MANAGED_FIELDS) else "off",
        "scope": options.scope.value,
        "stripServed": options.strip_served,
    }
    if crd.strategy != "None":
        told["converted"] = True  # earlier releases left a mark where entries of served versions were kept
    return hashlib.sha256(_encoder.encode(told)).hexdigest()[:32]


def completed(crd: Crd, options: Options) -> bool:
    """Whether a run with these options finished for the CRD as it is."""
    exact = crd.stored_versions == (crd.storage.name,)
    return exact and not options.ignore_mark and crd.annotations.get(ANNOTATION) == mark(crd, options)
