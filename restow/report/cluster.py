"""Reads what a page shows of a live cluster: metadata of objects page by page, of which only counts are kept."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Mapping
from datetime import datetime
from typing import Any

from restow.cloudprofile.objects import CLOUD_PROFILES, NAMESPACED_CLOUD_PROFILES
from restow.cloudprofile.versions.chart import rows_of, window_of
from restow.crds import Crd
from restow.kube.cluster import Cluster
from restow.kube.errors import NotFound
from restow.kube.pager import list_pages
from restow.kube.resources import Resource, qualified_name
from restow.migrator import FoundReferences, ListFailed
from restow.migrator.requests.listfailure import explain_list_failure
from restow.migrator.requests.passes import scan
from restow.report.model import CrdView, ProfileView
from restow.report.views import OwnerCounts, view

__all__ = ["MOST_PROFILES", "look_at", "profile", "profiles"]

MOST_PROFILES = 100
"""Profiles that are drawn; the rest is counted."""


async def look_at(
    cluster: Cluster, crd: Crd, word: str, references: Collection[FoundReferences] | None = None
) -> CrdView:
    """Count the objects of a CRD and who owns their fields. What cannot be listed is said in the view.

    Args:
        cluster: the API server.
        crd: the CRD as read.
        word: its state in a word or two.
        references: what else in the cluster names its versions; None if it was not looked for.

    Raises:
        KubeError: the API server cannot be reached.
    """
    if why := _unlistable(crd):
        return view(crd, word, None, why, references)
    tally = OwnerCounts(crd.storage.api_version)
    try:
        async for meta in scan(cluster, crd):
            tally.add(meta.managed_fields)
    except ListFailed as failure:
        return view(crd, word, None, str(await explain_list_failure(cluster, crd, failure)), references)
    return view(crd, word, tally, references=references)


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
    try:
        async for page in list_pages(cluster, resource, limit=20):  # a profile can be a megabyte
            for item in page:
                yield item
    except NotFound:
        return  # the CRD is not installed


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
