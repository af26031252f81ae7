"""Finds the CRD of a kind, and the rules for it.

A ``ConversionRules`` object names group and kind; a CRD is named after its plural.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from restow.crds import Crd
from restow.kube import Cluster
from restow.kube.clock import SYSTEM_CLOCK, Clock
from restow.kube.errors import Forbidden, NotFound
from restow.kube.pager import list_pages
from restow.kube.resources import CRDS

_PAGE: Final = 500


class _Seen(NamedTuple):
    """A CRD's kind, and the uid and the generation that had it."""

    kind: str
    of: tuple[str, int]


@dataclass(slots=True)
class CrdFinder:
    """Reads CRDs by group and kind, and remembers the name under which each was found.

    Several CRDs may name one kind. The API server accepts the names of one of them, and that one is found; another one
    only if all can be read, and none is accepted.

    A search reads each CRD of the group once, whatever the number of searches: kinds are remembered until a CRD is
    another one, or has another generation, or until ``changed``.

    If the names that were listed last are of no help, they are listed again, unless that list began after the search,
    or less than ``fresh_s`` seconds before it: thousands of rules may search at the same moment.
    """

    cluster: Cluster
    clock: Clock = SYSTEM_CLOCK
    fresh_s: float = 5.0
    _names: dict[tuple[str, str], str] = field(default_factory=dict)
    _kinds: dict[str, _Seen] = field(default_factory=dict)
    _listed: tuple[float, dict[str, tuple[str, int] | None]] | None = None
    _listing: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def find(self, group: str, kind: str) -> Crd | None:
        """Return the current CRD; None if the cluster has none.

        Raises:
            CrdError: a CRD of the group is malformed.
            Forbidden: it is not found, and the operator may not read a CRD of the group.
            KubeError: the API server refuses a request, or cannot be reached.
        """
        known = self._names.get((group, kind))
        if known is not None:
            crd = await self._read(known)
            if crd is not None and crd.kind == kind and crd.names_accepted:
                return crd
            self._names.pop((group, kind), None)
        listed = self._listed
        found = None if listed is None else await self._search(group, kind, listed[1], [])
        if found is not None and found.names_accepted:
            return found
        denied: list[Forbidden] = []
        found = await self._search(group, kind, await self._all(), denied)
        if denied and (found is None or not found.names_accepted):
            raise denied[0]
        return found

    async def _search(
        self, group: str, kind: str, listed: Mapping[str, tuple[str, int] | None], denied: list[Forbidden]
    ) -> Crd | None:
        """Return the CRD whose names are accepted; without one, another of the kind."""
        found = None
        for name, of in tuple(listed.items()):
            seen = self._kinds.get(name)
            if name.partition(".")[2] != group or (seen and seen.of == of and seen.kind != kind):
                continue
            try:
                crd = await self._read(name)
            except Forbidden as error:  # rules may be for other CRDs of the group
                denied.append(error)
                continue
            if crd is not None and crd.names_accepted:
                self._names[group, crd.kind] = name
                if crd.kind == kind:
                    return crd
            elif crd is not None and crd.kind == kind:
                found = crd
        return found

    def changed(self, name: str) -> tuple[str, str] | None:
        """Record that a CRD was written or deleted; return the group and kind for which it was found, if any."""
        if self._listed is not None:  # a new CRD, for which rules may wait, is younger than the list of names
            self._listed[1][name] = None
        seen = self._kinds.pop(name, None)
        return None if seen is None else (name.partition(".")[2], seen.kind)

    async def _read(self, name: str) -> Crd | None:
        try:
            crd = Crd.from_document((await self.cluster.get(CRDS, name)).json())
        except NotFound:
            return None
        self._kinds[name] = _Seen(crd.kind, (crd.uid, crd.generation))
        return crd

    async def _all(self) -> Mapping[str, tuple[str, int] | None]:
        oldest = self.clock.monotonic() - self.fresh_s
        async with self._listing:
            if self._listed is not None and self._listed[0] > oldest:
                return self._listed[1]
            began = self.clock.monotonic()
            pages = list_pages(self.cluster, CRDS, limit=_PAGE, metadata_only=True)
            found = [item["metadata"] async for page in pages for item in page]
            names: dict[str, tuple[str, int] | None] = {
                each["name"]: (each["uid"], each["generation"]) for each in found
            }
            self._listed = (began, names)
            return names


