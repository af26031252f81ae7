"""The errors of the control plane; each message has the cause and the next step."""

from __future__ import annotations

from restow.controlplane.binaries.errors import ControlPlaneError

__all__ = [
    "NotStoredError",
    "PortTakenError",
    "ProcessError",
    "UnavailableError",
]


class ProcessError(ControlPlaneError):
    """An error: a process of the control plane died, or was not ready in time. The message has the end of its log."""


class PortTakenError(ProcessError):
    """An error: a process could not bind its port, because another process took the port after it was chosen."""


class UnavailableError(ControlPlaneError):
    """An error: a feature is unavailable here, for instance etcd reads on an existing cluster."""


class NotStoredError(ControlPlaneError, LookupError):
    """An error: etcd has no object at the key."""
