"""Compare the premise of a pass with the CRD while the pass writes (``PremiseCheck``).

A write is confirmed once a later read of the CRD shows the premise unchanged. The check keeps the writes since the last
such read: if the premise changed, it is not known by which of the two the API server carried them out, and the next
pass checks these objects again (``ObjectWriter.check_again``).
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from restow.crds import Crd, CrdError
from restow.kube.cluster import Cluster
from restow.kube.errors import Conflict, KubeError, OutcomeUnknown
from restow.kube.resources import CRDS
from restow.kube.watch import Selection, watch
from restow.kube.watchevents import Added, Listed, Modified, WatchEvent
from restow.migrator.decide.premise import Premise
from restow.migrator.decide.prune import Generations, PruneVerdict
from restow.migrator.model.callbacks import MigrationRefused
from restow.migrator.model.watermark import RUNS, TOKEN_LENGTH, is_newer, with_token
from restow.migrator.ownership.entries import ManagedFieldsEntry
from restow.migrator.requests.crdaccess import annotate, crd_resource_version, item_crd, read_crd
from restow.migrator.requests.wire import Meta

__all__ = ["PremiseCheck", "Unconfirmed"]


_log = logging.getLogger(__name__)

_ATTEMPTS = 50
"""Each conflict means that another client wrote the CRD, such as another shard that leaves its token."""

_CONFIRM_S = 2.0
_REACH_S = 3.0


@dataclass(frozen=True, slots=True)
class Unconfirmed:
    """An object that was written while the CRD may have changed.

    Attributes:
        before: its metadata as it was decided.
        meant: the entries that were sent.
        after: the resourceVersion that the write gave it.
    """

    before: Meta
    meant: Sequence[ManagedFieldsEntry]
    after: str


class PremiseCheck:
    """Compares the premise of one pass with the CRD.

    Args:
        cluster: the API server.
        premise: the premise of the pass.
        unconfirmed: receives the writes that are not confirmed yet; outlives the pass.

    Attributes:
        premise: the premise.
        generations: the generations that the watch has seen. If the watch fails permanently (for example without
            permission), they have a gap, and nothing is assumed about the generations in it.
        changed: why the pass proves nothing and must not go on, a sentence; empty if it may go on.
    """

    def __init__(self, cluster: Cluster, premise: Premise, unconfirmed: list[Unconfirmed] | None = None) -> None:
        self.premise = premise
        self.generations = Generations()
        self.changed = ""
        self._cluster = cluster
        self._known = premise.crd
        self._unconfirmed = [] if unconfirmed is None else unconfirmed
        self._newest = ""
        self._announced = False
        self._reading = asyncio.Lock()
        self._news = asyncio.Event()
        self._see(premise.crd)

    async def announce(self, annotations: Mapping[str, str | None]) -> str:
        """Leave the run's token on the CRD, together with other annotations; return why not, or an empty text.

        A second call leaves only the annotations. The CRD must be as the pass read it, or decide the same: etcd may
        have been restored while the API servers were waited for.

        Raises:
            KubeError, MigrationRefused, CrdError: the CRD cannot be read.
        """
        token, crd = self.premise.token or secrets.token_hex(TOKEN_LENGTH // 2), self._known
        for _ in range(_ATTEMPTS):
            runs = {} if self.premise.token else {RUNS: with_token(crd, token)}
            try:
                said = await annotate(self._cluster, crd, {**annotations, **runs}, unchanged=True)
            except Conflict as conflict:
                crd = await read_crd(self._cluster, crd.name)
                await self._take(crd)
                unanswered = isinstance(conflict, OutcomeUnknown) and token in crd.annotations.get(RUNS, "").split()
                if not (self.changed or unanswered):
                    continue
                said = self.changed
            if not said:
                self.premise = replace(self.premise, token=token)
            self._announced = True
            return said
        return f"{crd.name} was written by others each time"

    async def before_write(self) -> None:
        """Leave the token before the first write of an object, if it was not left with the watermark.

        A CRD whose objects need no write gets none: a run over all CRDs would write every CRD.
        """
        if self._announced:
            return
        async with self._reading:
            try:
                said = "" if self._announced else await self.announce({})
            except (KubeError, MigrationRefused, CrdError) as error:
                said = str(error)
        if said:
            _log.info("the token of the run could not be left on %s: %s", self._known.name, said)

    async def follow(self) -> None:
        """Watch the CRD, and confirm periodically and after each change, until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._watch())
            while not self.changed:
                self._news.clear()
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(_CONFIRM_S):
                        await self._news.wait()
                await self.confirm()

    async def confirm(self) -> bool:
        """Read the CRD; return whether the premise still holds. A CRD that cannot be read shows nothing."""
        async with self._reading:
            written, name = len(self._unconfirmed), self._known.name
            try:
                if await crd_resource_version(self._cluster, name) != self._known.resource_version:
                    await self._take(await read_crd(self._cluster, name))
            except (KubeError, MigrationRefused, CrdError) as error:
                _log.info("%s could not be compared with its state at the start: %s", name, error)
                return not self.changed
            if not self.changed:
                del self._unconfirmed[:written]
            return not self.changed

    async def judge(self, now: Crd) -> PruneVerdict:
        """Decide, after the last write of the pass, whether it proves that storedVersions may be pruned.

        Args:
            now: the CRD as just read, whose resourceVersion is the precondition of the prune.
        """
        verdict = await self._take(now)
        if self.changed and verdict.prune:
            return PruneVerdict(prune=False, reason=self.changed, again=True)
        if not self.changed:
            self._unconfirmed.clear()
        return verdict

    async def _take(self, now: Crd) -> PruneVerdict:
        """Compare the CRD as read. The watch compares what was there in between (``_see``)."""
        if not (self.premise.lost(now) or self.premise.outdated(now)):
            await self._reach(now.generation)
        verdict = self.premise.judge(now, self.generations)
        if verdict.again:
            self.changed = verdict.reason
        self._known = now
        return verdict

    def sent(self) -> str:
        """Return the newest resourceVersion that a write of the pass got, to be passed to ``answered``."""
        return self._newest

    def answered(self, newest: str, before: Meta, after: Meta) -> None:
        """Take the answer to a write into account.

        A write that changes an object gets a newer resourceVersion than every write before it, unless etcd was restored
        in between.

        Args:
            newest: the result of ``sent`` when the write was sent.
            before: the object's metadata before the write.
            after: its metadata in the answer.
        """
        if after.resource_version == before.resource_version:
            return
        if is_newer(newest, after.resource_version):
            self.changed = self.changed or _WENT_BACK.format(name=self._known.name)
        elif not self._newest or is_newer(after.resource_version, self._newest):
            self._newest = after.resource_version

    def wrote(self, before: Meta, meant: Sequence[ManagedFieldsEntry], after: Meta) -> None:
        """Keep a write of managedFields until it is confirmed."""
        self._unconfirmed.append(Unconfirmed(before, meant, after.resource_version))

    async def _watch(self) -> None:
        """Collect generations until cancelled, or until the watch cannot be kept."""
        selection = Selection(CRDS, field_selector=f"metadata.name={self._known.name}")
        try:
            async with watch(self._cluster, selection) as events:
                async for event in events:
                    self._saw(event)
        except (KubeError, CrdError) as error:
            _log.info("the watch of %s ended: %s", CRDS.describe(name=self._known.name), error)

    async def _reach(self, generation: int) -> None:
        """Wait for a short time until the watch has shown a generation that was read elsewhere."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_REACH_S):
                while generation not in self.generations.seen:
                    self._news.clear()
                    await self._news.wait()

    def _saw(self, event: WatchEvent) -> None:
        if isinstance(event, Listed):
            found = event.items
        elif isinstance(event, (Added, Modified)):
            found = (event.item,)
        else:
            return
        for item in found:
            self._see(item_crd(item))

    def _see(self, crd: Crd) -> None:
        self.generations.add(crd)
        self.changed = self.changed or self.premise.outdated(crd)
        self._news.set()


_WENT_BACK = (
    "a write of an object of {name} got an older resourceVersion than one before it, as it does when etcd is restored"
)
