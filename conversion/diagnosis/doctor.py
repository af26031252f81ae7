"""Examines a CRD from outside, as its clients see it: each request is one that an API server answers for any client.

It needs no working conversion: objects are listed at the storage version, and an object that is stored at that version
is read as it is. Then, with a webhook, each object is read at each other version by a GET, because an API server
answers a LIST from its watch cache, whose objects were converted when they were written. If a webhook has vanished
since, or can no longer convert one of them, a LIST shows it only after the API server restarts. Nothing is written, and
nothing is retried, because this module looks for errors.

The objects are listed once. Each page also goes to an ``Examination``, which the caller passes: this room does not know
what a migration repairs.

Rights: get on the customresourcedefinition; list and get on its objects; list on namespaces.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol, TypeAlias

from restow.conversion.certificates.apply import read_crd
from restow.conversion.certificates.unwire import MayBeStored, webhook_need
from restow.conversion.certificates.wiring.clientconfig import address_in
from restow.conversion.diagnosis.problems import (
    called,
    left_version_problem,
    namespace_problem,
    object_problem,
    of_crd,
    unreadable,
    webhook_problem,
)
from restow.crds import Crd
from restow.crds.problems import CrdDiagnosis, CrdProblem
from restow.kube import Cluster
from restow.kube.errors import ApiError, Forbidden, NotFound, TooManyRequests, left_version
from restow.kube.pager import list_pages
from restow.kube.resources import NAMESPACES
from restow.kube.retry import without_retries

MOST_OBJECTS: Final = 10_000
"""The number of objects that are read one by one, unless the caller sets another."""

_PAGE: Final = 100
_AT_ONCE: Final = 8
_NAMED: Final = 20  # the most objects of one version that are named


class Examination(Protocol):
    """Examines the listed objects of a CRD for further problems.

    Attributes:
        whole_objects: whether it needs whole objects, and not only their metadata.
    """

    whole_objects: bool

    async def see(self, objects: Sequence[Mapping[str, Any]]) -> None:
        """Take a page of objects into account."""
        ...

    async def result(self, *, listed: bool) -> CrdDiagnosis:
        """Return what was found; ``listed`` says whether ``see`` got every object."""
        ...


Examine: TypeAlias = Callable[[Cluster, Crd], Examination]
"""Begins the examination of a CRD."""


@dataclass(slots=True)
class _Notes:
    """The findings so far. ``called`` is why the webhook could not be called, empty if no such failure was seen."""

    problems: list[CrdProblem] = field(default_factory=list)
    called: str = ""
    well: list[str] = field(default_factory=list)
    not_seen: list[str] = field(default_factory=list)


async def diagnose(
    cluster: Cluster, name: str, may_be_stored: MayBeStored, examine: Examine, *, most: int = MOST_OBJECTS
) -> CrdDiagnosis:
    """Diagnose a CRD.

    Args:
        cluster: the API server.
        name: the name of the CRD.
        may_be_stored: ``restow.migrator.may_be_stored``.
        examine: begins the examination of what this room does not know, with the class
            ``restow.migrator.planning.diagnosis.CrdExamination``.
        most: the most objects to read one by one at each version.

    Raises:
        WiringRefused: there is no such CRD.
        CrdError: the CRD is malformed.
        KubeError: the API server cannot be reached, or refuses to show the CRD.
    """
    crd = await read_crd(cluster, name)
    direct, notes = without_retries(cluster), _Notes()
    readable = [version for version in crd.served if await _lists(direct, crd, version, notes)]
    examination = examine(direct, crd)
    others = [each for each in readable if each != crd.storage.name and crd.strategy == "Webhook"]
    listed = bool(crd.storage.name in readable or notes.called) and await _look_at_objects(
        direct, crd, others, most, examination, notes
    )
    found = await examination.result(listed=listed)
    if notes.called:
        needed = await _needed(direct, crd, may_be_stored)
        notes.problems.insert(0, webhook_problem(crd, address_in(crd.webhook), notes.called, needed))
    notes.problems += [*found.problems, *of_crd(crd)]
    await _look_at_namespaces(direct, crd, notes)
    well, not_seen = (*notes.well, *found.looked_at), (*notes.not_seen, *found.not_seen)
    return CrdDiagnosis(crd.name, tuple(notes.problems), well, not_seen)


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
        if _is_about_an_object(error) or error.left_version:
            return True  # reading the objects names it
        notes.problems.append(unreadable(crd, version, error.said))
        return False
    return True


def _is_about_an_object(error: ApiError) -> bool:
    """Return whether a single object, rather than a version, may cause it: a watch cache waits for every object."""
    return "conversion webhook for " in error.said or "(re)initializing" in error.said


async def _look_at_objects(
    cluster: Cluster,
    crd: Crd,
    versions: Sequence[str],
    most: int,
    examination: Examination,
    notes: _Notes,
) -> bool:
    """List the objects, read each at each version, and name those that fail; return whether all were listed."""
    failures, number, unread = dict.fromkeys(versions, 0), 0, False
    resource, metadata_only = crd.resource_at(crd.storage.name), not examination.whole_objects
    try:
        async for page in list_pages(cluster, resource, limit=_PAGE, metadata_only=metadata_only):
            await examination.see(page)
            if number >= most:
                unread = True
                continue
            number += len(page)
            for version in () if notes.called else versions:
                failed = await _failing(cluster, crd, version, [item["metadata"] for item in page], notes)
                notes.problems += failed[: max(0, _NAMED - failures[version])]
                failures[version] += len(failed)
    except ApiError as error:
        _conclude_unlisted(crd, error, notes)
        return False
    if versions and not notes.called:
        _conclude(failures, number, notes)
        if unread:
            notes.not_seen.append(f"the objects after the first {number}: --objects sets how many are read")
    return True


def _conclude_unlisted(crd: Crd, error: ApiError, notes: _Notes) -> None:
    """Add to the notes why the objects cannot all be listed at the storage version."""
    storage = crd.storage.name
    if why := called(error.said):
        notes.called = why
        return
    left: dict[str, list[str]] = {error.left_version: []} if error.left_version else {}
    named = 0
    for key, reason in error.unreadable.items():
        if version := left_version(reason):
            left.setdefault(version, []).append(key)
        elif "conversion webhook for " in reason and (named := named + 1) <= _NAMED:
            namespace, name = crd.named_by(key)
            notes.problems.append(object_problem(crd, storage, {"namespace": namespace, "name": name}, reason))
    notes.problems += [left_version_problem(crd, version, keys) for version, keys in left.items()]
    if left or named:
        return
    if isinstance(error, Forbidden) or (isinstance(error, TooManyRequests) and not error.unreadable):
        notes.not_seen.append(f"objects, since they cannot be listed at {storage}: {error.said}")
    else:
        notes.problems.append(unreadable(crd, storage, error.said))


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

    async def read(place: int, metadata: Mapping[str, Any]) -> None:
        async with turns:
            if notes.called:
                return
            try:
                await cluster.get(crd.resource_at(version), metadata["name"], metadata.get("namespace"))
            except NotFound:
                return
            except ApiError as error:
                if why := called(error.said):
                    notes.called = why
                else:
                    found[place] = object_problem(crd, version, metadata, error.said)

    async with asyncio.TaskGroup() as group:
        for place, metadata in enumerate(page):
            group.create_task(read(place, metadata))
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
