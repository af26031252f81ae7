"""Guards of the migrator, broken one at a time: a suite that lets any of them pass proves nothing.

Each is a context manager that replaces one function of the migrator by what a simpler tool does in its place.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import msgspec

from restow.crds import Crd
from restow.kube.cluster import Cluster, PatchType
from restow.kube.errors import KubeError, NotFound
from restow.kube.resources import CRDS
from restow.migrator.decide.errortable import ErrorAction, ErrorOutcome, of_write_error
from restow.migrator.decide.premise import Followers, Premise
from restow.migrator.decide.prune import PruneVerdict
from restow.migrator.model import watermark
from restow.migrator.ownership.entries import ManagedFieldsEntry
from restow.migrator.requests import lister, passes, writer
from restow.migrator.requests.apiservers import ApiServers, View
from restow.migrator.requests.wire import Meta, combined_patch, identity_apply
from restow.migrator.run import end
from restow.migrator.run import run as migration

Guard = Callable[[], AbstractContextManager[object]]


@contextmanager
def prune_despite_failures() -> Iterator[None]:
    """Prune although objects failed, as the in-tree migrator of Kubernetes 1.36 does."""
    real = end.Pruner._nothing_proved

    def careless(self: Any) -> str | None:
        why = real(self)
        return None if self._report.objects.failed else why

    with patch.object(end.Pruner, "_nothing_proved", careless):
        yield


@contextmanager
def ignore_generation() -> Iterator[None]:
    """Prune whatever the storage version was since the start."""
    real = Premise.judge

    def careless(self: Premise, now: Crd, generations: Any) -> PruneVerdict:
        return PruneVerdict(prune=True) if now.uid == self.crd.uid else real(self, now, generations)

    with patch.object(Premise, "judge", careless), patch.object(Premise, "outdated", lambda _self, _now: ""):
        yield


@contextmanager
def prune_unconditionally() -> Iterator[None]:
    """Patch storedVersions without a resourceVersion."""

    async def careless(cluster: Cluster, crd: Crd, versions: Sequence[str]) -> Crd:
        body = msgspec.json.encode({"status": {"storedVersions": list(versions)}})
        reply = await cluster.patch(CRDS, crd.name, body, patch_type=PatchType.MERGE, subresource="status")
        return Crd.from_document(reply.json())

    with patch.object(end, "patch_stored_versions", careless):
        yield


@contextmanager
def any_404_is_gone() -> Iterator[None]:
    """Take every 404 for a deleted object, as all other tools do."""

    def careless(error: KubeError, **about: Any) -> ErrorOutcome:
        return ErrorOutcome(ErrorAction.GONE) if isinstance(error, NotFound) else of_write_error(error, **about)

    with patch.object(writer, "of_write_error", careless):
        yield


@contextmanager
def believe_every_answer() -> Iterator[None]:
    """Do not compare the managedFields of an answer with what was meant."""
    with patch.object(writer, "same_ownership", lambda _meant, _found: True):
        yield


@contextmanager
def forget_what_was_sent() -> Iterator[None]:
    """Decide again from what is read after a write whose answer was lost, although its owners may be lost already."""
    with patch.object(writer, "_lost_owners", lambda _meant, _found: False):
        yield


@contextmanager
def ignore_uid() -> Iterator[None]:
    """Take an object for the same one as long as its name is the same."""
    real = writer.ObjectWriter._read

    async def careless(self: Any, meta: Meta, *, whole: bool) -> Any:
        found = await self._cluster.get(self._resource, meta.name, meta.namespace or None)
        uid = str(found.json()["metadata"]["uid"])
        return await real(self, msgspec.structs.replace(meta, uid=uid), whole=whole)

    with patch.object(writer.ObjectWriter, "_read", careless):
        yield


@contextmanager
def create_what_is_gone() -> Iterator[None]:
    """Apply without uid and resourceVersion: a server-side apply on an object that is gone creates it."""

    def careless(api_version: str, kind: str, meta: Meta) -> bytes:
        body = msgspec.json.decode(identity_apply(api_version, kind, meta))
        body["metadata"] = {"name": meta.name}
        return msgspec.json.encode(body)

    with patch.object(writer, "identity_apply", careless):
        yield


@contextmanager
def overwrite_owners() -> Iterator[None]:
    """Send managedFields without a resourceVersion, as Flux does: what others wrote since is overwritten."""

    def careless(resource_version: str, entries: Sequence[ManagedFieldsEntry]) -> bytes:
        body = msgspec.json.decode(combined_patch(resource_version, entries))
        del body["metadata"]["resourceVersion"]
        return msgspec.json.encode(body)

    with patch.object(writer, "combined_patch", careless):
        yield


@contextmanager
def send_entries_twice() -> Iterator[None]:
    """Do not merge entries that become identical: the server keeps the last. What is meant is what is sent."""
    import restow.migrator.decide.decision as deciding

    with patch.object(deciding, "merge", tuple), patch.object(writer, "same_ownership", lambda _meant, _found: True):
        yield


@contextmanager
def list_before_settling() -> Iterator[None]:
    """Begin to list at once, while another API server may still encode the old version."""

    async def sees_nothing(_servers: ApiServers, _crd: Crd) -> list[View]:
        return []

    at_once = patch.object(Followers, "remaining", lambda *_crd, **_times: 0.0)
    with at_once, patch.object(ApiServers, "views", sees_nothing):
        yield


@contextmanager
def end_at_an_expired_list() -> Iterator[None]:
    """Take a list whose history was compacted (410) for one that has ended."""
    real = lister.of_list_error

    class Ended(Exception):
        pass

    def careless(error: KubeError, *, attempt: int) -> ErrorOutcome:
        outcome = real(error, attempt=attempt)
        if outcome.action is ErrorAction.CONTINUE:
            raise Ended
        return outcome

    whole = passes.object_pages

    async def ending(*arguments: Any, **more: Any) -> AsyncIterator[Any]:
        try:
            async for page in whole(*arguments, **more):
                yield page
        except Ended:
            return

    with patch.object(lister, "of_list_error", careless), patch.object(passes, "object_pages", ending):
        yield


@contextmanager
def one_write_for_defaults() -> Iterator[None]:
    """Send the combined patch alone where it persists a default, and let the default be ours."""
    import restow.migrator.decide.policies as treating

    with ExitStack() as stack:
        real = treating.entry_policies
        careless: Callable[..., Any] = lambda *given, **more: replace(real(*given, **more), new_defaults=())  # noqa: E731
        stack.enter_context(patch.object(migration, "entry_policies", careless))
        stack.enter_context(patch.object(writer, "same_ownership", lambda _meant, _found: True))
        yield


@contextmanager
def believe_any_watermark() -> Iterator[None]:
    """Resume from a watermark although the CRD was changed since it was taken."""
    with patch.object(watermark.Watermark, "holds_for", lambda _self, _crd, _settle_s: True):
        yield


@contextmanager
def leave_entries_behind() -> Iterator[None]:
    """Do not look for entries of our own that an earlier run could not take off any more."""
    import restow.migrator.decide.decision as deciding

    with patch.object(deciding, "left_behind", lambda _entries: frozenset()):
        yield


@contextmanager
def restore_without_moving() -> Iterator[None]:
    """Restore owners with the entries that others wrote since as they are, whatever their version is."""

    async def careless(_self: Any, _meta: Meta, _live: Any, entries: tuple[ManagedFieldsEntry, ...]) -> Any:
        return entries

    with patch.object(writer.ObjectWriter, "_moved", careless):
        yield


@contextmanager
def overlook_a_first_apply() -> Iterator[None]:
    """Take an object that has owners for one that lost none, although the first apply on no owner made them."""
    real = writer._lost_owners

    def careless(meant: Sequence[ManagedFieldsEntry], found: Sequence[ManagedFieldsEntry]) -> bool:
        return real(meant, [entry for entry in found if entry.manager != "before-first-apply"])

    with patch.object(writer, "_lost_owners", careless):
        yield


def _by_name(*guards: Guard) -> dict[str, Guard]:
    return {guard.__name__.replace("_", "-"): guard for guard in guards}  # type: ignore[attr-defined]


GUARDS = _by_name(
    prune_despite_failures,
    ignore_generation,
    prune_unconditionally,
    any_404_is_gone,
    believe_every_answer,
    forget_what_was_sent,
    ignore_uid,
    create_what_is_gone,
    overwrite_owners,
    send_entries_twice,
    list_before_settling,
    end_at_an_expired_list,
    one_write_for_defaults,
    believe_any_watermark,
    leave_entries_behind,
)
"""Those that seeds catch."""

DIRECTED = _by_name(restore_without_moving, overlook_a_first_apply)
"""Those that only one order of three writers' requests shows, which seeds hardly ever draw: ``test_directed.py``."""
