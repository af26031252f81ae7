from __future__ import annotations

from tests.node.cluster import Cluster


def test_nodes_are_ready(cluster: Cluster) -> None:
    print(cluster.kubectl("get", "nodes,pods,services,endpointslices", "-A", "-o", "wide"))
