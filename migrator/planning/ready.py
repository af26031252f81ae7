"""Decide whether a version may be unserved or removed now (``ready``).

A version may be removed once five conditions hold:

- No object is stored at it. The API server refuses the removal while storedVersions names the version, but does not
  check that storedVersions is correct. Therefore restow requires its own proof (``decide.proof``). An object stored at
  a removed version can no longer be read, and one such object fails every LIST of the kind.
- No API server lags behind the CRD and could store an object at the version (``requests.apiservers``).
- No managedFields entry names it. Otherwise every later server-side apply of that object fails (Kubernetes issue
  111937).
- No reference that fails without the version names it: no ownerReference, typed reference, Helm release, inventory or
  admission rule (``migrator.references``). This is also a condition for unserving.
- The CRD did not change during these checks.

Each call checks objects and API servers again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from restow.crds import Crd
from restow.kube.cluster import Cluster
from restow.kube.suggestions import did_you_mean
from restow.migrator.decide.proof import ANNOTATION, failed_prune, what_is_proved
from restow.migrator.model.callbacks import MigrationRefused
from restow.migrator.planning.dryrun import StripCheck
from restow.migrator.references.reference import (
    MOST_EXAMPLES,
    FoundReferences,
    ReferenceKind,
    against_removal,
    against_unserving,
    not_looked_at,
    sought,
)
from restow.migrator.references.scan import STANDING_KINDS, find_references
from restow.migrator.requests.apiservers import ApiServers
from restow.migrator.requests.crdaccess import read_crd
from restow.migrator.requests.native import left_behind, without_condition
from restow.migrator.requests.passes import scan
from restow.migrator.requests.preflight import refusal, rehearse_mark


@dataclass(frozen=True, slots=True)
class Readiness:
    """The answer for one version.

    Attributes:
        crd: the name of the CRD.
        version: the version to unserve or remove.
        against_unserving, against_removal: sentences with the reasons against the step; empty if it is safe.
        notes: sentences about what restow cannot see, and about what follows the step.
        served: whether the version is still served, so that clients may write entries of it after the answer.
        standing: those notes that hold for every served version, or for all entries with a conversion webhook.
        objects: the number of checked objects.
        owners: the numbers of objects with entries at the version, by manager.
        references: references to the version in the cluster; None without a search.
        would_strip: the numbers of its entries that a migration would strip once it is unserved, by manager, among the
            tried objects.
        tried: the number of tried objects.
    """

    crd: str
    version: str
    against_unserving: tuple[str, ...]
    against_removal: tuple[str, ...]
    notes: tuple[str, ...]
    objects: int
    owners: dict[str, int] = field(default_factory=dict)
    references: FoundReferences | None = None
    would_strip: dict[str, int] = field(default_factory=dict)
    tried: int = 0
    served: bool = False
    standing: tuple[str, ...] = ()

    @property
    def ready(self) -> bool:
        """Whether the version can be removed now."""
        return not self.against_removal

    def to_json(self) -> dict[str, Any]:
        """Return the JSON of ``restow ready -o json``."""
        return {
            "name": self.crd,
            "version": self.version,
            "mayBeUnserved": not self.against_unserving,
            "mayBeRemoved": not self.against_removal,
            "againstUnserving": list(self.against_unserving),
            "againstRemoval": list(self.against_removal),
            "notes": list(self.notes),
            "objects": self.objects,
            "owners": [{"manager": name, "objects": count} for name, count in sorted(self.owners.items())],
            "dependents": _dependents(self.references) if self.references else None,
            "references": [each.to_json() for each in self.references.references] if self.references else None,
            "notLookedAt": [each.to_json() for each in self.references.not_looked_at] if self.references else None,
            "wouldStrip": [{"manager": name, "entries": count} for name, count in sorted(self.would_strip.items())],
            "tried": self.tried,
        }


def _dependents(found: FoundReferences) -> list[dict[str, Any]]:
    """Return the objects with ownerReferences at the version, by resource."""
    return [
        {"resource": resource, "count": objects, "examples": [each.key for each in kept[:MOST_EXAMPLES]]}
        for resource, objects, kept in found.of_kind(ReferenceKind.OWNER_REFERENCES)
    ]


@dataclass(frozen=True, slots=True)
class Servers:
    """The API servers' knowledge of a CRD: reasons against a removal, and notes about unchecked servers."""

    against: tuple[str, ...] = ()
    unseen: tuple[str, ...] = ()


