"""The lifecycles of a CloudProfile, as its chart takes them. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from restow.cloudprofile.chart import rows_of, window_of
from restow.kube.resources import qualified_name
from restow.report.model import ProfileView

__all__ = ["profile"]


def profile(kind: str, document: Mapping[str, Any], now: datetime) -> ProfileView:
    """Return the lifecycles of one profile at v1beta2."""
    metadata = document["metadata"]
    name = qualified_name(metadata.get("namespace"), metadata.get("name"))
    spec = document.get("spec") or {}
    if kind == "NamespacedCloudProfile":
        spec = (document.get("status") or {}).get("cloudProfileSpec") or spec
    try:
        window = window_of(spec, now)
        return ProfileView(kind, name, rows_of(spec, window), window)
    except ValueError as error:
        return ProfileView(kind, name, (), window_of({}, now), str(error))
