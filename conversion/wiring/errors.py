"""Why a CRD was not wired, as sentences that say what to do.

WiringError
├── Refused         what the CRD, or another manager of it, says stands against it; nothing was written
└── NotAnswering    the webhook does not answer as an API server needs it; nothing was written
"""

from __future__ import annotations

__all__ = ["NotAnswering", "Refused", "WiringError"]


class WiringError(Exception):
    """Base of what this package raises on purpose."""


class Refused(WiringError):
    """The CRD must not, or cannot, be written so."""


class NotAnswering(WiringError):
    """The webhook gave no answer, or none that an API server would accept."""
