"""What is due for a CRD, by looking at the CRD alone: this is why a reconciler with nothing to do reads no object.

A finished run leaves a mark (``mark``), and only what is not covered by it is due. While ``status.storedVersions`` is
exactly the storage version that is the run's own completion mark. Where a phase is switched off, storedVersions may
keep other versions for good; the mark then says in which phases, and beside which stored versions, all objects were
done. Such a mark never allows a prune: as soon as both phases that lead to one are on, everything is due. Pure.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection

import msgspec

from restow.crds import Crd
from restow.migrator.mark import mark, reencoding_due
from restow.migrator.model import ManagedFields, Options, Phase

__all__ = ["due_phases", "finished_mark"]

_encoder = msgspec.json.Encoder(order="sorted")


def due_phases(crd: Crd, options: Options, marks: Collection[str]) -> tuple[Phase, ...]:
    """Return the phases that are due, in the order in which they happen; none where nothing has to be done.

    Args:
        crd: the CRD as it is.
        options: what is asked for.
        marks: ``finished_mark`` of runs that are known to have finished.
    """
    exact = crd.stored_versions == (crd.storage.name,)
    finished = (exact or not options.prunes) and finished_mark(crd, options) in marks
    due = {
        Phase.STORAGE: not finished and reencoding_due(crd, options, completed=False),
        Phase.MANAGED_FIELDS: not finished and _touches_managed_fields(options),
        Phase.PRUNE: not exact and options.prunes,
    }
    return tuple(phase for phase, is_due in due.items() if is_due)


def finished_mark(crd: Crd, options: Options) -> str:
    """Return the mark of a run with these options that finished every object of the CRD as it is."""
    done = mark(crd, options)
    if crd.stored_versions == (crd.storage.name,):
        return done
    told = {"done": done, "stored": crd.stored_versions, "skip": sorted(options.skip)}
    return hashlib.sha256(_encoder.encode(told)).hexdigest()[:32]


def _touches_managed_fields(options: Options) -> bool:
    return options.does(Phase.MANAGED_FIELDS) and options.managed_fields is not ManagedFields.KEEP
