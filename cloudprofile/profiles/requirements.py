"""The versioning policy's requirements for adding, classifying and deleting versions of a CloudProfile. Pure.

The rules come from "Version Requirements" of the policy document and apply only to the changes of a request: to the
versions that it adds or whose stages it changes, and to those that it deletes. A violation that time alone has caused
is not the request's fault: an update ignores it, and a new profile only gets a warning, so that a backup can be
restored. Time alone is the cause if the same stages met the requirement at an earlier time.

- No version is added with, or moved to, an expiration in the past. A profile that is created as a whole may have such
  versions (a restore, GitOps) and only gets a warning. restow never drops them instead.
- A preview Kubernetes version is the latest patch of its minor version. Versions not yet available do not count.
- A supported Kubernetes version is lower than every preview version of its minor; previews of lower minors only cause
  a warning.
- A Kubernetes version may be deleted if it has expired, or is still unavailable (a planned release that was
  cancelled). Deleting an image version at another time only causes a warning, because the document requires this only
  of Kubernetes versions. ``restow.cloudprofile.profiles.protection`` checks that neither is in use.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from datetime import datetime

from restow.cloudprofile.findings import Remark, ValidationWarning, forbidden
from restow.cloudprofile.objects import Object, kubernetes_versions, placed_versions, versions_by_key
from restow.cloudprofile.versions.lifecycle import (
    Classification,
    classification_or_none,
    expiration_in,
    number_or_none,
    past_instants,
    stages,
    stages_or_none,
)


def adding(new: Object, old: Object | None, now: datetime) -> Iterator[Remark]:
    """Check the versions that a spec adds or changes; ``old`` is the spec that it replaces, None if it is created.

    Versions without a readable number, classification or time are left to validation.
    """
    before = versions_by_key(old or {})
    for key, path, version in placed_versions(new):
        replaced, listed = before.get(key), stages_or_none(version)
        if listed is None or listed == stages_or_none(replaced):
            continue  # in whichever form the stages are written
        yield from _not_expired(version, replaced, path, now, created=old is None)
        if not key[0]:
            yield from _in_order(version, kubernetes_versions(new), path, now, created=old is None)


def deleting(new: Object, old: Object, now: datetime) -> Iterator[Remark]:
    """Check the versions that a spec removes."""
    kept = versions_by_key(new)
    for (image, name), version in versions_by_key(old).items():
        classification = None if (image, name) in kept else classification_or_none(version, now)
        if classification is None or not classification.is_active:
            continue
        if image:
            yield ValidationWarning(
                "spec.machineImages",
                f"machine image version '{image}/{name}' is deleted while it is {classification}: versions should have "
                "expired before they go",
            )
        else:
            yield forbidden(
                "spec.kubernetes.versions",
                f'unable to delete Kubernetes version "{name}": it is {classification}, and only versions whose '
                "expiration date is in the past can be deleted. Let it expire first",
            )


def _not_expired(
    version: Object, replaced: Object | None, path: str, now: datetime, *, created: bool
) -> Iterator[Remark]:
    expiration = expiration_in(stages(version))
    if expiration is None or not expiration.begun(now):
        return
    name = version.get("version") or ""
    if created:
        yield ValidationWarning(path, f"version {name} has expired already: no Shoot can begin to use it")
    elif expiration not in (stages_or_none(replaced) or ()):
        yield forbidden(
            path, f"version {name} must not have an expiration in the past: give it one that is still to come"
        )


def _in_order(
    version: Object, versions: Sequence[Object], path: str, now: datetime, *, created: bool
) -> Iterator[Remark]:
    """Check a supported Kubernetes version against the previews, and a preview against the other versions."""
    number, classification = number_or_none(version), classification_or_none(version, now)
    if number is None:
        return
    for other in versions:
        other_number = number_or_none(other)
        if other_number is None:
            continue
        is_of_minor = other_number.line == number.line
        if classification is Classification.PREVIEW and is_of_minor and other_number > number:
            sentence = (
                f"preview version {number} must be the latest patch version of its minor version, and there is "
                f"{other_number}"
            )
            preview, passing, by = version, other, _AVAILABLE
        elif classification is Classification.SUPPORTED and other_number < number:
            sentence = (
                f"supported version {number} must be lower than all preview versions, and {other_number} is one"
                f"{'' if is_of_minor else ', of another minor version'}"
            )
            preview, passing, by = other, version, {Classification.SUPPORTED}
        else:
            continue
        if _is_passed(preview, passing, by, now):
            instants = past_instants([version, other], now)
            grew_old = created and not all(_is_passed(preview, passing, by, at) for at in instants)
            yield ValidationWarning(path, sentence) if grew_old or not is_of_minor else forbidden(path, sentence)


_AVAILABLE = set(Classification) - {Classification.UNAVAILABLE}


def _is_passed(preview: Object, other: Object, by: Container[Classification | None], at: datetime) -> bool:
    """Return whether a version is a preview, and a higher one has one of the classifications ``by``."""
    return classification_or_none(preview, at) is Classification.PREVIEW and classification_or_none(other, at) in by
