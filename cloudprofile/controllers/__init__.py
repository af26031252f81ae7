"""The controllers of the CloudProfile family: status, finalizers, version management, Shoot maintenance.

``run`` runs the controllers that ``ControllerOptions`` selects. Everything else is implementation.
"""

from restow.cloudprofile.controllers.manager import ControllerOptions, run

__all__ = ["ControllerOptions", "run"]
