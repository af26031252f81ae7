"""Discovery documents, and the resources among them that the garbage collector follows. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from restow.kube.resources import Resource

__all__ = ["CORE", "Group", "Groups", "Listing", "followed", "groups_decoder", "listing_decoder", "resources_path"]

_IGNORED = frozenset({("", "events"), ("events.k8s.io", "events")})
"""What the garbage collector leaves alone (its DefaultIgnoredResources): most of a cluster's objects, often."""

_FOLLOWED = frozenset({"delete", "list", "watch"})
"""The verbs without which the garbage collector does not follow a resource (its GetDeletableResources)."""


class _Version(msgspec.Struct, frozen=True):
    version: str


class Group(msgspec.Struct, frozen=True):
    """``APIGroup``: a group, its versions in the server's order, and the preferred one."""

    name: str
    versions: tuple[_Version, ...] = ()
    preferred: _Version = msgspec.field(name="preferredVersion", default=_Version(""))

    @property
    def ordered(self) -> list[str]:
        """The versions, the preferred one first."""
        names = (self.preferred.version, *(each.version for each in self.versions))
        return [name for name in dict.fromkeys(names) if name]


CORE = Group("", (_Version("v1"),))
"""The group of Pods and Secrets, which ``/apis`` does not name; it has had one version for ever."""


class Groups(msgspec.Struct, frozen=True):
    """``APIGroupList``."""

    groups: tuple[Group, ...] = ()


class _Found(msgspec.Struct, frozen=True):
    name: str
    namespaced: bool = False
    verbs: tuple[str, ...] = ()
    stored_as: str = msgspec.field(name="storageVersionHash", default="")


class Listing(msgspec.Struct, frozen=True):
    """``APIResourceList``: the resources of one version of a group."""

    resources: tuple[_Found, ...] | None = ()


groups_decoder = msgspec.json.Decoder(Groups)
listing_decoder = msgspec.json.Decoder(Listing)


def resources_path(group: str, version: str) -> str:
    """Return the path of the document that lists a version's resources."""
    return f"/apis/{group}/{version}" if group else f"/api/{version}"


def followed(documents: Iterable[tuple[str, str, Listing]]) -> Iterator[Resource]:
    """Yield each resource that the garbage collector follows, at the first of its versions.

    Objects that are served under two groups are yielded under the first: the server says by a hash what it stores
    (``storageVersionHash``). Subresources have no list of their own.

    Args:
        documents: ``(group, version, what it lists)``, the preferred version of each group first.
    """
    seen: set[tuple[str, str]] = set()
    stored: set[tuple[str, str]] = set()
    for group, version, document in documents:
        for each in document.resources or ():
            what, storage = (group, each.name), (each.name, each.stored_as)
            if "/" in each.name or not set(each.verbs) >= _FOLLOWED or what in _IGNORED:
                continue
            if what in seen or (each.stored_as and storage in stored):
                continue
            seen.add(what)
            stored.add(storage)
            yield Resource(group, version, each.name, namespaced=each.namespaced)
