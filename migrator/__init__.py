"""The storage-version migrator.

Each command is a function of the same name: ``status`` returns the versions of CRDs, ``plan`` computes the work of a
migration, ``migrate`` does the whole upgrade-time job, ``prune`` trims ``status.storedVersions``, and ``ready`` decides
whether a version can be removed. An operator embeds ``Migrator``, which watches CRDs and keeps them migrated. A
``Converter`` converts objects, and with them the ownership of their fields, if versions differ in structure.

The names in ``__all__`` are public, and so is ``restow.migrator.operate.metrics``; everything else is implementation.
"""

from restow.migrator.decide.proof import Proven, may_be_stored, what_is_proved
from restow.migrator.model.callbacks import CallbackFailed, MigrationRefused, Moment, Observer
from restow.migrator.model.converter import Answer, Converter, ConverterDown, Json, Unconverted
from restow.migrator.model.findings import PlanCheck, PlanFinding
from restow.migrator.model.options import (
    PATIENCE_S,
    SETTLE_S,
    Engine,
    ManagedFields,
    Options,
    Phase,
    Scope,
    Shard,
    url_problem,
)
from restow.migrator.model.report import (
    CrdReport,
    MigrationReport,
    MigrationResult,
    ObjectCounts,
    ObjectFailure,
    Requests,
    ShardReport,
)
from restow.migrator.operate.events import Events
from restow.migrator.operate.hooks import Hook, MigrationDetails, MigrationEvent
from restow.migrator.operate.log import log_details
from restow.migrator.operate.reconciler import Migrator
from restow.migrator.operate.targets import Targets, in_group, labelled
from restow.migrator.planning.plan import Cost, MigrationPlan
from restow.migrator.planning.planner import plan
from restow.migrator.planning.ready import Readiness, ready
from restow.migrator.planning.status import CrdState, CrdStatus, CrdsToMigrate, crds_to_migrate, status
from restow.migrator.references.model import (
    Effect,
    FoundReferences,
    Looked,
    NotLookedAt,
    Reference,
    ReferenceKind,
    ReferenceTally,
    SoughtVersion,
    old_versions,
    sought,
)
from restow.migrator.references.move import MOVABLE_KINDS, MoveReport, NotMoved, move_references
from restow.migrator.references.readers.files import file_references
from restow.migrator.references.scan import CLUSTER_KINDS, find_old_references, find_references
from restow.migrator.references.undo import UndoReport, undo_releases
from restow.migrator.requests.crdaccess import list_crds, read_crd
from restow.migrator.requests.lister import ListFailed
from restow.migrator.requests.passes import Converters, own_webhook
from restow.migrator.requests.preflight import refusal
from restow.migrator.run.run import Migration, migrate, prune

__all__ = [
    "CLUSTER_KINDS",
    "MOVABLE_KINDS",
    "PATIENCE_S",
    "SETTLE_S",
    "Answer",
    "CallbackFailed",
    "Converter",
    "ConverterDown",
    "Converters",
    "Cost",
    "CrdReport",
    "CrdState",
    "CrdStatus",
    "CrdsToMigrate",
    "Effect",
    "Engine",
    "Events",
    "FoundReferences",
    "Hook",
    "Json",
    "ListFailed",
    "Looked",
    "ManagedFields",
    "Migration",
    "MigrationDetails",
    "MigrationEvent",
    "MigrationPlan",
    "MigrationRefused",
    "MigrationReport",
    "MigrationResult",
    "Migrator",
    "Moment",
    "MoveReport",
    "NotLookedAt",
    "NotMoved",
    "ObjectCounts",
    "ObjectFailure",
    "Observer",
    "Options",
    "Phase",
    "PlanCheck",
    "PlanFinding",
    "Proven",
    "Readiness",
    "Reference",
    "ReferenceKind",
    "ReferenceTally",
    "Requests",
    "Scope",
    "Shard",
    "ShardReport",
    "SoughtVersion",
    "Targets",
    "Unconverted",
    "UndoReport",
    "crds_to_migrate",
    "file_references",
    "find_old_references",
    "find_references",
    "in_group",
    "labelled",
    "list_crds",
    "log_details",
    "may_be_stored",
    "migrate",
    "move_references",
    "old_versions",
    "own_webhook",
    "plan",
    "prune",
    "read_crd",
    "ready",
    "refusal",
    "sought",
    "status",
    "undo_releases",
    "url_problem",
    "what_is_proved",
]
