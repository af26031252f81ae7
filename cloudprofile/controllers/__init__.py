"""The controllers of the CloudProfile family: status, finalizers, version management, Shoot maintenance.

``run`` runs them as ``ControllerOptions`` say. Everything else is implementation.
"""

from restow.cloudprofile.controllers.manager import ControllerOptions, run

__all__ = ["ControllerOptions", "run"]
