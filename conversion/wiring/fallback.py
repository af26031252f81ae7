"""May a CRD go back to the conversion strategy None, so that its webhook can be uninstalled?

A CRD that still names a webhook which is gone can neither be read nor deleted at other versions than its storage
version, and its namespaces hang. With None the server only renames apiVersion: that is right where nothing has to be
converted at all, and corrupts objects where something would have been.

Pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Any

from restow.crds import Crd, Version, sort_versions
from restow.crds.paths import ROOT, field_path, items_path, values_path

__all__ = ["why_not_none"]

_PROSE = frozenset({"description", "title", "example", "externalDocs"})


def why_not_none(crd: Crd) -> str:
    """Return why the strategy None would be wrong, as a sentence; empty where it is safe.

    It is safe if only one version is served and stored, or if the schemas of all that are, are the same but for prose.
    (What a webhook does between equal schemas cannot be seen here.)
    """
    stored = {*crd.stored_versions, crd.storage.name}
    unknown = sort_versions(name for name in stored if crd.version(name) is None)
    if unknown:
        return f"{crd.name} may hold objects stored at {unknown[0]}, which it does not have any more"
    names = sort_versions({*stored, *crd.served})
    for left, right in pairwise([version for name in names if (version := crd.version(name)) is not None]):
        place = _first_difference(left, right)
        if place:
            return (
                f"{crd.name} needs its webhook: {place} differs between {left.name} and {right.name}. Migrate its "
                f"objects to {crd.storage.name} (restow migrate {crd.name}) and stop serving the other versions first"
            )
    return ""


def _first_difference(left: Version, right: Version) -> str:
    return next(_differences(left.schema.node, right.schema.node, ROOT), "")


def _differences(left: Any, right: Any, path: str) -> Iterator[str]:
    """Yield where two schema nodes differ, the first place first."""
    if not isinstance(left, Mapping) or not isinstance(right, Mapping):
        if left != right:
            yield path
        return
    for name in dict.fromkeys((*left, *right)):
        if name in _PROSE:
            continue
        ours, theirs = left.get(name), right.get(name)
        if name == "properties":
            yield from _differing_fields(ours or {}, theirs or {}, path)
        elif name == "items":
            yield from _differences(ours, theirs, items_path(path))
        elif name == "additionalProperties":
            yield from _differences(ours, theirs, values_path(path))
        elif ours != theirs:
            yield path


def _differing_fields(left: Mapping[str, Any], right: Mapping[str, Any], path: str) -> Iterator[str]:
    for name in dict.fromkeys((*left, *right)):
        below = field_path(path, name)
        if name not in left or name not in right:
            yield below
        else:
            yield from _differences(left[name], right[name], below)
