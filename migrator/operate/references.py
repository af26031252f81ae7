"""Search periodically for references to versions that can be removed, and report them in a condition of the CRD.

A search lists all resources of the cluster, so one search serves all CRDs: ``ReferenceSearches`` collects CRDs for a
moment before the first search, and keeps the result for the period. ``condition`` returns the condition for the CRD's
status. A missing right is a part of the result, never an error.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from restow.crds import Crd
from restow.kube.clock import Clock
from restow.kube.cluster import Cluster
from restow.kube.errors import KubeError
from restow.migrator.operate.conditions import CrdCondition, apply, changed, present
from restow.migrator.references.reference import FoundReferences, SoughtVersion, not_looked_at, old_versions, standing
from restow.migrator.references.scan import STANDING_KINDS, find_references

NO_REFERENCES: Final = "restow.dev/NoReferences"
"""The type of the condition: no reference that the search found names a version other than the storage version and
fails without it."""

_FIELD_MANAGER: Final = "restow-references"
_GATHER_S: Final = 30.0
"""Seconds before the first search for a CRD, in which a starting process adds its other CRDs."""

_log = logging.getLogger(__name__)

Found = tuple[FoundReferences, ...]


@dataclass(slots=True)
class _Searched:
    """The state of one CRD: its versions, the time of the next search, and a result that no caller has taken yet."""

    versions: tuple[SoughtVersion, ...]
    due: float
    news: Found | None = None


class ReferenceSearches:
    """Searches once per period for references to all CRDs that callers have asked for.

    Args:
        cluster: the API server.
        every_s: seconds between two searches.
        clock: gives ``monotonic``.
    """

    def __init__(self, cluster: Cluster, every_s: float, clock: Clock) -> None:
        self._cluster = cluster
        self._every = every_s
        self._clock = clock
        self._known: dict[str, _Searched] = {}
        self._turn = asyncio.Lock()

    def wait(self, crd: Crd) -> float:
        """Return the seconds until there is a result for a CRD; a change of its versions brings the search forward."""
        now, versions = self._clock.monotonic(), old_versions(crd)
        known = self._known.get(crd.name)
        if known is None or known.versions != versions:
            known = self._known[crd.name] = _Searched(versions, now + min(_GATHER_S, self._every))
        return 0.0 if known.news is not None else max(0.0, known.due - now)

    async def take(self, crd: Crd, stop: asyncio.Event) -> Found | None:
        """Return a result that was not taken yet, after a search if one is due; None if ``stop`` was set first.

        Call it when ``wait`` returned 0.
        """
        async with self._turn:
            known = self._known[crd.name]
            if known.news is None and not await self._search(stop):
                return None
            taken, known.news = known.news, None
            return taken

    def forget(self, name: str) -> None:
        """Stop searching for a CRD."""
        self._known.pop(name, None)

    async def _search(self, stop: asyncio.Event) -> bool:
        every = {name: known.versions for name, known in self._known.items()}
        sought = [of for versions in every.values() for of in versions]
        found: dict[SoughtVersion, FoundReferences] = {}
        if sought:
            async with asyncio.TaskGroup() as group:
                searching = group.create_task(find_references(self._cluster, sought, kinds=STANDING_KINDS))
                stopping = group.create_task(stop.wait())
                await asyncio.wait((searching, stopping), return_when=asyncio.FIRST_COMPLETED)
                searching.cancel()
                stopping.cancel()
            if searching.cancelled():
                return False
            found = searching.result()
        due = self._clock.monotonic() + self._every
        for name, versions in every.items():
            known = self._known.get(name)
            if known is not None and known.versions == versions:
                known.news, known.due = tuple(found[of] for of in versions), due
        return True


def condition(crd: Crd, found: Sequence[FoundReferences], now: datetime) -> dict[str, Any] | None:
    """Return the condition with the references; None if the CRD has it already.

    Args:
        crd: the CRD as read from the cluster.
        found: a result for each version that can be removed.
        now: the time of a transition.
    """
    status, reason = _verdict(found)
    parts = [standing(each) for each in found]
    parts += [note for each in found[:1] if (note := not_looked_at(crd, each.of.version, each))]
    message = ". ".join(parts) or f"{crd.storage.name} is the only version"
    return changed(
        present(crd, NO_REFERENCES),
        CrdCondition(type=NO_REFERENCES, status=status, reason=reason, message=message),
        now,
    )


def _verdict(found: Sequence[FoundReferences]) -> tuple[str, str]:
    if any(each.against_unserving or each.against_removal for each in found):
        return "False", "ReferencesFound"
    if any(each.not_looked_at for each in found):
        return "Unknown", "NotLookedAtEverywhere"
    return "True", "NoneFound" if found else "OneVersion"


async def write_condition(cluster: Cluster, crd: Crd, told: dict[str, Any]) -> None:
    """Write the condition; log a refusal."""
    try:
        await apply(cluster, crd, [told], _FIELD_MANAGER)
    except KubeError as error:
        _log.warning("the condition %s could not be written on %s: %s", NO_REFERENCES, crd.name, error)
