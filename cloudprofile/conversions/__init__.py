"""The conversions of the CloudProfile family between v1beta1 and v1beta2, the hub. Pure.

- ``registry``: CloudProfile, NamespacedCloudProfile and Shoot, declared; ``graph(crds)`` freezes it;
- ``edit_warnings``: warnings about an edit, for a client of v1beta1;
- ``with_unseen``, ``with_displaced``: what such an edit takes away without its client having seen it;
- ``unclassified``: the versions that are ``supported`` only because v1beta1 names no classification.

For v1beta1, time passes only by the status: its reconciler writes the classification of every version there, and
down-conversion reads it. So conversion needs no clock, and up-conversion needs no status.
"""

from restow.cloudprofile.conversions.kinds import graph, registry
from restow.cloudprofile.conversions.oldclients import (
    edit_warnings,
    unclassified,
    unseen_warning,
    with_displaced,
    with_unseen,
)

__all__ = [
    "edit_warnings",
    "graph",
    "registry",
    "unclassified",
    "unseen_warning",
    "with_displaced",
    "with_unseen",
]
