"""Entries of older versions that stay, and that the next write by anybody may cost their owners.

Under strategy None the API server converts the object to an entry's version before it compares anything. Where the
storage version has a default that this version does not declare, every object has such a field from its next write on,
and that conversion fails: a write that is no server-side apply then empties managedFields (before Kubernetes 1.37), or
leaves an entry that its manager cannot apply with any more. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping

from restow.crds import Schema, added_defaults, dropped_fields

__all__ = ["undeclared_defaults", "warnings"]

_SHOWN = 5


def undeclared_defaults(old: Schema, new: Schema) -> tuple[str, ...]:
    """Return the places where a version has a default that an older one would prune."""
    unknown = dropped_fields(new, old)
    return tuple(path for path in added_defaults(old, new) if any(_is_at(path, place) for place in unknown))


def _is_at(path: str, place: str) -> bool:
    return path.startswith(place) and path[len(place) :][:1] in ("", ".", "[", "{")


def warnings(hazards: Mapping[str, tuple[str, ...]], kept: Mapping[tuple[str, str], int], storage: str) -> list[str]:
    """Return a sentence for each version whose entries stay in spite of such a default.

    Args:
        hazards: defaults that a version does not declare, by apiVersion.
        kept: entries that stay, by manager and apiVersion.
        storage: the apiVersion of the storage version.
    """
    said = []
    for version, paths in hazards.items():
        entries = {manager: count for (manager, at), count in sorted(kept.items()) if at == version}
        if not entries:
            continue
        said.append(
            f"{sum(entries.values())} managedFields entries of {_some(list(entries))} stay at {version}, which lacks "
            f"{_some(list(paths))}, a default of {storage}: the next write of an object that has it costs all owners "
            "of the object, unless that write is a server-side apply. Run with --managed-fields translate, "
            f"--scope not-storage and --ignore-mark, and have these managers apply at {storage}"
        )
    return said


def _some(names: list[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more
