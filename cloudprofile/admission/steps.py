"""The steps of CloudProfiles, NamespacedCloudProfiles and Shoots.

Each step runs behind ``GuardedStep``, so its requests create an object or change a spec. The steps read live from the
API server: a cache may not contain a Shoot that was admitted a moment ago, and the steps have to know whether a
version is in use. They read the profiles of a Shoot with at most two GETs. A SubjectAccessReview asks the API server
whether the sender of a request holds a custom verb. A step raises KubeError if the API server refuses a request or
cannot be reached, and ConversionError if a rule of the conversions fails on a profile; the guard answers for it.

``restow.cloudprofile.conversions`` decides what clients of v1beta1 are warned of, and what stays of what they remove.
``WarnOldClient`` has to see the object exactly as the client wrote it. So it is registered at v1beta1 alone
(matchPolicy Exact), and before the other mutating steps: once one of them patches the object, the API server has
converted it to the hub and back. ``RestoreHidden`` compares the profiles at the hub, after a lost stash is restored.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from http import HTTPStatus

from restow.cloudprofile.admission.guard import ALLOWED, Responder, answer, warned
from restow.cloudprofile.capabilities import in_step
from restow.cloudprofile.conversions import edit_warnings, unclassified, unseen_warning, with_displaced, with_unseen
from restow.cloudprofile.objects import (
    NAMESPACED_CLOUD_PROFILE,
    NAMESPACED_CLOUD_PROFILES,
    Object,
    ProfileReference,
    VersionKey,
    is_deleting,
    parent_of,
    profile_of,
    reference_to,
    spec_of,
)
from restow.cloudprofile.profiles.admission import judge, judge_namespaced, needed_verbs
from restow.cloudprofile.queries import children_of, find_profile, shoots_of, shoots_of_family
from restow.cloudprofile.shoots.admission import complete_shoot, shoot_findings, shoot_warnings
from restow.cloudprofile.shoots.profile import (
    ShootProfiles,
    deleting_parent_findings,
    deleting_profile_findings,
    disagreement_findings,
    name_findings,
    offering,
    sync_reference,
)
from restow.conversion import Graph
from restow.conversion.reviews.admission import AdmissionRequest, AdmissionResponse, json_patch
from restow.conversion.reviews.admissionsteps import with_owners
from restow.conversion.server.rights import holds
from restow.conversion.server.timeslices import offload
from restow.kube.cluster import Cluster


async def sync_capabilities(request: AdmissionRequest, /) -> AdmissionResponse:
    """Keep the capabilities and architecture fields of a CloudProfile consistent, as Gardener does."""
    new, old = request.object or {}, request.old_object
    spec = await offload(request.size, in_step, spec_of(new), None if old is None else spec_of(old))
    return _patched(new, {**new, "spec": spec})


@dataclass(frozen=True)
class _ValidateProfile:
    """A step that judges profiles of one kind."""

    cluster: Cluster
    graph: Graph
    now: Callable[[], datetime]
    responder: Responder


class ValidateCloudProfile(_ValidateProfile):
    """A step that judges CloudProfiles."""

    async def __call__(self, request: AdmissionRequest, /) -> AdmissionResponse:
        new, old = request.object or {}, request.old_object
        children: list[Object] = []
        shoots: list[Object] = []
        if old is not None and not is_deleting(new):
            children = await children_of(self.cluster, request.name)
            shoots = await shoots_of_family(self.cluster, request.name, children)
        now = self.now()
        unsaid = await offload(request.size, unclassified, self.graph, new)
        found = await offload(
            request.size, judge, new, old, children=children, shoots=shoots, now=now, unclassified=unsaid
        )
        return self.responder.answer(request, found.findings, map(str, found.warnings))


class ValidateNamespacedCloudProfile(_ValidateProfile):
    """A step that judges NamespacedCloudProfiles, and checks that their author holds the custom verbs for a change."""

    async def __call__(self, request: AdmissionRequest, /) -> AdmissionResponse:
        new, old = request.object or {}, request.old_object
        for verb in needed_verbs(new, old):
            held = await review_verb(self.cluster, request, verb)
            if not held.allowed:
                return held
        parent = await find_profile(self.cluster, parent_of(new))
        shoots: list[Object] = []
        if old is not None and not is_deleting(new):
            shoots = await shoots_of(self.cluster, reference_to(NAMESPACED_CLOUD_PROFILE, old))
        now = self.now()
        unsaid = frozenset[VersionKey]() if parent is None else unclassified(self.graph, parent)
        found = await offload(
            request.size, judge_namespaced, new, old, parent=parent, shoots=shoots, now=now, unclassified=unsaid
        )
        findings = (*found.findings, *deleting_parent_findings(new, old, parent))
        return self.responder.answer(request, findings, map(str, found.warnings))


async def review_verb(cluster: Cluster, request: AdmissionRequest, verb: str) -> AdmissionResponse:
    """Refuse a request whose user does not hold a verb."""
    resource = NAMESPACED_CLOUD_PROFILES
    if await holds(cluster, request.user_info, verb, resource, request.name, request.namespace):
        return ALLOWED
    field = verb.removeprefix("modify-spec-")
    message = (
        f"User {json.dumps(request.user_info.username)} cannot {request.operation.lower()} NamespacedCloudProfile "
        f"{json.dumps(request.name)} like this: changing spec.{field} needs the verb {json.dumps(verb)} on "
        f'{NAMESPACED_CLOUD_PROFILES.full_name} in the namespace "{request.namespace}"'
    )
    return AdmissionResponse(allowed=False, message=message, code=HTTPStatus.FORBIDDEN)


@dataclass(frozen=True)
class WarnOldClient:
    """A step that warns clients of v1beta1; ``graph`` converts the family."""

    graph: Graph

    async def __call__(self, request: AdmissionRequest, /) -> AdmissionResponse:
        new, old = request.object or {}, request.old_object
        if old is None:
            return ALLOWED
        return warned(ALLOWED, await offload(request.size, edit_warnings, self.graph, old, new))


@dataclass(frozen=True)
class RestoreHidden:
    """A step that restores the versions and stages that a client of v1beta1 cannot mean to remove.

    A warning names each version that stays although the client left it out.
    """

    graph: Graph
    now: Callable[[], datetime]

    async def __call__(self, request: AdmissionRequest, /) -> AdmissionResponse:
        asked = request.request_kind or request.kind
        if request.old_object is None or asked == request.kind:
            return ALLOWED
        return await offload(request.size, self._restored, request, self.now())

    def _restored(self, request: AdmissionRequest, now: datetime) -> AdmissionResponse:
        new, old = request.object or {}, request.old_object or {}
        complete, unseen = with_unseen(old, new, now)
        restored = with_displaced(self.graph, old, complete)
        if restored is new:
            return ALLOWED
        patch = json_patch(new, with_owners(self.graph, old, dict(restored)))
        return warned(AdmissionResponse(patch=tuple(patch)), map(unseen_warning, unseen))


@dataclass(frozen=True)
class CompleteShoot:
    """A step that fills in the kind of profile, versions, images and architectures of a Shoot, at the hub version."""

    cluster: Cluster
    now: Callable[[], datetime]

    async def __call__(self, request: AdmissionRequest, /) -> AdmissionResponse:
        shoot, old = _placed(request, request.object or {}), request.old_object
        if is_deleting(shoot):
            return ALLOWED
        profiles = await _profiles(self.cluster, shoot)
        completed = await offload(request.size, complete_shoot, shoot, old, profiles, self.now())
        if completed.findings:
            return answer(request, completed.findings)
        return await offload(request.size, _patched, shoot, completed.shoot)


async def sync_shoot_reference(request: AdmissionRequest, /) -> AdmissionResponse:
    """Default a Shoot's ``cloudProfile`` and the deprecated ``cloudProfileName`` from each other, at v1beta1."""
    shoot, old = request.object or {}, request.old_object
    if is_deleting(shoot):
        return ALLOWED
    if contradictions := disagreement_findings(shoot, old):
        return answer(request, contradictions)
    synced = sync_reference(shoot, old)
    # Only a client of v1beta1 sends the name, and conversion turns a name without a reference into one.
    if not synced["spec"].get("cloudProfile") and (found := name_findings(synced["spec"])):
        return answer(request, found)
    return await offload(request.size, _patched, shoot, synced)


@dataclass(frozen=True)
class ValidateShoot:
    """A step that judges Shoots."""

    cluster: Cluster
    now: Callable[[], datetime]

    async def __call__(self, request: AdmissionRequest, /) -> AdmissionResponse:
        shoot, old = _placed(request, request.object or {}), request.old_object
        if is_deleting(shoot):
            return ALLOWED
        now = self.now()
        profiles = await _profiles(self.cluster, shoot, *([] if old is None else [old]))
        wrong = await offload(request.size, shoot_findings, shoot, old, profiles, now)
        found = (*wrong, *deleting_profile_findings(shoot, old, profiles))
        offer = profiles.offer_to(shoot)
        return answer(request, found, () if offer is None else map(str, shoot_warnings(shoot, offer, now)))


def _patched(obj: Object, wanted: Object) -> AdmissionResponse:
    return AdmissionResponse(patch=tuple(json_patch(dict(obj), dict(wanted))))


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
