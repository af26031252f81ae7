"""Kubernetes Events on a CRD: what a person finds with ``kubectl describe crd``.

Best effort: an Event that cannot be written is logged, and changes nothing else.
"""

from __future__ import annotations

import socket

from restow.kube.cluster import Cluster
from restow.kube.events import write_event
from restow.migrator.reconciling.announcements import Announcements, announcement
from restow.migrator.reconciling.details import MigrationDetails

__all__ = ["Events"]


class Events:
    """A hook that writes Events: started, finished with counts, stopped, failed and refused with the reason.

    Needs ``create`` on ``events`` of ``events.k8s.io`` in the namespace ``default``.

    Args:
        cluster: where.
        controller: who reports, a qualified name.
        instance: this process; the host's name (a pod's own) by default.
    """

    def __init__(self, cluster: Cluster, controller: str = "restow.dev/migrator", instance: str = "") -> None:
        self._cluster = cluster
        self._controller = controller
        self._instance = instance or socket.gethostname()
        self._announcements = Announcements()

    async def __call__(self, details: MigrationDetails) -> None:
        """Write an Event of what happened, if it is news."""
        news = self._announcements.worth_saying(details)
        body = announcement(details, self._controller, self._instance)
        if body is not None and news:
            await write_event(self._cluster, body)
