"""Finds out why objects of a CRD cannot be read, written or deleted, and how to fix it.

Public: ``diagnose``, ``diagnose_namespace``, ``CrdDiagnosis``, ``NamespaceDiagnosis``, ``CrdProblem`` and
``ProblemKind``.
"""

from restow.conversion.diagnosis.doctor import MOST_OBJECTS, diagnose
from restow.conversion.diagnosis.namespaces import NamespaceDiagnosis, diagnose_namespace
from restow.conversion.diagnosis.problems import CrdDiagnosis, CrdProblem, ProblemKind

__all__ = [
    "MOST_OBJECTS",
    "CrdDiagnosis",
    "CrdProblem",
    "NamespaceDiagnosis",
    "ProblemKind",
    "diagnose",
    "diagnose_namespace",
]
