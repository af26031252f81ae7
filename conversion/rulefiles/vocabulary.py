"""The constructors of rules as a vocabulary of data: names, parameters, types and texts, all from their signatures.

A constructor that is public in ``restow.conversion.rules`` is a word of rule documents without more work. A parameter
takes rules (``Sequence[Rule]``), a CEL expression (where Python takes a function), or JSON of its annotated type.

Pure.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from inspect import Parameter as SignatureParameter
from inspect import cleandoc, signature
from types import UnionType
from typing import Any, Final, Literal, Union, get_args, get_origin, get_type_hints

from restow.conversion import rules
from restow.conversion.rules import Rule

__all__ = ["Constructor", "Parameter", "Shape", "vocabulary"]

Shape = Literal["rules", "expression", "json"]

_TEXT_ONLY: Final[Any] = str


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter: ``type`` is its annotation, in which functions count as texts; ``text`` describes it."""

    name: str
    shape: Shape
    type: Any
    required: bool
    text: str


@dataclass(frozen=True, slots=True)
class Constructor:
    """One word of the vocabulary: ``make`` is the constructor, ``text`` the first paragraph of its docstring."""

    name: str
    make: Callable[..., Rule]
    parameters: Mapping[str, Parameter]
    text: str


@cache
def vocabulary() -> Mapping[str, Constructor]:
    """Return every constructor of rules by its name."""
    names = (name for name in rules.__all__ if callable(getattr(rules, name)) and name != Rule.__name__)
    return {name: _constructor(name, getattr(rules, name)) for name in sorted(names)}


def _constructor(name: str, make: Callable[..., Rule]) -> Constructor:
    hints = get_type_hints(make)
    paragraphs = [" ".join(each.split()) for each in re.split(r"\n\s*\n", cleandoc(make.__doc__ or ""))]
    parameters = {
        each: _parameter(each, hints[each], given, paragraphs[1:]) for each, given in signature(make).parameters.items()
    }
    return Constructor(name, make, parameters, _plain(paragraphs[0]))


def _parameter(name: str, hint: Any, given: SignatureParameter, paragraphs: list[str]) -> Parameter:
    options = _options(hint)
    shape: Shape = "json"
    if any(_is_function(option) for option in options):
        shape = "expression"
    elif any(Rule in get_args(option) for option in options):
        shape = "rules"
    text = next((_plain(each) for each in paragraphs if f"``{name}" in each), "")
    return Parameter(
        name, shape, _TEXT_ONLY if shape == "expression" else hint, given.default is SignatureParameter.empty, text
    )


def _options(hint: Any) -> tuple[Any, ...]:
    return get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)


def _is_function(hint: Any) -> bool:
    return get_origin(hint) is Callable or hint is Callable


def _plain(text: str) -> str:
    return text.replace("``", "`")
