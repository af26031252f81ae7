"""Whether something new may refer to a profile that is about to go. Pure.

A profile in deletion stays as long as it is used (``restow.cloudprofile.profiledeletion``). It would never go if new
users could come, and one that came at the last moment would be left without it. Who uses it already may go on.
"""

from __future__ import annotations

from restow.cloudprofile.findings import Finding, forbidden
from restow.cloudprofile.parts import Object, is_deleting
from restow.cloudprofile.references import ProfileReference, parent_of, profile_of
from restow.cloudprofile.shootprofile import Profiles

__all__ = ["departing_parent_findings", "departing_profile_findings"]


def departing_profile_findings(shoot: Object, old: Object | None, profiles: Profiles) -> tuple[Finding, ...]:
    """Return why a Shoot may not begin to use its profile; ``old`` is the Shoot before an update, None on create."""
    reference = profile_of(shoot)
    if reference is None or (old is not None and profile_of(old) == reference):
        return ()
    profile = profiles.objects.get(reference)
    return _refused("spec.cloudProfile", reference) if profile is not None and is_deleting(profile) else ()


def departing_parent_findings(profile: Object, old: Object | None, parent: Object | None) -> tuple[Finding, ...]:
    """Return why a NamespacedCloudProfile may not begin to inherit from its parent, None where there is none."""
    if old is not None or parent is None or not is_deleting(parent):
        return ()
    return _refused("spec.parent.name", parent_of(profile))


def _refused(field: str, reference: ProfileReference) -> tuple[Finding, ...]:
    return (forbidden(field, f"{reference} is being deleted; choose another profile"),)
