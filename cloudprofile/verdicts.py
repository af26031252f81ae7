"""The verdict on a request to create or update a profile: all rules together, in the order of the API server. Pure.

A request that leaves the spec as it is is always allowed: a migration of stored objects, or the removal of a
finalizer, must not fail because a rule has come or time has passed.

GEP-32's examples consist of versions alone: a CloudProfile without type, say, or a NamespacedCloudProfile without
parent; GEP-25's CloudProfile has no regions. Gardener refuses those (``missing_sections``). No example may be refused:
here what has never been there only warns, with every change of the spec, and what is taken away is refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime

from restow.cloudprofile import protection, requirements
from restow.cloudprofile.defaults import defaulted
from restow.cloudprofile.findings import Caution, Remark, Verdict, invalid, verdict
from restow.cloudprofile.parentrules import check_against_parent
from restow.cloudprofile.parts import Object, is_deleting, spec_of
from restow.cloudprofile.references import parent_of
from restow.cloudprofile.validation import (
    missing_sections,
    validate,
    validate_namespaced,
    validate_namespaced_update,
    validate_update,
)

__all__ = ["judge", "judge_namespaced"]


def judge(
    new: Object, old: Object | None, *, children: Iterable[Object], shoots: Iterable[Object], now: datetime
) -> Verdict:
    """Judge a CloudProfile.

    Args:
        new: the object as it is to be stored.
        old: what it replaces, None if it is created.
        children: NamespacedCloudProfiles, at least all with this parent.
        shoots: Shoots, at least all that use the profile or one of its children.
        now: the time.
    """
    if old is not None and spec_of(new) == spec_of(old):
        return Verdict()
    return verdict(dict.fromkeys(_remarks(new, old, children, shoots, now)))


def _remarks(
    new: Object, old: Object | None, children: Iterable[Object], shoots: Iterable[Object], now: datetime
) -> Iterator[Remark]:
    spec = defaulted(spec_of(new))
    profile = {**new, "spec": spec}
    bearable = set(missing_sections(spec))
    if old is not None:
        bearable &= set(missing_sections(spec_of(old)))
    for remark in validate(profile, now) if old is None else validate_update(profile, old, now):
        yield _as_caution(remark) if remark in bearable else remark
    yield from requirements.adding(spec, None if old is None else spec_of(old), now)
    if old is not None and not is_deleting(new):
        yield from requirements.deleting(spec, spec_of(old), now)
        yield from protection.protect(new, old, children, shoots)


def _as_caution(remark: Remark) -> Caution:
    return Caution(remark.field, f"{remark.detail}: no Shoot can be made from this profile")


def judge_namespaced(
    new: Object, old: Object | None, *, parent: Object | None, shoots: Iterable[Object], now: datetime
) -> Verdict:
    """Judge a NamespacedCloudProfile. The verbs that it needs are a matter of their own
    (``restow.cloudprofile.verbs``).

    Args:
        new: the object as it is to be stored.
        old: what it replaces with its status, None if it is created.
        parent: the CloudProfile that ``new`` names, None where there is none.
        shoots: Shoots, at least all that use the profile.
        now: the time.
    """
    if old is not None and spec_of(new) == spec_of(old):
        return Verdict()
    return verdict(dict.fromkeys(_namespaced_remarks(new, old, parent, shoots, now)))


def _namespaced_remarks(
    new: Object, old: Object | None, parent: Object | None, shoots: Iterable[Object], now: datetime
) -> Iterator[Remark]:
    static = [*(validate_namespaced(new) if old is None else validate_namespaced_update(new, old))]
    if not spec_of(new).get("parent"):
        yield Caution("spec.parent", "names no CloudProfile: nothing is rendered, and no Shoot can use this profile")
        yield from (finding for finding in static if not finding.field.startswith("spec.parent."))
        return
    yield from static
    if parent is None:
        yield invalid("spec.parent.name", f"parent CloudProfile could not be found: there is no {parent_of(new)}")
    elif not static:
        yield from check_against_parent(new, old, parent, now)
    if parent is not None and old is not None and not is_deleting(new):
        yield from protection.protect_namespaced(new, old, parent, shoots, now)
