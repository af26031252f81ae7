"""The writer against a server of a few lines that answers as a real one does when it loses owners. No network."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import msgspec
import pytest

from restow.crds import Crd
from restow.kube.cluster import PatchType, Reply, Request
from restow.kube.errors import ServerError, Unreachable
from restow.kube.resources import CRDS
from restow.migrator.decide.policies import entry_policies
from restow.migrator.decide.premise import Premise
from restow.migrator.model.converter import Answer
from restow.migrator.model.options import Options
from restow.migrator.model.report import CrdReport
from restow.migrator.ownership.entries import FIELD_MANAGER, ManagedFieldsEntry
from restow.migrator.requests.environment import Environment, RunStop
from restow.migrator.requests.premisecheck import PremiseCheck, Unconfirmed
from restow.migrator.requests.translator import Translator
from restow.migrator.requests.wire import Meta
from restow.migrator.requests.writer import ObjectWriter, _lost_owners
from tests.memory.stub import StubCluster
from tests.migrator import builders as b
from tests.migrator.builders import entry, fields_of

ALICE_V1, ALICE_V2, BOB_V2 = entry("alice", "v1"), entry("alice", "v2"), entry("bob", "v2", operation="Update")
OURS = entry(FIELD_MANAGER, "v2", {"f:spec": {"f:policy": {}}}, operation="Update")
NOBODY = entry("before-first-apply", "v2", {"f:spec": {"f:size": {}}}, operation="Update")

Sent = tuple[ManagedFieldsEntry, ...] | None
"""The managedFields of a request; None of one that names none."""

Does = Callable[[str, Sent], Sent]
"""What a server does with a write to an object: the managedFields that it stores, None for those that it was sent."""


class _SentMeta(msgspec.Struct):
    managed_fields: list[ManagedFieldsEntry] | None = msgspec.field(name="managedFields", default=None)


class _Sent(msgspec.Struct):
    metadata: _SentMeta


_decoder = msgspec.json.Decoder(_Sent)


@dataclass
class Server(StubCluster):
    """Objects of one kind, of which it knows the managedFields only.

    Attributes:
        stored: the managedFields of each object.
        does: what becomes of each write; raises what the client is to see in place of an answer.
        sent: each write: the object's name, the type of the patch, and the managers of the entries in it.
    """

    stored: dict[str, tuple[ManagedFieldsEntry, ...]]
    does: Does = lambda _name, _sent: None
    sent: list[tuple[str, PatchType, tuple[str, ...]]] = field(default_factory=list)
    _revision: int = 1

    def meta(self, name: str) -> Meta:
        """The metadata of an object as a list has it."""
        return Meta(name=name, uid=name, resource_version=str(self._revision), managed_fields=self.stored[name])

    async def send(self, request: Request) -> Reply:
        if request.resource == CRDS:  # a read, or the token of the run
            return Reply(msgspec.json.encode(b.crd_document()))
        assert request.name is not None
        if request.verb == "patch":
            self._patch(request.name, request)
        return Reply(msgspec.json.encode({"metadata": self.meta(request.name), "spec": {"size": 1}}))

    def _patch(self, name: str, request: Request) -> None:
        assert request.body is not None and request.patch_type is not None
        named = _decoder.decode(request.body).metadata.managed_fields
        sent = None if named is None else tuple(each for each in named if each.manager)  # [{}] resets the list
        self.sent.append((name, request.patch_type, tuple(each.manager for each in sent or ())))
        self._revision += 1
        done = self.does(name, sent)
        self.stored[name] = done if done is not None else sent if sent is not None else self.stored[name]


def shown(entries: tuple[ManagedFieldsEntry, ...]) -> list[tuple[str, str, Any]]:
    """Entries so that they compare: a ``Raw`` is equal to itself alone."""
    return [(each.manager, each.api_version, fields_of(each)) for each in entries]


class NoConverter:
    """Of a CRD without a webhook: nothing is ever asked of it."""

    async def convert(self, objects: Any, api_version: str) -> list[Answer]:
        raise AssertionError(api_version)


def writer(
    server: Server, report: CrdReport, crd: Crd | None = None, unconfirmed: list[Unconfirmed] | None = None
) -> ObjectWriter:
    """A writer for a CRD with v1 and v2 whose objects are stored at v2, as far as its proof says."""
    crd = crd or b.proved(b.crd(("v1", "v2")))
    rules = entry_policies(crd, Options())
    translator = Translator(NoConverter(), rules, report)
    clock = iter(range(10_000)).__next__
    environment = Environment(server, RunStop(clock=clock), clock, longest_wait=0.0)
    check = PremiseCheck(server, Premise(crd), unconfirmed)
    return ObjectWriter(environment, rules, Options(concurrency=1), report, translator=translator, check=check)


async def test_a_default_that_was_learnt_is_applied_before_the_next_patch() -> None:
    """Without it each further object would own the default in restow's name for a moment, and cost a repair."""
    persisted: set[str] = set()

    def persists_a_default(name: str, sent: Sent) -> Sent:
        """A patch owns the default that it persists, an apply of nothing leaves it to nobody."""
        begun = name in persisted or sent is None
        persisted.add(name)
        return None if begun else (*(sent or ()), OURS)

    server, report = Server({"one": (ALICE_V1,), "two": (ALICE_V1,)}, persists_a_default), CrdReport(name="widgets")
    finishing = writer(server, report)
    await finishing.finish(server.meta("one"))
    await finishing.finish(server.meta("two"))
    assert [(name, kind) for name, kind, _managers in server.sent] == [
        ("one", PatchType.MERGE),
        ("one", PatchType.MERGE),
        ("two", PatchType.APPLY),
        ("two", PatchType.MERGE),
    ]
    assert shown(server.stored["one"]) == shown(server.stored["two"]) == shown((ALICE_V2,))
    assert report.objects.repaired == 1 and not report.failures