class RulesByTarget:
    """The names of ``ConversionRules`` objects for each kind, with their ages.

    The oldest object for a kind counts. One that is being deleted, and that the CRD still needs, hands over to the
    next one: from then on it is not the oldest any more. Neither is one that nobody may have declared.
    """

    def __init__(self) -> None:
        self._aside: set[str] = set()
        self._deleting: set[str] = set()
        self._handing_over: set[str] = set()
        self._targets: dict[str, tuple[str, str]] = {}
        self._ages: dict[tuple[str, str], dict[str, tuple[str, str]]] = {}
        self._waiting: dict[str, dict[str, None]] = {}

    def add(self, name: str, target: tuple[str, str], created: str, *, deleting: bool = False) -> None:
        """Add an object: its target, a group and a kind, its creationTimestamp, and whether it is being deleted."""
        (self._deleting.add if deleting else self._deleting.discard)(name)
        self._handing_over &= self._deleting
        if self._targets.get(name) not in (None, target):
            self.remove(name)
        self._targets[name] = target
        self._ages.setdefault(target, {})[name] = (created, name)

    def remove(self, name: str) -> None:
        """Forget an object."""
        self._deleting.discard(name)
        self._handing_over.discard(name)
        self._aside.discard(name)
        target = self._targets.get(name)
        if target is not None:
            self.wait_no_more(name)
            del self._targets[name]
            del self._ages[target][name]
            if not self._ages[target]:
                del self._ages[target]

    def of(self, target: tuple[str, str]) -> tuple[str, ...]:
        """Return the objects for a kind."""
        return tuple(self._ages.get(target, ()))

    def older(self, name: str) -> str | None:
        """Return the name of older rules for the same kind; None if there are none."""
        ages = self._ages[self._targets[name]]
        gone = self._handing_over | self._aside
        first = min((age for each, age in ages.items() if each not in gone), default=ages[name])
        return first[1] if first < ages[name] else None

    def hand_over(self, name: str) -> str | None:
        """Let the next oldest object for the same kind count; return its name, or None if there is none."""
        ages = self._ages.get(self._targets.get(name, ("", "")), {})
        gone = {name} | self._deleting | self._aside
        others = [age for each, age in ages.items() if each not in gone]
        if not others:
            self._handing_over.discard(name)
            return None
        self._handing_over.add(name)
        return min(others)[1]

    def set_aside(self, name: str, *, aside: bool) -> None:
        """Record whether an object counts: one that its author may not have been allowed to write does not."""
        (self._aside.add if aside else self._aside.discard)(name)

    def wait(self, name: str) -> None:
        """Record that the CRD of an object was not found yet."""
        self._waiting.setdefault(self._targets[name][0], {})[name] = None

    def wait_no_more(self, name: str) -> None:
        """Record that the CRD of an object was found."""
        group = self._targets[name][0]
        waiting = self._waiting.get(group, {})
        waiting.pop(name, None)
        if not waiting:
            self._waiting.pop(group, None)

    def waiting_for(self, crd: str) -> tuple[str, ...]:
        """Return the objects that may have waited for a new CRD.

        A CRD's name does not show its kind. This returns the objects whose kind resembles the plural in the name; the
        clock triggers the others. If each new CRD triggered all waiting objects, the cost for thousands of both would
        be quadratic.
        """
        plural, _, group = crd.partition(".")
        waiting = self._waiting.get(group, ())
        return tuple(name for name in waiting if plural.startswith(self._targets[name][1].lower()[:-1]))
