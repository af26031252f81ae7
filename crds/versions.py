"""The order of Kubernetes API versions, highest priority first.

Discovery, kubectl's choice of a version and every list that restow shows follow this order: GA before beta before
alpha, then the higher major, then the higher minor version. Names that are not Kubernetes versions (``foo10``) come
last, in plain string order.
Source: "Version priority" in the Kubernetes documentation of CustomResourceDefinition versions, and
apimachinery's ``version.CompareKubeAwareVersionStrings``.

Pure: strings in, tuples out.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["sort_versions", "version_priority"]

_KUBE_VERSION = re.compile(r"v([0-9]+)(?:(alpha|beta)([0-9]+))?")
_STABILITY = {None: 0, "beta": 1, "alpha": 2}
_MAX_INT = 2**63 - 1  # the server parses into an int64; a larger number is no Kubernetes version


def version_priority(name: str) -> tuple[int, int, int, int, str]:
    """Return a sort key for an API version name: the smaller the key, the higher the priority.

    Keys of different names are never equal (``v1`` and ``v01`` differ in spelling), so sorting by
    them is a total order.
    """
    match = _KUBE_VERSION.fullmatch(name)
    if match is None:
        return (1, 0, 0, 0, name)
    major, stability, minor = int(match[1]), match[2], int(match[3] or 0)
    if major > _MAX_INT or minor > _MAX_INT:
        return (1, 0, 0, 0, name)
    return (0, _STABILITY[stability], -major, -minor, name)


def sort_versions(names: Iterable[str]) -> tuple[str, ...]:
    """Return the names sorted by priority, highest first; duplicates stay."""
    return tuple(sorted(names, key=version_priority))
