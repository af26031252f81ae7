"""What the API server adds to an object when it is written: the defaults of its version's schema.

Source: apiextensions ``schema/defaulting``. What it takes away is ``restow.crds.pruned_paths``.

Pure.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from restow.conversion.explain.model import Defaulted
from restow.crds import Schema
from restow.crds.paths import ROOT, field_path, items_path, values_path

__all__ = ["defaulted"]


def defaulted(value: Any, schema: Schema | None, path: str = ROOT) -> Iterator[Defaulted]:
    """Yield the fields that get a default, each place once; only the uppermost of nested ones."""
    if schema is None:
        return
    if isinstance(value, list):
        for item in value:
            yield from defaulted(item, schema.items, items_path(path))
    elif isinstance(value, dict):
        declared = schema.properties
        for name, inner in declared.items():
            if inner.has_default and (name not in value or (value[name] is None and not inner.nullable)):
                yield Defaulted(field_path(path, name), inner.default)
        for name, child in value.items():
            if name in declared:
                yield from defaulted(child, declared[name], field_path(path, name))
            else:
                yield from defaulted(child, schema.values, values_path(path))
