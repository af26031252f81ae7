"""The rules for a NamespacedCloudProfile against its parent. Pure.

The rules of Gardener's admission plugin, with GEP-32's lifecycles (``rendering`` says what an override can do):

- A Kubernetes version has to be one of the parent's, and has to override something.
- An entry for an image version of the parent may override the same things and nothing else.
- An image that the parent does not have is the project's own and has to be complete. A version that the parent's image
  does not have may omit the fields with a default in Gardener (GEP-25's example has only number and date).
- If the project defined a version first and the parent has added it since, the entry stays; only its stages may still
  change. Its stages that the parent lacks are ignored, with a warning.
- No request moves an expiration into the past, or adds one there; a profile that is created with one only causes a
  warning. Available versions do not become unavailable.
- The rendered profile has to be valid, with at most one supported version of a minor as far as the request changes it.

The parent's update strategy may be overridden, and the override changed, at any time.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from datetime import datetime
from typing import Any

from restow.cloudprofile.capabilities import Definitions, defaulted, defaulted_image_version, definitions_of, in_form_of
from restow.cloudprofile.findings import Remark, ValidationFinding, ValidationWarning, forbidden, invalid, required
from restow.cloudprofile.objects import (
    Object,
    VersionKey,
    by_name,
    by_version,
    image_versions,
    kubernetes_versions,
    machine_images,
    placed_versions,
    spec_of,
    versions_by_key,
)
from restow.cloudprofile.profiles.rendering import foreign_stages, is_own_version, render
from restow.cloudprofile.validation.machines import complete_image, complete_version, image_version
from restow.cloudprofile.validation.profiles import validate_rendered
from restow.cloudprofile.validation.versions import expirable, turned_unavailable
from restow.cloudprofile.versions.lifecycle import expiration_in, names_supported, stages_or_none

_NOT_IN_AN_OVERRIDE = {
    "classification": "a classification",
    "cri": "a cri",
    "architectures": "an architecture",
    "capabilityFlavors": "capabilities",
    "kubeletVersionConstraint": "a kubelet version constraint",
    "inPlaceUpdates": "inPlaceUpdates",
}
_OF_THE_LIFECYCLE = frozenset({"expirationDate", "lifecycle"})


def check_against_parent(
    new: Object, old: Object | None, parent: Object, now: datetime, *, unclassified: Collection[VersionKey] = ()
) -> Iterator[Remark]:
    """Check a NamespacedCloudProfile against its parent."""
    rules = _Rules(new, old, parent, now, unclassified)
    remarks = [*rules.kubernetes(), *rules.images()]
    yield from remarks
    if not any(isinstance(remark, ValidationFinding) for remark in remarks):
        yield from rules.rendered()


class _Rules:
    """The rules for one request; both specs are in the form of the parent's."""

    def __init__(
        self, new: Object, old: Object | None, parent: Object, now: datetime, unclassified: Collection[VersionKey]
    ) -> None:
        self._now = now
        self._unclassified = unclassified
        self._created = old is None
        self._parent = spec_of(parent)
        self._definitions: Definitions = definitions_of(self._parent)
        self._new_spec, self._old_spec = spec_of(new), spec_of(old or {})
        self._new = in_form_of(self._new_spec, self._definitions)
        self._old = in_form_of(self._old_spec, self._definitions)
        self._old_entries = versions_by_key(self._old)
        self._shown = versions_by_key(((old or {}).get("status") or {}).get("cloudProfileSpec") or {})

    def kubernetes(self) -> Iterator[Remark]:
        listed, old = by_version(kubernetes_versions(self._parent)), by_version(kubernetes_versions(self._old))
        for index, version in enumerate(kubernetes_versions(self._new)):
            path, name = f"spec.kubernetes.versions[{index}]", version.get("version") or ""
            if name not in listed:
                yield invalid(
                    f"{path}.version",
                    f"invalid kubernetes version specified: '{name}' does not exist in parent CloudProfile and thus "
                    "cannot be overridden",
                    name,
                )
                continue
            missing = f"specified version '{name}' does not set expiration date, nor any other stage of a lifecycle"
            yield from _says_something(version, old.get(name), path, missing)
            yield from _no_foreign_stages(version, old.get(name), listed[name], path)
            yield from self._not_into_the_past(("", name), version, path)

    def images(self) -> Iterator[Remark]:
        listed = by_name(machine_images(self._parent))
        for index, image in enumerate(machine_images(self._new)):
            path, name = f"spec.machineImages[{index}]", image.get("name") or ""
            if name in listed:
                yield from self._image_of_parent(image, listed[name], path)
            else:
                yield from self._own_image(image, path)
            for place, version in enumerate(image_versions(image)):
                key = name, version.get("version") or ""
                yield from self._not_into_the_past(key, version, f"{path}.versions[{place}]")

    def _own_image(self, image: Object, path: str) -> Iterator[Remark]:
        for place, version in enumerate(image_versions(image)):
            yield from image_version(version, self._definitions, f"{path}.versions[{place}]")
        yield from complete_image(image, self._definitions, path)

    def _image_of_parent(self, image: Object, listed: Object, path: str) -> Iterator[Remark]:
        name = image.get("name") or ""
        of_parent, old = by_version(image_versions(listed)), self._old_versions(name)
        old_image = by_name(machine_images(self._old)).get(name)
        overtaken = [number for number, version in old.items() if number in of_parent and is_own_version(version)]
        if overtaken and old_image and old_image.get("updateStrategy") != image.get("updateStrategy"):
            yield forbidden(
                f"{path}.updateStrategy",
                f'cannot update the machine image update strategy of "{name}", as this version has been added to the '
                "parent CloudProfile by now",
            )
        for place, version in enumerate(image_versions(image)):
            below, number = f"{path}.versions[{place}]", version.get("version") or ""
            if number not in of_parent:
                complete = defaulted_image_version(version, capabilities=bool(self._definitions))
                yield from image_version(complete, self._definitions, below)
                yield from complete_version(complete, self._definitions, below)
            elif number in old:
                yield from _unchanged_but_stages(version, old[number], f"{name}@{number}", below)
            else:
                yield from _nothing_but_stages(version, below)
            if number in of_parent and not is_own_version(version):
                missing = f'expiration date for version "{number}" must be set, or another stage of a lifecycle'
                yield from _says_something(version, old.get(number), below, missing)
                yield from expirable(version, below)
                yield from _no_foreign_stages(version, old.get(number), of_parent[number], below)

    def _not_into_the_past(self, key: VersionKey, version: Object, path: str) -> Iterator[Remark]:
        """Check that the expiration of an entry is not in the past, unless it had that before, or showed it."""
        expiration = expiration_in(stages_or_none(version) or ())
        if expiration is None or not expiration.begun(self._now):
            return
        name, before = key[1], (self._old_entries.get(key), self._shown.get(key))
        if self._created:
            yield ValidationWarning(path, f'version "{name}" has expired already: no Shoot can begin to use it')
        elif not any(expiration == expiration_in(stages_or_none(entry) or ()) for entry in before):
            yield invalid(
                f"{path}.lifecycle",
                f'expiration date for version "{name}" is in the past',
                expiration.start and expiration.start.isoformat().replace("+00:00", "Z"),
            )

    def rendered(self) -> Iterator[Remark]:
        rendered = self._render(self._new_spec)
        if rendered is None:  # static validation or the parent's own validation reports what cannot be rendered
            yield invalid("spec.parent", "the parent CloudProfile has versions whose lifecycles cannot be read")
            return
        before = None if self._created else self._render(self._old_spec)
        yield from validate_rendered(
            defaulted(rendered),
            self._now,
            before=self._parent if before is None else before,
            unclassified=self._unclassified_in_both(),
        )
        if before is not None:
            yield from turned_unavailable(rendered, before, "status.cloudProfileSpec", self._now)

    def _unclassified_in_both(self) -> set[VersionKey]:
        """Return the versions of the rendered profile whose stage ``supported`` neither author wrote."""
        found = set(self._unclassified)
        of_parent = versions_by_key(self._parent)
        for key, _, version in placed_versions(self._new):
            if names_supported(version):
                found.discard(key)
            elif key[0] and (key not in of_parent or is_own_version(version)):
                found.add(key)
        return found

    def _render(self, spec: Object) -> dict[str, Any] | None:
        try:
            return render(self._parent, spec)
        except ValueError:
            return None

    def _old_versions(self, image: str) -> dict[str, Object]:
        return {version: entry for (name, version), entry in self._old_entries.items() if name == image and name}


