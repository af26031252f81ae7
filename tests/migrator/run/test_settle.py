"""The wait for API servers that lag, where several of them answer at one address. No network."""

from __future__ import annotations

from typing import Any, cast

from restow.migrator.decide.premise import Followers
from restow.migrator.requests.apiservers import ApiServers, View, storage_version_hash
from restow.migrator.run.settle import remaining
from tests.migrator import builders as b

SETTLE_S = 65.0


async def test_a_server_that_lagged_behind_a_load_balancer_is_waited_for_from_then_on() -> None:
    """A request that began on it while it lagged would be stored at the old version after the prune."""
    crd, followers = b.crd(generation=2), Followers()
    stored = storage_version_hash(crd.group, crd.storage.name, crd.kind)
    follows, lags = View("https://balancer", 2, stored), View("https://balancer", 1, stored)
    looks = {0.0: [follows, lags], 5.0: [follows, follows], 20.0: [lags, follows], 100.0: [follows, follows]}

    class Balancer:
        def __init__(self, now: float) -> None:
            self.now = now

        async def views(self, _crd: Any) -> list[View]:
            return looks[self.now]

        def clock(self) -> float:
            return self.now

    waits = []
    for look in map(Balancer, looks):
        servers = cast("ApiServers", look)
        late, wait = await remaining(servers, followers, crd, settle_s=SETTLE_S, clock=look.clock)
        waits.append((bool(late), wait))
    assert waits == [(True, 5.0), (False, SETTLE_S), (True, 5.0), (False, SETTLE_S)]
