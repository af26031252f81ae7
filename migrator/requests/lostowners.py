"""Record on the CRD which objects a run left without field owners, so that later runs can report them.

Such an object does not show its loss: it is stored at the storage version, and has no entry to translate. The log of a
Job's first pod no longer exists by then. The names stay in an annotation of the CRD until each of these objects has
owners again, or is deleted. The length of the annotation is limited; further objects are only counted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import msgspec

from restow.crds import Crd, CrdError
from restow.kube.cluster import Cluster
from restow.kube.errors import Conflict, KubeError, NotFound, OutcomeUnknown
from restow.kube.retry import with_retries
from restow.migrator.model.callbacks import MigrationRefused
from restow.migrator.ownership.entries import FIELD_MANAGER
from restow.migrator.requests.crdaccess import annotate, read_crd
from restow.migrator.requests.wire import object_decoder

ANNOTATION = "restow.dev/owners-lost"
MOST_NAMED = 100
"""The most objects by name: at most 50 KiB of the 256 KiB that all annotations of a CRD share."""

_ATTEMPTS = 5
_SHOWN = 10


class _Record(msgspec.Struct, frozen=True):
    objects: list[str]
    more: int = 0


@dataclass(frozen=True, slots=True)
class LostOwners:
    """Objects without owners.

    Attributes:
        names: ``namespace/name``, or ``name`` of cluster-scoped objects.
        more: the number of further objects whose names did not fit.
    """

    names: tuple[str, ...] = ()
    more: int = 0

    @classmethod
    def noted_on(cls, crd: Crd) -> LostOwners:
        """Return the record in the CRD's annotation; an empty one if there is none or it cannot be decoded."""
        try:
            record = msgspec.json.decode(crd.annotations.get(ANNOTATION, ""), type=_Record)
        except msgspec.MsgspecError:
            return cls()
        return cls(tuple(record.objects[:MOST_NAMED]), record.more)

    def joined(self, names: Iterable[str], more: int = 0) -> LostOwners:
        """Return this record with more objects; names beyond the limit are only counted."""
        known = tuple(dict.fromkeys((*self.names, *sorted(names))))
        return LostOwners(known[:MOST_NAMED], self.more + more + len(known[MOST_NAMED:]))

    def encode(self) -> str | None:
        """Return the annotation's value; None, which removes it, if there is nothing to record."""
        if not self.names:
            return None
        return msgspec.json.encode(_Record(list(self.names), self.more)).decode()

    @property
    def sentence(self) -> str:
        """Return the warning for the user; empty if all objects have owners."""
        if not self.names:
            return ""
        more = len(self.names) - _SHOWN + self.more if len(self.names) > _SHOWN else self.more
        return (
            f"an earlier run left objects without field owners, and they still have none: "
            f"{', '.join(self.names[:_SHOWN])}{f' and {more} more' if more > 0 else ''}. Have each manager apply them "
            "once more; where it also changes a field, it needs --force-conflicts"
        )


async def still_lost(cluster: Cluster, crd: Crd, *, forget: bool = True) -> LostOwners:
    """Return the recorded objects that still have no owner, and remove the others from the record.

    Args:
        cluster: the API server.
        crd: the CRD as just read.
        forget: whether to update the annotation; a run that stores nothing does not.
    """
    noted = LostOwners.noted_on(crd)
    left = [name for name in noted.names if await _without_owners(cluster, crd, name)]
    still = LostOwners(tuple(left), noted.more if left else 0)
    if forget and still != noted:
        done = set(noted.names) - set(left)
        await _note(cluster, crd.name, lambda now: _without(now, done))
    return still


async def remember(cluster: Cluster, name: str, names: Iterable[str], more: int = 0) -> str:
    """Add objects to the record of a CRD; return the API server's message if it refuses the write."""
    return await _note(cluster, name, lambda now: now.joined(names, more))


def _without(now: LostOwners, done: set[str]) -> LostOwners:
    left = tuple(name for name in now.names if name not in done)
    return LostOwners(left, now.more if left else 0)


async def _without_owners(cluster: Cluster, crd: Crd, where: str) -> bool:
    namespace, _, name = where.rpartition("/")
    try:
        reply = await with_retries(cluster).get(
            crd.resource_at(crd.storage.name), name, namespace or None, metadata_only=True
        )
    except NotFound:
        return False
    except KubeError:
        return True  # not readable now; the next run checks again
    entries = reply.decode(object_decoder).metadata.managed_fields
    return all(entry.manager == FIELD_MANAGER for entry in entries)


async def _note(cluster: Cluster, name: str, change: Callable[[LostOwners], LostOwners]) -> str:
    """Change the record, and repeat if another client writes the CRD in between, as concurrent shards do."""
    cluster, conflicts = with_retries(cluster), 0
    while conflicts < _ATTEMPTS:
        try:
            crd = await read_crd(cluster, name)
            return await annotate(cluster, crd, {ANNOTATION: change(LostOwners.noted_on(crd)).encode()}, unchanged=True)
        except Conflict as conflict:
            conflicts += not isinstance(conflict, OutcomeUnknown)
        except KubeError as error:
            return error.said
        except (MigrationRefused, CrdError) as error:
            return str(error)
    return f"{name} is written by others all the time"
