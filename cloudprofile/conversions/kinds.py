"""CloudProfile, NamespacedCloudProfile and Shoot, declared for conversion. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from restow.cloudprofile.conversions.references import profile_reference
from restow.cloudprofile.conversions.versions import overrides_of, versions_of
from restow.conversion import Graph, Registry, rules
from restow.crds import Crd

__all__ = ["graph", "registry"]

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
        DefinitionError: the definition cannot be used.
    """
    return registry.freeze(crds)
