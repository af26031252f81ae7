"""What a pass rests on, compared with a CRD in memory: tokens of runs, changes, and writes to check again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from restow.crds import Crd
from restow.kube.errors import Conflict, Forbidden, Unreachable
from restow.kube.resources import CRDS
from restow.migrator.decide.premise import Premise
from restow.migrator.model.watermark import RUNS
from restow.migrator.requests.premisecheck import PremiseCheck, Unconfirmed
from restow.migrator.requests.wire import Meta
from tests.memory.cluster import MemoryCluster, Request
from tests.migrator import builders as b

CONFLICT = Conflict(status=409, verb="PATCH", target="the CRD", message="it was written meanwhile")
DENIED = Forbidden(status=403, verb="PATCH", target="the CRD", message="not for you")


class Server(MemoryCluster):
    """An API server that has one CRD; ``before_patch`` is called before each patch of it."""

    def __init__(self, **more: Any) -> None:
        super().__init__()
        self.patches = 0
        self.before_patch: Callable[[], None] = lambda: None
        self.before = self._seen
        self.seed(CRDS.plural, b.crd_document(stored=("v1", "v2"), **more))

    async def _seen(self, request: Request) -> None:
        if request.verb == "patch":
            self.patches += 1
            self.before_patch()

    @property
    def crd(self) -> Crd:
        """The CRD as it is stored."""
        return Crd.from_document(self.find(CRDS.plural, f"widgets.{b.GROUP}"))

    @property
    def tokens(self) -> list[str]:
        """The tokens on the CRD."""
        return self.crd.annotations.get(RUNS, "").split()

    def change(self, **more: Any) -> None:
        """Replace the CRD by another state of it, with the tokens that it has."""
        kept = {RUNS: " ".join(self.tokens)} if self.tokens else {}
        self.seed(CRDS.plural, b.crd_document(stored=("v1", "v2"), annotations=kept, **more))

    def check(self, unconfirmed: list[Unconfirmed] | None = None) -> PremiseCheck:
        """The check of a pass that begins now."""
        return PremiseCheck(self, Premise(self.crd), unconfirmed)


def meta(resource_version: str, name: str = "w") -> Meta:
    """An object at a resourceVersion."""
    return Meta(name=name, uid=name, resource_version=resource_version)


def unreachable() -> None:
    """Lose the answer."""
    msg = "the connection was closed"
    raise Unreachable(msg)


def once(act: Callable[[], None]) -> Callable[[], None]:
    """Act at the first call."""
    pending = [act]
    return lambda: pending.pop()() if pending else None


async def test_runs_leave_their_tokens_side_by_side() -> None:
    """Two shards would take each other for a restore of etcd, and repeat their passes for ever."""
    server = Server()
    first, second = server.check(), server.check()
    await first.before_write()
    await second.before_write()
    assert server.tokens == [first.premise.token, second.premise.token]
    await first.before_write()
    assert len(server.tokens) == 2
    assert (await first.judge(server.crd)).prune and (await second.judge(server.crd)).prune


async def test_a_token_that_was_written_without_an_answer_is_found() -> None:
    """The run would leave a second one, and never know its own."""
    server = Server()
    check = server.check()
    lost = once(unreachable)

    async def after(_request: Request) -> None:
        lost()

    server.after = after
    await check.before_write()
    assert server.tokens == [check.premise.token]


async def test_a_run_without_the_right_goes_on_without_a_token() -> None:
    """A user who may prune and may not annotate could not migrate."""
    server = Server()

    def refuse() -> None:
        raise DENIED

    server.before_patch = refuse
    check = server.check()
    await check.before_write()
    await check.before_write()
    assert (server.patches, check.premise.token, check.changed) == (1, "", "")
    assert (await check.judge(server.crd)).prune


async def test_a_token_on_a_crd_that_decides_otherwise_ends_the_pass() -> None:
    """The pass would go on by what the CRD was before the token."""
    server = Server(webhook=True)
    check = server.check()

    def restored() -> None:
        server.change(webhook=False, generation=2)
        raise CONFLICT

    server.before_patch = once(restored)
    await check.before_write()
    assert "the conversion of" in check.changed


async def test_a_write_of_another_client_does_not_cost_the_token() -> None:
    """A CRD whose status is written all the time could not be migrated."""
    server = Server()
    check = server.check()

    def written() -> None:
        server.change(conditions={"Other": "True"})
        raise CONFLICT

    server.before_patch = once(written)
    await check.before_write()
    assert server.tokens == [check.premise.token] and not check.changed


async def test_writes_are_confirmed_by_a_later_read() -> None:
    """Objects that were decided right would be checked again after each change of the CRD."""
    server, unconfirmed = Server(), list[Unconfirmed]()
    check = server.check(unconfirmed)
    check.wrote(meta("3"), meta("4"))
    assert await check.confirm() and unconfirmed == []
    check.wrote(meta("5"), meta("6"))
    server.change(webhook=True, generation=2)
    assert not await check.confirm()
    assert [each.after for each in unconfirmed] == ["6"] and "the conversion of" in check.changed


@pytest.mark.parametrize(
    ("newest", "resource_version", "went_back"),
    [("", "9", False), ("9", "12", False), ("12", "9", True), ("9", "9", False)],
    ids=["the first", "newer", "older", "the same"],
)
def test_a_write_that_went_back_is_a_restore(newest: str, resource_version: str, went_back: bool) -> None:
    """A backup that was made within the run has its token, and objects from before its writes."""
    check = Server().check()
    check.listed(newest)
    check.answered(newest, meta(resource_version))
    assert bool(check.changed) is went_back


def written(server: Server, name: str, resource_version: str) -> None:
    """Have an object at a resourceVersion."""
    metadata = {"name": name, "uid": name, "resourceVersion": resource_version}
    server.seed("widgets", {"apiVersion": "example.com/v2", "kind": "Widget", "metadata": metadata})


@pytest.mark.parametrize(
    ("restored", "went_on"), [(False, True), (True, False)], ids=["a client removed it", "etcd was restored"]
)
async def test_a_token_that_is_gone_is_a_restore_if_objects_went_back(restored: bool, went_on: bool) -> None:
    """Where a tool replaces the annotations every few minutes, no run over many objects would end."""
    server = Server()
    check = server.check()
    await check.before_write()
    written(server, "w", "30")
    check.answered("", meta("30"))
    assert await check.confirm()
    if restored:
        written(server, "w", "31")
        written(server, "later", "40")
        check.answered("30", meta("40", "later"))
    server.seed(CRDS.plural, b.crd_document(stored=("v1", "v2")))
    assert await check.confirm() is went_on
    await check.before_write()
    assert bool(server.tokens) is went_on


async def test_writes_that_a_restore_took_back_are_not_checked_again() -> None:
    """Another run that ends removes all tokens: objects would be given the entries that they had before the write."""
    server, unconfirmed = Server(), list[Unconfirmed]()
    check = server.check(unconfirmed)
    await check.before_write()
    check.wrote(meta("3"), meta("4"))
    server.seed(CRDS.plural, b.crd_document(stored=("v1", "v2")))
    assert not await check.confirm() and unconfirmed == []
