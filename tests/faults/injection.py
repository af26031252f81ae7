"""Carries a scenario out on the requests that pass the proxy: faults, what others do meanwhile, and the run's end.

Whether a request gets a fault depends on the seed, on the request, and on how often that very request was seen, not on
the order in which requests of different objects arrive: so a seed repeats whatever the concurrency made of it.
"""

from __future__ import annotations

import asyncio
import base64
import json
import random
from collections import Counter
from collections.abc import Callable, Coroutine
from typing import Any

from tests.apiserver.proxy import Answer, Body, Fault, Proxy, Reset, Seen, Slow, Truncate
from tests.faults.conversion import ConversionWebhook
from tests.faults.scenario import Ending, Event, EventKind, FaultKind, Phase, Scenario, Trouble
from tests.faults.widgets import NEW, OLD, Users, Widgets

_MOST = 3
"""Faults of one request: what fails for ever is a scenario of its own (``stubborn``)."""

_LISTS = {
    FaultKind.EXPIRED,
    FaultKind.BUSY,
    FaultKind.BUSY_LATER,
    FaultKind.BROKEN,
    FaultKind.UNAVAILABLE,
    FaultKind.TIMEOUT,
    FaultKind.RESET_BEFORE,
    FaultKind.TRUNCATED,
    FaultKind.SLOW,
}
_READS = _LISTS - {FaultKind.EXPIRED}
_WRITES = set(FaultKind) - {FaultKind.EXPIRED}
_OTHER_WRITES = _WRITES - {FaultKind.MISSING, FaultKind.WIPE, FaultKind.WIPE_LOST}
"""Of the CRD's status and annotations, and of the record of shards."""
_REVIEWS = _OTHER_WRITES - {FaultKind.CONFLICT}


