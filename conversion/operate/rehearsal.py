"""Rehearses a revision: every live object of a CRD is converted to every version and back, in this process.

Nothing is written. Objects are listed page by page at the storage version, and one page is in memory at a time.
Between two objects other tasks run, so that the serving goes on. A rehearsal is carried on in steps, each of which
looks at a bounded number of objects; it begins again after a restart, or when the API server forgot the list.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from restow.conversion.compile.graph import Graph
from restow.conversion.explain.model import leaves
from restow.conversion.explain.roundtrip import BrokenLaw, round_trips
from restow.conversion.model.errors import ObjectError
from restow.conversion.model.fieldpath import pointer
from restow.conversion.model.values import same
from restow.conversion.operate.gates import counted
from restow.crds import Crd
from restow.kube import Cluster
from restow.kube.errors import Gone
from restow.kube.resources import qualified_name

__all__ = ["Rehearsal"]

#: Failures and differing fields that are named.
_NAMED: Final = 20
_FIELDS: Final = 3


@dataclass(slots=True)
class Rehearsal:
    """The rehearsal of one revision.

    Attributes:
        graph: the compiled revision.
        crd: whose objects.
        page_size: objects of a page.
        pages: pages of one step.
        done: whether every object was looked at.
        objects, failed: how many were, and how many of them failed.
        failures: the first of those, each ``namespace/name: what``; never with values.
    """

    graph: Graph
    crd: Crd
    page_size: int = 100
    pages: int = 10
    done: bool = False
    objects: int = 0
    failed: int = 0
    remaining: int = 0
    failures: list[str] = field(default_factory=list)
    _continue: str = ""

    async def step(self, cluster: Cluster) -> None:
        """Look at the next objects.

        Raises:
            KubeError: the API server refuses a request, or cannot be reached; the next step goes on from there.
        """
        resource = self.crd.resource_at(self.crd.storage.name)
        for _ in range(self.pages):
            params = {"limit": str(self.page_size)} | ({"continue": self._continue} if self._continue else {})
            try:
                page = (await cluster.list_page(resource, params=params)).json()
            except Gone:
                self.objects = self.failed = self.remaining = 0
                self.failures.clear()
                self._continue = ""
                return
            for item in page["items"]:
                self._look({"apiVersion": resource.api_version, "kind": self.crd.kind, **item})
                await asyncio.sleep(0)
            self._continue = page["metadata"].get("continue") or ""
            self.remaining = page["metadata"].get("remainingItemCount") or 0
            if not self._continue:
                self.done = True
                return

    def _look(self, obj: dict[str, Any]) -> None:
        self.objects += 1
        try:
            broken = round_trips(self.graph, obj).broken
        except ObjectError as error:
            self._fail(obj, str(error))
            return
        if broken:
            self._fail(obj, _told(broken[0]))

    def _fail(self, obj: dict[str, Any], what: str) -> None:
        self.failed += 1
        if len(self.failures) < _NAMED:
            metadata = obj.get("metadata") or {}
            self.failures.append(f"{qualified_name(metadata.get('namespace'), metadata.get('name'))}: {what}")

    @property
    def message(self) -> str:
        """What was found, or how far it is."""
        if not self.done:
            of = f", about {self.remaining} remain" if self.remaining else ""
            return f"{counted(self.objects, 'object')} converted so far{of}"
        if not self.failed:
            return f"{counted(self.objects, 'object')} converted to every version and back"
        more = f"; and {self.failed - len(self.failures)} more" if self.failed > len(self.failures) else ""
        return f"{self.failed} of {counted(self.objects, 'object')} failed: " + "; ".join(self.failures) + more


def _told(broken: BrokenLaw) -> str:
    way = " -> ".join(broken.way)
    places = ", ".join(_differing(broken))
    what = broken.message or (f"{places} would change" if places else "it would change")
    return f"{broken.law.value}, {way}: {what}"


def _differing(broken: BrokenLaw) -> Iterator[str]:
    """Yield the first fields that differ."""
    left, right = dict(leaves(broken.before)), dict(leaves(broken.after))
    found = 0
    for place in dict.fromkeys((*left, *right)):
        if place in broken.forgiven or (place in left and place in right and same(left[place], right[place])):
            continue
        yield pointer(tuple(place))
        found += 1
        if found >= _FIELDS:
            return
