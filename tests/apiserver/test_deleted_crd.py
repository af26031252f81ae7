"""A CRD that is deleted while its objects are migrated: one sentence, and no failure of objects that are gone."""

from __future__ import annotations

import asyncio

import pytest

from restow.kube.client import HttpCluster
from restow.kube.errors import NotFound
from restow.kube.resources import CRDS
from restow.migrator import Migration, MigrationReport, Options
from restow.migrator.model.report import MigrationResult
from tests.apiserver.kind import Kind, until
from tests.apiserver.proxy import Fault, Proxy, Seen

COUNT = 12


async def delete(kind: Kind) -> None:
    """Delete the CRD, and wait until its objects cannot be asked for any more."""
    await kind.cluster.delete(CRDS, kind.name)

    async def gone() -> bool:
        try:
            await kind.cluster.get(CRDS, kind.name)
        except NotFound:
            try:
                await kind.cluster.list_page(kind.at("v1beta1"), params={"limit": "1"})
            except NotFound:
                return True
        return False

    await until(gone, f"{kind.name} is still there")


@pytest.mark.parametrize("moment", ["write", "list", "prune"])
async def test_a_crd_that_is_deleted_in_mid_run_is_one_sentence(
    moment: str, kind: Kind, proxy: Proxy, through_proxy: HttpCluster
) -> None:
    """A failure for each of a hundred thousand objects hides the only thing that happened."""
    await kind.populate(COUNT)
    await kind.change(kind.document(storage="v1beta1"))
    once = asyncio.Lock()
    writes = lists = 0
    deleted = False

    def now(seen: Seen) -> bool:
        if moment == "prune":
            return seen.of_crd and seen.method == "GET" and writes == COUNT and "watch" not in seen.query
        return (moment == "write" and writes == 3) or (moment == "list" and lists == 2)

    async def hook(seen: Seen) -> Fault | None:
        nonlocal writes, lists, deleted
        async with once:
            writes += seen.is_write
            lists += seen.is_list
            if not deleted and now(seen):
                deleted = True
                await delete(kind)
        return None

    proxy.hook = hook
    options = Options(settle_s=0.0, concurrency=2, page_size=6)
    report = await Migration(through_proxy, options).migrate(kind.name)
    assert deleted, report
    assert report.unfinished == (
        f"{kind.name} was deleted during the run, and its objects with it: there is nothing left to migrate"
    )
    assert not report.failures and not report.refused and not report.pruned
    assert MigrationReport((report,)).result is MigrationResult.FAILED
    assert moment == "prune" or writes < COUNT, "objects that are gone were asked for one by one"
