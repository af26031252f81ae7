"""The conversions of the custom resource that has some: v2 calls a field otherwise. Pure."""

from __future__ import annotations

from benchmarks.migration.manifests import CONVERTED, GROUP
from restow.conversion import Registry, rules

__all__ = ["registry"]

registry = Registry()


@registry.kind(GROUP, "Converted", hub="v2").spoke("v1")
def v1() -> list[rules.Rule]:
    """Return what differs between v1 and v2."""
    return [rules.rename(*(f"spec.{name}" for name in CONVERTED))]
