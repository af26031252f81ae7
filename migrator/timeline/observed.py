"""What CRDs of a release, or of a live cluster, say of their versions.

Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from restow.crds import Crd

__all__ = ["ABSENT", "Observed", "Place", "observe"]


@dataclass(frozen=True, slots=True)
class Place:
    """What a version is in one release. A version that is not there is neither served nor stored."""

    there: bool = True
    served: bool = False
    storage: bool = False


ABSENT: Final = Place(there=False)


@dataclass(frozen=True, slots=True)
class Observed:
    """One CRD through the releases that are known of it.

    Attributes:
        places: by the release's place in the policy's list, then by version.
        stored: likewise the versions of ``status.storedVersions``; empty for manifests.
    """

    crd: str
    places: Mapping[int, Mapping[str, Place]]
    stored: Mapping[int, tuple[str, ...]]

    @property
    def first(self) -> int:
        """The first release that is known."""
        return min(self.places)

    def place(self, version: str, release: int) -> Place | None:
        """Return what a version is in a release, None if the release is not known."""
        known = self.places.get(release)
        return None if known is None else known.get(version, ABSENT)

    def ever(self, version: str) -> bool:
        """Say whether any known release has the version."""
        return any(version in places for places in self.places.values())


def observe(crds: Iterable[tuple[int, Crd]]) -> tuple[Observed, ...]:
    """Gather CRDs, each with its release's place in the policy's list, by their names."""
    places: dict[str, dict[int, Mapping[str, Place]]] = {}
    stored: dict[str, dict[int, tuple[str, ...]]] = {}
    for release, crd in crds:
        places.setdefault(crd.name, {})[release] = MappingProxyType(
            {version.name: Place(served=version.served, storage=version.storage) for version in crd.versions}
        )
        stored.setdefault(crd.name, {})[release] = crd.stored_versions
    return tuple(
        Observed(name, MappingProxyType(found), MappingProxyType(stored[name]))
        for name, found in sorted(places.items())
    )
