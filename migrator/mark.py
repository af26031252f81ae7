"""The completion mark: an annotation by which a later run knows that this one finished, and for what.

It is a hash of everything that could make a phase due again: the CRD's uid, each version with its served and storage
flags, the options, and whether the cluster's own migration failed before it (that prunes all the same). A CA bundle or
a schema change leaves it valid; a flip of the storage version or an unserved version does not. It is trusted only while
storedVersions is exactly the storage version, which the API server itself ends at the next flip. Losing it (``kubectl
replace``, GitOps) costs one more pass and nothing else.
"""

from __future__ import annotations

import hashlib

import msgspec

from restow.crds import Crd
from restow.migrator.model import ManagedFields, Options, Phase
from restow.migrator.native.migration import failed_prune

__all__ = ["ANNOTATION", "UNFINISHED", "completed", "mark", "may_mark", "nothing_due", "reencoding_due"]

ANNOTATION = "restow.dev/migrated"
UNFINISHED = "unfinished"
"""Stands in place of a mark once objects failed: what another run finished at the same time says nothing of them."""

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
    if failed := failed_prune(crd):
        told["afterFailure"] = failed
    return hashlib.sha256(_encoder.encode(told)).hexdigest()[:32]


def completed(crd: Crd, options: Options) -> bool:
    """Whether a run with these options finished for the CRD as it is."""
    exact = crd.stored_versions == (crd.storage.name,)
    return exact and not options.ignore_mark and crd.annotations.get(ANNOTATION) == mark(crd, options)


def may_mark(start: Crd, now: Crd, options: Options) -> bool:
    """Whether a run that began at ``start`` may leave its mark on the CRD as it is now.

    Not if versions changed meanwhile: objects were decided by what they were before. Nor if objects of another run
    failed meanwhile, which this one may have looked at before.
    """
    others_failed = now.annotations.get(ANNOTATION) == UNFINISHED != start.annotations.get(ANNOTATION)
    return mark(now, options) == mark(start, options) and not others_failed


def reencoding_due(crd: Crd, options: Options, *, completed: bool) -> bool:
    """Whether objects may be stored at another version than the storage version, and are to be written for that.

    What storedVersions says is not believed after a StorageVersionMigration of the cluster that failed, until a run of
    ours has finished (``completed``).
    """
    if not options.does(Phase.STORAGE):
        return False
    return crd.stored_versions != (crd.storage.name,) or (bool(failed_prune(crd)) and not completed)


def nothing_due(crd: Crd, options: Options) -> str:
    """Return why no object has to be looked at, known from the CRD alone; an empty string where one may have to be."""
    done = completed(crd, options)
    if crd.stored_versions != (crd.storage.name,) or reencoding_due(crd, options, completed=done):
        return ""
    if done:
        return (
            "nothing is due: status.storedVersions names only the storage version already, and a complete run left its "
            "mark for these versions (--ignore-mark looks at all objects all the same)"
        )
    if not options.does(Phase.MANAGED_FIELDS) or options.managed_fields is ManagedFields.KEEP:
        return "nothing is due: status.storedVersions names only the storage version already"
    return ""
