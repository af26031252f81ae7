"""Automatic version management, opt-in: proposes what the versioning policy asks for, or writes it if told to apply.

The one controller that writes the spec of a profile, and therefore off unless configured. A proposal is an Event about
the profile and a line in the log; it leaves no trace in the object, and is made once for as long as it stays the same.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import datetime

from restow.cloudprofile.controllers.landscape import Landscape
from restow.cloudprofile.controllers.recorder import Recorder
from restow.cloudprofile.controllers.writing import patch
from restow.cloudprofile.lifecycle import next_transition_of
from restow.cloudprofile.maintenancereport import Event
from restow.cloudprofile.managementconfig import VersionManagement
from restow.cloudprofile.mergepatch import merge_patch
from restow.cloudprofile.parts import is_deleting, spec_of
from restow.cloudprofile.references import CLOUD_PROFILE
from restow.cloudprofile.resources import CLOUD_PROFILES
from restow.cloudprofile.versionmanagement import Management, manage
from restow.kube.cluster import Cluster
from restow.kube.controller import Result
from restow.kube.sources import Key

__all__ = ["ManagedVersions"]

_log = logging.getLogger(__name__)


class ManagedVersions:
    """Manages the versions of CloudProfiles.

    Args:
        config: the policy.
        applies: whether to write the spec, rather than to propose.
        mirror: where to write.
        landscape: what the mirror knows.
        recorder: for events.
        now: the time.
    """

    def __init__(
        self,
        config: VersionManagement,
        *,
        applies: bool,
        mirror: Cluster,
        landscape: Landscape,
        recorder: Recorder,
        now: Callable[[], datetime],
    ) -> None:
        self._config = config
        self._applies = applies
        self._mirror = mirror
        self._landscape = landscape
        self._recorder = recorder
        self._now = now

    async def reconcile(self, key: Key) -> Result:
        """Manage one CloudProfile.

        Raises:
            KubeError: the API server refuses a request, or cannot be reached.
            ValueError: validation would refuse the profile.
        """
        profile = self._landscape.profiles.get(key)
        if profile is None or is_deleting(profile):
            self._recorder.unsay(key)
            return Result()
        now = self._now()
        spec = spec_of(profile)
        managed = manage(spec, self._config, now)
        if not managed.changes:
            self._recorder.unsay(key)
        elif self._applies:
            await patch(self._mirror, CLOUD_PROFILES, profile, {"spec": merge_patch(spec, managed.spec)})
            await self._recorder.write(_event("VersionsManaged", managed), CLOUD_PROFILE, profile)
            _report(key, "changed", managed)
        else:
            # The dates move on with the clock; as long as the same versions change for the same reasons it is old news.
            meaning = tuple((change.field, change.version, change.why) for change in managed.changes)
            event = _event("VersionManagementProposed", managed)
            if await self._recorder.say(event, CLOUD_PROFILE, profile, key, meaning):
                _report(key, "proposed", managed)
        following = next_transition_of(managed.spec if self._applies else spec, now)
        return Result() if following is None else Result(requeue_after=(following - now).total_seconds())


def _event(reason: str, managed: Management) -> Event:
    return Event("Normal", reason, "; ".join(map(str, managed.changes)))


def _report(key: Key, what: str, managed: Management) -> None:
    for change in managed.changes:
        _log.info("CloudProfile %s: %s: %s", key, what, change)
