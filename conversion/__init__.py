"""Conversion between the versions of a kind: declared once, checked before use, lossless, and fast.

Public:
- ``Registry``, ``rules``: what an author writes; ``Registry.freeze`` gives a ``Graph`` or every ``Diagnostic`` at once;
- ``Graph.convert``: one object; ``convert_review``: a whole ConversionReview, bytes to bytes;
- ``ABSENT``: what an author's function returns for a field that is not there;
- the errors, a small tree under ``ConversionError``;
- ``restow.conversion.testing``: the laws, as one-line tests for an author's own repository;
- ``restow.conversion.rules.typed``: functions over pydantic models (needs pydantic).

Nothing here does I/O, knows a clock or changes what it is given.
"""

from restow.conversion import rules
from restow.conversion.definition.registry import Kind, Registry
from restow.conversion.errors import (
    ConversionError,
    DefinitionError,
    Diagnostic,
    ObjectError,
    ReviewError,
    RuleFailed,
    UnknownKind,
    UnknownVersion,
)
from restow.conversion.graph import Graph, KindGraph
from restow.conversion.reviews.conversion import convert_review
from restow.conversion.values import ABSENT

__all__ = [
    "ABSENT",
    "ConversionError",
    "DefinitionError",
    "Diagnostic",
    "Graph",
    "Kind",
    "KindGraph",
    "ObjectError",
    "Registry",
    "ReviewError",
    "RuleFailed",
    "UnknownKind",
    "UnknownVersion",
    "convert_review",
    "rules",
]
