"""The reconcilers of profiles and Shoots, and their writes.

Reads come from the informer and cost no request. Every patch has the resourceVersion of the object that the decision
was made for: if the object has changed since, the API server refuses the patch (409) and the controller decides again.
A reconcile raises KubeError if the API server refuses a request or cannot be reached, and ValueError if a version,
classification or time of a profile cannot be read, which validation refuses. The controller tries again later.

Events are best effort: if an Event cannot be written, that is logged. A level-triggered controller finds the same fact
repeatedly; ``EventRecorder.record`` writes it once, until ``forget`` is called.

*Status.* One class serves both kinds of profiles, which differ only in their status. A profile is reconciled when it
changes, when its parent changes, and when one of its stages begins; in deletion also when its children or Shoots
change. Nothing is polled. Before the finalizer is removed, the API server itself is asked for users of the profile: the
informer may not yet have a Shoot that was just created.

*Version management*, which is opt-in, proposes the changes that the versioning policy requires, or applies them. A
proposal is an Event on the profile and a line in the log, repeated only when the proposed changes differ.

*Shoot maintenance*, which is opt-in, updates the versions of Shoots in their maintenance windows: once in a window,
with at most one step of a forced update, or at once if the Shoot is annotated. A due Shoot is read from the API server,
so the whole object need not stay in memory, and a dry run tries the changes. Other clients write Shoots all the time,
so each write may meet a conflict, and each answer may get lost. The controller remembers which changes it has
announced. If the Shoot has them, it only reports them as done; otherwise it decides again while the window lasts. If
this process ends in between, ``status.lastMaintenance`` stays Processing until the next window, which completes them: a
second step in one window would be worse.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Hashable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

import msgspec

from restow.cloudprofile.controllers.index import ProfileIndex
from restow.cloudprofile.maintenance.plan import (
    WINDOW_CONDITION,
    MaintenancePatches,
    maintain,
    maintenance_patches,
    refused_status,
    window_conditions,
)
from restow.cloudprofile.maintenance.schedule import MaintenanceSchedule, schedule, withdrawal
from restow.cloudprofile.management import ManagementResult, VersionChange, VersionManagement, manage
from restow.cloudprofile.objects import (
    CLOUD_PROFILE,
    CLOUD_PROFILES,
    GROUP,
    HUB,
    RESOURCES,
    SHOOT,
    SHOOTS,
    Object,
    ObjectEvent,
    is_deleting,
    placed_versions,
    reference_to,
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
from restow.cloudprofile.versions.lifecycle import next_transition_of
from restow.conversion.server.timeslices import offload
from restow.kube.clock import Clock
from restow.kube.cluster import Cluster, PatchType
from restow.kube.controller import ReconcileResult
from restow.kube.errors import ApiError, BadRequest, Conflict, Forbidden, Invalid, NotFound
from restow.kube.events import event_body, write_event
from restow.kube.listwatch import Key
from restow.kube.resources import Resource, merge_patch

MANAGER: Final = "restow-cloudprofile"
"""The field manager of the controllers."""

Reconcile = Callable[[Key], Awaitable[ReconcileResult]]

_SOON = 0.1  # seconds, about the delay of the watch that delivers the change

_encode = msgspec.json.Encoder().encode
_log = logging.getLogger(__name__)


async def patch(
    cluster: Cluster,
    resource: Resource,
    obj: Object,
    change: Mapping[str, Any],
    *,
    subresource: str | None = None,
    dry_run: bool = False,
) -> Object:
    """Apply a merge patch to an object at the resourceVersion that was read; return the patched object.

    Raises:
        Conflict: the object has changed since, or was deleted and created again.
        NotFound: the object is gone.
        KubeError: the API server refuses the write for another reason, or cannot be reached.
    """
    metadata = obj["metadata"]
    guarded = {name: metadata[name] for name in ("uid", "resourceVersion") if name in metadata}
    body = {**change, "metadata": {**change.get("metadata", {}), **guarded}}
    params = {"fieldManager": MANAGER} | ({"dryRun": "All"} if dry_run else {})
    reply = await cluster.patch(
        resource,
        metadata["name"],
        _encode(body),
        metadata.get("namespace"),
        patch_type=PatchType.MERGE,
        subresource=subresource,
        params=params,
    )
    after: Object = reply.json()
    return after


def again_if_changed(resource: Resource, reconcile: Reconcile) -> Reconcile:
    """Return a reconciler that tries again after a conflict, and does nothing if its object was deleted meanwhile."""

    async def reconciled(key: Key) -> ReconcileResult:
        try:
            return await reconcile(key)
        except Conflict:
            return ReconcileResult(requeue_after=_SOON)
        except NotFound as error:
            if error.names(resource.plural, key.name):
                return ReconcileResult()
            raise

    return reconciled


@dataclass(frozen=True)
class EventRecorder:
    """A writer of Events that writes each once; ``controller`` and ``instance`` are who reports them."""

    cluster: Cluster
    controller: str
    instance: str
    clock: Clock
    _recorded: dict[Key, Hashable] = field(default_factory=dict, init=False)

    async def record(self, event: ObjectEvent, kind: str, obj: Object, key: Key, meaning: Hashable = None) -> bool:
        """Write an Event unless the last one for this key had the same meaning; return whether it was written.

        Two Events are the same if their ``meaning`` is equal; by default the message is compared.
        """
        meaning = event.message if meaning is None else meaning
        if self._recorded.get(key) == meaning:
            return False
        self._recorded[key] = meaning
        await self.write(event, kind, obj)
        return True

    def forget(self, key: Key) -> None:
        """Forget the last Event of a key, because it no longer holds."""
        self._recorded.pop(key, None)

    async def write(self, event: ObjectEvent, kind: str, obj: Object) -> None:
        """Write an Event."""
        metadata = obj["metadata"]
        regarding = {"apiVersion": f"{GROUP}/{HUB}", "kind": kind} | {
            name: metadata[name] for name in ("name", "namespace", "uid", "resourceVersion") if metadata.get(name)
        }
        body = event_body(
            regarding=regarding,
            type=event.type,
            reason=event.reason,
            action="Reconcile",
            note=event.message,
            at=self.clock.now(),
            controller=self.controller,
            instance=self.instance,
        )
        await write_event(self.cluster, body)


_OF_A_VERSION = 1024


@dataclass(frozen=True, kw_only=True)
class _Reconciler:
    """A reconciler of one kind of object."""

    informer: Cluster
    index: ProfileIndex
    recorder: EventRecorder
    now: Callable[[], datetime]

    def again(self, at: datetime | None) -> ReconcileResult:
        """Return the result that asks for the next reconcile at a time, None for never."""
        return ReconcileResult(None if at is None else max(0.0, (at - self.now()).total_seconds()))


@dataclass(frozen=True, kw_only=True)
class ProfileStatus(_Reconciler):
    """The reconciler of the status and the finalizer of profiles of one kind.

    Args:
        kind: CloudProfile or NamespacedCloudProfile.
        live: the API server itself.
    """

    kind: str
    live: Cluster

    async def reconcile(self, key: Key) -> ReconcileResult:
        """Bring the finalizer and the status of one profile up to date."""
        profile = self.index.profile(self.kind, key)
        if profile is None:
            self.recorder.forget(key)
            return ReconcileResult()
        finalized = await self._finalize(key, profile)
        if finalized is None:
            return ReconcileResult()
        now = self.now()
        decided = await self._decide_status(finalized, now)
        if decided.patch:
            status = {"status": decided.patch}
            finalized = await patch(self.informer, RESOURCES[self.kind], finalized, status, subresource="status")
            for event in decided.events:
                await self.recorder.write(event, self.kind, finalized)
        return self.again(decided.next_change)

    async def _decide_status(self, profile: Object, now: datetime) -> StatusDecision:
        """Decide the status; for a large profile off the event loop, on which the webhooks answer too."""
        if self.kind == CLOUD_PROFILE:
            return await offload(_work(profile), decide_status, profile, now)
        parent = self.index.parent(profile)
        return await offload(_work(parent or profile), decide_namespaced_status, profile, parent, now)

    async def _finalize(self, key: Key, profile: Object) -> Object | None:
        """Add the finalizer, or remove it from an unused profile in deletion; return None if the profile is gone."""
        decided = self._decide(profile)
        if is_deleting(profile) and self._changes(profile, decided):
            decided = await self._decide_live(profile)
        if decided.blocked:
            event = ObjectEvent("Warning", "ResourceReferenced", decided.blocked)
            if await self.recorder.record(event, self.kind, profile, key):
                _log.info("%s stays: it is in deletion and still in use", reference_to(self.kind, profile))
        else:
            self.recorder.forget(key)
        if not self._changes(profile, decided):
            return profile
        change = {"metadata": {"finalizers": list(decided.finalizers)}}
        after = await patch(self.informer, RESOURCES[self.kind], profile, change)
        return after if decided.finalizers or not is_deleting(profile) else None

    def _changes(self, profile: Object, decided: FinalizerDecision) -> bool:
        return list(decided.finalizers) != list(profile["metadata"].get("finalizers") or ())

    def _decide(self, profile: Object) -> FinalizerDecision:
        users = self.index.users(self.kind, profile)
        return decide_finalizers(self.kind, profile, users, self.index.children(self.kind, profile))

    async def _decide_live(self, profile: Object) -> FinalizerDecision:
        children = await children_of(self.live, profile["metadata"]["name"]) if self.kind == CLOUD_PROFILE else []
        users = await shoots_of(self.live, reference_to(self.kind, profile))
        return decide_finalizers(self.kind, profile, users, children)


def _work(profile: Object) -> int:
    """Return the work for the versions of a profile, as the number of bytes of a review that takes equally long."""
    return _OF_A_VERSION * sum(1 for _ in placed_versions(spec_of(profile)))


@dataclass(frozen=True, kw_only=True)
class ManagedVersions(_Reconciler):
    """The reconciler that manages the versions of CloudProfiles.

    Args:
        config: the policy.
        applies: whether to write the spec; otherwise changes are only proposed.
        refused: called with each profile and the number of its changes that admission refuses.
    """

    config: VersionManagement
    applies: bool
    refused: Callable[[Key, int], None]

    async def reconcile(self, key: Key) -> ReconcileResult:
        """Manage one CloudProfile."""
        profile = self.index.profiles.get(key)
        if profile is None or is_deleting(profile):
            self.recorder.forget(key)
            self.refused(key, 0)
            return ReconcileResult()
        now = self.now()
        spec = spec_of(profile)
        managed = manage(spec, self.config, now)
        if not managed.changes:
            self.recorder.forget(key)
        elif self.applies:
            applied = await self._apply(key, profile, managed)
            if applied.changes:
                await self.recorder.write(_event("VersionsManaged", applied), CLOUD_PROFILE, profile)
                _report(key, "changed", applied)
        else:
            # The dates move with the clock; two proposals are equal if the same versions change for the same reasons.
            meaning = tuple((change.field, change.key, change.why) for change in managed.changes)
            event = _event("VersionManagementProposed", managed)
            if await self.recorder.record(event, CLOUD_PROFILE, profile, key, meaning):
                _report(key, "proposed", managed)
        return self.again(next_transition_of(managed.spec if self.applies else spec, now))

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
            self.refused(key, 0)
            self.recorder.forget(key)
            return managed
        if not refused:
            refused = await self._tried(profile, managed)
        self.refused(key, len(refused))
        told = "; ".join(f"{change}: {why}" for change, why in refused.items())
        event = ObjectEvent("Warning", "VersionManagementRefused", f"These versions are left alone: {told}")
        meaning = tuple((change.field, change.key, why) for change, why in refused.items())
        if await self.recorder.record(event, CLOUD_PROFILE, profile, key, meaning):
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
        await patch(self.informer, CLOUD_PROFILES, profile, change, dry_run=dry_run)


_REFUSALS = (BadRequest, Forbidden, Invalid)


def _why(error: ApiError) -> str:
    return error.findings if isinstance(error, Invalid) else error.message


def _event(reason: str, managed: ManagementResult) -> ObjectEvent:
    return ObjectEvent("Normal", reason, "; ".join(map(str, managed.changes)))


def _report(key: Key, what: str, managed: ManagementResult) -> None:
    for change in managed.changes:
        _log.info("CloudProfile %s: %s: %s", key, what, change)


@dataclass(frozen=True, kw_only=True)
class ShootMaintenance(_Reconciler):
    """The reconciler that maintains Shoots."""

    _checked: dict[Key, datetime] = field(default_factory=dict, init=False)
    _unfinished: dict[Key, MaintenancePatches] = field(default_factory=dict, init=False)

    async def reconcile(self, key: Key) -> ReconcileResult:
        """Maintain one Shoot if it is due."""
        known = self.index.shoots.get(key)
        if known is None:
            self._checked.pop(key, None)
            self._unfinished.pop(key, None)
            return ReconcileResult()
        now = self.now()
        unfinished = self._unfinished.get(key)
        planned = self._schedule(key, known, now)
        if unfinished or planned.is_due or window_conditions(known, planned.unreadable, now) is not None:
            shoot: Object = (await self.informer.get(SHOOTS, key.name, key.namespace)).json()
            # The informer may not yet have seen a maintenance that the previous leader did.
            planned = self._schedule(key, shoot, now)
            shoot = await self._report_window(key, shoot, planned.unreadable, now)
            if unfinished and unfinished.is_written(shoot):
                await self._finish(key, shoot, unfinished)
                self._checked[key] = now
            elif planned.is_due:
                await self._maintain(key, shoot, now, forced_only=planned.is_forced_only)
                self._checked[key] = now
            self._unfinished.pop(key, None)
        return self.again(planned.following)

    def _schedule(self, key: Key, shoot: Object, now: datetime) -> MaintenanceSchedule:
        unfinished = self._unfinished.get(key)
        return schedule(shoot, self._checked.get(key), now, unfinished.announced if unfinished else "")

    async def _report_window(self, key: Key, shoot: Object, unreadable: str, now: datetime) -> Object:
        """Report in a condition and an Event that the window of a Shoot cannot be read, or can be read again."""
        conditions = window_conditions(shoot, unreadable, now)
        if conditions is None:
            return shoot
        change = {"status": {"conditions": conditions}}
        shoot = await patch(self.informer, SHOOTS, shoot, change, subresource="status")
        condition = next(each for each in conditions if each["type"] == WINDOW_CONDITION)
        kind = "Warning" if unreadable else "Normal"
        await self.recorder.write(ObjectEvent(kind, condition["reason"], condition["message"]), SHOOT, shoot)
        _log.warning("Shoot %s: %s", key, condition["message"])
        return shoot

    async def _maintain(self, key: Key, shoot: Object, now: datetime, *, forced_only: bool) -> None:
        offer = self.index.offered_spec(shoot)
        if offer is None:
            _log.warning("Shoot %s is not maintained: its profile does not exist", key)
            return
        plan = maintain(shoot, offer, now, forced_only=forced_only)
        if plan.image_error:
            event = ObjectEvent("Warning", "MachineImageVersionMaintenance", plan.image_error)
            await self.recorder.write(event, SHOOT, shoot)
        writes = maintenance_patches(shoot, plan, now)
        if "spec" in writes.change and not await self._is_accepted(key, shoot, writes.change, now):
            return
        if writes.before:
            self._unfinished[key] = writes
            shoot = await patch(self.informer, SHOOTS, shoot, writes.before, subresource="status")
        if writes.change:
            shoot = await patch(self.informer, SHOOTS, shoot, writes.change)
        await self._finish(key, shoot, writes)

    async def _finish(self, key: Key, shoot: Object, writes: MaintenancePatches) -> None:
        """Report changes as done that the Shoot has."""
        if writes.after:
            shoot = await patch(self.informer, SHOOTS, shoot, writes.after, subresource="status")
        for update in writes.updates:
            await self.recorder.write(update.event, SHOOT, shoot)
        if writes.updates:
            _log.info("Shoot %s: maintained; see its status", key)

    async def _is_accepted(self, key: Key, shoot: Object, change: Object, now: datetime) -> bool:
        """Try the changes with a dry run; if the API server refuses them, report it and do not retry in this window."""
        try:
            await patch(self.informer, SHOOTS, shoot, change, dry_run=True)
        except _REFUSALS as error:
            shoot = await patch(
                self.informer, SHOOTS, shoot, refused_status(shoot, _why(error), now), subresource="status"
            )
            if request := withdrawal(shoot):
                shoot = await patch(self.informer, SHOOTS, shoot, request)
            await self.recorder.write(ObjectEvent("Warning", "MaintenanceRefused", _why(error)), SHOOT, shoot)
            _log.warning("Shoot %s: the changes of its maintenance were refused; see its status", key)
            return False
        return True
