"""The writes of a Shoot's maintenance, as merge patches. Pure.

In the order of the API: the changes are tried with a dry run, told in the status, written, and told as done. What the
dry run refuses is told as failed and not tried again before the next window.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from restow.cloudprofile.maintenance import Maintenance
from restow.cloudprofile.maintenancereport import last_maintenance, rejected, succeeded
from restow.cloudprofile.maintenanceschedule import annotations_without_request
from restow.cloudprofile.mergepatch import merge_patch
from restow.cloudprofile.parts import Object, spec_of

__all__ = ["MaintenanceWrites", "maintenance_writes", "refused_status", "withdrawal"]


@dataclass(frozen=True, slots=True)
class MaintenanceWrites:
    """What to write for a maintenance; each patch is empty where nothing is to be written.

    Attributes:
        before: the status that announces the changes.
        change: spec and annotations.
        after: the status once the changes are written.
    """

    before: dict[str, Any]
    change: dict[str, Any]
    after: dict[str, Any]


def maintenance_writes(shoot: Object, plan: Maintenance, now: datetime) -> MaintenanceWrites:
    """Return the patches of a maintenance; those of the status build on each other."""
    had = (shoot.get("status") or {}).get("lastMaintenance") or {}
    told = had if plan.report.is_empty else last_maintenance(plan.report, now)
    done = succeeded(told, plan.report) if told else {}
    spec = merge_patch(spec_of(shoot), plan.spec)
    return MaintenanceWrites(
        _status(had, told), ({"spec": spec} if spec else {}) | withdrawal(shoot), _status(told, done)
    )


def withdrawal(shoot: Object) -> dict[str, Any]:
    """Return the patch that takes back the request to be maintained at once."""
    annotations = annotations_without_request(shoot)
    return {"metadata": {"annotations": annotations}} if annotations else {}


def refused_status(shoot: Object, why: str, now: datetime) -> dict[str, Any]:
    """Return the patch of the status where the API server refused the changes."""
    had = (shoot.get("status") or {}).get("lastMaintenance") or {}
    return _status(had, rejected(why, now))


def _status(had: Object, says: Object) -> dict[str, Any]:
    change = merge_patch(had, says)
    return {"status": {"lastMaintenance": change}} if change else {}
