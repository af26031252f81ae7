"""Everything that admission does for a Shoot: fill in what it leaves open, then refuse what may not be. Pure.

Both steps leave an update alone that leaves the spec as it was: a storage migration is neither refused nor made to fill
in what nobody asked for. A Shoot in deletion is admitted as it is.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from restow.cloudprofile.findings import Finding, invalid
from restow.cloudprofile.parts import Object, is_deleting, spec_of
from restow.cloudprofile.profiletransition import transition_findings
from restow.cloudprofile.references import CLOUD_PROFILE, profile_of
from restow.cloudprofile.shootdefaults import Defaulted, default_shoot
from restow.cloudprofile.shootprofile import Profiles, disagreement_findings, reference_findings
from restow.cloudprofile.shootversions import version_findings
from restow.cloudprofile.versionskew import skew_findings

__all__ = ["complete_shoot", "shoot_findings"]


def complete_shoot(shoot: Object, old: Object | None, profiles: Profiles, now: datetime) -> Defaulted:
    """Fill in a Shoot's kind of profile, its versions, images and architectures: the mutating step, at the hub version.

    ``old`` is the Shoot before an update, None on create. A Shoot without an existing profile is left for
    ``shoot_findings`` to refuse. The field of v1beta1 is heeded and never filled in here: see ``sync_reference``.
    """
    if _is_unchanged(shoot, old):
        return Defaulted(dict(shoot))
    contradictions = disagreement_findings(shoot, old)
    if contradictions:
        return Defaulted(dict(shoot), contradictions)
    named = _with_kind(shoot)
    reference = profile_of(named)
    offer = profiles.offer(reference) if reference else None
    return Defaulted(named) if offer is None else default_shoot(named, old, offer, now)


def _with_kind(shoot: Object) -> dict[str, Any]:
    reference = spec_of(shoot).get("cloudProfile")
    if not reference or reference.get("kind"):
        return dict(shoot)
    return {**shoot, "spec": {**spec_of(shoot), "cloudProfile": {**reference, "kind": CLOUD_PROFILE}}}


def shoot_findings(shoot: Object, old: Object | None, profiles: Profiles, now: datetime) -> tuple[Finding, ...]:
    """Return why a completed Shoot is to be refused: the validating step. Not to be asked for a deletion.

    What says that another answer would mislead ends the search: no profile, or a move that is not allowed.
    """
    if _is_unchanged(shoot, old) or is_deleting(shoot):
        return ()
    if found := reference_findings(shoot):
        return found
    reference = profile_of(shoot)
    offer = profiles.offer(reference) if reference else None
    if offer is None:
        return (invalid("spec.cloudProfile", f"{reference} not found"),)
    if old is not None and (found := transition_findings(old, shoot, profiles)):
        return found
    return (*skew_findings(shoot, old), *version_findings(shoot, old, offer, now))


def _is_unchanged(shoot: Object, old: Object | None) -> bool:
    return old is not None and spec_of(shoot) == spec_of(old)
