"""The rules of the versions in a profile: those of Kubernetes and, image by image, those of machine images. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from restow.cloudprofile.conversions.edits import (
    edited_override,
    edited_version,
    reappeared_override,
    reappeared_version,
)
from restow.cloudprofile.conversions.fields import (
    CLASSIFICATION,
    EXPIRATION,
    LIFECYCLE,
    dates_of_lifecycle,
    fields_of_lifecycle,
    is_at_wrong_version,
    is_unavailable,
    lifecycle_of_override,
    lifecycle_of_version,
    stages_of,
)
from restow.cloudprofile.lifecycle import Classification
from restow.conversion import rules

__all__ = ["overrides_of", "versions_of"]

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
