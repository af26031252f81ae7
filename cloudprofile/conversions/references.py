"""The rule of the profile that a Shoot names. Pure.

v1beta1 has ``cloudProfileName``, which only ever names a CloudProfile, beside ``cloudProfile`` (GEP-25, "Adjusting
Shoots cloudProfileName field"). It shows both of a CloudProfile, as Gardener does, and ``cloudProfile`` alone of a
NamespacedCloudProfile. What a client wrote there with one of the two is shown to it as it wrote it: the hub's stash
remembers. Where both are there and disagree, which the schema refuses, ``cloudProfile`` counts.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from restow.cloudprofile.references import CLOUD_PROFILE
from restow.conversion import ABSENT, rules

__all__ = ["profile_reference"]

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
