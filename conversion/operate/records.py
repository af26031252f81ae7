"""The leader's reads and writes of the ConfigMap of each CRD (``restow.conversion.operate.revisions``).

A write names the resourceVersion that it is based on. A leader that has lost its Lease may have a write on its way:
it must not undo what the next leader has written.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Final

import msgspec

from restow.conversion.operate.revisions import LABEL, RevisionRecord, record_name
from restow.kube import Cluster, PatchType
from restow.kube.errors import Conflict, NotFound
from restow.kube.resources import CONFIG_MAPS

#: Attempts of one write: each replica writes its report into the same ConfigMap.
_ATTEMPTS: Final = 5


@dataclass(frozen=True, slots=True)
class Records:
    """The ConfigMaps in a namespace."""

    cluster: Cluster
    namespace: str

    async def read(self, crd: str) -> RevisionRecord:
        """Return the record of a CRD; an empty one if there is none.

        Raises:
            KubeError: the API server refuses the request, or cannot be reached.
        """
        try:
            return RevisionRecord.read((await self.cluster.get(CONFIG_MAPS, record_name(crd), self.namespace)).json())
        except NotFound:
            return RevisionRecord(crd)

    async def write(
        self, record: RevisionRecord, *, live: frozenset[str] | None = None, **changes: Any
    ) -> RevisionRecord:
        """Write the leader's entries (see ``RevisionRecord.patch``); return the record from the API server's answer.

        Raises:
            Conflict: another leader has written since.
            NotFound: the record was deleted since.
            KubeError: the API server refuses a request, or cannot be reached.
        """
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                return await self._write(record, record.patch(live=live, **changes))
            except Conflict:
                now = await self.read(record.crd)
                if attempt == _ATTEMPTS or _of_leader(now) != _of_leader(record):
                    raise
                record = now
        raise AssertionError("the last attempt returns or raises")

    async def _write(self, record: RevisionRecord, body: dict[str, Any]) -> RevisionRecord:
        name = record_name(record.crd)
        if record.version:
            body["metadata"] = {"resourceVersion": record.version}
            encoded = msgspec.json.encode(body)
            reply = await self.cluster.patch(CONFIG_MAPS, name, encoded, self.namespace, patch_type=PatchType.MERGE)
            return RevisionRecord.read(reply.json())
        whole = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": name, "labels": {LABEL: "rules"}},
            **{part: {key: text for key, text in found.items() if text is not None} for part, found in body.items()},
        }
        return RevisionRecord.read(
            (await self.cluster.create(CONFIG_MAPS, msgspec.json.encode(whole), self.namespace)).json()
        )

    async def drop(self, crd: str) -> None:
        """Delete the record of a CRD.

        Raises:
            KubeError: the API server refuses the request, or cannot be reached.
        """
        try:
            await self.cluster.delete(CONFIG_MAPS, record_name(crd), self.namespace)
        except NotFound:
            return


def _of_leader(record: RevisionRecord) -> RevisionRecord:
    return replace(record, reports={}, version="")
