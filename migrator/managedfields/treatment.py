"""What happens to managedFields entries of each version of one CRD: decided once a run, looked up per entry.

Design §5: an entry of a version that is still served is translated or kept, never stripped, unless a flag says so;
stripping is for unserved and removed versions. Under strategy None every version's fields have the same paths, so each
entry can be translated by looking, even one whose version left the CRD. Under strategy Webhook only the converter can
say where a field went. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

from restow.crds import Crd, Schema, added_defaults, retyped_fields, topology_differences
from restow.migrator.managedfields.hazards import undeclared_defaults
from restow.migrator.model import ManagedFields, Options, Phase, Scope
from restow.migrator.proof import may_be_stored, reencoding_due
from restow.migrator.watermark import is_newer

__all__ = ["Treatment", "Treatments", "treatments"]


class Treatment(StrEnum):
    """What happens to an entry.

    - ``current``: it is at the storage version already.
    - ``rename``: its field set is right as it is, only its apiVersion changes.
    - ``reshape``: its field set has to be carried over with the live object in hand.
    - ``reshape-unknown``: as ``reshape``, from a version whose schema is not known any more.
    - ``translate``: what it owns has to be sent through the converter (``translation``).
    - ``drop``: it is stripped.
    - ``keep``: it stays as it is.
    """

    CURRENT = "current"
    RENAME = "rename"
    RESHAPE = "reshape"
    RESHAPE_UNKNOWN = "reshape-unknown"
    TRANSLATE = "translate"
    DROP = "drop"
    KEEP = "keep"


@dataclass(frozen=True, slots=True)
class Treatments:
    """The rules by which each object of one CRD is decided.

    Attributes:
        storage: apiVersion (``group/version``) to store and own at.
        by_version: treatment of each apiVersion that the CRD has.
        removed: treatment of every other apiVersion.
        present: the apiVersions that the CRD has; the server can convert entries of these only.
        served: those of them whose clients are still served.
        reencode: whether every object has to be written, since no proof says that it is stored at the storage version.
        written_since: the resourceVersion after which everything was written at the storage version, or empty.
        new_defaults: paths of defaults that a write would persist into an object stored at an older version.
        schemas: schema by apiVersion, for reshaping.
        whole_objects: whether objects have to be listed whole to be decided: entries are reshaped by what is there, or
            values may be of a type that the storage version does not admit, or entries grow by a longer name of the
            version (``fitting``).
        hazards: defaults that an older version does not declare, by its apiVersion; see ``hazards``.
        grows: bytes by which an object grows, since the name of the storage version is longer.
    """

    storage: str
    by_version: Mapping[str, Treatment]
    removed: Treatment
    present: frozenset[str]
    served: frozenset[str]
    reencode: bool
    new_defaults: tuple[str, ...]
    schemas: Mapping[str, Schema]
    whole_objects: bool
    written_since: str = ""
    grows: int = 0
    hazards: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def of(self, api_version: str) -> Treatment:
        """Return the treatment of an entry at this apiVersion."""
        return self.by_version.get(api_version, self.removed)

    def for_object(self, resource_version: str) -> Treatments:
        """Return the rules for one object: one that was written since has not to be re-encoded."""
        if not (self.reencode and self.written_since and is_newer(resource_version, self.written_since)):
            return self
        return replace(self, reencode=False)

    def may_convert(self, api_version: str) -> bool:
        """Whether a converter may know this apiVersion: entries of another group are leftovers of a restored backup."""
        return api_version.rpartition("/")[0] == self.storage.rpartition("/")[0]

    @property
    def translates(self) -> bool:
        """Whether entries of the CRD's versions are sent through the converter, which takes whole objects too."""
        return Treatment.TRANSLATE in self.by_version.values()


def treatments(crd: Crd, options: Options, *, completed: bool = False) -> Treatments:
    """Decide, from the CRD alone, what happens to the entries of each of its versions.

    Args:
        crd: the CRD as read at the start of the pass.
        options: what is asked for.
        completed: a proof says that a run with these options did the managedFields for exactly these versions; entries
            of served versions found now were written by clients since, and are theirs.
    """
    storage = crd.storage
    by_version = {version.api_version: _treatment(crd, version.name, options) for version in crd.versions}
    if completed:
        served = {version.api_version for version in crd.versions if version.served} - {storage.api_version}
        by_version |= dict.fromkeys(served, Treatment.KEEP)
    return Treatments(
        storage=storage.api_version,
        by_version=by_version,
        removed=_removed(crd, options),
        present=frozenset(by_version),
        served=frozenset(version.api_version for version in crd.versions if version.served),
        reencode=reencoding_due(crd, options),
        new_defaults=_persisted_defaults(crd, options),
        schemas={version.api_version: version.schema for version in crd.versions},
        whole_objects=any(
            _needs_objects(by_version[version.api_version], version.schema, storage.schema)
            or (by_version[version.api_version] is Treatment.RENAME and len(version.name) < len(storage.name))
            for version in crd.versions
        ),
        hazards={
            version.api_version: paths
            for version in crd.versions
            if crd.strategy == "None" and (paths := undeclared_defaults(version.schema, storage.schema))
        },
        grows=max(0, len(storage.name) - min(map(len, (storage.name, *may_be_stored(crd))))),
    )


def _persisted_defaults(crd: Crd, options: Options) -> tuple[str, ...]:
    """Defaults that objects stored at an older version lack, and that a plain write would persist in our name.

    Those of the status are not: with a status subresource a write of the object itself never owns any of it.
    """
    storage = crd.storage
    stored = {version.name for version in crd.versions} if options.ignore_mark else set(may_be_stored(crd))
    older = [version for version in crd.versions if version.name in stored and not version.storage]
    found = dict.fromkeys(
        path
        for version in older
        for path in added_defaults(version.schema, storage.schema, webhook=crd.strategy == "Webhook")
        if not (storage.has_status_subresource and path.startswith(".status"))
    )
    return tuple(found)


def _treatment(crd: Crd, name: str, options: Options) -> Treatment:
    version = crd.version(name)
    assert version is not None
    if version.storage:
        return Treatment.CURRENT
    if not _in_scope(options, served=version.served, removed=False):
        return Treatment.KEEP
    if options.managed_fields is ManagedFields.STRIP and (not version.served or options.strip_served):
        return Treatment.DROP
    if crd.strategy != "None":
        return Treatment.TRANSLATE
    if topology_differences(version.schema, crd.storage.schema):
        return Treatment.RESHAPE
    return Treatment.RENAME


def _needs_objects(treatment: Treatment, old: Schema, new: Schema) -> bool:
    if treatment in (Treatment.RENAME, Treatment.DROP):
        return bool(retyped_fields(old, new))
    return treatment is Treatment.RESHAPE


def _removed(crd: Crd, options: Options) -> Treatment:
    if not _in_scope(options, served=False, removed=True):
        return Treatment.KEEP
    if options.managed_fields is ManagedFields.STRIP:
        return Treatment.DROP
    return Treatment.TRANSLATE if crd.strategy != "None" else Treatment.RESHAPE_UNKNOWN


def _in_scope(options: Options, *, served: bool, removed: bool) -> bool:
    if not options.does(Phase.MANAGED_FIELDS) or options.managed_fields is ManagedFields.KEEP:
        return False
    if options.scope is Scope.NOT_STORAGE:
        return True
    if options.scope is Scope.UNSERVED:
        return not served
    return removed
