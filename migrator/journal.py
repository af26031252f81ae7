"""Structured logs of a migration: one line for each thing that happened, its numbers as fields of the record."""

from __future__ import annotations

import logging

from restow.migrator.reconciling.details import Happening, MigrationDetails

__all__ = ["log_details"]

_log = logging.getLogger(__name__)

_LEVELS = {
    Happening.IDLE: logging.DEBUG,
    Happening.SETTLING: logging.DEBUG,
    Happening.FAILED: logging.WARNING,
    Happening.REFUSED: logging.WARNING,
}


def log_details(details: MigrationDetails) -> None:
    """A hook that logs: what needs attention as warnings, what finds nothing to do for debugging only.

    The record has an attribute ``migration``, a flat dict that a JSON formatter can write out.
    """
    level = _LEVELS.get(details.happening, logging.INFO)
    if not _log.isEnabledFor(level):
        return
    again = "" if details.requeue_after is None else f"; again in {details.requeue_after:.0f} s"
    fields = {
        "crd": details.crd,
        "happening": details.happening.value,
        "due": [phase.value for phase in details.due],
        "storageVersion": details.storage_version,
        "storedVersions": list(details.stored_versions),
        "pruned": details.pruned,
        "objects": dict(details.objects),
        "requests": dict(details.requests),
        "remaining": details.remaining,
        "failures": details.failures,
        "durationSeconds": round(details.duration_s, 3),
    }
    _log.log(level, "%s: %s: %s%s", details.crd, details.happening, details.message, again, extra={"migration": fields})
