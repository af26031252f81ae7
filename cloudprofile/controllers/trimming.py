"""What is kept in memory of an object, out of all that the API server sends. Pure.

Of profiles all but ``managedFields``, which is about as large as the rest. Of a Shoot what the controllers decide from:
which profile it uses, and when it may be maintained. A Shoot's heartbeats change none of that, so they wake nobody.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from restow.cloudprofile.maintenancewindow import OPERATION_ANNOTATION
from restow.cloudprofile.parts import Object

__all__ = ["profile", "shoot"]

_IDENTITY = ("name", "namespace", "uid", "resourceVersion", "deletionTimestamp")


def profile(obj: Object) -> dict[str, Any]:
    """Return what is kept of a CloudProfile or NamespacedCloudProfile."""
    metadata = {name: value for name, value in (obj.get("metadata") or {}).items() if name != "managedFields"}
    return {**obj, "metadata": metadata}


def shoot(obj: Object) -> dict[str, Any]:
    """Return what is kept of a Shoot."""
    metadata = obj.get("metadata") or {}
    requested = _only(metadata.get("annotations") or {}, (OPERATION_ANNOTATION,))
    return {
        "metadata": _only(metadata, _IDENTITY) | ({"annotations": requested} if requested else {}),
        "spec": _only(obj.get("spec") or {}, ("cloudProfile", "cloudProfileName", "maintenance")),
        "status": _only(obj.get("status") or {}, ("lastMaintenance",)),
    }


def _only(part: Object, names: Iterable[str]) -> dict[str, Any]:
    return {name: part[name] for name in names if name in part}
