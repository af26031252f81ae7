"""The validating steps of CloudProfiles and NamespacedCloudProfiles: read who is concerned, then judge.

Reads are live: a cache may not know of a Shoot that was admitted a moment ago, and whether a version is in use is what
these steps are for. An update that leaves the spec as it is is admitted before anything is read, so that migrations,
finalizers and labels never depend on it.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from restow.cloudprofile.admission.accessreview import review_verb
from restow.cloudprofile.admission.answers import ALLOWED
from restow.cloudprofile.admission.telling import Telling
from restow.cloudprofile.departure import departing_parent_findings
from restow.cloudprofile.parts import Object, is_deleting, spec_of
from restow.cloudprofile.references import NAMESPACED_CLOUD_PROFILE, parent_of, reference_to
from restow.cloudprofile.usage import children_of, find_profile, shoots_of, shoots_of_family
from restow.cloudprofile.verbs import needed_verbs
from restow.cloudprofile.verdicts import judge, judge_namespaced
from restow.conversion.admission import AdmissionRequest, Verdict
from restow.conversion.server.turns import aside
from restow.kube.cluster import Cluster

__all__ = ["ValidateCloudProfile", "ValidateNamespacedCloudProfile"]


class ValidateCloudProfile:
    """Judges CloudProfiles."""

    def __init__(self, cluster: Cluster, now: Callable[[], datetime], telling: Telling) -> None:
        self._cluster = cluster
        self._now = now
        self._telling = telling

    async def __call__(self, request: AdmissionRequest, /) -> Verdict:
        """Return the verdict.

        Raises:
            KubeError: the API server refuses a request, or cannot be reached.
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
        found = await aside(request.size, judge, new, old, children=children, shoots=shoots, now=now)
        return self._telling.answer(request, found.findings, map(str, found.cautions))


class ValidateNamespacedCloudProfile:
    """Judges NamespacedCloudProfiles, and whether their author holds the custom verbs that the change needs."""

    def __init__(self, cluster: Cluster, now: Callable[[], datetime], telling: Telling) -> None:
        self._cluster = cluster
        self._now = now
        self._telling = telling

    async def __call__(self, request: AdmissionRequest, /) -> Verdict:
        """Return the verdict.

        Raises:
            KubeError: the API server refuses a request, or cannot be reached.
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
        found = await aside(request.size, judge_namespaced, new, old, parent=parent, shoots=shoots, now=now)
        findings = (*found.findings, *departing_parent_findings(new, old, parent))
        return self._telling.answer(request, findings, map(str, found.cautions))


def _keeps_spec(new: Object, old: Object | None) -> bool:
    return old is not None and spec_of(new) == spec_of(old)
