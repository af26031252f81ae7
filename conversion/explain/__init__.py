"""Explaining conversions: where each leaf of a result came from, and what became of each leaf of the source.

Public: ``explain`` gives an ``Explanation`` of one object's conversion. Its ``links`` tell an editor of manifests which
old field a new one stands for, so that comments follow the rules.

Pure.
"""

from restow.conversion.explain.explanation import explain
from restow.conversion.explain.model import (
    DefaultedField,
    Explanation,
    FieldLink,
    FieldLinks,
    LeafEnding,
    LeafOrigin,
    OriginKind,
    ResultLeaf,
    SourceLeaf,
    Steps,
    leaves,
    value_at,
)

__all__ = [
    "DefaultedField",
    "Explanation",
    "FieldLink",
    "FieldLinks",
    "LeafEnding",
    "LeafOrigin",
    "OriginKind",
    "ResultLeaf",
    "SourceLeaf",
    "Steps",
    "explain",
    "leaves",
    "value_at",
]
