"""Whether the objects of a CRD need its conversion webhook, or the CRD may return to the conversion strategy None.

With the strategy None an API server changes only the apiVersion of an object. This is right for objects that are stored
and read at one version. If there are more versions, it is right for objects that have the same content at each of them.
Schemas do not show this, because a webhook may convert between equal schemas, for example units. Therefore this module
reads each object at each version and compares the results.

``status.storedVersions`` does not show where objects are stored, because every client may trim it. The caller passes
the proof that a migration leaves (``MayBeStored``).

Each object is read by a GET, because an API server answers a LIST from its watch cache, whose objects were converted
when they were written.

Rights: list and get on the objects.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from restow.conversion.explain.model import leaves
from restow.conversion.model.fieldpath import pointer
from restow.conversion.model.values import ABSENT, same
from restow.crds import Crd
from restow.kube import Cluster
from restow.kube.errors import ApiError, NotFound, first_error
from restow.kube.pager import list_pages
from restow.kube.resources import qualified_name

MayBeStored: TypeAlias = Callable[[Crd], Sequence[str]]
"""Returns the versions at which objects of a CRD may be stored: ``restow.migrator.may_be_stored``."""

_PAGE: Final = 250
_AT_ONCE: Final = 8
_ATTEMPTS: Final = 8
_NAMED: Final = 5  # the most objects that a reason names


@dataclass(frozen=True, slots=True)
class WebhookNeed:
    """Whether the objects of a CRD need its webhook.

    Attributes:
        reason: why they need it, or why this is not known, a sentence without its full stop; empty if none needs it.
        notes: the consequences of the strategy None, each a sentence.
    """

    reason: str = ""
    notes: tuple[str, ...] = ()


async def webhook_need(cluster: Cluster, crd: Crd, may_be_stored: MayBeStored) -> WebhookNeed:
    """Return whether the objects of a CRD that was just read need its webhook.

    The answer holds for the CRD as read: a write that relies on it needs the CRD's resourceVersion as precondition.

    Raises:
        KubeError: the API server refuses a request, or cannot be reached.
    """
    stored = may_be_stored(crd)
    if {crd.storage.name, *crd.served, *stored} == {crd.storage.name}:
        return WebhookNeed()
    try:
        hidden = next((version for version in stored if version not in crd.served), "")
        if hidden and (not crd.served or await _has_objects(cluster, crd)):
            return WebhookNeed(_unproved(crd, hidden))
        if len(crd.served) < 2:
            return WebhookNeed()
        return await _compare(cluster, crd, stored)
    except ApiError as error:
        if "conversion webhook for " not in error.said and "(re)initializing" not in error.said:
            raise
        return WebhookNeed(
            f"it is not known whether objects of {crd.name} need its webhook, because it does not convert them: "
            f"{error}. Repair the webhook, and try again"
        )


async def _has_objects(cluster: Cluster, crd: Crd) -> bool:
    return bool((await cluster.list_page(crd.resource_at(crd.served[0]), params={"limit": "1"})).json()["items"])


def _unproved(crd: Crd, hidden: str) -> str:
    if hidden == crd.storage.name:
        return f"{crd.name} does not serve its storage version {hidden}, so its objects cannot be compared: serve it"
    return (
        f"objects of {crd.name} may be stored at {hidden}, which cannot be read: run restow migrate {crd.name}, which "
        f"stores them at {crd.storage.name} and leaves a proof"
    )


async def _compare(cluster: Cluster, crd: Crd, stored: Sequence[str]) -> WebhookNeed:
    """Compare each object at each version at which it may be stored with the same object at the other versions."""
    number = 0
    for source in [version for version in crd.served if version in stored] or crd.served[:1]:
        number = 0
        async for page in list_pages(cluster, crd.resource_at(source), limit=_PAGE):
            number += len(page)
            for other in (version for version in crd.served if version != source):
                if found := await _differences(cluster, crd, source, other, page):
                    return WebhookNeed(_needed(crd, source, other, found, proved=len(stored) == 1))
    note = (
        f"no object of {crd.name} differs between {', '.join(crd.served)}; {number} "
        f"{'was' if number == 1 else 'were'} read. Objects that clients write from now on are not converted: stop "
        f"serving {', '.join(version for version in crd.served if version != crd.storage.name)}"
    )
    return WebhookNeed(notes=(note,))


def _needed(crd: Crd, source: str, other: str, found: Sequence[str], *, proved: bool) -> str:
    named = ", ".join(found[:_NAMED]) + (", …" if len(found) > _NAMED else "")
    drop = source if other == crd.storage.name else other
    return (
        f"{crd.name} needs its webhook: objects differ between {source} and {other} ({named}). "
        f"{'S' if proved else f'Run restow migrate {crd.name}, and s'}top serving {drop}: restow ready {crd.name} "
        f"--drop {drop} says whether it may go"
    )


async def _differences(
    cluster: Cluster, crd: Crd, source: str, other: str, page: Sequence[Mapping[str, Any]]
) -> list[str]:
    """Return the objects of a page that differ at another version, each with its first difference."""
    turns = asyncio.Semaphore(_AT_ONCE)

    async def compare(obj: Mapping[str, Any]) -> str:
        async with turns:
            return await _difference(cluster, crd, source, other, obj)

    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(compare(obj)) for obj in page]
    except ExceptionGroup as errors:
        raise first_error(errors) from None
    return [difference for task in tasks if (difference := task.result())]


async def _difference(cluster: Cluster, crd: Crd, source: str, other: str, obj: Mapping[str, Any]) -> str:
    """Return an object's name and first difference; empty if it is the same at both versions, or gone."""
    namespace, name = obj["metadata"].get("namespace"), obj["metadata"]["name"]
    for _ in range(_ATTEMPTS):
        try:
            found = (await cluster.get(crd.resource_at(other), name, namespace)).json()
            if found["metadata"]["resourceVersion"] != obj["metadata"]["resourceVersion"]:
                obj = (await cluster.get(crd.resource_at(source), name, namespace)).json()
                continue
        except NotFound as error:
            if error.names(crd.plural, name):
                return ""
            raise  # the version itself is not served
        left, right = (dict(leaves(_content(each))) for each in (obj, found))
        for place in dict.fromkeys((*left, *right)):
            if not same(left.get(place, ABSENT), right.get(place, ABSENT)):
                return f"{qualified_name(namespace, name)} at {pointer(place)}"
        return ""
    return f"{qualified_name(namespace, name)}, which is written too often to be compared"


def _content(obj: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a webhook may convert; only the labels and annotations of metadata are."""
    content = {name: value for name, value in obj.items() if name not in ("apiVersion", "kind", "metadata")}
    metadata = obj["metadata"]
    return content | {"metadata": {each: metadata.get(each) or {} for each in ("labels", "annotations")}}
