"""The objects that hold the webhook's CA bundle: CRDs, and webhook configurations of admission.

A rotation waits until all of them have the bundle. Another writer may undo the wiring repeatedly: if a tool replaces a
CRD every second, each replacement makes all versions but the stored one unavailable, and each repair is one more write.
``WriteConflict`` therefore limits the writes. If two installations of restow have a CA each, neither removes the
other's certificates permanently: after a few tries they stay, and both are trusted.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta
from enum import Enum
from typing import Any, Final

from restow.conversion.certificates.apply import WiredObject, write_wiring
from restow.conversion.certificates.ca.rotation import ObservedBundle
from restow.conversion.certificates.wiring.clientconfig import NO_BUNDLE, Bundle
from restow.conversion.certificates.wiring.fieldmanagers import last_writer
from restow.conversion.model.errors import NotAnswering, WiringError, WiringRefused
from restow.crds import CrdError
from restow.kube import Cluster, Selection

_log = logging.getLogger(__name__)

_BURST: Final = (10, timedelta(seconds=5))  # at most this many writes in this time: two a second
_CONFLICT: Final = (5, timedelta(minutes=1))
_FIELDS: Final = {"f:spec", "f:webhooks"}  # those of managedFields that hold the webhooks
_REMOVALS: Final = (3, timedelta(minutes=10))


class WriteConflict:
    """The writes of one object."""

    def __init__(self) -> None:
        self._writes: deque[datetime] = deque(maxlen=_BURST[0])
        self._removals: deque[datetime] = deque(maxlen=_REMOVALS[0])
        self.keeps_certificates = False
        """Whether another writer restores each removed certificate: the certificate then has to stay."""

    def wrote(self, now: datetime, *, removed: bool) -> None:
        """Record a write; ``removed``: whether it removed certificates."""
        self._writes.append(now)
        if removed:
            self._removals.append(now)
            self.keeps_certificates |= _within(self._removals, _REMOVALS, now)

    def may_write(self, now: datetime) -> bool:
        """Return whether the object may be written now."""
        return not _within(self._writes, _BURST, now)

    def is_in_conflict(self, now: datetime) -> bool:
        """Return whether another writer repeatedly undoes restow's writes."""
        return self.keeps_certificates or _within(self._writes, _CONFLICT, now)


def _within(times: deque[datetime], rate: tuple[int, timedelta], now: datetime) -> bool:
    number, period = rate
    return len(times) >= number and now - times[-number] < period


class NewSentences:
    """Finds what was not said the last time: the same sentence every few seconds does not help."""

    def __init__(self) -> None:
        self._said: tuple[str, ...] = ()

    def __call__(self, sentences: Iterable[str]) -> list[str]:
        """Return the sentences that are new."""
        before, self._said = self._said, tuple(sentences)
        return [sentence for sentence in self._said if sentence not in before]


class _State(Enum):
    """What is known of an object since it was last read.

    UNREAD: nothing for sure. READ: its state. WIRED: that its wiring is as wanted. UNDONE: that it has to be wired.
    """

    UNREAD = "unread"
    READ = "read"
    WIRED = "wired"
    UNDONE = "undone"


