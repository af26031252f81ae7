"""The storage-version migrator: decisions, engine, and what tells of them.

``Migration`` is the whole upgrade-time job in one call, ``Migrator`` what an operator embeds to keep its CRDs migrated;
``survey`` finds what a run would do, ``look`` whether a version may go. A ``Converter`` carries ownership through a
structural conversion. The names in ``__all__`` are public, and so is ``restow.migrator.metrics``; everything else is
implementation.
"""

from restow.migrator.callbacks import CallbackFailed
from restow.migrator.converters.converter import Answer, Converter, ConverterDown, Json, Unconverted
from restow.migrator.converters.endpoint import url_problem
from restow.migrator.crdaccess import list_crds, read_crd
from restow.migrator.journal import log_details
from restow.migrator.lister import ListFailed
from restow.migrator.migration import Migration
from restow.migrator.model import PATIENCE_S, SETTLE_S, Engine, ManagedFields, Options, Phase, Scope
from restow.migrator.observer import Moment, Observer
from restow.migrator.passes import Converters, own_webhook
from restow.migrator.planning.cost import Cost
from restow.migrator.planning.findings import Check, Finding
from restow.migrator.planning.survey import Survey
from restow.migrator.planning.surveyor import survey
from restow.migrator.preflight import Refused, refusal
from restow.migrator.proof import Proven, what_is_proved
from restow.migrator.readiness import Readiness, look
from restow.migrator.reconciling.details import Happening, MigrationDetails
from restow.migrator.reconciling.events import Events
from restow.migrator.reconciling.narrator import Hook
from restow.migrator.reconciling.reconciler import Migrator
from restow.migrator.reconciling.targets import Targets, in_group, labelled
from restow.migrator.report import Counts, CrdReport, Failure, Report, Requests, Result, ShardReport
from restow.migrator.sharding.shards import Shard

__all__ = [
    "PATIENCE_S",
    "SETTLE_S",
    "Answer",
    "CallbackFailed",
    "Check",
    "Converter",
    "ConverterDown",
    "Converters",
    "Cost",
    "Counts",
    "CrdReport",
    "Engine",
    "Events",
    "Failure",
    "Finding",
    "Happening",
    "Hook",
    "Json",
    "ListFailed",
    "ManagedFields",
    "Migration",
    "MigrationDetails",
    "Migrator",
    "Moment",
    "Observer",
    "Options",
    "Phase",
    "Proven",
    "Readiness",
    "Refused",
    "Report",
    "Requests",
    "Result",
    "Scope",
    "Shard",
    "ShardReport",
    "Survey",
    "Targets",
    "Unconverted",
    "in_group",
    "labelled",
    "list_crds",
    "log_details",
    "look",
    "own_webhook",
    "read_crd",
    "refusal",
    "survey",
    "url_problem",
    "what_is_proved",
]
