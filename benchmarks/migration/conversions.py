"""The conversions of the converted custom resource: v2 has another name for a field. Pure."""

from __future__ import annotations

from benchmarks.migration.manifests import CONVERTED, GROUP
from restow.conversion import Registry, rules

__all__ = ["registry"]

registry = Registry()


@registry.kind(GROUP, "Converted", hub="v2").spoke("v1")
def v1() -> list[rules.Rule]:
    """Return the rules between v1 and v2."""
    return [rules.rename(*(f"spec.{name}" for name in CONVERTED))]
