"""The rehearsal of a page that a decoder does not take."""

from __future__ import annotations

from functools import partial
from typing import Any, cast

from restow.conversion.compile.graph import Graph
from restow.conversion.operate.rehearsal import Rehearsal, _tried_here
from restow.crds import Crd
from restow.kube import Cluster
from restow.kube.cluster import Reply
from tests.migrator import builders as b

DEEP = b'{"metadata":{"name":"deep","namespace":"default"},"spec":' + b'{"a":' * 2_000 + b"1" + b"}" * 2_001


class OnePage:
    """An API server with one page; counts the requests."""

    def __init__(self) -> None:
        self.asked = 0

    async def list_page(self, *_arguments: Any, **_more: Any) -> Reply:
        """The page."""
        self.asked += 1
        return Reply(b'{"kind":"List","metadata":{"resourceVersion":"1"},"items":[' + DEEP + b"]}")


async def test_a_page_with_a_deep_object_is_requested_once() -> None:
    """Each such page, of up to a hundred objects, would be read and converted by the API server twice."""
    cluster = OnePage()
    rehearsal = Rehearsal(partial(_tried_here, Graph({})), [Crd.from_document(b.crd_document())])
    await rehearsal.step(cast("Cluster", cluster))
    assert cluster.asked == 1
    assert rehearsal.done and rehearsal.message.startswith(
        "1 of 1 object failed: default/deep: it is nested too deeply"
    )
