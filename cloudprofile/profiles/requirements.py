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

from collections.abc import Iterator, Sequence
from datetime import datetime

from restow.cloudprofile.findings import Remark, ValidationWarning, forbidden
from restow.cloudprofile.objects import Object, by_name, by_version, image_versions, kubernetes_versions, machine_images
from restow.cloudprofile.versions.lifecycle import (
    Classification,
    LifecycleStage,
    classification_or_none,
    number_or_none,
    past_instants,
    stages,
    stages_or_none,
)

_KUBERNETES = "spec.kubernetes.versions"


def adding(new: Object, old: Object | None, now: datetime) -> Iterator[Remark]:
    """Check the versions that a spec adds or changes; ``old`` is the spec that it replaces, None if it is created.

    Versions without a readable number, classification or time are left to validation.
    """
    before = old or {}
    versions = kubernetes_versions(new)
    for index, version in _changed(versions, kubernetes_versions(before)):
        path = f"{_KUBERNETES}[{index}]"
        yield from _not_expired(version, by_version(kubernetes_versions(before)), path, now, created=old is None)
        yield from _in_order(version, versions, path, now, created=old is None)
    old_images = by_name(machine_images(before))
    for place, image in enumerate(machine_images(new)):
        replaced = image_versions(old_images.get(image.get("name") or "", {}))
        for index, version in _changed(image_versions(image), replaced):
            path = f"spec.machineImages[{place}].versions[{index}]"
            yield from _not_expired(version, by_version(replaced), path, now, created=old is None)


def deleting(new: Object, old: Object, now: datetime) -> Iterator[Remark]:
    """Check the versions that a spec removes."""
    kept = by_version(kubernetes_versions(new))
    for name, version in by_version(kubernetes_versions(old)).items():
        classification = None if name in kept else classification_or_none(version, now)
        if classification is not None and classification.is_active:
            yield forbidden(
                _KUBERNETES,
                f'unable to delete Kubernetes version "{name}": it is {classification}, and only versions whose '
                "expiration date is in the past can be deleted. Let it expire first",
            )
    new_images = by_name(machine_images(new))
    for image_name, image in by_name(machine_images(old)).items():
        kept = by_version(image_versions(new_images.get(image_name, {})))
        for name, version in by_version(image_versions(image)).items():
            classification = None if name in kept else classification_or_none(version, now)
            if classification is not None and classification.is_active:
                yield ValidationWarning(
                    "spec.machineImages",
                    f"machine image version '{image_name}/{name}' is deleted while it is {classification}: versions "
                    "should have expired before they go",
                )


def expiration_of(version: Object) -> LifecycleStage | None:
    """Return the stage in which a version expires, if it ever does.

    Raises:
        ValueError: a classification is unknown, or a time is not in the form of RFC 3339.
    """
    return next((stage for stage in stages(version) if stage.classification is Classification.EXPIRED), None)


def _changed(versions: Sequence[Object], old: Sequence[Object]) -> Iterator[tuple[int, Object]]:
    """Yield the versions that are new or have other stages than before, in whichever form the stages are written."""
    before = by_version(old)
    for index, version in enumerate(versions):
        now_has = stages_or_none(version)
        if now_has is not None and now_has != stages_or_none(before.get(version.get("version") or "")):
            yield index, version


def _not_expired(
    version: Object, before: dict[str, Object], path: str, now: datetime, *, created: bool
) -> Iterator[Remark]:
    expiration = expiration_of(version)
    if expiration is None or not expiration.begun(now):
        return
    name = version.get("version") or ""
    if created:
        yield ValidationWarning(path, f"version {name} has expired already: no Shoot can begin to use it")
    elif expiration not in (stages_or_none(before.get(name)) or ()):
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
            broken = _is_preview_below
        elif classification is Classification.SUPPORTED and other_number < number:
            sentence = (
                f"supported version {number} must be lower than all preview versions, and {other_number} is one"
                f"{'' if is_of_minor else ', of another minor version'}"
            )
            broken = _is_supported_above
        else:
            continue
        if broken(version, other, now):
            grew_old = created and not all(broken(version, other, at) for at in past_instants([version, other], now))
            yield ValidationWarning(path, sentence) if grew_old or not is_of_minor else forbidden(path, sentence)


def _is_preview_below(version: Object, other: Object, at: datetime) -> bool:
    return classification_or_none(version, at) is Classification.PREVIEW and classification_or_none(other, at) not in {
        None,
        Classification.UNAVAILABLE,
    }


def _is_supported_above(version: Object, other: Object, at: datetime) -> bool:
    return (
        classification_or_none(version, at) is Classification.SUPPORTED
        and classification_or_none(other, at) is Classification.PREVIEW
    )
