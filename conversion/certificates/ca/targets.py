"""The objects that hold the webhook's CA bundle: CRDs, and webhook configurations of admission.

A rotation waits until all of them have the bundle. Another writer may undo the wiring repeatedly: if a tool replaces a
CRD every second, each replacement makes all versions but the stored one unavailable, and each repair is one more write.
``WriteConflict`` therefore limits the writes. If two installations of restow have a CA each, neither removes the
other's certificates permanently: after a few tries they stay, and both are trusted.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any, Final

from restow.conversion.certificates.apply import (
    install,
    read_configuration,
    read_crd,
    read_definition,
    remove_configuration,
    resource_of,
    wire,
)
from restow.conversion.certificates.ca.rotation import ObservedBundle
from restow.conversion.certificates.probe import HookProbe, Probe
from restow.conversion.certificates.wiring.clientconfig import NO_BUNDLE, Address, Bundle, address_in
from restow.conversion.certificates.wiring.configuration import bundles_of, plan_configuration
from restow.conversion.certificates.wiring.crd import (
    UNWIRED,
    Definition,
    Wiring,
    bundle_of,
    plan_wiring,
    resource_of_definition,
)
from restow.conversion.certificates.wiring.fieldmanagers import injector_of, last_writer
from restow.conversion.model.errors import NotAnswering, WiringError, WiringRefused
from restow.crds import Crd, CrdError
from restow.kube import Cluster
from restow.kube.listwatch import Selection

_BURST: Final = (10, timedelta(seconds=5))  # at most this many writes in this time: two a second
_CONFLICT: Final = (5, timedelta(minutes=1))
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


_log = logging.getLogger(__name__)

_FRESH: Final = timedelta(minutes=1)

Document = Mapping[str, Any]


class NewSentences:
    """Finds what was not said the last time: the same sentence every few seconds does not help."""

    def __init__(self) -> None:
        self._said: tuple[str, ...] = ()

    def __call__(self, sentences: Iterable[str]) -> list[str]:
        """Return the sentences that are new."""
        before, self._said = self._said, tuple(sentences)
        return [sentence for sentence in self._said if sentence not in before]


class WiringTarget(ABC):
    """One object that names the webhook.

    While a watch shows every change of the object, it need not be read again; ``is_watched`` is true for that time.

    Attributes:
        name: the object's name in messages.
        selection: the objects to watch for changes of it.
        writes: how often this process wrote it.
        is_watched: whether ``notice`` gets every change, so that the last seen state is the current one.
        observed: the bundles in it that restow has to keep, as last read or seen.
    """

    def __init__(self, name: str, selection: Selection, now: Callable[[], datetime]) -> None:
        self.name: Final = name
        self.selection: Final = selection
        self.writes = 0
        self.is_watched = False
        self.observed: tuple[ObservedBundle, ...] = ()
        self._seen = self._done = False
        self._now = now
        self._conflict = WriteConflict()
        self._new_among = NewSentences()
        self._wiring: tuple[Bundle, Bundle] | None = None
        self._undone = False

    async def look(self) -> tuple[ObservedBundle, ...]:
        """Read the object; return the bundles in it that restow has to keep and that verify this webhook.

        Raises:
            WiringError: the object does not exist, must not be wired, or its webhook does not answer.
            CrdError: the document is no CRD, or is malformed.
            KubeError: the API server refuses a request, or cannot be reached.
        """
        self._undone = self._seen = self._done = False  # a change noticed from now on may be newer than the read state
        await self._read()
        self._seen = True
        self.observed = self._observed()
        return self.observed

    @abstractmethod
    async def _read(self) -> None:
        """Read the object, and keep the needed parts."""

    @abstractmethod
    def _observed(self) -> tuple[ObservedBundle, ...]:
        """Return the bundles in the object as it was last read or seen."""

    @abstractmethod
    def _see(self, document: Document) -> None:
        """Keep the needed parts of a document."""

    async def wire(self, wanted: Bundle, dropped: Bundle) -> bool:
        """Wire the object as it was last read without an error; return whether it changed; raise as ``look``."""
        dropped = NO_BUNDLE if self._conflict.keeps_certificates else dropped
        self._wiring = (wanted, dropped)
        self._done = False
        removes = await self._wire(wanted, dropped)
        self._done = not self._undone
        if removes is None:
            return False
        self.writes += 1
        was_in_conflict = self.is_in_conflict
        self._conflict.wrote(self._now(), removed=removes)
        if self.is_in_conflict and not was_in_conflict:
            _log.warning("%s", self._conflict_message())
        return True

    def notice(self, document: Document | None) -> bool:
        """Process a watched change, None for a deletion; return whether the object has to be wired."""
        try:
            self._seen = document is not None
            if document is not None:
                self._see(document)
                self.observed = self._observed()
            self._undone = document is None or self._wiring is None or self._lacks(document, *self._wiring)
        except (WiringError, CrdError):
            self._undone, self._seen = True, False  # the next look reports why
        self._done &= not self._undone
        return self.is_undone

    @property
    def is_undone(self) -> bool:
        """Whether the watch has shown that the object has to be wired, and it may be wired now."""
        return self._undone and self._conflict.may_write(self._now())

    @property
    def object_name(self) -> str:
        """The name of the object itself."""
        return self.name.rpartition(" ")[2]

    @property
    def is_known(self) -> bool:
        """Whether no read is needed: a watch shows every change, and the last one does not matter."""
        return self.is_watched and self._seen and not self._undone

    def is_done(self, wanted: Bundle, dropped: Bundle) -> bool:
        """Return whether the object is known to be wired with these certificates."""
        return self._done and self.is_known and self._wiring == (wanted, dropped)

    @property
    def is_tried(self) -> bool:
        """Whether this process has wired the object, or tried to."""
        return self._wiring is not None

    @property
    def is_in_conflict(self) -> bool:
        """Whether another writer undoes the wiring repeatedly."""
        return self._conflict.is_in_conflict(self._now())

    @abstractmethod
    async def _wire(self, wanted: Bundle, dropped: Bundle) -> bool | None:
        """Write the object if anything is due; return whether that removed certificates, None without a write."""

    @abstractmethod
    def _lacks(self, document: Document, wanted: Bundle, dropped: Bundle) -> bool:
        """Return whether a document differs from the wanted wiring.

        Raises:
            WiringError: the object does not exist, must not be wired, or its webhook does not answer.
            CrdError: the document is no CRD, or is malformed.
        """

    @abstractmethod
    def _managers(self) -> Iterable[Document]:
        """The managedFields, as last read."""

    def _note(self, notes: Iterable[str]) -> None:
        for note in self._new_among(notes):
            _log.info("%s", note)

    def _check_conflict(self) -> None:
        if not self._conflict.may_write(self._now()):
            raise WiringRefused(f"{self._conflict_message()}; it is written again in a few seconds")

    def _conflict_message(self) -> str:
        who = last_writer(tuple(self._managers()))
        writer = f"another writer (perhaps {who})" if who else "another writer"
        return f"{self.name}: {writer} keeps undoing its wiring: configure it to leave address and caBundle unchanged"


class CrdTarget(WiringTarget):
    """A CRD. ``address`` is the address of its webhook; None for the address that the CRD already has.

    ``composite`` is the apiVersion of the CompositeResourceDefinition from which Crossplane makes the CRD. If it is
    set, the CompositeResourceDefinition is read and written, and the CRD, which Crossplane keeps, is not. ``replaces``
    is the ``spec.conversion`` with another project's webhook that may be replaced.
    """

    def __init__(
        self,
        cluster: Cluster,
        name: str,
        address: Address | None,
        *,
        composite: str = "",
        replaces: Document | None = None,
        probe: Probe,
        now: Callable[[], datetime],
    ) -> None:
        selection = Selection(resource_of_definition(composite), field_selector=f"metadata.name={name}")
        super().__init__(name, selection, now)
        self.composite: Final = composite
        self._cluster = cluster
        self._address = address
        self._replaces = replaces
        self._probe = probe
        self._answered: tuple[object, datetime] | None = None
        self._changes = _Changes("f:spec", now)
        self._crd: Definition | None = None
        self._former_mark: str | None = None
        self.is_unwired = False
        """Whether ``unwire`` returned the CRD to the strategy None since this server started: it stays unwired."""

    async def _read(self) -> None:
        self._remember(await read_definition(self._cluster, self.name, self.composite))

    def _see(self, document: Document) -> None:
        self._remember(Definition.of(document))

    def _remember(self, crd: Definition) -> None:
        self._crd = crd
        mark = crd.annotations.get(UNWIRED, "")
        if self._former_mark is None:
            self._former_mark = mark  # from an earlier installation: this one ignores it
        unwired = crd.strategy == "None" and bool(mark) and mark != self._former_mark
        if unwired and not self.is_unwired:
            _log.info("%s was unwired (restow unwire) and stays so until this server is started again", self.name)
        self.is_unwired = unwired

    def _observed(self) -> tuple[ObservedBundle, ...]:
        crd = self._crd
        if crd is None or not self._counts(crd):
            return ()
        changed_at = self._changes.last(crd.uid, crd.generation, crd.managed_fields)
        return (ObservedBundle(bundle_of(crd), changed_at),)

    async def _wire(self, wanted: Bundle, dropped: Bundle) -> bool | None:
        if self.is_unwired:
            return None
        wiring = Wiring(wanted, self._address, dropped, self._replaces)
        assert self._crd is not None
        plan = plan_wiring(self._crd, wiring)
        self._note(plan.notes)
        if plan.body is None:
            return None
        if plan.rival is not None:
            crd = await read_crd(self._cluster, self.name)
            await _check_rival(
                self._probe(crd, plan.rival, bundle_of(self._crd)),
                f"{self.name} is wired to {plan.rival} by another restow, whose webhook answers: end that one, or take "
                "the CRD out of what is served here",
            )
        self._check_conflict()
        written = await wire(self._cluster, self.name, wiring, composite=self.composite, probe=self._try)
        return plan.removes if written.changed else None

    def _lacks(self, document: Document, wanted: Bundle, dropped: Bundle) -> bool:
        if self.is_unwired:
            return False
        wiring = Wiring(wanted, self._address, dropped, self._replaces)
        return plan_wiring(Definition.of(document), wiring).body is not None

    def _managers(self) -> Iterable[Document]:
        return () if self._crd is None else self._crd.managed_fields

    async def _try(self, crd: Crd, address: Address, bundle: Bundle) -> None:
        """Probe the webhook, unless it just passed the same probe: an undone CRD is down until it is written."""
        asked = (address, bundle, crd.uid, crd.served, crd.storage.name)
        if self._answered is not None and self._answered[0] == asked and self._now() - self._answered[1] < _FRESH:
            return
        await self._probe(crd, address, bundle)
        self._answered = (asked, self._now())

    def _counts(self, crd: Definition) -> bool:
        """Whether API servers use the CRD's bundle to verify this webhook, and restow has to keep the bundle."""
        if crd.webhook is None or (injector_of(crd.annotations) and not self.composite):
            return False
        return self._address is None or address_in(crd.webhook) == self._address


