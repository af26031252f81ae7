"""The storage-version migrator: decisions, engine, and what tells of them.

``Migration`` is the whole upgrade-time job in one call; ``survey`` finds what it would do, ``look`` whether a version
may go. The names in ``__all__`` are public; everything else is implementation.
"""

from restow.migrator.crdaccess import list_crds, read_crd
from restow.migrator.lister import ListFailed
from restow.migrator.mark import completed
from restow.migrator.migration import Migration
from restow.migrator.model import ManagedFields, Options, Phase, Scope
from restow.migrator.observer import Moment, Observer
from restow.migrator.preflight import Refused, refusal
from restow.migrator.readiness import Readiness, look
from restow.migrator.report import Counts, CrdReport, Failure, Report, Requests, Result
from restow.migrator.survey import Survey, survey

__all__ = [
    "Counts",
    "CrdReport",
    "Failure",
    "ListFailed",
    "ManagedFields",
    "Migration",
    "Moment",
    "Observer",
    "Options",
    "Phase",
    "Readiness",
    "Refused",
    "Report",
    "Requests",
    "Result",
    "Scope",
    "Survey",
    "completed",
    "list_crds",
    "look",
    "read_crd",
    "refusal",
    "survey",
]
