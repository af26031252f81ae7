from .decide.proof import may_be_stored
from .model.callbacks import CallbackFailed, MigrationRefused
from .model.converter import Converter, ConverterDown, Unconverted
from .model.options import Engine, ManagedFields, Options, Phase, Scope, Shard
from .model.report import CrdReport, MigrationReport
from .operate.hooks import MigrationDetails, MigrationEvent
from .operate.log import Events, log_details
from .operate.reconciler import Migrator, in_group, labelled
from .planning.plan import plan
from .planning.ready import ready
from .planning.status import crds_to_migrate, status
from .references.reference import sought
from .references.scan import find_references
from .requests.crdaccess import read_crd
from .requests.lister import ListFailed
from .run.run import Migration, migrate, prune

__all__ = [
    "CallbackFailed",
    "Converter",
    "ConverterDown",
    "CrdReport",
    "Engine",
    "Events",
    "ListFailed",
    "ManagedFields",
    "Migration",
    "MigrationDetails",
    "MigrationEvent",
    "MigrationRefused",
    "MigrationReport",
    "Migrator",
    "Options",
    "Phase",
    "Scope",
    "Shard",
    "Unconverted",
    "crds_to_migrate",
    "find_references",
    "in_group",
    "labelled",
    "log_details",
    "may_be_stored",
    "migrate",
    "plan",
    "prune",
    "read_crd",
    "ready",
    "sought",
    "status",
]
