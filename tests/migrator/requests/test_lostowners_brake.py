"""The brake of a run whose writes lose owners, against an API server of a few lines."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec
import pytest

from restow.kube.cluster import Reply, Request
from restow.kube.errors import Conflict, Forbidden, NotFound
from restow.migrator.decide.decision import ObjectDecision, WriteStep
from restow.migrator.requests.environment import RunStop
from restow.migrator.requests.lostowners import OwnershipBrake
from tests.memory.stub import StubCluster
from tests.migrator import builders as b

DECISION = ObjectDecision((WriteStep.COMBINED_PATCH,), (b.entry("alice", "v2"),))
RULE = {"apiGroups": ["example.com"], "apiVersions": ["v2"], "operations": ["UPDATE"], "resources": ["widgets"]}


@dataclass
class Server(StubCluster):
    """An API server with these objects by plural and version; it serves no other version of admission policies."""

    objects: Mapping[tuple[str, str], list[dict[str, Any]]] = field(default_factory=dict)
    denies: bool = False

    async def send(self, request: Request) -> Reply:
        resource = request.resource
        assert request.verb == "list" and resource is not None
        if self.denies:
            raise Forbidden(status=403, verb="list", target=resource.full_name, message="it may not be listed")
        if resource.plural.endswith("policies") and (resource.plural, resource.version) not in self.objects:
            raise NotFound(status=404, verb="list", target=resource.full_name)
        items = self.objects.get((resource.plural, resource.version), [])
        return Reply(msgspec.json.encode({"metadata": {}, "items": items}))


def brake(server: Server | None = None, stop: RunStop | None = None) -> OwnershipBrake:
    """A brake for widgets of v1 and v2, stored at v2."""
    return OwnershipBrake(server or Server(), b.crd(("v1", "v2")), RunStop() if stop is None else stop)


def configured(rule: dict[str, Any], **webhook: Any) -> Server:
    """A server with one mutating webhook."""
    named = {"metadata": {"name": "cfg"}, "webhooks": [{"name": "hook", "rules": [rule], **webhook}]}
    return Server({("mutatingwebhookconfigurations", "v1"): [named]})


@pytest.mark.parametrize(
    ("rule", "webhook", "named"),
    [
        ({}, {}, True),
        ({"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*/*"]}, {}, True),
        ({"resources": ["*"], "scope": "Namespaced"}, {}, True),
        ({"apiVersions": ["v1"]}, {}, True),
        ({"apiVersions": ["v1"]}, {"matchPolicy": "Exact"}, False),
        ({"apiVersions": ["v0"]}, {}, False),
        ({"apiGroups": ["other.example.com"]}, {}, False),
        ({"operations": ["CREATE", "DELETE"]}, {}, False),
        ({"resources": ["widgets/status"]}, {}, False),
        ({"scope": "Cluster"}, {}, False),
    ],
)
async def test_the_webhooks_that_see_updates_are_named(
    rule: dict[str, Any], webhook: dict[str, Any], named: bool
) -> None:
    """A webhook of other objects would be named, or the guilty one not."""
    cause = await brake(configured(RULE | rule, **webhook)).would_be_lost()
    assert ("the webhook hook of the MutatingWebhookConfiguration cfg" in cause) is named
    assert ("API server's log" in cause) is not named


@pytest.mark.parametrize("version", ["v1", "v1beta1"])
async def test_policies_are_named_too(version: str) -> None:
    """A MutatingAdmissionPolicy can empty managedFields as well, and older API servers serve it as v1beta1 only."""
    policy = {"metadata": {"name": "empties"}, "spec": {"matchConstraints": {"resourceRules": [RULE]}}}
    cause = await brake(Server({("mutatingadmissionpolicies", version): [policy]})).would_be_lost()
    assert "the MutatingAdmissionPolicy empties" in cause


async def test_without_the_right_the_command_is_named() -> None:
    """A migrator without rights on webhooks would point to a log where nothing is."""
    assert "kubectl get mutatingwebhookconfigurations" in await brake(Server(denies=True)).would_be_lost()


async def test_a_success_in_between_goes_on() -> None:
    """Two single objects that lose owners for reasons of their own would end the run of a million."""
    stop = RunStop()
    tested = brake(stop=stop)
    for _ in range(2):
        await tested.lost()
        await tested.lost()
        assert not tested.on and not stop
        tested.kept()
    for _ in range(3):
        await tested.lost()
    assert tested.on and stop.why.startswith("the writes of 3 objects in a row lose their field owners")


async def test_one_object_at_a_time_until_one_kept_its_owners() -> None:
    """All writes in flight at the start would lose owners before the first of them is known to."""
    tested, entered, go = brake(), [], [asyncio.Event() for _ in range(4)]

    async def write(place: int, *, loses: bool = False) -> None:
        async with tested.turn(DECISION):
            entered.append(place)
            await go[place].wait()
            if loses:
                await tested.lost()
            else:
                tested.kept()

    async def turns() -> None:
        for _ in range(10):
            await asyncio.sleep(0)

    async with asyncio.TaskGroup() as group:
        for place in range(4):
            group.create_task(write(place, loses=place == 0))
        await turns()
        assert entered == [0]
        go[0].set()
        await turns()
        assert entered == [0, 1]
        go[1].set()
        await turns()
        assert entered == [0, 1, 2, 3]
        go[2].set()
        go[3].set()


async def test_a_write_that_was_refused_opens_nothing() -> None:
    """After one conflict, all writes in flight would lose owners, and none would be rehearsed after an earlier loss."""
    tested, entered, go = brake(), [], asyncio.Event()
    with pytest.raises(Conflict):
        async with tested.turn(DECISION):
            raise Conflict(status=409, verb="patch", target="one", message="it was written meanwhile")

    async def write(place: int) -> None:
        async with tested.turn(DECISION):
            entered.append(place)
            await go.wait()

    async with asyncio.TaskGroup() as group:
        for place in range(4):
            group.create_task(write(place))
        for _ in range(10):
            await asyncio.sleep(0)
        assert entered == [0]
        go.set()


async def test_an_object_that_shows_nothing_waits_for_no_other() -> None:
    """Objects without owners, or without a write, would be held up by a slow first write."""
    tested = brake()
    async with tested.turn(DECISION):
        for decision in (ObjectDecision((), DECISION.entries), ObjectDecision(DECISION.steps, ())):
            async with tested.turn(decision):
                pass
