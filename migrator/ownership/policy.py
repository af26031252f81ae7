"""The policy for each managedFields entry of one CRD: rename, reconcile, translate, drop or keep.

A run decides it once, from the CRD alone (``restow.migrator.decide.policies``), and looks it up for each entry.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

from restow.crds import Schema
from restow.migrator.model.watermark import is_newer


class EntryPolicy(StrEnum):
    """The policy for an entry.

    - ``current``: the entry is already at the storage version.
    - ``rename``: only the apiVersion changes; the field set stays.
    - ``reconcile``: the field set has to be reconciled with another schema, which needs the live object.
    - ``reconcile-unknown``: the same, from a version whose schema is no longer known.
    - ``translate``: the owned part has to be converted (``ownership.translation``).
    - ``drop``: the entry is stripped.
    - ``keep``: the entry stays unchanged.
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
    """The rules for the decisions about each object of one CRD.

    Attributes:
        storage: the apiVersion (``group/version``) to store and own at.
        by_version: the policy of each apiVersion that the CRD has.
        removed: the policy of every other apiVersion.
        present: the apiVersions that the CRD has; the server can convert only entries of these.
        served: the served ones of them.
        reencode: whether every object has to be written, because no proof shows that it is stored at the storage
            version.
        written_since: the resourceVersion after which everything was written at the storage version, or empty.
        new_defaults: paths of defaults that a write would persist into an object stored at an older version.
        schemas: the schemas by apiVersion, for reconciling.
        whole_objects: whether the decision needs whole objects: entries are reconciled with the live object, or values
            may be of a type that the storage version does not admit, or entries grow because the version has a longer
            name (``fitted``).
        hazards: defaults that an older version does not declare, by its apiVersion; see ``decide.policies``.
        grows: bytes by which an object grows, because the name of the storage version is longer.
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
        """Return the rules for one object: an object written after ``written_since`` need not be re-encoded."""
        if not (self.reencode and self.written_since and is_newer(resource_version, self.written_since)):
            return self
        return replace(self, reencode=False)

    def may_convert(self, api_version: str) -> bool:
        """Return whether a converter may know this apiVersion; entries of other groups come from restored backups."""
        return api_version.rpartition("/")[0] == self.storage.rpartition("/")[0]

    @property
    def translates(self) -> bool:
        """Whether entries of the CRD's versions are converted, which needs whole objects."""
        return EntryPolicy.TRANSLATE in self.by_version.values()
