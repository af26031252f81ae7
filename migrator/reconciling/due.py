"""What is due for a CRD, by looking at the CRD alone: this is why a reconciler with nothing to do reads no object.

A complete run leaves a proof, and only what it does not cover is due. A phase that is switched off may leave
storedVersions as they are for good, and is not due for that. Pure.
"""

from __future__ import annotations

from restow.crds import Crd
from restow.migrator.model import Options, Phase
from restow.migrator.proof import touches_managed_fields, what_is_proved

__all__ = ["due_phases"]


def due_phases(crd: Crd, options: Options, remembered: str = "") -> tuple[Phase, ...]:
    """Return the phases that are due, in the order in which they happen; none where nothing has to be done.

    Args:
        crd: the CRD as it is.
        options: what is asked for.
        remembered: the proof of this process's own last run, which it may have had no right to leave on the CRD.
    """
    proven = what_is_proved(crd, remembered)
    due = {
        Phase.STORAGE: options.does(Phase.STORAGE) and bool(proven.doubt),
        Phase.MANAGED_FIELDS: touches_managed_fields(options) and not proven.managed_fields_done(options),
        Phase.PRUNE: options.prunes and crd.stored_versions != (crd.storage.name,),
    }
    return tuple(phase for phase, is_due in due.items() if is_due)
