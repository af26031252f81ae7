"""The search for the CRD of a kind, without a real API server."""

from __future__ import annotations

from restow.conversion.operate.targets import CrdFinder
from restow.kube.clock import Clock
from restow.kube.resources import CRDS
from tests.memory.cluster import MemoryCluster
from tests.migrator import builders as b


async def test_a_crd_that_was_just_created_is_found() -> None:
    """Rules that a chart installs together with their CRD would say that there is none for half a minute."""
    cluster = MemoryCluster()
    finder = CrdFinder(cluster, Clock(monotonic=lambda: 0.0))
    assert await finder.find(b.GROUP, "Widget") is None
    cluster.seed(CRDS.plural, b.crd_document())
    assert finder.changed(f"widgets.{b.GROUP}") is None
    found = await finder.find(b.GROUP, "Widget")
    assert found is not None and found.name == f"widgets.{b.GROUP}"
