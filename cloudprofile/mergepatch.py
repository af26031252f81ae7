"""The JSON merge patch (RFC 7386) between two objects: what differs, null where something goes. Pure.

Lists are replaced whole. A null in the target cannot be told from something that goes; objects of the family have none.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["merge_patch"]


def merge_patch(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    """Return the patch that turns ``before`` into ``after``; empty where they are equal."""
    patch: dict[str, Any] = {name: None for name in before if name not in after}
    for name, value in after.items():
        had = before.get(name)
        if isinstance(value, Mapping) and isinstance(had, Mapping):
            if inner := merge_patch(had, value):
                patch[name] = inner
        elif name not in before or had != value:
            patch[name] = value
    return patch