class Injector:
    """The proxy's hook for one run.

    Args:
        scenario: what is to happen.
        proxy: whose hook it is.
        widgets, users, webhook: what events act upon.
        spawn: runs an event to its end, whatever becomes of the request that it was to come before.
        end: ends the run, as the scenario says.
        restart: restarts the API server; returns once it answers again.
    """

    def __init__(
        self,
        scenario: Scenario,
        proxy: Proxy,
        widgets: Widgets,
        users: Users,
        webhook: ConversionWebhook,
        spawn: Callable[[Coroutine[Any, Any, None]], asyncio.Task[None]],
        end: Callable[[], None],
        restart: Callable[[], Coroutine[Any, Any, None]],
    ) -> None:
        self._scenario = scenario
        self._proxy = proxy
        self._widgets = widgets
        self._users = users
        self._webhook = webhook
        self._spawn = spawn
        self._end = end
        self._restart = restart
        self._restarts = scenario.restart
        self._events = list(scenario.events)
        self._times: Counter[str] = Counter()
        self._faults: Counter[str] = Counter()
        self._spells = list(scenario.spells)
        self._until: dict[Trouble, float] = {}
        self._writes = 0
        self._ended = scenario.ending is Ending.BY_ITSELF
        self.log: list[str] = []
        self.injected: Counter[str] = Counter()

    async def __call__(self, seen: Seen) -> Fault | None:
        """Let happen what is due, then say what becomes of the request."""
        number = len(self._proxy.seen)
        about = _about(seen)
        self._times[about] += 1
        times = self._times[about]
        self._writes += seen.is_write
        due = [event for event in self._events if self._due(event, seen, times)]
        self._events = [event for event in self._events if event not in due]
        for event in due:
            self._note(number, event.kind.value, _last(seen))
            await asyncio.shield(self._spawn(self._happen(event)))
        if not self._ended and number >= self._scenario.ends_at:
            self._ended = True
            self._note(number, self._scenario.ending.value, _last(seen))
            self._end()
        if (trouble := self._trouble(number, seen)) is not None:
            return trouble
        fault = self._fault(seen, about, times)
        if fault is None:
            return None
        self._faults[about] += 1
        self._note(number, fault.value, f"{seen.method} {_last(seen)}")
        return self._made(fault, seen)

    def _trouble(self, number: int, seen: Seen) -> Fault | None:
        """What a spell under way makes of a request, whichever it is."""
        now = asyncio.get_running_loop().time()
        if self._restarts is not None and self._restarts in _phases(seen):
            self._note(number, "API server restarted", self._restarts.value)
            self._restarts = None
            self._spawn(self._restart())
            return Reset()
        for spell in [each for each in self._spells if each.phase in _phases(seen)]:
            self._spells.remove(spell)
            self._until[spell.trouble] = now + spell.seconds
            self._note(number, spell.trouble.value, spell.phase.value)
        if now < self._until.get(Trouble.DOWN, 0.0):
            return Reset()
        if now < self._until.get(Trouble.UNAUTHORIZED, 0.0):
            return Answer.of(401, "Unauthorized", "Unauthorized")
        return None

    def _note(self, number: int, what: str, where: str) -> None:
        self.injected[what] += 1
        self.log.append(f"request {number}: {what} ({where})")

    def _due(self, event: Event, seen: Seen, times: int) -> bool:
        if event.prune:
            return _is_prune(seen)
        if not seen.is_write:
            return False
        if event.name:
            return _last(seen) == event.name and times >= event.nth
        return self._writes >= event.write

    def _fault(self, seen: Seen, about: str, times: int) -> FaultKind | None:
        scenario = self._scenario
        name = _last(seen)
        if seen.is_write and name == scenario.stubborn:
            return scenario.stubborn_fault
        if any(event.name == name for event in scenario.events) and seen.is_write and not self._faults[about]:
            return FaultKind.WIPE if _may_wipe(seen) else None
        if self._faults[about] >= _MOST or name == "canary":
            return None
        possible = _possible(seen)
        for kind, rate in scenario.rates.items():
            if kind in possible and random.Random(f"{scenario.seed} {kind} {about} {times}").random() < rate:
                return kind
        return None

    def _made(self, kind: FaultKind, seen: Seen) -> Fault:
        made: dict[FaultKind, Fault] = {
            FaultKind.CONFLICT: Answer.of(409, "Conflict", "the object has been modified"),
            FaultKind.BUSY: Answer.of(429, "TooManyRequests", "slow down"),
            FaultKind.BUSY_LATER: Answer.of(429, "TooManyRequests", "slow down", headers={"Retry-After": "1"}),
            FaultKind.BROKEN: Answer.of(500, "InternalError", "etcdserver: leader changed"),
            FaultKind.UNAVAILABLE: Answer(503, b"upstream connect error"),
            FaultKind.TIMEOUT: Answer.of(504, "Timeout", "request did not complete within the allotted timeout"),
            FaultKind.MISSING: Answer(404, b"404 page not found"),
            FaultKind.RESET_BEFORE: Reset(),
            FaultKind.RESET_AFTER: Reset(after=True),
            FaultKind.TRUNCATED: Truncate(),
            FaultKind.SLOW: Slow(0.02),
        }
        if kind is FaultKind.EXPIRED:
            return _expired(seen)
        if kind in (FaultKind.WIPE, FaultKind.WIPE_LOST):
            return _wiped(seen, lost=kind is FaultKind.WIPE_LOST)
        return made[kind]

    async def _happen(self, event: Event) -> None:
        users, widgets = self._users, self._widgets
        chance = random.Random(f"{self._scenario.seed} {event}")
        names = [event.name] if event.name else chance.sample(self._scenario.names, k=event.amount)
        if event.kind is EventKind.FLIP:
            await widgets.flip(OLD if widgets.storage == NEW else NEW)
        elif event.kind is EventKind.FLIP_BACK:
            await widgets.flip(OLD)
            # Stored at the old version are both; only the first ones say so by an entry of it.
            await self._each(names[::2], lambda name: users.apply(OLD, name))
            await self._each(names[1::2], lambda name: users.apply(NEW, name))
            await widgets.flip(NEW)
        elif event.kind is EventKind.CA:
            for _ in range(event.amount):
                await widgets.edit()
        elif event.kind is EventKind.WEBHOOK_DOWN:
            self._webhook.down[widgets.plural] = 4 * event.amount
        elif event.kind is EventKind.RECREATE:
            await self._each(names, self._recreate)
        else:
            acts: dict[EventKind, Callable[[str], Coroutine[Any, Any, bool]]] = {
                EventKind.APPLY_OLD: lambda name: users.apply(OLD, name),
                EventKind.APPLY_NEW: lambda name: users.apply(NEW, name),
                EventKind.UPDATE: lambda name: users.update(NEW, name),
                EventKind.STATUS: lambda name: users.update_status(OLD, name),
                EventKind.DELETE: users.delete,
                EventKind.CREATE: lambda name: users.create(OLD, f"{name}-new"),
            }
            await self._each(names, acts[event.kind])

    async def _each(self, names: list[str], act: Callable[[str], Coroutine[Any, Any, bool]]) -> None:
        for name in names:
            await act(name)

    async def _recreate(self, name: str) -> bool:
        return await self._users.delete(name) and await self._users.create(NEW, name)