_ALL_SEEN = Servers()


def judge(
    crd: Crd,
    version: str,
    *,
    objects: int,
    owners: dict[str, int],
    references: FoundReferences | None,
    servers: Servers = _ALL_SEEN,
    no_mark: str = "",
) -> Readiness:
    """Judge from the results of the checks.

    Args:
        crd: the CRD as read before the checks.
        version: the version to unserve or remove.
        objects: the number of checked objects of the CRD.
        owners: the numbers of objects with entries at the version, by manager.
        references: references to the version in the cluster; None without a search.
        servers: the API servers' knowledge of the CRD.
        no_mark: why no run can leave its mark on the CRD, and what to do; or empty.
    """
    unserving: list[str] = []
    removal: list[str] = []
    notes: list[str] = []
    standing: list[str] = []
    found = crd.version(version)
    others = [name for name in crd.served if name != version]
    if version == crd.storage.name:
        because = f"{version} is the storage version: make another version the storage version first, then migrate"
        unserving.append(because)
        removal.append(because)
    if not others:
        because = f"no other version is served: without {version} the objects could not be reached at all"
        unserving.append(because)
        removal.append(because)
    migrate = no_mark or f"run restow migrate {crd.name}"
    if version in crd.stored_versions and version != crd.storage.name:
        removal.append(f"status.storedVersions names {version}: objects may be stored at it; {migrate}")
    elif found is not None and not found.storage and (doubt := what_is_proved(crd).doubt):
        removal.append(f"{doubt}, so objects may be stored at {version}; {migrate}")
    removal += servers.against
    notes += servers.unseen
    if owners:
        total = sum(owners.values())
        who = ", ".join(f"{name} ({count})" for name, count in sorted(owners.items()))
        are = "entry is" if total == 1 else "entries are"
        first = f"unserve {version}, so that no client writes them again, then " if version in crd.served else ""
        removal.append(
            f"{total} managedFields {are} at {version}, of {who}: once it is gone, server-side apply of these "
            f"objects would fail; {first}run restow migrate {crd.name}"
        )
        if crd.strategy != "None":
            standing.append(
                "those entries are translated by converting what they own: keep the conversion webhook, or a registry, "
                f"converting {version} until none is left, also after the version has left {crd.name}"
            )
    if references is None:
        notes.append(
            f"restow has not looked here for ownerReferences and other references to {crd.group}/{version}, which need "
            f"it served: run restow references {crd.name} --version {version} before it is unserved or removed"
        )
    else:
        unserving += against_unserving(crd, version, references)
        removal += against_removal(crd, version, references)
        if note := not_looked_at(crd, version, references):
            notes.append(note)
    if crd.strategy != "None" and (note := _conversion_afterwards(crd, version, removable=not removal)):
        notes.append(note)
    if found is None:
        notes.append(f"{version} is not among the versions of {crd.name} any more")
    elif found.served:
        standing.append(
            f"{version} is still served: its clients cannot all be seen from here, they may write entries of it again "
            "until it is unserved, and will be refused from then on. restow references "
            f"{crd.name} --version {version} shows the requests that the API server counted, and with --audit-log who "
            "made them; with --files it looks through manifests"
        )
    return Readiness(
        crd.name,
        version,
        tuple(unserving),
        tuple(removal),
        (*notes, *standing),
        objects,
        owners,
        references,
        served=found is not None and found.served,
        standing=tuple(standing),
    )


