"""The controllers of the CloudProfile family.

Public: ``run`` and its ``ControllerOptions``; everything else is implementation.
"""

from restow.cloudprofile.controllers.manager import ControllerOptions, run

__all__ = ["ControllerOptions", "run"]
