"""Reads what a page shows of a live cluster: metadata of objects page by page, of which only counts are kept."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from restow.cloudprofile.objects import CLOUD_PROFILES, NAMESPACED_CLOUD_PROFILES
from restow.cloudprofile.versions.chart import rows_of, window_of
from restow.crds import Crd
from restow.kube.cluster import Cluster
from restow.kube.errors import NotFound
from restow.kube.resources import Resource, qualified_name
from restow.migrator import ListFailed
from restow.migrator.engine.listfailure import explain_list_failure
from restow.migrator.engine.passes import scan
from restow.migrator.ownership.entries import ManagedFieldsEntry
from restow.report.model import CrdView, ProfileView
from restow.report.views import view

__all__ = ["MOST_OWNERS", "MOST_PROFILES", "EntryOwner", "OwnerCounts", "look_at", "profile", "profiles"]


MOST_PROFILES = 100
"""Profiles that are drawn; the rest is counted."""


async def look_at(cluster: Cluster, crd: Crd, word: str) -> CrdView:
    """Count the objects of a CRD and who owns their fields. What cannot be listed is said in the view.

    Raises:
        KubeError: the API server cannot be reached.
    """
    if why := _unlistable(crd):
        return view(crd, word, None, why)
    tally = OwnerCounts(crd.storage.api_version)
    try:
        async for meta in scan(cluster, crd):
            tally.add(meta.managed_fields)
    except ListFailed as failure:
        return view(crd, word, None, str(await explain_list_failure(cluster, crd, failure)))
    return view(crd, word, tally)


def _unlistable(crd: Crd) -> str:
    """Say why no object of a CRD can be listed. Unlike a migration, a look needs no more than that."""
    if not crd.established:
        return f"{crd.name} is not established, so the API server does not serve it"
    if not crd.storage.served:
        return (
            f"the storage version {crd.storage.name} of {crd.name} is not served, so its objects cannot be listed at "
            "it. Set served: true for it, or make a served version the storage version"
        )
    return ""


async def profiles(cluster: Cluster, now: datetime) -> tuple[tuple[ProfileView, ...], int]:
    """Return the lifecycles of the cluster's CloudProfiles, and how many profiles there are beyond the bound.

    Of a NamespacedCloudProfile those of its rendered profile.

    Raises:
        KubeError: the API server cannot be reached, or refuses.
    """
    found: list[ProfileView] = []
    more = 0
    for resource, kind in ((CLOUD_PROFILES, "CloudProfile"), (NAMESPACED_CLOUD_PROFILES, "NamespacedCloudProfile")):
        async for item in _items(cluster, resource):
            if len(found) < MOST_PROFILES:
                found.append(profile(kind, item, now))
            else:
                more += 1
    return tuple(found), more


async def _items(cluster: Cluster, resource: Resource) -> AsyncIterator[dict[str, Any]]:
    params = {"limit": "20"}  # a profile can be a megabyte
    while True:
        try:
            page = (await cluster.list_page(resource, params=params)).json()
        except NotFound:
            return  # the CRD is not installed
        for item in page["items"] or ():
            yield item
        token = page["metadata"].get("continue")
        if not token:
            return
        params["continue"] = token


MOST_OWNERS = 500
"""Pairs of manager and version that are counted one by one, for each CRD."""

_MOST_VERSIONS = 100


@dataclass(slots=True)
class EntryOwner:
    """How many objects have an entry of one manager at one version, and when the newest was written."""

    objects: int = 0
    newest: str = ""

    def add(self, time: str) -> None:
        """Count an object. Times are RFC 3339 in UTC, which compare as text."""
        self.objects += 1
        self.newest = max(self.newest, time)


@dataclass(slots=True)
class OwnerCounts:
    """The counts of one CRD.

    Attributes:
        storage: apiVersion of the storage version.
        objects: all of them.
        old: those with an entry at another version.
        by_version: objects with an entry, by apiVersion.
        owners: by (manager, apiVersion), for all but the storage version.
        others: entries of managers beyond the bound, by apiVersion.
    """

    storage: str
    objects: int = 0
    old: int = 0
    by_version: Counter[str] = field(default_factory=Counter)
    owners: dict[tuple[str, str], EntryOwner] = field(default_factory=dict)
    others: dict[str, EntryOwner] = field(default_factory=dict)

    def add(self, entries: Iterable[ManagedFieldsEntry]) -> None:
        """Count an object by its managedFields."""
        newest: dict[tuple[str, str], str] = {}
        for entry in entries:
            key = (entry.manager, entry.api_version)
            newest[key] = max(newest.get(key, ""), entry.time)
        self.objects += 1
        for version in {version for _, version in newest}:
            if version in self.by_version or len(self.by_version) < _MOST_VERSIONS:
                self.by_version[version] += 1
        old = {key: time for key, time in newest.items() if key[1] != self.storage}
        self.old += bool(old)
        for key, time in old.items():
            self._owner(key).add(time)

    def _owner(self, key: tuple[str, str]) -> EntryOwner:
        if key in self.owners or len(self.owners) < MOST_OWNERS:
            return self.owners.setdefault(key, EntryOwner())
        version = key[1] if key[1] in self.others or len(self.others) < _MOST_VERSIONS else ""
        return self.others.setdefault(version, EntryOwner())


def profile(kind: str, document: Mapping[str, Any], now: datetime) -> ProfileView:
    """Return the lifecycles of one profile at v1beta2."""
    metadata = document["metadata"]
    name = qualified_name(metadata.get("namespace"), metadata.get("name"))
    spec = document.get("spec") or {}
    if kind == "NamespacedCloudProfile":
        spec = (document.get("status") or {}).get("cloudProfileSpec") or spec
    try:
        window = window_of(spec, now)
        return ProfileView(kind, name, rows_of(spec, window), window)
    except ValueError as error:
        return ProfileView(kind, name, (), window_of({}, now), str(error))
