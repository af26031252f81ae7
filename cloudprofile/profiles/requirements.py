"""The versioning policy's requirements for adding, classifying and deleting versions of a CloudProfile. Pure.

"Version Requirements" of the policy document, bound to what a request does: they hold for the versions that it adds
or whose stages it changes, and for those that it deletes. Changes that only the passing of time causes are not checked.

- No version is added with, or moved to, an expiration in the past. A profile that is created whole may have such
  versions (a restore, GitOps): that only warns. Nothing is ever dropped instead.
- A preview Kubernetes version is the latest patch of its minor version. Versions not yet available do not count.
- A supported Kubernetes version is lower than every preview version of its minor; of lower minors, it warns.
- A Kubernetes version may be deleted if it has expired. Deleting an image version before that only warns, as the
  document asks it of Kubernetes versions. ``restow.cloudprofile.profiles.protection`` checks that neither is in use.
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
    stages,
    stages_or_none,
)
from restow.cloudprofile.versions.semver import SemanticVersion

__all__ = ["adding", "deleting", "expiration_of"]


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
        yield from _in_order(version, versions, path, now)
    old_images = by_name(machine_images(before))
    for place, image in enumerate(machine_images(new)):
        replaced = image_versions(old_images.get(image.get("name") or "", {}))
        for index, version in _changed(image_versions(image), replaced):
            path = f"spec.machineImages[{place}].versions[{index}]"
            yield from _not_expired(version, by_version(replaced), path, now, created=old is None)


def deleting(new: Object, old: Object, now: datetime) -> Iterator[Remark]:
    """Check the versions that a spec no longer has."""
    kept = by_version(kubernetes_versions(new))
    for name, version in by_version(kubernetes_versions(old)).items():
        classification = None if name in kept else classification_or_none(version, now)
        if classification not in {None, Classification.EXPIRED}:
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
            if classification not in {None, Classification.EXPIRED}:
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
    """Yield the versions that are new or have other stages than before, however those are written."""
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


def _in_order(version: Object, versions: Sequence[Object], path: str, now: datetime) -> Iterator[Remark]:
    """Hold a Kubernetes version against the previews, or a preview against the other versions."""
    number, classification = number_or_none(version), classification_or_none(version, now)
    if number is None:
        return
    for other in versions:
        other_number, other_classification = number_or_none(other), classification_or_none(other, now)
        if other_number is None or other_classification in {None, Classification.UNAVAILABLE}:
            continue
        if classification is Classification.PREVIEW and other_number.line == number.line and other_number > number:
            yield forbidden(
                path,
                f"preview version {number} must be the latest patch version of its minor version, and there is "
                f"{other_number}",
            )
        lower_preview = other_classification is Classification.PREVIEW and other_number < number
        if classification is Classification.SUPPORTED and lower_preview:
            yield _supported_above_preview(path, number, other_number)


def _supported_above_preview(path: str, supported: SemanticVersion, preview: SemanticVersion) -> Remark:
    sentence = f"supported version {supported} must be lower than all preview versions, and {preview} is one"
    if supported.line == preview.line:
        return forbidden(path, sentence)
    return ValidationWarning(path, f"{sentence}, of another minor version")
