"""The status of CRDs, and which of them ``migrate --all`` takes, against CRDs in memory."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from restow.crds import Crd
from restow.kube.cluster import Reply, Request
from restow.kube.errors import NotFound
from restow.migrator import MigrationRefused, Options, crds_to_migrate, status
from restow.migrator.planning.status import CrdState, CrdStatus
from tests.memory.stub import StubCluster
from tests.migrator import builders as b

NAME = "widgets.example.com"
RUNNING = {"Established": "True", "StorageMigrating": "True"}


@dataclass
class SomeCrds(StubCluster):
    """A server that has these CRDs."""

    documents: Sequence[dict[str, Any]]

    async def send(self, request: Request) -> Reply:
        if request.verb == "list":
            return Reply(json.dumps({"items": self.documents, "metadata": {}}).encode())
        for document in self.documents:
            if document["metadata"]["name"] == request.name:
                return Reply(json.dumps(document).encode())
        raise NotFound(status=404, verb="GET", target=request.target, message="not found")


def named(name: str, **about: Any) -> dict[str, Any]:
    """The document of a CRD of this name."""
    document = b.crd_document(**about)
    document["metadata"]["name"] = name
    document["spec"]["names"]["plural"] = name.partition(".")[0]
    return document


@pytest.mark.parametrize(
    ("crd", "state"),
    [
        (b.crd(terminating=True), CrdState.TERMINATING),
        (b.crd(conditions=RUNNING, stored=("v1", "v2")), CrdState.NATIVE_RUNNING),
        (b.crd(unserved=("v2",), stored=("v1", "v2")), CrdState.REFUSED),
        (b.crd(stored=("v1", "v2")), CrdState.DUE),
        (b.crd(("v2",)), CrdState.ONE_VERSION),
        (b.crd(), CrdState.NOT_PROVED),
        (b.proved(b.crd()), CrdState.MIGRATED),
    ],
    ids=lambda each: each.value if isinstance(each, CrdState) else "",
)
def test_the_state_names_what_a_crd_needs(crd: Crd, state: CrdState) -> None:
    """A CRD whose migration is due would look migrated, or the reverse."""
    found = CrdStatus.of(crd)
    assert found.state is state and found.to_json()["state"] == state.value
    assert bool(found.doubt) == (state not in (CrdState.ONE_VERSION, CrdState.MIGRATED))


async def test_status_shows_the_crds_that_are_named_or_all() -> None:
    """A named CRD would be lost among the others, or the others be left out."""
    cluster = SomeCrds([named("b.example.com"), named("a.example.com")])
    assert [each.crd.name for each in await status(cluster)] == ["a.example.com", "b.example.com"]
    assert [each.crd.name for each in await status(cluster, ["b.example.com"])] == ["b.example.com"]
    with pytest.raises(MigrationRefused, match=r"there is no CRD 'c\.example\.com'"):
        await status(cluster, ["c.example.com"])


async def test_all_leaves_out_what_can_be_left_out_without_loss() -> None:
    """A CRD with work due would be missing from the report, or one that is being deleted would fail it."""
    cluster = SomeCrds(
        [
            named("due.example.com", stored=("v1", "v2")),
            named("gone.example.com", terminating=True),
            named("stuck.example.com", unserved=("v2",), stored=("v1", "v2")),
        ]
    )
    found = await crds_to_migrate(cluster)
    assert found.names == ("due.example.com", "stuck.example.com") and found.doubtful == {"stuck.example.com"}
    assert len(found.left_out) == 1 and found.left_out[0].startswith("gone.example.com is being deleted")


async def test_all_of_a_namespace_leaves_out_cluster_scoped_crds() -> None:
    """A migration of one namespace would be refused for CRDs that have no objects there."""
    cluster = SomeCrds([named(NAME, stored=("v1", "v2"))])
    cluster.documents[0]["spec"]["scope"] = "Cluster"
    found = await crds_to_migrate(cluster, Options(namespace="default"))
    assert found.names == () and "cluster-scoped" in found.left_out[0]
