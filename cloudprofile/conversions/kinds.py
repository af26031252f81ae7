"""CloudProfile, NamespacedCloudProfile and Shoot, declared for conversion, with the rules of their fields. Pure.

In a profile the versions convert: those of Kubernetes and, image by image, those of machine images. In a Shoot the
reference to its profile converts. v1beta1 has ``cloudProfileName``, which always names a CloudProfile, in addition to
``cloudProfile`` (GEP-25, "Adjusting Shoots cloudProfileName field"). v1beta1 shows both fields for a CloudProfile, as
Gardener does, and only ``cloudProfile`` for a NamespacedCloudProfile. A client that wrote only one of the two reads
back exactly that one, because the hub's stash keeps it. If both are set and disagree, which the schema refuses,
``cloudProfile`` counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from restow.cloudprofile.conversions.lifecycle import (
    CLASSIFICATION,
    EXPIRATION,
    LIFECYCLE,
    OVERRIDE,
    VERSION,
    VersionForm,
    is_at_wrong_version,
)
from restow.cloudprofile.objects import CLOUD_PROFILE, GROUP, HUB, OLD
from restow.conversion import ABSENT, Graph, Registry, rules
from restow.crds import Crd

_KUBERNETES: Final = "$.status.kubernetes.versions[].classification"
_IMAGES: Final = "$.status.machineImages[].versions[].classification"


def _versions_of(spec: str, kubernetes: VersionForm = VERSION, images: VersionForm = VERSION) -> list[rules.Rule]:
    """Return the rules for all versions of a spec, in an object whose status classifies them."""
    return [
        _versions(f"{spec}.kubernetes.versions", kubernetes, _KUBERNETES),
        rules.each(f"{spec}.machineImages", [_versions("versions", images, _IMAGES)], key="name"),
    ]


def _versions(path: str, form: VersionForm, status: str) -> rules.Rule:
    lifecycle = rules.pair(
        (CLASSIFICATION, EXPIRATION, LIFECYCLE),
        LIFECYCLE,
        up=form.lifecycle,
        down=form.fields,
        merge=form.edited,
        forget=is_at_wrong_version,
        acknowledge="a lifecycle at v1beta1 stands at the wrong version: v1beta2 keeps it whole",
        loses="both",
        reads=[status],
    )
    # The schema of v1beta2 refuses the fields of v1beta1 with a message; dropping them before would hide the mistake.
    refused = [rules.stash(hub=CLASSIFICATION), rules.stash(hub=EXPIRATION)]
    return rules.each(
        path,
        [lifecycle, *refused],
        key="version",
        hide=form.hides,
        merge=form.reappeared,
        reads=[status],
    )


_NAME: Final = "spec.cloudProfileName"
_REFERENCE: Final = "spec.cloudProfile"


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
    # Without a kind this is part of a reference, or a manifest in which the schema has not yet set its default.
    if isinstance(reference, dict) and reference.get("kind") == CLOUD_PROFILE and reference.get("name"):
        return {_NAME: reference["name"], _REFERENCE: reference}
    return {_REFERENCE: reference}


#: A profile has hundreds of versions, and the stash keeps about 350 bytes of each: up to the limit of all annotations.
_BUDGET: Final = 250 * 1024

registry = Registry()

_profile = registry.kind(GROUP, "CloudProfile", hub=HUB, stash_budget=_BUDGET)
_namespaced = registry.kind(GROUP, "NamespacedCloudProfile", hub=HUB, stash_budget=_BUDGET)
_shoot = registry.kind(GROUP, "Shoot", hub=HUB)


@_profile.spoke(OLD)
def _profile_rules() -> list[rules.Rule]:
    return _versions_of("spec")


@_namespaced.spoke(OLD)
def _namespaced_rules() -> list[rules.Rule]:
    # At v1beta1 an override changes only the date of a Kubernetes version; an image version can be the project's own.
    date = VersionForm("", is_classified=False)
    return [*_versions_of("spec", date, OVERRIDE), *_versions_of("status.cloudProfileSpec")]


@_shoot.spoke(OLD)
def _shoot_rules() -> list[rules.Rule]:
    return [
        rules.pair((_NAME, _REFERENCE), _REFERENCE, up=_to_reference, down=_to_both, loses="up"),
        rules.waive(hub=_REFERENCE, acknowledge="a validation rule of v1beta1 requires one of the two fields"),
        # The schema of v1beta2 refuses the field of v1beta1 with a message; dropping it before would hide the mistake.
        rules.stash(hub=_NAME),
    ]


def graph(crds: Iterable[Crd] = ()) -> Graph:
    """Return the conversions; with the three CRDs, freezing checks that every field of every version is accounted for.

    Raises:
        DefinitionError: with these CRDs, a field of a version is neither converted, stashed nor acknowledged.
    """
    return registry.freeze(crds)
