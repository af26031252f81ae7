"""Finds out why objects of a CRD cannot be read, written or deleted, and how to fix it.

Public: ``diagnose``, ``diagnose_namespace``, ``CrdDiagnosis``, ``NamespaceDiagnosis``, ``CrdProblem`` and
``ProblemKind``. The caller passes an examination: what else is to be found out from the listed objects.
"""

from restow.conversion.diagnosis.doctor import MOST_OBJECTS, diagnose
from restow.conversion.diagnosis.namespaces import NamespaceDiagnosis, diagnose_namespace
from restow.crds.problems import CrdDiagnosis, CrdProblem, ProblemKind

__all__ = [
    "MOST_OBJECTS",
    "CrdDiagnosis",
    "CrdProblem",
    "NamespaceDiagnosis",
    "ProblemKind",
    "diagnose",
    "diagnose_namespace",
]
