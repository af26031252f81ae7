"""``restow ready``, asked as the command asks, and its answer judged by etcd."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from unittest.mock import patch

from restow.kube.cluster import Cluster
from restow.kube.errors import KubeError
from restow.migrator import ListFailed, MigrationRefused, read_crd, ready
from restow.migrator.planning import ready as readiness
from restow.migrator.references.reference import FoundReferences, ReferenceKind, SoughtVersion
from tests.histories.reasons import ABOUT_ENTRIES, Facts, untrue


@dataclass(frozen=True, slots=True)
class Answer:
    """A yes, or the reasons of a no. ``failed``: there was no answer, for that reason."""

    yes: bool
    reasons: tuple[str, ...] = ()
    failed: str = ""

    def __str__(self) -> str:
        return "yes" if self.yes else f"no: {' | '.join(self.reasons) or self.failed}"


_searches: ContextVar[bool] = ContextVar("searches", default=True)


@contextmanager
def seldom_searching() -> Iterator[None]:
    """Leave the search for references out where ``ask`` says so: it lists every resource of the cluster."""
    real = readiness.find_references

    async def seldom(
        cluster: Cluster, versions: Collection[SoughtVersion], *, kinds: Collection[ReferenceKind]
    ) -> dict[SoughtVersion, FoundReferences]:
        return (
            await real(cluster, versions, kinds=kinds)
            if _searches.get()
            else {of: FoundReferences(of) for of in versions}
        )

    with patch.object(readiness, "find_references", seldom):
        yield


async def ask(
    cluster: Cluster, name: str, version: str, api_servers: Sequence[str] = (), *, searches: bool = True
) -> Answer:
    """Ask whether a version may be removed.

    Args:
        cluster: the way to the API servers.
        name: of the CRD.
        version: that is to go.
        api_servers: further ones, named by ``--api-server``.
        searches: whether to look for references too. Objects of histories have none.
    """
    _searches.set(searches)
    try:
        found = await ready(cluster, await read_crd(cluster, name), version, api_servers=api_servers)
    except MigrationRefused as refused:
        return Answer(yes=False, reasons=(str(refused),))
    except (KubeError, ListFailed) as error:
        return Answer(yes=False, failed=str(error))
    return Answer(found.ready, found.against_removal)


def false_yes(facts: Facts) -> str:
    """Say what a yes overlooks; an empty string where it is right."""
    if facts.version in facts.stored_versions:
        return f"status.storedVersions names {facts.version}, so the API server refuses the removal"
    if facts.stored_at:
        return f"{', '.join(facts.stored_at)} are stored at {facts.version}"
    if facts.owned_at:
        return f"{', '.join(facts.owned_at)} have managedFields entries at {facts.version}"
    return ""


def wrong_no(answer: Answer, facts: Facts) -> list[str]:
    """Return what is wrong with a no: a reason that is not true, or none where objects are stored at the version.

    Entries of managedFields are no reason for the latter: a migration of the entries alone would turn it into a yes.
    """
    if answer.failed:
        return [] if facts.lagging else [f"there was no answer: {answer.failed}"]
    if facts.stored_at and all(ABOUT_ENTRIES in reason for reason in answer.reasons):
        return [f"a false yes but for entries: {', '.join(facts.stored_at)} are stored at {facts.version}"]
    return [f"an untrue no: {said}: {reason}" for reason in answer.reasons if (said := untrue(reason, facts))]
