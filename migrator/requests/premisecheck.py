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
from dataclasses import dataclass, replace

from restow.crds import Crd, CrdError
from restow.kube.cluster import Cluster
from restow.kube.errors import Conflict, KubeError
from restow.kube.listwatch import Selection, watch
from restow.kube.resources import CRDS
from restow.kube.watchevents import Added, Listed, Modified, WatchEvent
from restow.migrator.decide.premise import Premise
from restow.migrator.decide.prune import Generations, PruneVerdict
from restow.migrator.model.callbacks import MigrationRefused
from restow.migrator.model.watermark import RUNS, TOKEN_LENGTH, is_newer, with_token
from restow.migrator.requests.crdaccess import annotate, crd_resource_version, item_crd, read_crd
from restow.migrator.requests.wire import Meta, object_decoder

_log = logging.getLogger(__name__)

_ATTEMPTS = 50
"""Each conflict means that another client wrote the CRD, such as another shard that leaves its token."""

_CONFIRM_S = 2.0
_REACH_S = 3.0


@dataclass(frozen=True, slots=True)
class Unconfirmed:
    """An object that was written while the CRD may have changed.

    Attributes:
        generation: of the CRD by which it was decided.
        before: its metadata as it was decided.
        after: the resourceVersion that the write gave it.
    """

    generation: int
    before: Meta
    after: str


async def leave_token(cluster: Cluster, crd: Crd) -> tuple[Crd, str]:
    """Leave a new token on a CRD, next to those of other runs.

    Returns:
        The CRD as read afterwards, and the token; an empty one if the API server refuses it.

    Raises:
        KubeError, MigrationRefused, CrdError: the CRD cannot be read.
    """
    token = secrets.token_hex(TOKEN_LENGTH // 2)
    for _ in range(_ATTEMPTS):
        try:
            said = await annotate(cluster, crd, {RUNS: with_token(crd, token)}, unchanged=True)
        except Conflict:
            crd = await read_crd(cluster, crd.name)
            if token in crd.annotations.get(RUNS, "").split():  # its answer was lost
                return crd, token
            continue
        if not said:
            return await read_crd(cluster, crd.name), token
        _log.info("the token of the run could not be left on %s: %s", crd.name, said)
        break
    return crd, ""


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
        self._last: Meta | None = None
        self._witness: Meta | None = None
        self._asked = False
        self._reading = asyncio.Lock()
        self._news = asyncio.Event()
        self._see(premise.crd)

    async def before_write(self) -> None:
        """Leave the run's token before the first write of an object, if the run left none before its look.

        A CRD whose objects need no write gets none: a run over all CRDs would write every CRD.
        """
        if self._asked or self.premise.token:
            return
        async with self._reading:
            if self._asked or self.premise.token:
                return
            try:
                crd, token = await leave_token(self._cluster, self._known)
                await self._take(crd)
            except (KubeError, MigrationRefused, CrdError) as error:
                _log.info("the token of the run could not be left on %s: %s", self._known.name, error)
                return
            self._asked, self.premise = True, replace(self.premise, token=token)

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
            written, last, name = len(self._unconfirmed), self._last, self._known.name
            try:
                if await crd_resource_version(self._cluster, name) != self._known.resource_version:
                    await self._take(await read_crd(self._cluster, name))
            except (KubeError, MigrationRefused, CrdError) as error:
                _log.info("%s could not be compared with its state at the start: %s", name, error)
                return not self.changed
            if not self.changed:
                del self._unconfirmed[:written]
                self._witness = last if self.premise.token else self._witness
            return not self.changed

    async def judge(self, now: Crd) -> PruneVerdict:
        """Decide, after the last write of the pass, whether it proves that storedVersions may be pruned.

        Args:
            now: the CRD as just read, whose resourceVersion is the precondition of the prune.
        """
        verdict = await self._take(now)
        if self._last is not None and is_newer(self._last.resource_version, await self._now_at(self._last)):
            self._went_back()
        if self.changed and verdict.prune:
            return PruneVerdict(prune=False, reason=self.changed, again=True)
        if not self.changed:
            self._unconfirmed.clear()
        return verdict

    async def _take(self, now: Crd) -> PruneVerdict:
        """Compare the CRD as read. The watch compares what was there in between (``_see``)."""
        if self.premise.lacks_token(now) and await self._witness_stands():
            self.premise, self._asked = replace(self.premise, token=""), False  # a client removed it: leave another
        if not (self.premise.lost(now) or self.premise.outdated(now)):
            await self._reach(now.generation)
        verdict = self.premise.judge(now, self.generations)
        if verdict.again:
            if not (self.changed or self.premise.outdated(now)) and self.premise.lost(now):
                self._unconfirmed.clear()  # they were decided as they are decided now; a restore took them back
            self.changed = verdict.reason
        self._known = now
        return verdict

    async def _witness_stands(self) -> bool:
        """Return whether an object is as the run left it that it wrote before it last saw its token.

        A restore of a backup from before the token takes that write back.
        """
        witness = self._witness
        return witness is not None and await self._now_at(witness) == witness.resource_version

    async def _now_at(self, written: Meta) -> str:
        """Return the resourceVersion that an object has now; empty if it is gone, or cannot be read."""
        crd = self.premise.crd
        resource = crd.resource_at(crd.storage.name)
        try:
            reply = await self._cluster.get(resource, written.name, written.namespace or None, metadata_only=True)
            found = reply.decode(object_decoder).metadata
        except KubeError as error:
            _log.info("%s could not be compared with its last write: %s", written.key, error)
            return ""
        return found.resource_version if found.uid == written.uid else ""

    def listed(self, resource_version: str) -> None:
        """Take the resourceVersion of the pass's list into account, which is older than that of every write."""
        self._newest = resource_version

    def sent(self) -> str:
        """Return the newest resourceVersion that the pass has seen, to be passed to ``answered``."""
        return self._newest

    def answered(self, newest: str, after: Meta) -> None:
        """Take the answer to a write into account that changed an object.

        Its resourceVersion is newer than that of every write before it, unless etcd was restored in between.

        Args:
            newest: the result of ``sent`` when the write was sent.
            after: the object's metadata in the answer.
        """
        if is_newer(newest, after.resource_version):
            self._went_back()
        elif self._last is None or is_newer(after.resource_version, self._newest):
            self._newest, self._last = after.resource_version, after

    def _went_back(self) -> None:
        self.changed = self.changed or _WENT_BACK.format(name=self._known.name)
        self._unconfirmed.clear()  # their resourceVersions are of another history

    def wrote(self, before: Meta, after: Meta) -> None:
        """Keep a write of managedFields until it is confirmed."""
        self._unconfirmed.append(Unconfirmed(self.premise.crd.generation, before, after.resource_version))

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


_WENT_BACK = "an object of {name} got an older resourceVersion than one before it, as it does when etcd is restored"
