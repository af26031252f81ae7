"""References as a reconciler's condition: what it says, and how few searches it costs. Time is virtual."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from datetime import UTC, datetime
from typing import Any

import pytest

from restow.crds import Crd
from restow.kube.clock import Clock
from restow.kube.cluster import Reply, Request
from restow.kube.errors import Forbidden
from restow.migrator import Migrator, sought
from restow.migrator.operate.references import NO_REFERENCES, ReferenceSearches, condition
from restow.migrator.references.reference import FoundReferences, NotLookedAt
from tests.memory.cluster import MemoryCluster
from tests.migrator import builders as b
from tests.migrator.references.found import WIDGETS, named_by, owned

RunInVirtualTime = Callable[[Coroutine[Any, Any, None]], None]
NOON, LATER = (datetime(2026, 11, 23, hour, tzinfo=UTC) for hour in (12, 13))
UNSEEN = FoundReferences(WIDGETS, not_looked_at=(NotLookedAt("secrets", "not allowed to list it"),))


@pytest.mark.parametrize(
    ("found", "status", "reason", "said"),
    [
        ([named_by(owned("configmaps", "a", "b"))], "False", "ReferencesFound", "owner-references 1"),
        ([named_by(owned("nodes", "", "n"), unseen="secrets")], "False", "ReferencesFound", "secrets (403: no)"),
        ([UNSEEN], "Unknown", "NotLookedAtEverywhere", "Not looked at: secrets (not allowed to list it)"),
        ([FoundReferences(WIDGETS)], "True", "NoneFound", "nothing that was looked at names v1"),
        ([], "True", "OneVersion", "v2 is the only version"),
    ],
    ids=["found", "found-and-unseen", "unseen", "none", "one-version"],
)
def test_the_condition_says_what_was_found(found: list[FoundReferences], status: str, reason: str, said: str) -> None:
    """A missing right must neither read as "nothing is there", nor hide what was found."""
    told = condition(b.crd(), found, NOON)
    assert told is not None
    assert (told["type"], told["status"], told["reason"]) == (NO_REFERENCES, status, reason)
    assert said in told["message"]


def with_condition(told: dict[str, Any]) -> Crd:
    """The CRD with a condition among those of the API server."""
    document = b.crd_document()
    document["status"] = (document.get("status") or {}) | {"conditions": [{"type": "Established"}, told]}
    return Crd.from_document(document)


def test_the_condition_is_written_when_it_changes() -> None:
    """A write of each CRD in each period wakes every watcher of CRDs; a new time of transition says what is not so."""
    first = condition(b.crd(), [UNSEEN], NOON)
    assert first is not None
    known = with_condition(first)
    assert condition(known, [UNSEEN], LATER) is None
    other = condition(known, [FoundReferences(WIDGETS, not_looked_at=(NotLookedAt("nodes", "no"),))], LATER)
    assert other is not None
    assert (other["status"], other["lastTransitionTime"]) == ("Unknown", first["lastTransitionTime"])
    changed = condition(known, [FoundReferences(WIDGETS)], LATER)
    assert changed is not None
    assert (changed["status"], changed["lastTransitionTime"]) == ("True", "2026-11-23T13:00:00Z")


class Closed(MemoryCluster):
    """A cluster that lets nobody discover anything; ``searches`` counts who tried."""

    searches = 0

    async def send(self, request: Request) -> Reply:
        """Refuse."""
        if request.resource is not None:
            return await super().send(request)
        self.searches += request.path == "/apis"
        raise Forbidden(status=403, verb="get", target=request.path)


def a_crd(plural: str, *versions: str) -> Crd:
    """A CRD with this plural."""
    document = b.crd_document(versions or ("v1", "v2"))
    document["metadata"]["name"] = f"{plural}.{b.GROUP}"
    document["spec"]["names"]["plural"] = plural
    return Crd.from_document(document)


def test_one_search_serves_all_crds(run_in_virtual_time: RunInVirtualTime) -> None:
    """A search lists all resources: one for each of a hundred CRDs would keep the API server busy for hours."""

    async def main() -> None:
        cluster, stop = Closed(), asyncio.Event()
        searches = ReferenceSearches(cluster, 3600.0, loop_clock())
        crds = [a_crd(f"w{number}s") for number in range(9)]
        assert {searches.wait(crd) for crd in crds} == {30.0}
        await asyncio.sleep(30.0)
        for crd in crds:
            assert searches.wait(crd) == 0.0
            found = await searches.take(crd, stop)
            assert found is not None
            assert [each.of for each in found] == [sought(crd, "v1")]
        once = cluster.searches
        assert once > 0
        assert {searches.wait(crd) for crd in crds} == {3600.0}
        await asyncio.sleep(3600.0)
        for crd in crds:
            assert await searches.take(crd, stop) is not None
        assert cluster.searches == 2 * once
        changed = a_crd("w0s", "v0", "v1", "v2")
        assert searches.wait(changed) == 30.0, "a result for other versions says nothing"

    run_in_virtual_time(main())


def test_a_search_ends_with_the_process(run_in_virtual_time: RunInVirtualTime) -> None:
    """A leader that cannot stop in its grace period is killed with its lease, and the next one waits for it."""

    async def main() -> None:
        class Slow(Closed):
            async def discover(self, path: str) -> Reply:
                await asyncio.sleep(600.0)
                return await super().discover(path)

        stop, crd = asyncio.Event(), a_crd("widgets")
        searches = ReferenceSearches(Slow(), 3600.0, loop_clock())
        searches.wait(crd)
        asyncio.get_running_loop().call_later(1.0, stop.set)
        began = asyncio.get_running_loop().time()
        assert await searches.take(crd, stop) is None
        assert asyncio.get_running_loop().time() - began == 1.0

    run_in_virtual_time(main())


@pytest.mark.parametrize("period", [0.0, -1.0, float("nan")])
def test_a_period_is_positive(period: float) -> None:
    """A period of nothing would search without end."""
    with pytest.raises(ValueError, match="references_s is the period"):
        Migrator(MemoryCluster(), ["widgets.example.com"], references_s=period)


def loop_clock() -> Clock:
    """The clock of the running loop."""
    return Clock(asyncio.get_running_loop().time, lambda: NOON, asyncio.sleep)
