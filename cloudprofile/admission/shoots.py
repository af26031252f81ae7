"""The steps of Shoots: fill in what a Shoot leaves open, then refuse invalid Shoots.

The steps read the profiles of a Shoot from the API server each time: at most two GETs, and none if the spec does not
change.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from restow.cloudprofile.admission.responses import ALLOWED, answer
from restow.cloudprofile.objects import (
    Object,
    ProfileReference,
    is_deleting,
    profile_of,
    spec_of,
)
from restow.cloudprofile.queries import find_profile
from restow.cloudprofile.shoots.admission import complete_shoot, shoot_findings, shoot_warnings
from restow.cloudprofile.shoots.profile import (
    ShootProfiles,
    deleting_profile_findings,
    disagreement_findings,
    name_findings,
    offering,
    sync_reference,
)
from restow.conversion.reviews.admission import AdmissionRequest, AdmissionResponse, json_patch
from restow.conversion.server.timeslices import offload
from restow.kube.cluster import Cluster


class CompleteShoot:
    """A step that fills in the kind of profile, versions, images and architectures of a Shoot, at the hub version."""

    def __init__(self, cluster: Cluster, now: Callable[[], datetime]) -> None:
        self._cluster = cluster
        self._now = now

    async def __call__(self, request: AdmissionRequest, /) -> AdmissionResponse:
        """Return the patch.

        Raises:
            KubeError: the API server refuses a request, or cannot be reached.
        """
        shoot, old = _placed(request, request.object or {}), request.old_object
        if _is_settled(shoot, old):
            return ALLOWED
        profiles = await _profiles(self._cluster, shoot)
        completed = await offload(request.size, complete_shoot, shoot, old, profiles, self._now())
        if completed.findings:
            return answer(request, completed.findings)
        return await offload(request.size, _patched, shoot, completed.shoot)


class SyncShootReference:
    """A step at v1beta1 that defaults ``cloudProfile`` and the deprecated ``cloudProfileName`` from each other."""

    async def __call__(self, request: AdmissionRequest, /) -> AdmissionResponse:
        """Return the patch."""
        shoot, old = request.object or {}, request.old_object
        if _is_settled(shoot, old):
            return ALLOWED
        if contradictions := disagreement_findings(shoot, old):
            return answer(request, contradictions)
        synced = sync_reference(shoot, old)
        # Only a client of v1beta1 sends the name, and conversion turns a name without a reference into one.
        if not synced["spec"].get("cloudProfile") and (found := name_findings(synced["spec"])):
            return answer(request, found)
        return await offload(request.size, _patched, shoot, synced)


class ValidateShoot:
    """A step that judges Shoots."""

    def __init__(self, cluster: Cluster, now: Callable[[], datetime]) -> None:
        self._cluster = cluster
        self._now = now

    async def __call__(self, request: AdmissionRequest, /) -> AdmissionResponse:
        """Return the verdict.

        Raises:
            KubeError: the API server refuses a request, or cannot be reached.
            ValueError: a classification, time or version of a profile is malformed.
        """
        shoot, old = _placed(request, request.object or {}), request.old_object
        if _is_settled(shoot, old):
            return ALLOWED
        now = self._now()
        profiles = await _profiles(self._cluster, shoot, *([] if old is None else [old]))
        wrong = await offload(request.size, shoot_findings, shoot, old, profiles, now)
        found = (*wrong, *deleting_profile_findings(shoot, old, profiles))
        reference = profile_of(shoot)
        offer = profiles.offer(reference) if reference else None
        return answer(request, found, () if offer is None else map(str, shoot_warnings(shoot, old, offer, now)))


def _patched(shoot: Object, wanted: Object) -> AdmissionResponse:
    return AdmissionResponse(patch=tuple(json_patch(dict(shoot), dict(wanted))))


def _is_settled(shoot: Object, old: Object | None) -> bool:
    """Return whether there is nothing to decide: the spec does not change, or the Shoot is in deletion."""
    return is_deleting(shoot) or (old is not None and spec_of(shoot) == spec_of(old))


def _placed(request: AdmissionRequest, shoot: Object) -> dict[str, object]:
    """Return a Shoot with its namespace, where its profile is looked up."""
    return {**shoot, "metadata": {"namespace": request.namespace, **(shoot.get("metadata") or {})}}


async def _profiles(cluster: Cluster, *shoots: Object) -> ShootProfiles:
    """Read the profiles that Shoots use, and return them with their defaults."""
    found: dict[ProfileReference, Object] = {}
    for reference in dict.fromkeys(filter(None, map(profile_of, shoots))):
        profile = await find_profile(cluster, reference)
        found |= {} if profile is None else {reference: profile}
    return offering(found)
