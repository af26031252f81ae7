"""Which other profile a Shoot may be moved to. Pure.

Moves stay in the family of one CloudProfile, its root: from it to a NamespacedCloudProfile with it as parent, back, and
between two such siblings (GEP-25; siblings are a later addition). The new profile has to offer what the worker pools
use: machine types, volume types, and the machine image versions that the old one offers. The Kubernetes version is
left aside on purpose, since the next maintenance moves the Shoot on.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

from restow.cloudprofile.findings import Finding, forbidden, invalid
from restow.cloudprofile.imagefit import find_image_version, find_machine_type
from restow.cloudprofile.parts import Object, by_name, workers
from restow.cloudprofile.references import NAMESPACED_CLOUD_PROFILE, ProfileReference, profile_of
from restow.cloudprofile.shootprofile import Profiles

__all__ = ["transition_findings"]


def transition_findings(old: Object, new: Object, profiles: Profiles) -> tuple[Finding, ...]:
    """Return why a Shoot may not be moved from the profile of ``old`` to that of ``new``; nothing if it is the same."""
    before, after = profile_of(old), profile_of(new)
    if before is None or after is None or before == after:
        return ()
    roots = []
    for reference in (before, after):
        root = profiles.root(reference)
        if root is None:
            return (invalid("spec.cloudProfile", f"{reference} not found"),)
        roots.append(root)
    if roots[0] != roots[1]:
        return (
            forbidden(
                "spec.cloudProfile",
                "cloud profile reference change is invalid: cannot change from "
                f"{_described(before, roots[0])} to {_described(after, roots[1])}. A Shoot stays with the same root "
                "CloudProfile or one of its NamespacedCloudProfiles",
            ),
        )
    offer = profiles.offer(after)
    if offer is None:
        return (invalid("spec.cloudProfile", f"{after} not found"),)
    return tuple(_unoffered(new, profiles.offer(before) or {}, offer))


def _described(reference: ProfileReference, root: str) -> str:
    name = json.dumps(reference.name)
    return f"{name} (root: {json.dumps(root)})" if reference.kind == NAMESPACED_CLOUD_PROFILE else name


def _unoffered(shoot: Object, old: Object, new: Object) -> Iterator[Finding]:
    """Yield what the worker pools of a Shoot use and the new profile does not offer."""
    volume_types = by_name(new.get("volumeTypes") or ())
    for index, worker in enumerate(workers(shoot)):
        field, user = f"spec.provider.workers[{index}]", json.dumps(worker.get("name") or "")
        machine = worker.get("machine") or {}
        image = machine.get("image") or {}
        used = image.get("name") or "", image.get("version") or ""
        if find_image_version(old, *used) and not find_image_version(new, *used):
            yield _lacks(f"{field}.machine.image", "machine image version", "@".join(used), user)
        machine_type = machine.get("type")
        if machine_type and find_machine_type(new, machine_type) is None:
            yield _lacks(f"{field}.machine.type", "machine type", machine_type, user)
        volume_type = (worker.get("volume") or {}).get("type")
        if volume_type and volume_type not in volume_types:
            yield _lacks(f"{field}.volume.type", "volume type", volume_type, user)


def _lacks(field: str, what: str, name: str, user: str) -> Finding:
    return invalid(
        field,
        f"newly referenced cloud profile does not contain the {what} {json.dumps(name)} currently in use by worker "
        f"{user}",
    )
