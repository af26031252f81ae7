"""The storage-version migrator: decisions, engine, and what tells of them.

``Migration`` is the whole upgrade-time job in one call; ``survey`` finds what it would do, ``look`` whether a version
may go. A ``Converter`` carries ownership through a structural conversion. The names in ``__all__`` are public;
everything else is implementation.
"""

from restow.migrator.converter import Answer, Converter, ConverterDown, Json, Unconverted
from restow.migrator.crdaccess import list_crds, read_crd
from restow.migrator.endpoint import url_problem
from restow.migrator.lister import ListFailed
from restow.migrator.mark import completed
from restow.migrator.migration import Migration
from restow.migrator.model import ManagedFields, Options, Phase, Scope
from restow.migrator.observer import Moment, Observer
from restow.migrator.passes import Converters, own_webhook
from restow.migrator.preflight import Refused, refusal
from restow.migrator.readiness import Readiness, look
from restow.migrator.report import Counts, CrdReport, Failure, Report, Requests, Result
from restow.migrator.survey import Survey, survey

__all__ = [
    "Answer",
    "Converter",
    "ConverterDown",
    "Converters",
    "Counts",
    "CrdReport",
    "Failure",
    "Json",
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
    "Unconverted",
    "completed",
    "list_crds",
    "look",
    "own_webhook",
    "read_crd",
    "refusal",
    "survey",
    "url_problem",
]