class WiringTarget:
    """One object that names the webhook: its state, and the writes of this process.

    While a watch shows every change of the object, it need not be read again; ``is_watched`` is true for that time.

    Attributes:
        wired: the object, and how it is wired.
        selection: the objects to watch for changes of it.
        name: its name in messages.
        key: the plural of its resource, and its own name.
        writes: how often this process wrote it.
        is_watched: whether ``notice`` gets every change, so that the last seen state is the current one.
        is_unwired: whether ``unwire`` ended its wiring since this server started: it stays unwired.
        observed: the bundles in it that restow has to keep, as last read or seen.
    """

    def __init__(
        self, cluster: Cluster, wired: WiredObject[Any], selection: Selection, now: Callable[[], datetime]
    ) -> None:
        self.wired: Final = wired
        self.selection: Final = selection
        self.name: Final = wired.name
        self.key: Final = (wired.resource.plural, wired.object_name)
        self.writes = 0
        self.is_watched = self.is_unwired = False
        self.observed: tuple[ObservedBundle, ...] = ()
        self._cluster = cluster
        self._now = now
        self._live: Any = None
        self._state = _State.UNREAD
        self._former_mark: str | None = None
        self._first_seen: dict[tuple[str, int], datetime] = {}
        self._conflict = WriteConflict()
        self._new_among = NewSentences()
        self._wiring: tuple[Bundle, Bundle] | None = None

    async def look(self) -> tuple[ObservedBundle, ...]:
        """Read the object; return the bundles in it that restow has to keep and that verify this webhook.

        Raises:
            WiringError: the object does not exist, must not be wired, or its webhook does not answer.
            CrdError: the document is no CRD, or is malformed.
            KubeError: the API server refuses a request, or cannot be reached.
        """
        self._state = _State.UNREAD  # a change noticed from now on may be newer than the read state
        self._remember(await self.wired.read(self._cluster))
        if self._state is _State.UNREAD:
            self._state = _State.READ
        return self.observed

    def _remember(self, live: Any) -> None:
        self._live = live
        mark = self.wired.mark_of(live)
        if self._former_mark is None:
            self._former_mark = mark  # from an earlier installation: this one ignores it
        unwired = bool(mark) and mark != self._former_mark
        if unwired and not self.is_unwired:
            _log.info("%s was unwired (restow unwire) and stays so until this server is started again", self.name)
        self.is_unwired = unwired
        bundles = self.wired.bundles(live)
        changed_at = self._changed_at() if bundles else self._now()
        self.observed = tuple(ObservedBundle(bundle, changed_at) for bundle in bundles)

    def _changed_at(self) -> datetime:
        """Return the time of the last change: from its managers; without any, when this replica saw it first."""
        uid, generation, managers = self.wired.history(self._live)
        times = [
            datetime.fromisoformat(str(entry["time"]))
            for entry in managers
            if _FIELDS & (entry.get("fieldsV1") or {}).keys() and "time" in entry
        ]
        return max(times, default=self._first_seen.setdefault((uid, generation), self._now()))

    def notice(self, document: Mapping[str, Any] | None) -> bool:
        """Process a watched change, None for a deletion; return whether the object has to be wired."""
        lacks = True
        if document is not None:
            try:
                self._remember(self.wired.parse(document))
                lacks = self._wiring is None or self._lacks(*self._wiring)
            except (WiringError, CrdError):
                lacks = True  # the next look reports why
        if lacks:
            self._state = _State.UNDONE
        elif self._state is not _State.WIRED:
            self._state = _State.READ
        return self.is_undone

    def _lacks(self, wanted: Bundle, dropped: Bundle) -> bool:
        return not self.is_unwired and self.wired.plan(self._live, wanted, dropped).body is not None

    async def wire(self, wanted: Bundle, dropped: Bundle) -> bool:
        """Wire the object as it was last read without an error; return whether it changed; raise as ``look``."""
        dropped = NO_BUNDLE if self._conflict.keeps_certificates else dropped
        self._wiring = (wanted, dropped)
        if self._state is _State.WIRED:
            self._state = _State.READ
        changed = not self.is_unwired and await self._write(wanted, dropped)
        if self._state is _State.READ:
            self._state = _State.WIRED
        return changed

    async def _write(self, wanted: Bundle, dropped: Bundle) -> bool:
        plan, changed = self.wired.plan(self._live, wanted, dropped), False
        if plan.body is not None:
            for address, bundle in plan.rivals:
                try:
                    await self.wired.probe(self._cluster, address, bundle, again=True)
                except NotAnswering:
                    continue
                raise WiringRefused(self.wired.rivalry(address))  # the first one stays wired
            if not self._conflict.may_write(self._now()):
                raise WiringRefused(f"{self._conflict_message()}; it is written again in a few seconds")
            written = await write_wiring(self._cluster, self.wired, wanted, dropped)
            changed = written.changed
            if changed:
                self._wrote(removed=plan.removes)
        for note in self._new_among(plan.notes):
            _log.info("%s", note)
        return changed

    def _wrote(self, *, removed: bool) -> None:
        self.writes += 1
        was_in_conflict = self.is_in_conflict
        self._conflict.wrote(self._now(), removed=removed)
        if self.is_in_conflict and not was_in_conflict:
            _log.warning("%s", self._conflict_message())

    def _conflict_message(self) -> str:
        _, _, managers = self.wired.history(self._live)
        who = last_writer(managers)
        writer = f"another writer (perhaps {who})" if who else "another writer"
        return f"{self.name}: {writer} keeps undoing its wiring: configure it to leave address and caBundle unchanged"

    @property
    def is_undone(self) -> bool:
        """Whether the watch has shown that the object has to be wired, and it may be wired now."""
        return self._state is _State.UNDONE and self._conflict.may_write(self._now())

    @property
    def is_known(self) -> bool:
        """Whether no read is needed: a watch shows every change, and the last one does not matter."""
        return self.is_watched and self._state in (_State.READ, _State.WIRED)

    def is_done(self, wanted: Bundle, dropped: Bundle) -> bool:
        """Return whether the object is known to be wired with these certificates."""
        return self.is_watched and self._state is _State.WIRED and self._wiring == (wanted, dropped)

    @property
    def is_tried(self) -> bool:
        """Whether this process has wired the object, or tried to."""
        return self._wiring is not None

    @property
    def is_in_conflict(self) -> bool:
        """Whether another writer undoes the wiring repeatedly."""
        return self._conflict.is_in_conflict(self._now())
