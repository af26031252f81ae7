"""The search for the CRD of a kind, without a real API server."""

from __future__ import annotations

import pytest

from restow.conversion.operate.targets import CrdFinder
from restow.kube.clock import Clock
from restow.kube.errors import Forbidden
from restow.kube.resources import CRDS
from tests.memory.cluster import MemoryCluster, Request
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


async def test_a_crd_that_may_not_be_read_hides_no_other_one() -> None:
    """An operator that is open for one CRD of a group would say of its rules that a right on another one is missing."""
    cluster = MemoryCluster()
    for kind in ("Gadget", "Widget"):
        document = b.crd_document(conditions={"NamesAccepted": "True"})
        document["spec"]["names"] = {"plural": f"{kind.lower()}s", "kind": kind}
        document["metadata"] = {"name": f"{kind.lower()}s.{b.GROUP}", "generation": 1}
        cluster.seed(CRDS.plural, document)

    async def refuse(request: Request) -> None:
        if request.name == f"gadgets.{b.GROUP}":
            raise cluster.error(request, 403, "Forbidden", "no")

    cluster.before = refuse
    finder = CrdFinder(cluster, Clock(monotonic=lambda: 0.0))
    found = await finder.find(b.GROUP, "Widget")
    assert found is not None and found.name == f"widgets.{b.GROUP}"
    with pytest.raises(Forbidden):
        await finder.find(b.GROUP, "Gadget")


@pytest.mark.parametrize("readable", [True, False])
async def test_a_crd_whose_names_are_not_accepted_takes_no_rules_from_another(readable: bool) -> None:
    """Whoever may create CRDs would take a kind's rules by a CRD of the same kind whose name sorts before it."""
    cluster = MemoryCluster()
    for plural, accepted in (("abc", "False"), ("widgets", "True")):
        document = b.crd_document(conditions={"NamesAccepted": accepted})
        document["spec"]["names"]["plural"] = plural
        document["metadata"]["name"] = f"{plural}.{b.GROUP}"
        cluster.seed(CRDS.plural, document)

    async def refuse(request: Request) -> None:
        if not readable and request.name == f"widgets.{b.GROUP}":
            raise cluster.error(request, 403, "Forbidden", "no")

    cluster.before = refuse
    finder = CrdFinder(cluster, Clock(monotonic=lambda: 0.0))
    for _ in range(2):
        if readable:
            found = await finder.find(b.GROUP, "Widget")
            assert found is not None and found.name == f"widgets.{b.GROUP}"
        else:
            with pytest.raises(Forbidden):
                await finder.find(b.GROUP, "Widget")
