"""The resources of the CloudProfile family at the version that everything in here reads and writes: the hub's. Pure."""

from __future__ import annotations

from typing import Final

from restow.cloudprofile.references import CLOUD_PROFILE, NAMESPACED_CLOUD_PROFILE
from restow.kube.resources import Resource

__all__ = [
    "CLOUD_PROFILES",
    "GROUP",
    "HUB",
    "NAMESPACED_CLOUD_PROFILES",
    "OLD",
    "SHOOT",
    "SHOOTS",
    "resource_of",
]

GROUP: Final = "core.gardener.cloud"
HUB: Final = "v1beta2"
OLD: Final = "v1beta1"
"""The deprecated version, of clients that know no lifecycles."""

SHOOT: Final = "Shoot"

CLOUD_PROFILES: Final = Resource(GROUP, HUB, "cloudprofiles", namespaced=False)
NAMESPACED_CLOUD_PROFILES: Final = Resource(GROUP, HUB, "namespacedcloudprofiles", namespaced=True)
SHOOTS: Final = Resource(GROUP, HUB, "shoots", namespaced=True)

_RESOURCES: Final = {
    CLOUD_PROFILE: CLOUD_PROFILES,
    NAMESPACED_CLOUD_PROFILE: NAMESPACED_CLOUD_PROFILES,
    SHOOT: SHOOTS,
}


def resource_of(kind: str) -> Resource:
    """Return the resource of a kind of the family.

    Raises:
        KeyError: it is another one.
    """
    return _RESOURCES[kind]
