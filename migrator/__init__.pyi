from .decide.proof import Proven, may_be_stored, what_is_proved
from .model.callbacks import CallbackFailed, MigrationRefused, Moment, Observer
from .model.converter import Answer, Converter, ConverterDown, Json, Unconverted
from .model.findings import PlanCheck, PlanFinding
from .model.options import (
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
from .model.report import (
    CrdReport,
    MigrationReport,
    MigrationResult,
    ObjectCounts,
    ObjectFailure,
    Requests,
    ShardReport,
)
from .operate.events import Events
from .operate.hooks import Hook, MigrationDetails, MigrationEvent
from .operate.log import log_details
from .operate.reconciler import Migrator
from .operate.targets import Targets, in_group, labelled
from .planning.plan import Cost, MigrationPlan
from .planning.planner import plan
from .planning.ready import Readiness, ready
from .planning.status import CrdState, CrdStatus, CrdsToMigrate, crds_to_migrate, status
from .references.model import (
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
from .references.move import MOVABLE_KINDS, MoveReport, NotMoved, move_references
from .references.readers.files import file_references
from .references.scan import CLUSTER_KINDS, find_old_references, find_references
from .references.undo import UndoReport, undo_releases
from .requests.crdaccess import list_crds, read_crd
from .requests.lister import ListFailed
from .requests.passes import Converters, own_webhook
from .requests.preflight import refusal
from .run.run import Migration, migrate, prune

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
