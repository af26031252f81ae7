"""What a cluster that is kept has for its reader to migrate: three databases of alice, under a CRD of their own."""

from __future__ import annotations

from demo import fixtures
from demo.client import DatabaseClient
from demo.fixtures import OLD, CrdStage, Database
from restow.kube import Cluster

__all__ = ["CRD", "leave_work"]

_GROUP, _OWNER = "example.com", "alice"
CRD = fixtures.crd_name(_GROUP)


async def leave_work(cluster: Cluster) -> None:
    """Write the databases at v1alpha1, and make v1beta1 the storage version."""
    client = DatabaseClient(cluster, _GROUP)
    (await client.apply_crd(CrdStage.ALONE)).or_raise()
    for number in range(3):
        manifest = fixtures.platform_manifest(Database(number), OLD, group=_GROUP)
        (await client.apply(manifest, _OWNER)).or_raise()
    (await client.apply_crd(CrdStage.SUCCEEDED)).or_raise()
