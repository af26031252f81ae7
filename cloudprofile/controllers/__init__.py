"""The controllers of the CloudProfile family.

Public: ``run`` and its ``Options``; everything else is implementation.
"""

from restow.cloudprofile.controllers.running import Options, run

__all__ = ["Options", "run"]
