"""Automatic version management, opt-in: proposes the changes that the versioning policy requires, or applies them.

It is the only controller that writes the spec of a profile, and therefore off by default. A proposal is an Event on the
profile and a line in the log. It changes nothing in the object, and is repeated only when it changes.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import datetime

from restow.cloudprofile.controllers.index import ProfileIndex
from restow.cloudprofile.controllers.writes import EventRecorder, patch
from restow.cloudprofile.management.config import VersionManagement
from restow.cloudprofile.management.rules import ManagementResult, manage
from restow.cloudprofile.objects import CLOUD_PROFILE, CLOUD_PROFILES, ObjectEvent, is_deleting, merge_patch, spec_of
from restow.cloudprofile.versions.lifecycle import next_transition_of
from restow.kube.cluster import Cluster
from restow.kube.controller import ReconcileResult
from restow.kube.watch import Key

__all__ = ["ManagedVersions"]


_log = logging.getLogger(__name__)


class ManagedVersions:
    """Manages the versions of CloudProfiles.

    Args:
        config: the policy.
        applies: whether to write the spec; otherwise changes are only proposed.
        informer: the informer, for writes.
        index: the informer's index.
        recorder: writes Events.
        now: returns the time.
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
    ) -> None:
        self._config = config
        self._applies = applies
        self._informer = informer
        self._index = index
        self._recorder = recorder
        self._now = now

    async def reconcile(self, key: Key) -> ReconcileResult:
        """Manage one CloudProfile.

        Raises:
            KubeError: the API server refuses a request, or cannot be reached.
            ValueError: a version, classification or time cannot be read; validation refuses such profiles.
        """
        profile = self._index.profiles.get(key)
        if profile is None or is_deleting(profile):
            self._recorder.forget(key)
            return ReconcileResult()
        now = self._now()
        spec = spec_of(profile)
        managed = manage(spec, self._config, now)
        if not managed.changes:
            self._recorder.forget(key)
        elif self._applies:
            await patch(self._informer, CLOUD_PROFILES, profile, {"spec": merge_patch(spec, managed.spec)})
            await self._recorder.write(_event("VersionsManaged", managed), CLOUD_PROFILE, profile)
            _report(key, "changed", managed)
        else:
            # The dates move with the clock; a proposal is the same if the same versions change for the same reasons.
            meaning = tuple((change.field, change.version, change.why) for change in managed.changes)
            event = _event("VersionManagementProposed", managed)
            if await self._recorder.record(event, CLOUD_PROFILE, profile, key, meaning):
                _report(key, "proposed", managed)
        following = next_transition_of(managed.spec if self._applies else spec, now)
        return (
            ReconcileResult() if following is None else ReconcileResult(requeue_after=(following - now).total_seconds())
        )


def _event(reason: str, managed: ManagementResult) -> ObjectEvent:
    return ObjectEvent("Normal", reason, "; ".join(map(str, managed.changes)))


def _report(key: Key, what: str, managed: ManagementResult) -> None:
    for change in managed.changes:
        _log.info("CloudProfile %s: %s: %s", key, what, change)