def _about(seen: Seen) -> str:
    """What makes a request the same one again, in a replay too: neither the kind's number nor a list's revision."""
    token = seen.query.get("continue", "")
    start = _token(token).get("start", "") if token else ""
    name = "list" if seen.is_list else "watch" if seen.query.get("watch") else _last(seen)
    what = "crd" if seen.of_crd else "object"
    return f"{seen.method} {what} {name} {start} {seen.query.get('dryRun', '')}"


def _phases(seen: Seen) -> set[Phase]:
    """The phases of a run that such a request belongs to."""
    if seen.path.endswith("/selfsubjectaccessreviews"):
        return {Phase.PREFLIGHT}
    if seen.path.endswith("/endpointslices"):
        return {Phase.SERVERS}
    if "/leases" in seen.path:
        return {Phase.LEASE} if seen.method == "PUT" else set()
    if seen.of_crd and seen.method == "GET":
        return {Phase.READ}
    if seen.of_crd and seen.method == "PATCH":
        return {
            Phase.PRUNE if _is_prune(seen) else Phase.PROOF if b"restow.dev/migrated" in seen.body else Phase.WATERMARK
        }
    return {Phase.LIST} if seen.is_list else {Phase.WRITE} if seen.is_write else set()


def _last(seen: Seen) -> str:
    return seen.path.rpartition("/")[2]


def _is_prune(seen: Seen) -> bool:
    return seen.of_crd and seen.method == "PATCH" and seen.path.endswith("/status")


def _may_wipe(seen: Seen) -> bool:
    return seen.content_type == "application/merge-patch+json" and b'"managedFields"' in seen.body


def _possible(seen: Seen) -> set[FaultKind]:
    if seen.path.endswith("/selfsubjectaccessreviews"):
        return _REVIEWS
    if seen.method in ("POST", "PUT") or (seen.of_crd and seen.method == "PATCH"):
        return _OTHER_WRITES
    if seen.of_crd:
        return _READS if seen.method == "GET" else set()
    if seen.is_list:
        return _LISTS if seen.query.get("continue") else _LISTS - {FaultKind.EXPIRED}
    if seen.is_write:
        wipes = {FaultKind.WIPE, FaultKind.WIPE_LOST}
        return _WRITES if _may_wipe(seen) and "dryRun" not in seen.query else _WRITES - wipes
    return _READS if seen.method == "GET" else set()


def _expired(seen: Seen) -> Fault:
    """As the API server answers when etcd has compacted the list's revision: with a token that goes on without it."""
    token = _token(seen.query["continue"]) | {"rv": -1}
    following = base64.urlsafe_b64encode(json.dumps(token).encode()).decode().rstrip("=")
    message = "The provided continue parameter is too old to display a consistent list result."
    return Answer.of(410, "Expired", message, metadata={"continue": following})


def _token(token: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)))
    return found


def _wiped(seen: Seen, *, lost: bool) -> Fault:
    """As the API server does when it cannot convert an entry: it stores the object without any."""
    body = json.loads(seen.body)
    return Body(json.dumps(body | {"metadata": body["metadata"] | {"managedFields": [{}]}}).encode(), lost=lost)
