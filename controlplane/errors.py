"""The errors of the control plane: each message says what happened and what to do next."""

from __future__ import annotations

from restow.controlplane.binaries.errors import ControlPlaneError

__all__ = [
    "NotStoredError",
    "PortTakenError",
    "ProcessError",
    "UnavailableError",
]


class ProcessError(ControlPlaneError):
    """A process of the control plane died, or was not ready in time; the message has its log's tail."""


class PortTakenError(ProcessError):
    """A process could not bind its port: something else took it between choosing and binding."""


class UnavailableError(ControlPlaneError):
    """What was asked for cannot be had here, for instance etcd reads on an existing cluster."""


class NotStoredError(ControlPlaneError, LookupError):
    """etcd holds no object at the key."""
