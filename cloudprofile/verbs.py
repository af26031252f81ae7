"""The custom verbs that a change of a NamespacedCloudProfile needs. Pure.

GEP-25, "Custom RBAC verb": whoever may edit a NamespacedCloudProfile may add machine and volume types, CA bundles and
limits. Versions, and the provider's own configuration, are for the landscape's operators: they need a verb each, on
the resource ``namespacedcloudprofiles``, named after the field. (GEP-25 names the first two. Gardener spells them in
small letters and has the third, since provider extensions take images from there.)
"""

from __future__ import annotations

from typing import Any

from restow.cloudprofile.parts import Object, spec_of

__all__ = ["MODIFY_KUBERNETES", "MODIFY_MACHINE_IMAGES", "MODIFY_PROVIDER_CONFIG", "needed_verbs"]

MODIFY_KUBERNETES = "modify-spec-kubernetes"
MODIFY_MACHINE_IMAGES = "modify-spec-machineImages"
MODIFY_PROVIDER_CONFIG = "modify-spec-providerConfig"


def needed_verbs(new: Object, old: Object | None = None) -> tuple[str, ...]:
    """Return the verbs that turning ``old`` into ``new`` needs; ``old`` is None on create."""
    after, before = spec_of(new), spec_of(old or {})
    changed = {
        MODIFY_KUBERNETES: _meaning(after.get("kubernetes")) != _meaning(before.get("kubernetes")),
        MODIFY_MACHINE_IMAGES: _meaning(after.get("machineImages") or None)
        != _meaning(before.get("machineImages") or None),
        MODIFY_PROVIDER_CONFIG: after.get("providerConfig") != before.get("providerConfig"),
    }
    return tuple(verb for verb, is_changed in changed.items() if is_changed)


def _meaning(value: Any) -> Any:
    """Return a value without the fields in it that are unset or empty, which mean the same as none."""
    if isinstance(value, dict):
        return {field: _meaning(item) for field, item in value.items() if item not in (None, [], {})}
    if isinstance(value, list):
        return [_meaning(item) for item in value]
    return value
