"""All kinds that are compared."""

from __future__ import annotations

from typing import Final

from tests.peers import cluster_api, cronjob, kueue, metallb, prometheus_operator, tekton

__all__ = ["PEERS"]

PEERS: Final = (
    *metallb.PEERS,
    *kueue.PEERS,
    *cluster_api.PEERS,
    *prometheus_operator.PEERS,
    *tekton.PEERS,
    *cronjob.PEERS,
)
