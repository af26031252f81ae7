"""Two leaders that write one record, without a real API server."""

from __future__ import annotations

import json

import pytest

from restow.conversion.operate.records import Records
from restow.conversion.operate.revisions import Report, record_name, report_key
from restow.kube import PatchType
from restow.kube.errors import Conflict
from restow.kube.resources import CONFIG_MAPS
from tests.memory.cluster import MemoryCluster

CRD = "jobs.example.dev"


async def report(cluster: MemoryCluster, replica: str) -> None:
    """Write the report of a replica, as replicas do."""
    body = json.dumps({"data": {report_key(replica): Report(serves="a").text}}).encode()
    await cluster.patch(CONFIG_MAPS, record_name(CRD), body, "default", patch_type=PatchType.MERGE)


async def test_a_late_write_of_a_former_leader_is_refused() -> None:
    """It would bring back a revision, and drop the one that the replicas serve by now."""
    records = Records(MemoryCluster(), "default")
    former = await records.write(await records.read(CRD), rules="r", active="a", revisions={"a": "QQ=="})
    newer = await records.write(former, active="b", candidate="b", revisions={"b": "Qg=="})
    with pytest.raises(Conflict):
        await records.write(former, candidate="c", revisions={"c": "Qw=="})
    assert await records.read(CRD) == newer


async def test_reports_do_not_get_in_the_way() -> None:
    """Each replica reports while a revision is rolled out, and each report would fail the next write of the leader."""
    cluster = MemoryCluster()
    records = Records(cluster, "default")
    known = await records.write(await records.read(CRD), rules="r", active="a", revisions={"a": "QQ=="})
    await report(cluster, "one")
    written = await records.write(known, wired=True)
    assert written.wired and written.reports["one"].serves == "a"
