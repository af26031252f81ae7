"""The errors of a control plane and its binaries; each message has the cause and the next step."""

from __future__ import annotations


class ControlPlaneError(Exception):
    """The base class of all errors of this package."""


class BinariesUnavailableError(ControlPlaneError):
    """An error: a required binary is unavailable; the message has the attempt of each source and the next step."""


class ProcessError(ControlPlaneError):
    """An error: a process of the control plane died, or was not ready in time. The message has the end of its log."""


class PortTakenError(ProcessError):
    """An error: a process could not bind its port, because another process took the port after it was chosen."""


class UnavailableError(ControlPlaneError):
    """An error: a feature is unavailable here, for instance etcd reads on an existing cluster."""


class NotStoredError(ControlPlaneError, LookupError):
    """An error: etcd has no object at the key."""