def _conversion_afterwards(crd: Crd, version: str, *, removable: bool) -> str:
    """Return a sentence about whether conversion is still needed once the version is removed."""
    left = [each.name for each in crd.versions if each.name not in (version, crd.storage.name)]
    if left:
        return (
            f"without {version} conversion is still called for, since {crd.storage.name} is not the only version left "
            f"(there is {', '.join(left)}): keep the conversion webhook"
        )
    if not removable:
        return ""
    return (
        f"without {version} only {crd.storage.name} is left and nothing calls for conversion: set "
        "spec.conversion.strategy to None in the same change, and the conversion webhook may go after it"
    )


async def ready(
    cluster: Cluster, crd: Crd, version: str, *, api_servers: Sequence[str] = (), references: bool = True
) -> Readiness:
    """Decide from all objects of a CRD, from references to the version in the cluster, and from the API servers.

    Args:
        cluster: the API server.
        crd: the CRD as just read.
        version: the version to unserve or remove.
        api_servers: ``https://host:port`` of further API servers of the cluster.
        references: whether to search all resources for references to the version.

    Raises:
        MigrationRefused: the objects cannot be listed in the CRD's present state, or neither the CRD nor any object
            names the version.
        ListFailed: no attempt could read a page of the objects.
        KubeError: the API server cannot be reached.
    """
    left = await left_behind(cluster, crd) if crd.storage_migrating else ""
    if why := refusal(without_condition(crd) if left else crd):
        raise MigrationRefused(why)
    check = StripCheck(cluster, crd, version)
    objects, owners = await _count(cluster, crd, version, check)
    losses = await check.losses()
    of = sought(crd, version)
    named_by = (await find_references(cluster, [of], kinds=STANDING_KINDS))[of] if references else None
    servers = await _look_at_servers(cluster, crd, api_servers)
    no_mark = await rehearse_mark(cluster, crd) if what_is_proved(crd).doubt else ""
    named = version in crd.stored_versions or owners or (named_by is not None and named_by.count)
    if crd.version(version) is None and not named:
        names = ", ".join(each.name for each in crd.versions)
        msg = (
            f"{crd.name} has no version {version}, and no managedFields entry or other reference names it: its "
            f"versions are {names}"
        )
        if advice := did_you_mean(version, [each.name for each in crd.versions]):
            msg += f"; {advice}"
        raise MigrationRefused(msg)
    answer = judge(
        crd,
        version,
        objects=objects,
        owners=owners,
        references=named_by,
        servers=servers,
        no_mark=no_mark,
    )
    notes = (*answer.notes, *filter(None, [losses.note, left]))
    return replace(answer, notes=notes, would_strip=losses.owners, tried=losses.tried)


async def _look_at_servers(cluster: Cluster, crd: Crd, urls: Sequence[str]) -> Servers:
    """Check the API servers, and then that the CRD has not changed meanwhile."""
    against = []
    async with ApiServers(cluster, urls) as servers:
        if behind := await servers.behind(crd):
            against.append(f"{behind}; ask again once it follows")
        unseen = tuple(servers.unseen)
    now = await read_crd(cluster, crd.name)
    if _judged_by(now) != _judged_by(crd):
        against.append(f"{crd.name} was changed while its objects were looked at; ask again")
    return Servers(tuple(against), unseen)


def _judged_by(crd: Crd) -> tuple[object, ...]:
    return crd.uid, crd.generation, crd.stored_versions, crd.annotations.get(ANNOTATION), failed_prune(crd)


async def _count(cluster: Cluster, crd: Crd, version: str, check: StripCheck) -> tuple[int, dict[str, int]]:
    """Return the number of objects, and those with entries at the version by manager."""
    api_version = f"{crd.group}/{version}"
    owners: Counter[str] = Counter()
    objects = 0
    async for meta in scan(cluster, crd):
        objects += 1
        check.offer(meta)
        owners.update({entry.manager for entry in meta.managed_fields if entry.api_version == api_version})
    return objects, dict(owners)
