"""The status controllers: the classification of each version, rendered NamespacedCloudProfiles, and finalizers.

One class serves both kinds, which differ only in their status. A profile is reconciled when it changes, when its
parent changes, and when one of its stages begins; in deletion also when its children or Shoots change. Nothing is
polled. Reads come from the informer and cost no request. Each reconcile writes the status at most once, and only if it
changes. An Event about a stage follows the status that has its classification, so a restart does not repeat it.

Before a controller removes the finalizer, it asks the API server itself for users of the profile: the informer may
not yet have a Shoot that was just created.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import datetime

from restow.cloudprofile.controllers.index import ProfileIndex
from restow.cloudprofile.controllers.writes import EventRecorder, patch
from restow.cloudprofile.objects import (
    CLOUD_PROFILE,
    Object,
    ObjectEvent,
    expirable_versions,
    is_deleting,
    reference_to,
    resource_of,
    spec_of,
)
from restow.cloudprofile.profiles.reconciliation import (
    FinalizerDecision,
    StatusDecision,
    decide_finalizers,
    decide_namespaced_status,
    decide_status,
)
from restow.cloudprofile.queries import children_of, shoots_of
from restow.conversion.server.timeslices import offload
from restow.kube.cluster import Cluster
from restow.kube.controller import ReconcileResult
from restow.kube.listwatch import Key

_log = logging.getLogger(__name__)

_OF_A_VERSION = 1024


class ProfileStatus:
    """The reconciler of the status and the finalizer of profiles of one kind.

    Args:
        kind: CloudProfile or NamespacedCloudProfile.
        informer: the informer, for writes.
        live: the API server itself.
        index: the informer's index.
        recorder: writes Events.
        now: returns the time.
    """

    def __init__(
        self,
        kind: str,
        *,
        informer: Cluster,
        live: Cluster,
        index: ProfileIndex,
        recorder: EventRecorder,
        now: Callable[[], datetime],
    ) -> None:
        self._kind = kind
        self._resource = resource_of(kind)
        self._informer = informer
        self._live = live
        self._index = index
        self._recorder = recorder
        self._now = now

    async def reconcile(self, key: Key) -> ReconcileResult:
        """Bring the finalizer and the status of one profile up to date.

        Raises:
            KubeError: the API server refuses a request, or cannot be reached.
            ValueError: a classification or time of the profile cannot be read; validation refuses such profiles.
        """
        profile = self._index.profile(self._kind, key)
        if profile is None:
            self._recorder.forget(key)
            return ReconcileResult()
        finalized = await self._finalize(key, profile)
        if finalized is None:
            return ReconcileResult()
        now = self._now()
        decided = await self._decide_status(finalized, now)
        if decided.patch:
            status = {"status": decided.patch}
            finalized = await patch(self._informer, self._resource, finalized, status, subresource="status")
            for event in decided.events:
                await self._recorder.write(event, self._kind, finalized)
        if decided.next_change is None:
            return ReconcileResult()
        return ReconcileResult(requeue_after=max(0.0, (decided.next_change - self._now()).total_seconds()))

    async def _decide_status(self, profile: Object, now: datetime) -> StatusDecision:
        """Decide the status; for a large profile off the event loop, on which the webhooks answer too."""
        if self._kind == CLOUD_PROFILE:
            return await offload(_work(profile), decide_status, profile, now)
        parent = self._index.parent(profile)
        return await offload(_work(parent or profile), decide_namespaced_status, profile, parent, now)

    async def _finalize(self, key: Key, profile: Object) -> Object | None:
        """Add the finalizer, or remove it from an unused profile in deletion; return None if the profile is gone."""
        decided = self._decide(profile)
        if is_deleting(profile) and self._changes(profile, decided):
            decided = await self._decide_live(profile)
        if decided.blocked:
            event = ObjectEvent("Warning", "ResourceReferenced", decided.blocked)
            if await self._recorder.record(event, self._kind, profile, key):
                _log.info("%s stays: it is in deletion and still in use", reference_to(self._kind, profile))
        else:
            self._recorder.forget(key)
        if not self._changes(profile, decided):
            return profile
        change = {"metadata": {"finalizers": list(decided.finalizers)}}
        after = await patch(self._informer, self._resource, profile, change)
        return after if decided.finalizers or not is_deleting(profile) else None

    def _changes(self, profile: Object, decided: FinalizerDecision) -> bool:
        return list(decided.finalizers) != list(profile["metadata"].get("finalizers") or ())

    def _decide(self, profile: Object) -> FinalizerDecision:
        users = self._index.users(self._kind, profile)
        return decide_finalizers(self._kind, profile, users, self._index.children(self._kind, profile))

    async def _decide_live(self, profile: Object) -> FinalizerDecision:
        children = await children_of(self._live, profile["metadata"]["name"]) if self._kind == CLOUD_PROFILE else []
        users = await shoots_of(self._live, reference_to(self._kind, profile))
        return decide_finalizers(self._kind, profile, users, children)


def _work(profile: Object) -> int:
    """Return the work for the versions of a profile, as the number of bytes of a review that takes equally long."""
    return _OF_A_VERSION * sum(1 for _ in expirable_versions(spec_of(profile)))
