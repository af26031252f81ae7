"""The Shoot maintenance controller, opt-in: updates the versions of Shoots in their maintenance windows.

``restow.cloudprofile.maintenance.plan`` decides the changes, and ``restow.cloudprofile.maintenance.schedule`` the time.
The controller maintains a Shoot once in a window, with at most one step of a forced update, or at once if it is
annotated. If it cannot read the window, it reports that in a condition and an Event, and does only forced updates.
It reads the Shoot from the API server when it is due, so the whole object need not stay in memory. It tries the
changes with a dry run first.

Other clients write Shoots all the time, so each write may meet a conflict, and each answer may get lost. The controller
remembers which changes it has announced. If the Shoot has them, it only reports them as done; otherwise it decides
again while the window lasts.

If this process ends after it announced changes and before it wrote them, ``status.lastMaintenance`` stays Processing
until the next window, which completes them: a second step in one window would be worse.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from restow.cloudprofile.controllers.index import ProfileIndex
from restow.cloudprofile.controllers.writes import EventRecorder, patch
from restow.cloudprofile.maintenance.plan import (
    Maintenance,
    MaintenancePatches,
    maintain,
    maintenance_patches,
    refused_status,
    withdrawal,
)
from restow.cloudprofile.maintenance.report import events, window_conditions
from restow.cloudprofile.maintenance.schedule import MaintenanceSchedule, schedule
from restow.cloudprofile.objects import SHOOT, SHOOTS, Object, ObjectEvent
from restow.kube.cluster import Cluster
from restow.kube.controller import ReconcileResult
from restow.kube.errors import ApiError, BadRequest, Forbidden, Invalid
from restow.kube.listwatch import Key

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Unfinished:
    """A maintenance that is announced and not reported as done."""

    plan: Maintenance
    writes: MaintenancePatches


class ShootMaintenance:
    """The reconciler that maintains Shoots.

    Args:
        informer: the informer, for reads and writes.
        index: the informer's index.
        recorder: writes Events.
        now: returns the time.
    """

    def __init__(
        self, *, informer: Cluster, index: ProfileIndex, recorder: EventRecorder, now: Callable[[], datetime]
    ) -> None:
        self._informer = informer
        self._index = index
        self._recorder = recorder
        self._now = now
        self._checked: dict[Key, datetime] = {}
        self._unfinished: dict[Key, _Unfinished] = {}

    async def reconcile(self, key: Key) -> ReconcileResult:
        """Maintain one Shoot if it is due.

        Raises:
            KubeError: the API server refuses a request, or cannot be reached.
        """
        known = self._index.shoots.get(key)
        if known is None:
            self._checked.pop(key, None)
            self._unfinished.pop(key, None)
            return ReconcileResult()
        now = self._now()
        unfinished = self._unfinished.get(key)
        planned = self._schedule(key, known, now)
        if unfinished or planned.is_due or window_conditions(known, planned.unreadable, now) is not None:
            shoot: Object = (await self._informer.get(SHOOTS, key.name, key.namespace)).json()
            # The informer may not yet have seen a maintenance that the previous leader did.
            planned = self._schedule(key, shoot, now)
            shoot = await self._report_window(key, shoot, planned.unreadable, now)
            if unfinished and unfinished.writes.is_written(shoot):
                await self._finish(key, shoot, unfinished)
                self._checked[key] = now
            elif planned.is_due:
                await self._maintain(key, shoot, now, forced_only=planned.is_forced_only)
                self._checked[key] = now
            self._unfinished.pop(key, None)
        if planned.following is None:
            return ReconcileResult()
        return ReconcileResult(requeue_after=(planned.following - now).total_seconds())

    def _schedule(self, key: Key, shoot: Object, now: datetime) -> MaintenanceSchedule:
        unfinished = self._unfinished.get(key)
        return schedule(shoot, self._checked.get(key), now, unfinished.writes.announced if unfinished else "")

    async def _report_window(self, key: Key, shoot: Object, unreadable: str, now: datetime) -> Object:
        """Report in a condition and an Event that the window of a Shoot cannot be read, or can be read again."""
        conditions = window_conditions(shoot, unreadable, now)
        if conditions is None:
            return shoot
        change = {"status": {"conditions": conditions}}
        shoot = await patch(self._informer, SHOOTS, shoot, change, subresource="status")
        condition = conditions[-1]
        kind = "Warning" if unreadable else "Normal"
        await self._recorder.write(ObjectEvent(kind, condition["reason"], condition["message"]), SHOOT, shoot)
        _log.warning("Shoot %s: %s", key, condition["message"])
        return shoot

    async def _maintain(self, key: Key, shoot: Object, now: datetime, *, forced_only: bool) -> None:
        offer = self._index.offered_spec(shoot)
        if offer is None:
            _log.warning("Shoot %s is not maintained: its profile does not exist", key)
            return
        plan = maintain(shoot, offer, now, forced_only=forced_only)
        if plan.image_error:
            event = ObjectEvent("Warning", "MachineImageVersionMaintenance", plan.image_error)
            await self._recorder.write(event, SHOOT, shoot)
        writes = maintenance_patches(shoot, plan, now)
        if "spec" in writes.change and not await self._is_accepted(key, shoot, writes.change, now):
            return
        unfinished = _Unfinished(plan, writes)
        if writes.before:
            self._unfinished[key] = unfinished
            shoot = await patch(self._informer, SHOOTS, shoot, writes.before, subresource="status")
        if writes.change:
            shoot = await patch(self._informer, SHOOTS, shoot, writes.change)
        await self._finish(key, shoot, unfinished)

    async def _finish(self, key: Key, shoot: Object, unfinished: _Unfinished) -> None:
        """Report changes as done that the Shoot has."""
        if unfinished.writes.after:
            shoot = await patch(self._informer, SHOOTS, shoot, unfinished.writes.after, subresource="status")
        await self._record(key, shoot, unfinished.plan)

    async def _is_accepted(self, key: Key, shoot: Object, change: Object, now: datetime) -> bool:
        """Try the changes with a dry run; if the API server refuses them, report it and do not retry in this window."""
        try:
            await patch(self._informer, SHOOTS, shoot, change, dry_run=True)
        except (BadRequest, Forbidden, Invalid) as error:
            shoot = await patch(
                self._informer, SHOOTS, shoot, refused_status(shoot, _why(error), now), subresource="status"
            )
            if request := withdrawal(shoot):
                shoot = await patch(self._informer, SHOOTS, shoot, request)
            await self._recorder.write(ObjectEvent("Warning", "MaintenanceRefused", _why(error)), SHOOT, shoot)
            _log.warning("Shoot %s: the changes of its maintenance were refused; see its status", key)
            return False
        return True

    async def _record(self, key: Key, shoot: Object, plan: Maintenance) -> None:
        for event in events(plan.report):
            await self._recorder.write(event, SHOOT, shoot)
        if not plan.report.is_empty:
            _log.info("Shoot %s: maintained; see its status", key)


def _why(error: ApiError) -> str:
    return error.findings if isinstance(error, Invalid) else error.message
