"""The versions of CRDs and the work that each needs, as far as the CRDs alone show it.

``status`` returns the output of ``restow status``, and ``crds_to_migrate`` chooses the CRDs of ``restow migrate
--all``. Neither reads objects; ``restow.migrator.plan`` does.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from restow.crds import Crd
from restow.kube.cluster import Cluster
from restow.kube.retry import RetryingCluster
from restow.migrator.decide.proof import ANNOTATION, what_is_proved
from restow.migrator.model.options import Options
from restow.migrator.requests.crdaccess import list_crds, read_crd
from restow.migrator.requests.environment import RunStop
from restow.migrator.requests.preflight import refusal


class CrdState(StrEnum):
    """The state of a CRD, in a word or two."""

    TERMINATING = "terminating"
    NATIVE_RUNNING = "native migration running"
    REFUSED = "cannot be migrated"
    DUE = "migration due"
    ONE_VERSION = "one version"
    NOT_PROVED = "not proved"
    MIGRATED = "migrated"


@dataclass(frozen=True, slots=True)
class CrdStatus:
    """The status of one CRD.

    Attributes:
        crd: the CRD as read from the cluster.
        state: the state of the CRD.
        refusal: why its objects cannot be migrated in its present state; empty if they can.
        doubt: why objects may be stored at another version than the storage version; empty if none are.
    """

    crd: Crd
    state: CrdState
    refusal: str
    doubt: str

    @classmethod
    def of(cls, crd: Crd) -> CrdStatus:
        """Return the status of a CRD that was just read."""
        refused, doubt = refusal(crd), what_is_proved(crd).doubt
        return cls(crd, _state(crd, refused, doubt), refused, doubt)

    def to_json(self) -> dict[str, Any]:
        """Return the element of ``crds`` in the JSON output of ``restow status``."""
        crd = self.crd
        return {
            "name": crd.name,
            "storageVersion": crd.storage.name,
            "servedVersions": list(crd.served),
            "storedVersions": list(crd.stored_versions),
            "strategy": crd.strategy,
            "state": self.state.value,
            "refusal": self.refusal,
            "conditions": {
                kind: {True: "True", False: "False", None: "Unknown"}[condition.status]
                for kind, condition in crd.conditions.items()
            },
            "doubt": self.doubt,
            "mark": crd.annotations.get(ANNOTATION, ""),
        }


def _state(crd: Crd, refused: str, doubt: str) -> CrdState:
    if crd.terminating:
        return CrdState.TERMINATING
    if crd.storage_migrating:
        return CrdState.NATIVE_RUNNING
    if refused:
        return CrdState.REFUSED
    if crd.stored_versions != (crd.storage.name,):
        return CrdState.DUE
    if len(crd.versions) == 1:
        return CrdState.ONE_VERSION
    return CrdState.NOT_PROVED if doubt else CrdState.MIGRATED


async def status(cluster: Cluster, names: Sequence[str] = ()) -> list[CrdStatus]:
    """Return the status of the named CRDs, or without names of all CRDs, sorted by name.

    Reads the CRDs only, not their objects.

    Raises:
        MigrationRefused: a CRD does not exist, or may not be read.
        CrdError: a CRD is malformed.
        KubeError: the API server cannot be reached.
    """
    crds = [await read_crd(cluster, name) for name in names] if names else await list_crds(cluster)
    return [CrdStatus.of(crd) for crd in crds]


@dataclass(frozen=True, slots=True)
class CrdsToMigrate:
    """The CRDs of a cluster for ``restow migrate --all``.

    Attributes:
        names: the CRDs to migrate.
        doubtful: those of them that cannot be migrated in their present state. Work is due on them, so the report has
            to name them; a run may also find a way that the CRD alone does not show.
        left_out: why each other CRD is left out: it cannot be migrated in its present state, and no work is due.
    """

    names: tuple[str, ...]
    doubtful: frozenset[str]
    left_out: tuple[str, ...]


async def crds_to_migrate(
    cluster: Cluster, options: Options | None = None, *, stop: asyncio.Event | None = None
) -> CrdsToMigrate:
    """Choose the CRDs of a cluster that a migration with these options has to process.

    Args:
        cluster: the API server.
        options: the options of the migration; only its namespace and its patience matter here.
        stop: ends the wait for the API server when it is set.

    Raises:
        MigrationRefused: the user may not list CRDs.
        CrdError: a CRD is malformed.
        KubeError: the API server cannot be reached.
    """
    options = options or Options()
    namespace, patient = options.namespace, RetryingCluster(cluster, RunStop(stop), patience_s=options.patience_s)
    names, doubtful, left_out = [], set(), []
    for crd in await list_crds(patient):
        if why := refusal(crd, namespace):
            if not _work_due(crd, namespace):
                left_out.append(why)
                continue
            doubtful.add(crd.name)
        names.append(crd.name)
    return CrdsToMigrate(tuple(names), frozenset(doubtful), tuple(left_out))


def _work_due(crd: Crd, namespace: str | None) -> bool:
    """Return whether a CRD that cannot be migrated has objects to migrate, as far as the CRD alone shows it."""
    if crd.terminating or (namespace is not None and not crd.namespaced):
        return False
    unpruned = crd.stored_versions != (crd.storage.name,)
    return crd.storage_migrating or unpruned or bool(what_is_proved(crd).doubt)