def empties_what_it_cannot_convert(_name: str, sent: Sent) -> Sent:
    """As Kubernetes up to 1.36 with an entry of v1 and a field that v1 lacks."""
    return () if sent is not None and any(each.api_version != b.api_version("v2") for each in sent) else None


@pytest.mark.parametrize("answered", [True, False], ids=["answered", "the answer was lost"])
async def test_an_old_entry_that_was_written_since_is_moved_before_owners_are_restored(answered: bool) -> None:
    """Sent back as it is, it would have the server empty the list with each try, and the owners would be lost."""
    bob_v1 = entry("bob", "v1", {"f:status": {"f:phase": {}}}, operation="Update", subresource="status")
    writes = 0

    def loses_the_first(name: str, sent: Sent) -> Sent:
        nonlocal writes
        writes += 1
        if writes > 1:
            return empties_what_it_cannot_convert(name, sent)
        if not answered:
            server.stored[name] = (OURS, bob_v1)
            msg = "the connection was closed"
            raise Unreachable(msg)
        return (bob_v1,)

    server, report = Server({"one": (ALICE_V1,)}, loses_the_first), CrdReport(name="widgets")
    await writer(server, report).finish(server.meta("one"))
    assert not report.failures
    moved = msgspec.structs.replace(bob_v1, api_version=b.api_version("v2"))
    assert shown(server.stored["one"]) == shown((ALICE_V2, moved))
    assert report.objects.repaired == 1


async def test_owners_that_were_lost_while_the_crd_changed_are_kept_in_mind() -> None:
    """The object would be left without owners: they are not restored by the schema of before, and by no other."""

    class Changed(Server):
        async def send(self, request: Request) -> Reply:
            if request.resource != CRDS or request.verb != "get":
                return await super().send(request)
            document = b.crd_document(webhook=True, generation=2)
            return Reply(msgspec.json.encode(document | {"metadata": document["metadata"] | {"resourceVersion": "9"}}))

    server, report, unconfirmed = Changed({"one": (ALICE_V2,)}, lambda *_: ()), CrdReport(name="widgets"), []
    before = server.meta("one")
    await writer(server, report, b.crd(("v1", "v2")), unconfirmed).finish(before)
    assert [each.before for each in unconfirmed] == [before]


@pytest.mark.parametrize("listed", ["504", "another write"])
async def test_a_write_that_a_restore_of_etcd_undid_is_left_alone(listed: str) -> None:
    """Each such object would be tried for minutes, and then the run would say that the API server is out of reach."""

    class Restored(Server):
        async def send(self, request: Request) -> Reply:
            if request.verb != "list":
                return await super().send(request)
            lists.append(1)
            if listed == "504":
                message = "Too large resource version: 520, current: 400"
                raise ServerError(status=504, verb="list", target="widgets", reason="Timeout", message=message)
            return Reply(msgspec.json.encode({"metadata": {}, "items": [{"metadata": self.meta("one")}]}))

    lists: list[int] = []
    server, report = Restored({"one": (ALICE_V1,)}), CrdReport(name="widgets")
    before = msgspec.structs.replace(server.meta("one"), resource_version="500")
    await writer(server, report).check_again(Unconfirmed(1, before, (ALICE_V2,), "520"))
    assert not report.failures and server.sent == [] and len(lists) <= 2


@pytest.mark.parametrize(
    ("left", "stored"),
    [
        ((), (ALICE_V2,)),
        ((BOB_V2,), (BOB_V2,)),
        ((BOB_V2, NOBODY), (ALICE_V2, BOB_V2)),
        ((ALICE_V1, OURS), (ALICE_V2,)),
    ],
    ids=["no owner", "somebody wrote the whole list", "an apply on no owner", "an owned default"],
)
async def test_owners_are_restored_where_a_lost_answer_hid_their_loss(
    left: tuple[ManagedFieldsEntry, ...], stored: tuple[ManagedFieldsEntry, ...]
) -> None:
    """Decided from what is read then, an object would keep the owners that a lossy write left it, for good."""
    writes = 0

    def loses_the_first(name: str, _sent: Sent) -> Sent:
        nonlocal writes
        writes += 1
        if writes == 1:
            server.stored[name] = left
            msg = "the connection was closed"
            raise Unreachable(msg)
        return None

    server, report = Server({"one": (ALICE_V1,)}, loses_the_first), CrdReport(name="widgets")
    await writer(server, report).finish(server.meta("one"))
    assert not report.failures
    assert shown(server.stored["one"]) == shown(stored)


@pytest.mark.parametrize(
    ("meant", "found", "lost"),
    [
        ((ALICE_V2,), (ALICE_V2,), False),
        ((ALICE_V2,), (), True),
        ((), (), False),
        ((ALICE_V2,), (BOB_V2, NOBODY), True),
        ((ALICE_V2, NOBODY), (ALICE_V2, NOBODY), False),
        ((), (BOB_V2, NOBODY), False),
        ((ALICE_V2,), (ALICE_V2, OURS), True),
        ((), (OURS,), True),
    ],
)
def test_what_a_lossy_write_leaves(
    meant: tuple[ManagedFieldsEntry, ...], found: tuple[ManagedFieldsEntry, ...], lost: bool
) -> None:
    """An object would be given owners that it does not need, or not be given those that it lost."""
    assert _lost_owners(meant, found) is lost
