"""The steps of CloudProfiles and NamespacedCloudProfiles, which read the users of a profile and then judge.

The steps read live from the API server: a cache may not contain a Shoot that was admitted a moment ago, and the steps
have to know whether a version is in use. An update that does not change the spec is admitted before anything is read,
so migrations, finalizers and labels never depend on these reads. A SubjectAccessReview asks the API server whether
the sender of a request holds a custom verb.

``WarnOldClient`` warns clients of v1beta1 of parts of their edit that have no effect, and of its side effects. It
refuses nothing. ``restow.cloudprofile.conversions`` decides what to warn of. The step has to see the object exactly as
the client wrote it. So it is registered at v1beta1 alone (matchPolicy Exact), and before the other mutating steps:
once one of them patches the object, the API server has converted the object to the hub and back, and the object shows
the current classification instead of the one that was sent.

``RestoreHidden`` restores what an edit of a client of v1beta1 takes away without the client having seen it. It compares
the profiles at the hub, after the step that restores a lost stash.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import datetime
from http import HTTPStatus

from restow.cloudprofile.admission.responses import ALLOWED, Responder, warned
from restow.cloudprofile.capabilities import in_step
from restow.cloudprofile.conversions import (
    edit_warnings,
    unclassified,
    unseen_warning,
    with_displaced,
    with_unseen,
)
from restow.cloudprofile.objects import (
    NAMESPACED_CLOUD_PROFILE,
    NAMESPACED_CLOUD_PROFILES,
    Object,
    VersionKey,
    is_deleting,
    parent_of,
    reference_to,
    spec_of,
)
from restow.cloudprofile.profiles.admission import judge, judge_namespaced, needed_verbs
from restow.cloudprofile.queries import children_of, find_profile, shoots_of, shoots_of_family
from restow.cloudprofile.shoots.profile import deleting_parent_findings
from restow.conversion import Graph
from restow.conversion.reviews.admission import AdmissionRequest, AdmissionResponse, json_patch
from restow.conversion.reviews.admissionsteps import with_owners
from restow.conversion.server.rights import holds
from restow.conversion.server.timeslices import offload
from restow.kube.cluster import Cluster


class SyncCapabilities:
    """A step that keeps the capabilities and architecture fields of CloudProfiles consistent, as Gardener does."""

    async def __call__(self, request: AdmissionRequest, /) -> AdmissionResponse:
        """Return the patch."""
        new, old = request.object or {}, request.old_object
        if _keeps_spec(new, old):
            return ALLOWED
        spec = await offload(request.size, in_step, spec_of(new), None if old is None else spec_of(old))
        return AdmissionResponse(patch=tuple(json_patch(new, {**new, "spec": spec})))


class ValidateCloudProfile:
    """A step that judges CloudProfiles."""

    def __init__(self, cluster: Cluster, graph: Graph, now: Callable[[], datetime], responder: Responder) -> None:
        self._cluster = cluster
        self._graph = graph
        self._now = now
        self._responder = responder

    async def __call__(self, request: AdmissionRequest, /) -> AdmissionResponse:
        """Return the verdict.

        Raises:
            KubeError: the API server refuses a request, or cannot be reached.
            ConversionError: a rule of the conversions fails on the profile.
        """
        new, old = request.object or {}, request.old_object
        if _keeps_spec(new, old):
            return ALLOWED
        children: list[Object] = []
        shoots: list[Object] = []
        if old is not None and not is_deleting(new):
            children = await children_of(self._cluster, request.name)
            shoots = await shoots_of_family(self._cluster, request.name, children)
        now = self._now()
        unsaid = await offload(request.size, unclassified, self._graph, new)
        found = await offload(
            request.size, judge, new, old, children=children, shoots=shoots, now=now, unclassified=unsaid
        )
        return self._responder.answer(request, found.findings, map(str, found.warnings))


class ValidateNamespacedCloudProfile:
    """A step that judges NamespacedCloudProfiles, and checks that their author holds the custom verbs for a change."""

    def __init__(self, cluster: Cluster, graph: Graph, now: Callable[[], datetime], responder: Responder) -> None:
        self._cluster = cluster
        self._graph = graph
        self._now = now
        self._responder = responder

    async def __call__(self, request: AdmissionRequest, /) -> AdmissionResponse:
        """Return the verdict.

        Raises:
            KubeError: the API server refuses a request, or cannot be reached.
            ConversionError: a rule of the conversions fails on the profile.
        """
        new, old = request.object or {}, request.old_object
        if _keeps_spec(new, old):
            return ALLOWED
        for verb in needed_verbs(new, old):
            held = await review_verb(self._cluster, request, verb)
            if not held.allowed:
                return held
        parent = await find_profile(self._cluster, parent_of(new))
        shoots: list[Object] = []
        if old is not None and not is_deleting(new):
            shoots = await shoots_of(self._cluster, reference_to(NAMESPACED_CLOUD_PROFILE, old))
        now = self._now()
        unsaid = frozenset[VersionKey]() if parent is None else unclassified(self._graph, parent)
        found = await offload(
            request.size, judge_namespaced, new, old, parent=parent, shoots=shoots, now=now, unclassified=unsaid
        )
        findings = (*found.findings, *deleting_parent_findings(new, old, parent))
        return self._responder.answer(request, findings, map(str, found.warnings))


def _keeps_spec(new: Object, old: Object | None) -> bool:
    return old is not None and spec_of(new) == spec_of(old)


async def review_verb(cluster: Cluster, request: AdmissionRequest, verb: str) -> AdmissionResponse:
    """Refuse a request whose user does not hold a verb.

    Raises:
        KubeError: the API server refuses a request, or cannot be reached.
    """
    resource = NAMESPACED_CLOUD_PROFILES
    if await holds(cluster, request.user_info, verb, resource, request.name, request.namespace):
        return ALLOWED
    place = f'in the namespace "{request.namespace}"'
    message = (
        f"User {json.dumps(request.user_info.username)} cannot {request.operation.lower()} NamespacedCloudProfile "
        f"{json.dumps(request.name)} like this: changing spec.{_field(verb)} needs the verb {json.dumps(verb)} on "
        f"{NAMESPACED_CLOUD_PROFILES.full_name} {place}"
    )
    return AdmissionResponse(allowed=False, message=message, code=HTTPStatus.FORBIDDEN)


def _field(verb: str) -> str:
    return verb.removeprefix("modify-spec-")


class WarnOldClient:
    """A step that warns clients of v1beta1; ``graph`` converts the family."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph

    async def __call__(self, request: AdmissionRequest, /) -> AdmissionResponse:
        """Return the warnings.

        Raises:
            ConversionError: a rule fails on the old or the new object, or the family has no such version.
        """
        new, old = request.object or {}, request.old_object
        if old is None or spec_of(new) == spec_of(old):
            return ALLOWED
        return warned(ALLOWED, await offload(request.size, edit_warnings, self._graph, old, new))


class RestoreHidden:
    """A step that restores the versions and stages that a client of v1beta1 cannot mean to remove.

    A warning names each version that stays although the client left it out.
    """

    def __init__(self, graph: Graph, now: Callable[[], datetime]) -> None:
        self._graph = graph
        self._now = now

    async def __call__(self, request: AdmissionRequest, /) -> AdmissionResponse:
        """Return the patch.

        Raises:
            ConversionError: the family has no such version.
        """
        asked = request.request_kind or request.kind
        if request.old_object is None or asked == request.kind:
            return ALLOWED
        return await offload(request.size, self._restored, request, self._now())

    def _restored(self, request: AdmissionRequest, now: datetime) -> AdmissionResponse:
        new, old = request.object or {}, request.old_object or {}
        complete, unseen = with_unseen(old, new, now)
        restored = with_displaced(self._graph, old, complete)
        if restored is new:
            return ALLOWED
        patch = json_patch(new, with_owners(self._graph, old, dict(restored)))
        return warned(AdmissionResponse(patch=tuple(patch)), map(unseen_warning, unseen))
