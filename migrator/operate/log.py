"""Structured logs of a migration: one line per event, with its numbers as fields of the record."""

from __future__ import annotations

import logging
from dataclasses import asdict

from restow.migrator.operate.hooks import MigrationDetails, MigrationEvent

_log = logging.getLogger(__name__)

_LEVELS = {
    MigrationEvent.IDLE: logging.DEBUG,
    MigrationEvent.SETTLING: logging.DEBUG,
    MigrationEvent.FAILED: logging.WARNING,
    MigrationEvent.REFUSED: logging.WARNING,
}


def log_details(details: MigrationDetails) -> None:
    """Log an event, as a hook: problems as warnings, events without work at the level debug.

    The record has an attribute ``migration``, a flat dict that a JSON formatter can write.
    """
    level = _LEVELS.get(details.event, logging.INFO)
    if not _log.isEnabledFor(level):
        return
    fields = {
        "crd": details.crd,
        "happening": details.event.value,
        "due": [phase.value for phase in details.due],
        "storageVersion": details.storage_version,
        "storedVersions": list(details.stored_versions),
        "pruned": details.pruned,
        "objects": dict(details.objects),
        "requests": dict(details.requests),
        "remaining": details.remaining,
        "failures": details.failures,
        "failed": [asdict(each) for each in details.failed],
        "references": {
            each.of.version: {
                "againstUnserving": sum(each.against_unserving.values()),
                "againstRemoval": sum(each.against_removal.values()),
            }
            for each in details.references
        },
        "durationSeconds": round(details.duration_s, 3),
    }
    _log.log(
        level,
        "%s: %s: %s%s",
        details.crd,
        details.event,
        details.message,
        _again(details),
        extra={"migration": fields},
    )


def _again(details: MigrationDetails) -> str:
    """Return when the CRD is reconciled again; a stopped run continues in another process, or never."""
    after = details.requeue_after
    if after is None or details.event is MigrationEvent.STOPPED:
        return ""
    if after <= 0:
        return "; looking again at once"
    return f"; again in {after:.0f} s" if after >= 1 else f"; again in {after:.1f} s"