def _says_something(version: Object, old: Object | None, path: str, missing: str) -> Iterator[Remark]:
    """Refuse an override that moves no stage; one that was stored like that only causes a warning.

    The project may have defined such a version before its parent did.
    """
    if version.get("expirationDate") or version.get("lifecycle"):
        return
    if old is not None and not (old.get("expirationDate") or old.get("lifecycle")):
        yield ValidationWarning(path, f'the override of version "{version.get("version")}" changes nothing: remove it')
    else:
        yield required(f"{path}.lifecycle", missing)


def _no_foreign_stages(override: Object, old: Object | None, listed: Object, path: str) -> Iterator[Remark]:
    """Refuse stages that the parent lacks; unchanged ones only cause a warning, because the parent may have changed."""
    if stages_or_none(override) is None or stages_or_none(listed) is None:
        return
    for place in foreign_stages(listed, override):
        below, stage = f"{path}.lifecycle[{place}].classification", override["lifecycle"][place].get("classification")
        lacks = f"the parent CloudProfile's version {listed.get('version')} has no stage {stage}"
        if old is not None and stages_or_none(old) == stages_or_none(override):
            yield ValidationWarning(below, f"{lacks}: it is passed over")
        else:
            yield forbidden(
                below,
                f"{lacks}: an override may move the stages of its parent and add an expired one, not introduce others",
            )


def _nothing_but_stages(version: Object, path: str) -> Iterator[ValidationFinding]:
    for field, what in _NOT_IN_AN_OVERRIDE.items():
        if version.get(field):
            yield forbidden(
                f"{path}.{field}", f"must not provide {what} to an extended machine image in NamespacedCloudProfile"
            )


def _unchanged_but_stages(version: Object, old: Object, name: str, path: str) -> Iterator[ValidationFinding]:
    if _without_stages(version) != _without_stages(old):
        yield forbidden(
            path,
            f'cannot update the machine image version spec (except for the expiration date) of "{name}", as this '
            "version has been added to the parent CloudProfile by now",
        )


def _without_stages(version: Object) -> dict[str, Any]:
    return {field: value for field, value in version.items() if field not in _OF_THE_LIFECYCLE and value}
