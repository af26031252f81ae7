"""The errors that finding and building binaries raises, and the base of all errors of a control plane."""

from __future__ import annotations

__all__ = ["BinariesUnavailableError", "ControlPlaneError"]


class ControlPlaneError(Exception):
    """Base of all errors of this room."""


class BinariesUnavailableError(ControlPlaneError):
    """No way led to a binary that is needed; the message says for each way what was tried and what to do."""