class ConfigurationTarget(WiringTarget):
    """A webhook configuration, installed if it is missing.

    ``wanted`` is its document, each webhook with its address and without ``caBundle``; ``former`` is the name that an
    earlier release gave it.
    """

    def __init__(
        self, cluster: Cluster, wanted: Document, *, former: str = "", probe: HookProbe, now: Callable[[], datetime]
    ) -> None:
        name = wanted["metadata"]["name"]
        resource = resource_of(wanted["kind"])
        super().__init__(f"{wanted['kind']} {name}", Selection(resource, field_selector=f"metadata.name={name}"), now)
        self._cluster = cluster
        self._wanted = wanted
        self._former = former
        self._probe = probe
        self._changes = _Changes("f:webhooks", now)
        self._live: Document | None = None

    async def _read(self) -> None:
        self._live = await read_configuration(self._cluster, self._wanted)

    def _see(self, document: Document) -> None:
        self._live = document

    def _observed(self) -> tuple[ObservedBundle, ...]:
        if self._live is None:
            return ()
        metadata = self._live["metadata"]
        changed_at = self._changes.last(metadata["uid"], metadata.get("generation") or 0, self._managers())
        return tuple(ObservedBundle(bundle, changed_at) for bundle in bundles_of(self._wanted, self._live))

    async def _wire(self, wanted: Bundle, dropped: Bundle) -> bool | None:
        plan = plan_configuration(self._wanted, self._live, wanted, dropped)
        written: bool | None = None
        if plan.body is not None:
            for address, bundle in plan.rivals:
                await _check_rival(
                    self._probe(address, bundle),
                    f"{self.name} is kept by another restow, whose webhook at {address} answers: end that one, or have "
                    "only one of both keep a configuration of this name",
                )
            self._check_conflict()
            if await install(self._cluster, self._wanted, wanted, dropped, probe=self._probe):
                written = plan.removes
        told = await remove_configuration(self._cluster, self._wanted, self._former) if self._former else ""
        self._note((*plan.notes, *([told] if told else [])))
        return written

    def _lacks(self, document: Document, wanted: Bundle, dropped: Bundle) -> bool:
        return plan_configuration(self._wanted, document, wanted, dropped).body is not None

    def _managers(self) -> Iterable[Document]:
        return ((self._live or {}).get("metadata") or {}).get("managedFields") or ()


async def _check_rival(probe: Awaitable[None], refusal: str) -> None:
    """Raise WiringRefused while the webhook of another restow answers: the first one stays wired."""
    try:
        await probe
    except NotAnswering:
        return
    raise WiringRefused(refusal)


class _Changes:
    """The time of an object's last change: from its managers; without any, when this replica saw it first."""

    def __init__(self, field: str, now: Callable[[], datetime]) -> None:
        self._field = field
        self._now = now
        self._first_seen: dict[tuple[str, int], datetime] = {}

    def last(self, uid: str, generation: int, managers: Iterable[Mapping[str, Any]]) -> datetime:
        times = [
            datetime.fromisoformat(str(entry["time"]))
            for entry in managers
            if self._field in (entry.get("fieldsV1") or {}) and "time" in entry
        ]
        return max(times, default=self._first_seen.setdefault((uid, generation), self._now()))
