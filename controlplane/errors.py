"""The errors of this room: one small tree, each a sentence that says what happened and what to do next."""

from __future__ import annotations

__all__ = [
    "BinariesUnavailableError",
    "ControlPlaneError",
    "NotStoredError",
    "PortTakenError",
    "ProcessError",
    "UnavailableError",
]


class ControlPlaneError(Exception):
    """Base of all errors of this room."""


class BinariesUnavailableError(ControlPlaneError):
    """No way led to a binary that is needed; the message says for each way what was tried and what to do."""


class ProcessError(ControlPlaneError):
    """A process of the control plane died, or was not ready in time; the message has its log's tail."""


class PortTakenError(ProcessError):
    """A process could not bind its port: something else took it between choosing and binding."""


class UnavailableError(ControlPlaneError):
    """What was asked for cannot be had here, for instance etcd reads on an existing cluster."""


class NotStoredError(ControlPlaneError, LookupError):
    """etcd holds no object at the key."""
