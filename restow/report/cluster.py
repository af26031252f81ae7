"""Read a live cluster for a page: the metadata of objects, page by page, of which it keeps only counts."""

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
"""The largest number of profiles to draw; the others are only counted."""


async def look_at(
    cluster: Cluster, crd: Crd, word: str, references: Collection[FoundReferences] | None = None
) -> CrdView:
    """Count the objects of a CRD and the owners of their fields. The view says why objects cannot be listed.

    Args:
        cluster: the API server.
        crd: the CRD as read from the cluster.
        word: the state of the CRD in a word or two.
        references: references to its versions from elsewhere in the cluster; None without a search.

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
    """Return why a CRD's objects cannot be listed, else an empty text. A page needs less of a CRD than a migration."""
    if not crd.established:
        return f"{crd.name} is not established, so the API server does not serve it"
    if not crd.storage.served:
        return (
            f"the storage version {crd.storage.name} of {crd.name} is not served, so its objects cannot be listed at "
            "it. Set served: true for it, or make a served version the storage version"
        )
    return ""


async def profiles(cluster: Cluster, now: datetime) -> tuple[tuple[ProfileView, ...], int]:
    """Return the lifecycles of the cluster's CloudProfiles, and the number of profiles beyond the limit.

    The lifecycles of a NamespacedCloudProfile are those of its rendered profile.

    Raises:
        KubeError: the API server cannot be reached, or refuses a request.
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
