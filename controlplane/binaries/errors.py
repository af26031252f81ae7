"""The errors of finding and building binaries, and the base class of all errors of a control plane."""

from __future__ import annotations

__all__ = ["BinariesUnavailableError", "ControlPlaneError"]


class ControlPlaneError(Exception):
    """The base class of all errors of this package."""


class BinariesUnavailableError(ControlPlaneError):
    """An error: a required binary is unavailable; the message has the attempt of each source and the next step."""
