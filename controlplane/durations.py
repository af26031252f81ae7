"""Durations as Go writes them (``1m30s``), for envtest's own environment variables."""

from __future__ import annotations

import os
import re

from restow.controlplane.errors import ControlPlaneError

__all__ = ["go_duration_seconds", "seconds_from_environment"]

_SECONDS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_PART = re.compile(r"(\d+(?:\.\d*)?|\.\d+)(ns|us|µs|ms|s|m|h)")


def go_duration_seconds(text: str) -> float:
    """Return the seconds of a Go duration; raise ValueError if it is none. Negative ones have no use here."""
    if _PART.sub("", text) or not text:
        raise ValueError(text)
    return sum(float(number) * _SECONDS[unit] for number, unit in _PART.findall(text))


def seconds_from_environment(phase: str, default: float) -> float:
    """Return ``KUBEBUILDER_CONTROLPLANE_<phase>_TIMEOUT`` in seconds, or the default where it is not set."""
    name = f"KUBEBUILDER_CONTROLPLANE_{phase}_TIMEOUT"
    text = os.environ.get(name)
    if not text:
        return default
    try:
        return go_duration_seconds(text)
    except ValueError as error:
        message = f"{name} is {text!r}, which is no duration; write it as Go does, for instance 60s or 1m30s."
        raise ControlPlaneError(message) from error
