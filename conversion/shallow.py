"""JSON that is nested deeper than msgspec can read: what is too deep is cut out as text, and carried along as it is.

API servers read JSON 10,000 levels deep; CPython's limit on recursion ends msgspec near the thousandth. No schema
describes anything so deep, hence nobody needs to look at it: it stands in the tree as ``msgspec.Raw``, which is encoded
as the text that came.

Pure. A loop over the brackets, without recursion.
"""

from __future__ import annotations

from hashlib import sha256
from typing import Any, Final, TypeAlias

import msgspec

from restow.conversion.nesting import BRACKET, NO_BRACKET
from restow.conversion.values import Json

__all__ = ["DEEPEST", "Cuts", "cut", "restored"]

#: How many levels stay: deeper than any schema describes, and far from where recursion ends.
DEEPEST: Final = 200

#: The deepest that an API server accepts (apimachinery, ``sigs.k8s.io/json``), with some levels for an envelope.
_MOST: Final = 10_100

Cuts: TypeAlias = dict[str, msgspec.Raw]
"""What was cut out, by the text that stands in its place: equal parts have one name, and are one value."""


def cut(text: bytes) -> tuple[bytes, Cuts]:
    """Return a text without what is nested too deep, and that.

    Raises:
        ValueError: even an API server refuses it.
    """
    # It is made of the text's digest, so that no text can contain its own mark, with escapes or without.
    mark = f"cut:{sha256(text).hexdigest()}:"
    parts: list[bytes] = []
    cuts: Cuts = {}
    depth = kept = begins = 0
    for found in BRACKET.finditer(text):
        if found.lastindex == NO_BRACKET:
            break
        if found.lastindex:
            depth += 1
            if depth == DEEPEST + 1:
                begins = found.end() - 1
            elif depth > _MOST:
                message = f"nested more than {_MOST} levels deep"
                raise ValueError(message)
            continue
        depth -= 1
        if depth == DEEPEST:
            deep = text[begins : found.end()]
            name = f"{mark}{sha256(deep).hexdigest()}"
            cuts.setdefault(name, msgspec.Raw(deep))
            parts += (text[kept:begins], b'"', name.encode(), b'"')
            kept = found.end()
    return b"".join((*parts, text[kept:])), cuts


def restored(tree: Json, cuts: Cuts) -> Json:
    """Put what was cut out back into a tree, as text; changes the tree."""
    _restore(tree, cuts)
    return tree


def _restore(value: Any, cuts: Cuts) -> None:
    for key, child in value.items() if isinstance(value, dict) else enumerate(value):
        if isinstance(child, dict | list):
            _restore(child, cuts)
        elif isinstance(child, str) and child in cuts:
            value[key] = cuts[child]
