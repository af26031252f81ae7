"""The notation of paths in schemas and objects that all output of restow uses.

- ``.`` is the root, ``.spec.replicas`` a field;
- ``[]`` any item of a list: ``.spec.items[].name``; ``[0]`` the first one of an object's list;
- ``{}`` any value of a map (additionalProperties): ``.spec.selector{}.key``;
- ``["a.b/c"]`` a field whose name, quoted as in JSON, has characters other than letters, digits, ``_``, ``-``, ``$``.

Pure: strings in, strings out. A path names a place and never holds a value.
"""

from __future__ import annotations

import json
import re
from typing import Final

ROOT: Final = "."

_PLAIN = re.compile(r"[A-Za-z0-9_$-]+")


def field_path(parent: str, name: str) -> str:
    """Return the path of the field ``name`` of the object at ``parent``."""
    step = f".{name}" if _PLAIN.fullmatch(name) else f"[{json.dumps(name, ensure_ascii=False)}]"
    return _below(parent, step)


def items_path(parent: str) -> str:
    """Return the path of the items of the list at ``parent``."""
    return _below(parent, "[]")


def item_path(parent: str, index: int) -> str:
    """Return the path of one item of the list at ``parent``."""
    return _below(parent, f"[{index}]")


def values_path(parent: str) -> str:
    """Return the path of the values of the map at ``parent``."""
    return _below(parent, "{}")


def _below(parent: str, step: str) -> str:
    if parent == ROOT:
        return step if step.startswith(".") else ROOT + step
    return parent + step
