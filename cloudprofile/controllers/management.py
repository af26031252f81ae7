"""Automatic version management, opt-in: proposes the changes that the versioning policy requires, or applies them.

No other controller writes the spec of a profile, so this one is off by default. A proposal is an Event on the profile
and a line in the log. A proposal does not change the object, and is repeated only when the proposed changes differ.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import datetime

from restow.cloudprofile.controllers.index import ProfileIndex
from restow.cloudprofile.controllers.writes import EventRecorder, patch
from restow.cloudprofile.management.config import VersionManagement
from restow.cloudprofile.management.rules import ManagementResult, VersionChange, manage
from restow.cloudprofile.objects import (
    CLOUD_PROFILE,
    CLOUD_PROFILES,
    Object,
    ObjectEvent,
    is_deleting,
    merge_patch,
    spec_of,
)
from restow.cloudprofile.versions.lifecycle import next_transition_of
from restow.kube.cluster import Cluster
from restow.kube.controller import ReconcileResult
from restow.kube.errors import ApiError, BadRequest, Forbidden, Invalid
from restow.kube.listwatch import Key

_log = logging.getLogger(__name__)


class ManagedVersions:
    """The reconciler that manages the versions of CloudProfiles.

    Args:
        config: the policy.
        applies: whether to write the spec; otherwise changes are only proposed.
        informer: the informer, for writes.
        index: the informer's index.
        recorder: writes Events.
        now: returns the time.
        refused: called with each profile and the number of its changes that admission refuses.
    """

    def __init__(
        self,
        config: VersionManagement,
        *,
        applies: bool,
        informer: Cluster,
        index: ProfileIndex,
        recorder: EventRecorder,
        now: Callable[[], datetime],
        refused: Callable[[Key, int], None],
    ) -> None:
        self._config = config
        self._applies = applies
        self._informer = informer
        self._index = index
        self._recorder = recorder
        self._now = now
        self._refused = refused

    async def reconcile(self, key: Key) -> ReconcileResult:
        """Manage one CloudProfile.

        Raises:
            KubeError: the API server refuses a request, or cannot be reached.
            ValueError: a version, classification or time cannot be read; validation refuses such profiles.
        """
        profile = self._index.profiles.get(key)
        if profile is None or is_deleting(profile):
            self._recorder.forget(key)
            self._refused(key, 0)
            return ReconcileResult()
        now = self._now()
        spec = spec_of(profile)
        managed = manage(spec, self._config, now)
        if not managed.changes:
            self._recorder.forget(key)
        elif self._applies:
            applied = await self._apply(key, profile, managed)
            if applied.changes:
                await self._recorder.write(_event("VersionsManaged", applied), CLOUD_PROFILE, profile)
                _report(key, "changed", applied)
        else:
            # The dates move with the clock; two proposals are equal if the same versions change for the same reasons.
            meaning = tuple((change.field, change.version, change.why) for change in managed.changes)
            event = _event("VersionManagementProposed", managed)
            if await self._recorder.record(event, CLOUD_PROFILE, profile, key, meaning):
                _report(key, "proposed", managed)
        following = next_transition_of(managed.spec if self._applies else spec, now)
        return (
            ReconcileResult() if following is None else ReconcileResult(requeue_after=(following - now).total_seconds())
        )

    async def _apply(self, key: Key, profile: Object, managed: ManagementResult) -> ManagementResult:
        """Write the changes, or those of them that admission does not refuse; return the written ones.

        A version that a project overrides must not block the management of all others. Refused changes are reported
        once, and tried again with the next change of the profile.
        """
        try:
            await self._write(profile, managed.spec)
        except _REFUSALS as error:
            refused = {managed.changes[0]: _why(error)} if len(managed.changes) == 1 else {}
        else:
            self._refused(key, 0)
            self._recorder.forget(key)
            return managed
        if not refused:
            refused = await self._tried(profile, managed)
        self._refused(key, len(refused))
        told = "; ".join(f"{change}: {why}" for change, why in refused.items())
        event = ObjectEvent("Warning", "VersionManagementRefused", f"These versions are left alone: {told}")
        meaning = tuple((change.field, change.version, why) for change, why in refused.items())
        if await self._recorder.record(event, CLOUD_PROFILE, profile, key, meaning):
            _log.warning("CloudProfile %s: %d changes are refused; see its events", key, len(refused))
        kept = tuple(change for change in managed.changes if change not in refused)
        applied = ManagementResult(kept, managed.only(spec_of(profile), kept))
        if kept:
            await self._write(profile, applied.spec)
        return applied

    async def _tried(self, profile: Object, managed: ManagementResult) -> dict[VersionChange, str]:
        """Return the changes that admission refuses when each is tried alone, with the reasons."""
        refused = {}
        for change in managed.changes:
            try:
                await self._write(profile, managed.only(spec_of(profile), {change}), dry_run=True)
            except _REFUSALS as error:
                refused[change] = _why(error)
        return refused

    async def _write(self, profile: Object, spec: Object, *, dry_run: bool = False) -> None:
        change = {"spec": merge_patch(spec_of(profile), spec)}
        await patch(self._informer, CLOUD_PROFILES, profile, change, dry_run=dry_run)


_REFUSALS = (BadRequest, Forbidden, Invalid)


def _why(error: ApiError) -> str:
    return error.findings if isinstance(error, Invalid) else error.message


def _event(reason: str, managed: ManagementResult) -> ObjectEvent:
    return ObjectEvent("Normal", reason, "; ".join(map(str, managed.changes)))


def _report(key: Key, what: str, managed: ManagementResult) -> None:
    for change in managed.changes:
        _log.info("CloudProfile %s: %s: %s", key, what, change)
