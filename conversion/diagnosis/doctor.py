"""Examines a CRD from outside, as its clients see it: each request is one that an API server answers for any client.

It needs no working conversion: objects are listed at the storage version, and an object that is stored at that version
is read as it is. Then each object is read at each other version by a GET, because an API server answers a LIST from its
watch cache, whose objects were converted when they were written. If a webhook has vanished since, or can no longer
convert one of them, a LIST shows it only after the API server restarts. Nothing is written, and nothing is retried,
because this module looks for errors.

Rights: get on the customresourcedefinition; list and get on its objects; list on namespaces.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from restow.conversion.certificates.apply import read_crd
from restow.conversion.certificates.need import MayBeStored, webhook_need
from restow.conversion.certificates.wiring.clientconfig import address_in
from restow.conversion.diagnosis.problems import (
    CrdDiagnosis,
    CrdProblem,
    called,
    namespace_problem,
    object_problem,
    of_crd,
    unreadable,
    webhook_problem,
)
from restow.crds import Crd
from restow.kube import Cluster
from restow.kube.errors import ApiError, Forbidden, NotFound
from restow.kube.pager import list_pages
from restow.kube.resources import NAMESPACES
from restow.kube.retry import without_retries

__all__ = ["MOST_OBJECTS", "diagnose"]

MOST_OBJECTS: Final = 10_000
"""The number of objects that are read one by one, unless the caller sets another."""

_PAGE: Final = 100
_AT_ONCE: Final = 8
_NAMED: Final = 20  # the most objects of one version that are named


@dataclass(slots=True)
class _Notes:
    """The findings so far. ``called`` is why the webhook could not be called, empty if no such failure was seen."""

    problems: list[CrdProblem] = field(default_factory=list)
    called: str = ""
    well: list[str] = field(default_factory=list)
    not_seen: list[str] = field(default_factory=list)


async def diagnose(
    cluster: Cluster, name: str, may_be_stored: MayBeStored, *, most: int = MOST_OBJECTS
) -> CrdDiagnosis:
    """Diagnose a CRD.

    Args:
        cluster: the API server.
        name: the name of the CRD.
        may_be_stored: ``restow.migrator.may_be_stored``.
        most: the most objects to read one by one at each version.

    Raises:
        WiringRefused: there is no such CRD.
        CrdError: the CRD is malformed.
        KubeError: the API server cannot be reached, or refuses to show the CRD.
    """
    crd = await read_crd(cluster, name)
    direct, notes = without_retries(cluster), _Notes()
    readable = [version for version in crd.served if await _lists(direct, crd, version, notes)]
    if crd.strategy == "Webhook" and not notes.called:
        await _read_objects(direct, crd, [each for each in readable if each != crd.storage.name], most, notes)
    if notes.called:
        needed = await _needed(direct, crd, may_be_stored)
        notes.problems.insert(0, webhook_problem(crd, address_in(crd.webhook), notes.called, needed))
    notes.problems += of_crd(crd)
    await _look_at_namespaces(direct, crd, notes)
    return CrdDiagnosis(crd.name, tuple(notes.problems), tuple(notes.well), tuple(notes.not_seen))


async def _needed(cluster: Cluster, crd: Crd, may_be_stored: MayBeStored) -> str:
    """Return why objects need a webhook that cannot be called; empty if none does."""
    try:
        return (await webhook_need(cluster, crd, may_be_stored)).reason
    except ApiError as error:
        return f"whether objects need it is not known, because they cannot be read: {error.said}"


async def _lists(cluster: Cluster, crd: Crd, version: str, notes: _Notes) -> bool:
    """List one object at a version; return whether reading objects at this version is worthwhile."""
    try:
        await cluster.list_page(crd.resource_at(version), params={"limit": "1"})
    except Forbidden as error:
        notes.not_seen.append(f"objects at {version}: {error.said}")
        return False
    except ApiError as error:
        if why := called(error.said):
            notes.called = why
            return False
        if _is_about_an_object(error):
            return True
        notes.problems.append(unreadable(crd, version, error.said))
        return False
    return True


def _is_about_an_object(error: ApiError) -> bool:
    """Return whether a single object, rather than a version, may cause it: a watch cache waits for every object."""
    return "conversion webhook for " in error.said or "(re)initializing" in error.said


async def _read_objects(cluster: Cluster, crd: Crd, versions: Sequence[str], most: int, notes: _Notes) -> None:
    """Read objects at each version, until the webhook cannot be called, and name those that fail."""
    failures, number = dict.fromkeys(versions, 0), 0
    try:
        async for page in list_pages(cluster, crd.resource_at(crd.storage.name), limit=_PAGE, metadata_only=True):
            if number >= most:
                notes.not_seen.append(f"the objects after the first {number}: --objects sets how many are read")
                break
            number += len(page)
            for version in versions:
                failed = await _failing(cluster, crd, version, [item["metadata"] for item in page], notes)
                notes.problems += failed[: max(0, _NAMED - failures[version])]
                failures[version] += len(failed)
            if notes.called:
                return
    except ApiError as error:
        storage = crd.storage.name
        notes.not_seen.append(f"objects one by one, since they cannot be listed at {storage}: {error.said}")
    else:
        _conclude(failures, number, notes)


def _conclude(failures: Mapping[str, int], number: int, notes: _Notes) -> None:
    """Add the result of reading ``number`` objects at each version to the notes."""
    if not number:
        notes.not_seen.append("the webhook, since there is no object for which an API server would call it")
    for version, failed in failures.items():
        if failed > _NAMED:
            notes.not_seen.append(f"{failed - _NAMED} more objects that cannot be converted to {version}")
        elif not failed and number:
            convert = "1 object converts" if number == 1 else f"{number} objects convert"
            notes.well.append(f"{convert} to {version}")


async def _failing(
    cluster: Cluster, crd: Crd, version: str, page: Sequence[dict[str, Any]], notes: _Notes
) -> list[CrdProblem]:
    """Return the objects of a page that cannot be converted to a version."""
    turns, found = asyncio.Semaphore(_AT_ONCE), dict[int, CrdProblem]()

    async def read(place: int, namespace: str | None, name: str) -> None:
        async with turns:
            if notes.called:
                return
            try:
                await cluster.get(crd.resource_at(version), name, namespace)
            except NotFound:
                return
            except ApiError as error:
                if why := called(error.said):
                    notes.called = why
                else:
                    found[place] = object_problem(crd, version, namespace, name, error.said)

    async with asyncio.TaskGroup() as group:
        for place, metadata in enumerate(page):
            group.create_task(read(place, metadata.get("namespace"), metadata["name"]))
    return [found[place] for place in sorted(found)]


async def _look_at_namespaces(cluster: Cluster, crd: Crd, notes: _Notes) -> None:
    if not crd.namespaced:
        return
    try:
        items = (await cluster.list_page(NAMESPACES)).json()["items"]
    except Forbidden as error:
        notes.not_seen.append(f"namespaces that are being deleted: {error.said}")
        return
    stuck = [problem for item in items if (problem := namespace_problem(crd, item)) is not None]
    notes.problems += stuck
    if not stuck:
        notes.well.append("no namespace waits for its objects to be deleted")
