"""Finds the CRD of a kind: a ``ConversionRules`` object names group and kind, a CRD is named after its plural."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from restow.crds import Crd
from restow.kube import Cluster
from restow.kube.clock import SYSTEM_CLOCK, Clock
from restow.kube.errors import NotFound
from restow.kube.resources import CRDS

__all__ = ["CrdFinder"]

_PAGE: Final = 500
#: Names of CRDs are listed again after so many seconds: thousands of rules may look at the same moment.
_FRESH_S: Final = 5.0


@dataclass(slots=True)
class CrdFinder:
    """Reads CRDs by group and kind, and remembers under which name each was found."""

    cluster: Cluster
    clock: Clock = SYSTEM_CLOCK
    _names: dict[tuple[str, str], str] = field(default_factory=dict)
    _listed: tuple[float, tuple[str, ...]] | None = None

    async def find(self, group: str, kind: str) -> Crd | None:
        """Return the CRD as it is now; None if the cluster has none.

        Raises:
            CrdError: a CRD of the group is malformed.
            KubeError: the API server refuses a request, or cannot be reached.
        """
        known = self._names.get((group, kind))
        if known is not None:
            crd = await self._read(known)
            if crd is not None and crd.kind == kind:
                return crd
            del self._names[group, kind]
        for name in await self._all():
            if name.partition(".")[2] != group:
                continue
            crd = await self._read(name)
            if crd is not None:
                self._names[group, crd.kind] = name
                if crd.kind == kind:
                    return crd
        return None

    async def _read(self, name: str) -> Crd | None:
        try:
            return Crd.from_document((await self.cluster.get(CRDS, name)).json())
        except NotFound:
            return None

    async def _all(self) -> tuple[str, ...]:
        now = self.clock.monotonic()
        if self._listed is not None and now - self._listed[0] < _FRESH_S:
            return self._listed[1]
        names: list[str] = []
        following = ""
        while True:
            params = {"limit": str(_PAGE)} | ({"continue": following} if following else {})
            page = (await self.cluster.list_page(CRDS, params=params, metadata_only=True)).json()
            names += [item["metadata"]["name"] for item in page["items"]]
            following = page["metadata"].get("continue") or ""
            if not following:
                self._listed = (now, tuple(names))
                return self._listed[1]
