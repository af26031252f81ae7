"""The records of a CRD's shards, in a ConfigMap that every shard reads and writes by compare-and-swap.

It stands in the namespace of the context, or of the pod, and is named after the CRD. Whoever may write it can make a
shard believe that others are done, and so prune: keep that right to the migration's own service account.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Mapping
from typing import Any

import msgspec

from restow.crds import Crd
from restow.kube.cluster import Cluster
from restow.kube.errors import Conflict, Forbidden, KubeError, NotFound
from restow.kube.resources import CONFIG_MAPS, CRDS
from restow.kube.retry import patient
from restow.migrator.preflight import Refused
from restow.migrator.sharding.shards import Record, decode_records, encode_records

__all__ = ["Ledger", "ledger_name"]

_ATTEMPTS = 50  # every 409 means that another shard got on (there are not many), or that an answer was lost
_LONGEST_NAME = 253


def ledger_name(crd: Crd) -> str:
    """The ConfigMap's name; a CRD's name may be as long as a name can be."""
    name = f"restow-shards.{crd.name}"
    if len(name) <= _LONGEST_NAME:
        return name
    return f"restow-shards.{hashlib.sha256(crd.name.encode()).hexdigest()[:32]}"


class Ledger:
    """The ConfigMap of one CRD."""

    def __init__(self, cluster: Cluster, crd: Crd) -> None:
        self._cluster = patient(cluster)
        self._crd = crd
        self._name = ledger_name(crd)
        self._namespace = cluster.default_namespace
        self._document: dict[str, Any] | None = None

    def __str__(self) -> str:
        return CONFIG_MAPS.describe(self._namespace, self._name)

    async def open(self) -> tuple[Record, ...]:
        """Read the records, and make sure that one more can be written, before any work is done for it.

        Raises:
            Refused: a right is missing, or the namespace.
            KubeError: the API server cannot be reached.
        """
        try:
            await self._read()
            if self._document is None:
                await self._write((), {})
            await self._write(self._records(), {"dryRun": "All"})
        except (Forbidden, NotFound) as error:
            msg = (
                f"shards leave their records in {self}, and that cannot be done: {error.message}. Grant get, create "
                "and update of configmaps there, or choose another namespace by the context"
            )
            raise Refused(msg) from error
        except Conflict:
            await self._read()  # another shard is writing: so can we
        return self._records()

    async def read(self) -> tuple[Record, ...]:
        """Return the records of this CRD (of its uid) as they are now."""
        await self._read()
        return self._records()

    async def add(self, record: Record) -> tuple[Record, ...]:
        """Leave a record in place of the shard's last one; return all that there are then.

        Raises:
            KubeError: it could not be left; it may have been, where no answer came for as long as is waited.
        """
        for attempt in range(1, _ATTEMPTS + 1):
            kept = (each for each in self._records() if (each.index, each.count) != (record.index, record.count))
            try:
                await self._write((*kept, record), {})
                break
            except Conflict:
                if attempt == _ATTEMPTS:
                    raise
                await self._read()
        return self._records()

    async def clear(self) -> None:
        """Take the records away once all parts are done and pruned: the next migration begins with none.

        Best effort: where it does not work, the next one's first shard is told of records that are out of date.
        """
        with contextlib.suppress(KubeError):
            await self._read()
            if self._records():
                await self._write((), {})

    async def _read(self) -> None:
        try:
            reply = await self._cluster.get(CONFIG_MAPS, self._name, self._namespace)
        except NotFound as error:
            if not error.names(CONFIG_MAPS.plural, self._name):
                raise
            self._document = None
        else:
            self._document = reply.json()

    async def _write(self, records: tuple[Record, ...], params: Mapping[str, str]) -> None:
        """Create the ConfigMap, or replace the one read last; a Conflict if it is not that any more."""
        data = encode_records(records)
        if self._document is None:
            new = {
                "apiVersion": CONFIG_MAPS.api_version,
                "kind": "ConfigMap",
                "metadata": {"name": self._name, "namespace": self._namespace, "ownerReferences": [self._owner()]},
                "data": data,
            }
            body = msgspec.json.encode(new)
            reply = await self._cluster.create(CONFIG_MAPS, body, self._namespace, params=params)
        else:
            metadata = self._document["metadata"] | {"ownerReferences": [self._owner()]}
            changed = self._document | {"metadata": metadata, "data": data}
            body = msgspec.json.encode(changed)
            reply = await self._cluster.replace(CONFIG_MAPS, self._name, body, self._namespace, params=params)
        if not params:
            self._document = reply.json()

    def _records(self) -> tuple[Record, ...]:
        data = (self._document or {}).get("data") or {}
        return tuple(record for record in decode_records(data) if record.uid == self._crd.uid)

    def _owner(self) -> dict[str, str]:
        """The CRD: once it is deleted, so are the records of it."""
        return {
            "apiVersion": CRDS.api_version,
            "kind": "CustomResourceDefinition",
            "name": self._crd.name,
            "uid": self._crd.uid,
        }
