"""The policy for each managedFields entry of one CRD: rename, reconcile, translate, drop or keep.

A run decides it once, from the CRD alone (``restow.migrator.decide.policies``), and looks it up for each entry.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

from restow.crds import Schema
from restow.migrator.model.watermark import is_newer

__all__ = ["EntryPolicies", "EntryPolicy"]


class EntryPolicy(StrEnum):
    """What happens to an entry.

    - ``current``: it is at the storage version already.
    - ``rename``: its field set is right as it is, only its apiVersion changes.
    - ``reconcile``: its field set has to be reconciled with another schema, which takes the live object.
    - ``reconcile-unknown``: the same, from a version whose schema is no longer known.
    - ``translate``: what it owns has to be sent through the converter (``ownership.translation``).
    - ``drop``: it is stripped.
    - ``keep``: it stays as it is.
    """

    CURRENT = "current"
    RENAME = "rename"
    RECONCILE = "reconcile"
    RECONCILE_UNKNOWN = "reconcile-unknown"
    TRANSLATE = "translate"
    DROP = "drop"
    KEEP = "keep"


@dataclass(frozen=True, slots=True)
class EntryPolicies:
    """The rules by which each object of one CRD is decided.

    Attributes:
        storage: apiVersion (``group/version``) to store and own at.
        by_version: policy of each apiVersion that the CRD has.
        removed: policy of every other apiVersion.
        present: the apiVersions that the CRD has; the server can convert entries of these only.
        served: those of them whose clients are still served.
        reencode: whether every object has to be written, since no proof says that it is stored at the storage version.
        written_since: the resourceVersion after which everything was written at the storage version, or empty.
        new_defaults: paths of defaults that a write would persist into an object stored at an older version.
        schemas: schema by apiVersion, for reconciling.
        whole_objects: whether objects have to be listed whole to be decided: entries are reconciled with what is there,
            or values may be of a type that the storage version does not admit, or entries grow by a longer name of the
            version (``fitted``).
        hazards: defaults that an older version does not declare, by its apiVersion; see ``decide.policies``.
        grows: bytes by which an object grows, since the name of the storage version is longer.
    """

    storage: str
    by_version: Mapping[str, EntryPolicy]
    removed: EntryPolicy
    present: frozenset[str]
    served: frozenset[str]
    reencode: bool
    new_defaults: tuple[str, ...]
    schemas: Mapping[str, Schema]
    whole_objects: bool
    written_since: str = ""
    grows: int = 0
    hazards: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def of(self, api_version: str) -> EntryPolicy:
        """Return the policy of an entry at this apiVersion."""
        return self.by_version.get(api_version, self.removed)

    def for_object(self, resource_version: str) -> EntryPolicies:
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
        return EntryPolicy.TRANSLATE in self.by_version.values()
