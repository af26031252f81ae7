"""The conversions of the CloudProfile family between v1beta1 and v1beta2, the hub. Pure.

- ``registry``: CloudProfile, NamespacedCloudProfile and Shoot, declared; ``graph(crds)`` freezes it;
- ``edit_warnings``: warnings about an edit, for a client of v1beta1.

Time passes for v1beta1 by the status alone: its reconciler writes the classification of every version there, and
down-conversion reads it from there. So conversion needs no clock, and up-conversion needs no status.
"""

from restow.cloudprofile.conversions.kinds import graph, registry
from restow.cloudprofile.conversions.warnings import edit_warnings

__all__ = ["edit_warnings", "graph", "registry"]
