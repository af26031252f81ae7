"""The planner of API version removal: which step is due, missing or unsafe in which release of a project.

A policy file says how a project releases and what it promises (``parse_policy``); from it follows when each version is
added, stored, unserved and removed (``schedule``); CRDs of several releases, or of a live cluster, are checked against
it (``check``). Every rule comes from Cluster API's issue about storage version migration
(kubernetes-sigs/cluster-api#11894) and the Kubernetes deprecation policy; the issue's own two tables are reproduced by
the tests.

Pure.
"""

from restow.migrator.timeline.check import TimelineFinding, check
from restow.migrator.timeline.policy import PolicyError, TimelinePolicy, parse_policy
from restow.migrator.timeline.schedule import (
    Column,
    ObservedVersions,
    TimelineStep,
    VersionSchedule,
    VersionState,
    columns,
    notes,
    observe,
    schedule,
)

__all__ = [
    "Column",
    "ObservedVersions",
    "PolicyError",
    "TimelineFinding",
    "TimelinePolicy",
    "TimelineStep",
    "VersionSchedule",
    "VersionState",
    "check",
    "columns",
    "notes",
    "observe",
    "parse_policy",
    "schedule",
]
