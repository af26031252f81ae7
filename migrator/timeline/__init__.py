"""Plan the removal of API versions: find steps that are due, missing or unsafe in each release of a project.

A policy file describes the releases and promises of a project (``parse_policy``). The policy determines when each
version is added, stored, unserved and removed (``schedule``). ``check`` compares CRDs of several releases, or of a live
cluster, with it. Every rule comes from Cluster API's issue about storage version migration
(kubernetes-sigs/cluster-api#11894) and the Kubernetes deprecation policy. The tests reproduce the issue's two tables.

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
