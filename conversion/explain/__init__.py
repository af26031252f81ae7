"""Explains conversions: the origin of each leaf of the result, and the end of each leaf of the source.

Public: ``explain`` returns the ``Explanation`` of one object's conversion. Its ``links`` map a new field to the old
one, so that an editor of manifests can move comments along.

Pure.
"""

from restow.conversion.explain.explanation import explain
from restow.conversion.explain.model import (
    Explanation,
    FieldLinks,
    LeafEnding,
    OriginKind,
    ResultLeaf,
    SourceLeaf,
    leaves,
)
from restow.conversion.model.fieldpath import Steps, value_at

__all__ = [
    "Explanation",
    "FieldLinks",
    "LeafEnding",
    "OriginKind",
    "ResultLeaf",
    "SourceLeaf",
    "Steps",
    "explain",
    "leaves",
    "value_at",
]
