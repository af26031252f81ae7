"""``restow ready``: every reason why a version may not go yet, and none once it may."""

from __future__ import annotations

import pytest

from restow.kube.client import HttpCluster
from restow.migrator import Migration, MigrationRefused, Options, read_crd
from restow.migrator import ready as ask_ready
from restow.migrator.planning.ready import Readiness
from tests.apiserver.kind import Kind


async def ready(cluster: HttpCluster, kind: Kind, version: str) -> Readiness:
    """Look afresh."""
    return await ask_ready(cluster, await read_crd(cluster, kind.name), version)


async def test_a_version_becomes_ready_step_by_step(kind: Kind, cluster: HttpCluster) -> None:
    """A yes before its time is a version removed with objects or entries of it left."""
    await kind.apply(kind.manifest("v1alpha1", "w", spec={"size": 1}), "alice")
    answer = await ready(cluster, kind, "v1alpha1")
    assert not answer.ready and "v1alpha1 is the storage version" in answer.against_removal[0]
    assert answer.against_unserving
    await kind.change(kind.document(storage="v1beta1"))
    answer = await ready(cluster, kind, "v1alpha1")
    assert not answer.against_unserving
    assert any("status.storedVersions names v1alpha1" in reason for reason in answer.against_removal)
    assert any("alice (1)" in reason for reason in answer.against_removal)
    await Migration(cluster, Options(settle_s=0.0)).migrate(kind.name)
    answer = await ready(cluster, kind, "v1alpha1")
    assert answer.ready and answer.objects == 1
    assert any("still served" in note for note in answer.notes)
    await kind.apply(kind.manifest("v1alpha1", "w", spec={"size": 2}), "alice")
    assert not (await ready(cluster, kind, "v1alpha1")).ready


async def test_a_version_that_never_was_is_refused(kind: Kind, cluster: HttpCluster) -> None:
    """A misspelt version that counts as ready would be taken for a yes to the right one."""
    with pytest.raises(MigrationRefused, match="has no version v1aplha1"):
        await ready(cluster, kind, "v1aplha1")
