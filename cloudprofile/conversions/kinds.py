"""CloudProfile, NamespacedCloudProfile and Shoot, declared for conversion, with the rules of their fields. Pure.

Of a profile the versions convert: those of Kubernetes and, image by image, those of machine images. Of a Shoot the
field that names its profile: v1beta1 has ``cloudProfileName``, which only ever names a CloudProfile, next to
``cloudProfile`` (GEP-25, "Adjusting Shoots cloudProfileName field"). It shows both of a CloudProfile, as Gardener does,
and ``cloudProfile`` alone of a NamespacedCloudProfile. What a client wrote there with one of the two is shown to it as
it wrote it: the hub's stash remembers. Where both are there and disagree, which the schema refuses, ``cloudProfile``
counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from restow.cloudprofile.conversions.lifecycle import (
    CLASSIFICATION,
    EXPIRATION,
    LIFECYCLE,
    dates_of_lifecycle,
    edited_override,
    edited_version,
    fields_of_lifecycle,
    is_at_wrong_version,
    is_unavailable,
    lifecycle_of_override,
    lifecycle_of_version,
    reappeared_override,
    reappeared_version,
    stages_of,
)
from restow.cloudprofile.objects import CLOUD_PROFILE
from restow.cloudprofile.versions.lifecycle import Classification
from restow.conversion import ABSENT, Graph, Registry, rules
from restow.crds import Crd

__all__ = [
    "graph",
    "overrides_of",
    "profile_reference",
    "registry",
    "versions_of",
]


_KUBERNETES: Final = "$.status.kubernetes.versions[].classification"
_IMAGES: Final = "$.status.machineImages[].versions[].classification"


def versions_of(spec: str) -> list[rules.Rule]:
    """Return the rules for a CloudProfile's spec, at ``spec`` in an object whose status classifies its versions."""
    return [
        _versions(f"{spec}.kubernetes.versions", _VERSION, _KUBERNETES),
        rules.each(f"{spec}.machineImages", [_versions("versions", _VERSION, _IMAGES)], key="name"),
    ]


def overrides_of(spec: str) -> list[rules.Rule]:
    """Return the rules for the sparse spec of a NamespacedCloudProfile.

    At v1beta1 it moves the date of a Kubernetes version and nothing else; an image version can be its own.
    """
    return [
        _versions(f"{spec}.kubernetes.versions", _DATE, _KUBERNETES),
        rules.each(f"{spec}.machineImages", [_versions("versions", _OVERRIDE, _IMAGES)], key="name"),
    ]


@dataclass(frozen=True, slots=True)
class _Form:
    """How a version says what its stages are.

    ``is_whole``: all of them, so that what has none that has begun is unavailable. ``is_classified``: v1beta1 may name
        one.
    """

    is_whole: bool
    is_classified: bool


_VERSION: Final = _Form(is_whole=True, is_classified=True)
_OVERRIDE: Final = _Form(is_whole=False, is_classified=True)
_DATE: Final = _Form(is_whole=False, is_classified=False)


def _versions(path: str, form: _Form, status: str) -> rules.Rule:
    lifecycle = rules.pair(
        (CLASSIFICATION, EXPIRATION, LIFECYCLE),
        LIFECYCLE,
        up=lifecycle_of_version if form.is_whole else lifecycle_of_override,
        down=fields_of_lifecycle if form.is_classified else dates_of_lifecycle,
        merge=edited_version if form.is_whole else edited_override,
        forget=is_at_wrong_version,
        acknowledge="a lifecycle at v1beta1 stands at the wrong version: v1beta2 keeps it whole",
        loses="both",
        reads=[status],
    )
    # The schema of v1beta2 refuses its old names with a message: what it refuses must not be lost before it can.
    refused = [rules.stash(hub=CLASSIFICATION), rules.stash(hub=EXPIRATION)]
    return rules.each(
        path,
        [lifecycle, *refused],
        key="version",
        hide=is_unavailable if form.is_whole else _is_override_unavailable,
        merge=reappeared_version if form.is_whole else reappeared_override,
        reads=[status],
    )


def _is_override_unavailable(version: Mapping[str, Any], status: Any) -> bool:
    """Say whether an override is of a version that cannot be used yet.

    Its own stages do not tell, for those of the parent are missing; the status does. The one stage that v1beta1 itself
    can write is shown in any case, or a client's own words would vanish.
    """
    stages = stages_of(version.get(LIFECYCLE))
    if status != Classification.UNAVAILABLE or not all(stage.get("startTime") for stage in stages):
        return False
    return bool(stages) and lifecycle_of_override(dates_of_lifecycle(stages)) != stages


_NAME: Final = "spec.cloudProfileName"
_REFERENCE: Final = "spec.cloudProfile"


def profile_reference() -> list[rules.Rule]:
    """Return the rules of a Shoot's profile."""
    return [
        rules.pair((_NAME, _REFERENCE), _REFERENCE, up=_to_reference, down=_to_both, loses="up"),
        # The schema of v1beta2 refuses its old name with a message: what it refuses must not be lost before it can.
        rules.stash(hub=_NAME),
    ]


def _to_reference(fields: Mapping[str, Any]) -> Any:
    reference, name = fields.get(_REFERENCE, ABSENT), fields.get(_NAME)
    if not isinstance(name, str) or not name:
        return reference
    if not isinstance(reference, dict):
        return {"kind": CLOUD_PROFILE, "name": name}
    if reference.get("name") or reference.get("kind", CLOUD_PROFILE) != CLOUD_PROFILE:
        return reference
    return {**reference, "kind": CLOUD_PROFILE, "name": name}


def _to_both(reference: Any) -> dict[str, Any]:
    # Without a kind this is a part of a reference, or a manifest to which the schema has yet to give its default.
    if isinstance(reference, dict) and reference.get("kind") == CLOUD_PROFILE and reference.get("name"):
        return {_NAME: reference["name"], _REFERENCE: reference}
    return {_REFERENCE: reference}


_GROUP: Final = "core.gardener.cloud"
_OLD: Final = "v1beta1"
_HUB: Final = "v1beta2"

#: A profile has hundreds of versions, and about 350 bytes are kept of each: as many as all annotations may have.
_BUDGET: Final = 250 * 1024

registry = Registry()

_profile = registry.kind(_GROUP, "CloudProfile", hub=_HUB, stash_budget=_BUDGET)
_namespaced = registry.kind(_GROUP, "NamespacedCloudProfile", hub=_HUB, stash_budget=_BUDGET)
_shoot = registry.kind(_GROUP, "Shoot", hub=_HUB)


@_profile.spoke(_OLD)
def _profile_rules() -> list[rules.Rule]:
    return versions_of("spec")


@_namespaced.spoke(_OLD)
def _namespaced_rules() -> list[rules.Rule]:
    return [*overrides_of("spec"), *versions_of("status.cloudProfileSpec")]


@_shoot.spoke(_OLD)
def _shoot_rules() -> list[rules.Rule]:
    return profile_reference()


def graph(crds: Iterable[Crd] = ()) -> Graph:
    """Return the conversions; with the CRDs (all three), every field of every version is accounted for.

    Raises:
        DefinitionError: with these CRDs, a field of a version is neither converted, stashed nor acknowledged.
    """
    return registry.freeze(crds)
