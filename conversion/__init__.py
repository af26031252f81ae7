"""Converts objects between the versions of a kind.

Conversions are declared once, checked before use, and lossless within the bounds of docs/limits.md.

Public:

- ``Registry``, ``rules``: for declaring conversions; ``Registry.freeze`` returns a ``Graph``, or raises an error with
  every ``Diagnostic``;
- ``Graph.convert`` converts one object, ``convert_review`` a whole ConversionReview, bytes to bytes;
- ``ABSENT``: the value that an author's function returns for a field that does not exist;
- the errors, a small tree under ``ConversionError``;
- ``restow.conversion.testing``: the laws of conversion, as one-line tests for an author's own repository;
- ``restow.conversion.rules.typed``: functions over pydantic models (needs pydantic).

Conversion does no I/O, reads no clock and never changes its input.
"""

from restow.conversion import rules
from restow.conversion.compile.adoption import Adopted
from restow.conversion.compile.graph import Graph, KindGraph
from restow.conversion.definition.registry import Kind, Registry
from restow.conversion.model.errors import (
    ConversionError,
    DefinitionError,
    Diagnostic,
    ObjectError,
    ReviewError,
    RuleFailed,
    UnknownKind,
    UnknownVersion,
)
from restow.conversion.model.values import ABSENT
from restow.conversion.reviews.conversion import convert_review
from restow.conversion.rules.scopes import Keyless

__all__ = [
    "ABSENT",
    "Adopted",
    "ConversionError",
    "DefinitionError",
    "Diagnostic",
    "Graph",
    "Keyless",
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
