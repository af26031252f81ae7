"""The vocabulary of ``ConversionRules`` documents, and their JSON Schema (draft 2020-12) for checks in editors.

Every public constructor in ``restow.conversion.rules`` is part of the vocabulary without further code: names,
parameters, types and texts all come from its signature and docstring. A parameter takes rules (``Sequence[Rule]``), a
CEL expression (where Python takes a function), or JSON of its annotated type. The schema is made from the vocabulary,
so it has every rule with its parameters and their descriptions.

Pure.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from inspect import Parameter as SignatureParameter
from inspect import cleandoc, signature
from types import NoneType, UnionType
from typing import Any, Final, Literal, Union, get_args, get_origin, get_type_hints

from restow.conversion import rules
from restow.conversion.rules import Rule
from restow.conversion.rules.protocol import OnError
from restow.crds.conversionrules import CONVERSION_RULES

API_VERSION: Final = CONVERSION_RULES.api_version
KIND: Final = "ConversionRules"

#: The pattern of ``spec.takeOver``: a URL, or ``<namespace>/<Service>[:port][/path]``.
TAKE_OVER: Final = r"https://[^\s?#@]+|[a-z0-9.-]+/[a-z0-9.-]+(:[0-9]{1,5})?(/[^\s?#]*)?"

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
    """One constructor: ``make`` is the function, ``text`` the first paragraph of its docstring."""

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


_TYPES: Final[Mapping[Any, str]] = {
    bool: "boolean",
    float: "number",
    int: "integer",
    NoneType: "null",
    str: "string",
}


def json_schema() -> dict[str, Any]:
    """Return the schema of one document."""
    text = {"type": "string", "minLength": 1}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": KIND,
        "description": "The conversions between the versions of one kind. See restow's documentation of rules.",
        **_object_schema(
            {
                "apiVersion": {"const": API_VERSION},
                "kind": {"const": KIND},
                "metadata": {"type": "object"},
                "spec": _object_schema(
                    {
                        "target": {
                            "description": "The kind whose objects are converted.",
                            **_object_schema({"group": text, "kind": text}, ["group", "kind"]),
                        },
                        "hub": {"description": "The version that every other version converts to and from.", **text},
                        "hubSchema": {
                            "description": "The openAPIV3Schema of a hub that is no version of the CRD.",
                            "type": "object",
                        },
                        "stash": {
                            "description": "The annotation for what a version cannot represent, and its size in bytes.",
                            **_object_schema({"annotation": text, "budget": {"type": "integer", "minimum": 0}}, []),
                        },
                        "onError": {
                            "description": "What becomes of a value for which a rule's expression fails: fail its "
                            "object, and so every list of its kind, or keep the value in the stash.",
                            "enum": [*get_args(OnError)],
                        },
                        "takeOver": {
                            "description": "The conversion webhook of another project that is replaced in the cluster: "
                            "its Service, <namespace>/<name>[:port][/path], or its URL. It comes back when the rules "
                            "are deleted.",
                            "type": "string",
                            "pattern": f"^({TAKE_OVER})$",
                        },
                        "adopt": {
                            "description": "Annotations in which another tool keeps whole objects of a version. fields "
                            "are the paths that are taken from it; with stays the annotation is not removed.",
                            "type": "array",
                            "items": _object_schema(
                                {
                                    "annotation": text,
                                    "version": text,
                                    "fields": {"type": "array", "items": text},
                                    "stays": {"type": "boolean"},
                                },
                                ["annotation", "version"],
                            ),
                        },
                        "leaves": {
                            "description": "Versions that are not served, and that nothing has to convert any more.",
                            "type": "array",
                            "items": text,
                        },
                        "keyless": {
                            "description": "Lists of the hub that need no keys, by path or pattern (* and **), and the "
                            "reason why edits of their items do no harm.",
                            "type": "array",
                            "items": _object_schema(
                                {"lists": {"type": "array", "items": text}, "acknowledge": text},
                                ["lists", "acknowledge"],
                            ),
                        },
                        "spokes": {
                            "description": "The other versions, each with the rules between it and the hub.",
                            "type": "array",
                            "items": _object_schema({"version": text, "rules": _rules_schema()}, ["version", "rules"]),
                        },
                    },
                    ["target", "hub", "spokes"],
                ),
                "status": {"type": "object"},
            },
            ["apiVersion", "kind", "spec"],
        ),
        "$defs": {
            "rule": {
                "description": "One rule: its name, with its parameters.",
                "type": "object",
                "minProperties": 1,
                "maxProperties": 1,
                "additionalProperties": False,
                "properties": {name: _constructor_schema(each) for name, each in vocabulary().items()},
            }
        },
    }


def _rules_schema() -> dict[str, Any]:
    return {"type": "array", "items": {"$ref": "#/$defs/rule"}}


def _object_schema(properties: Mapping[str, Any], required: Sequence[str]) -> dict[str, Any]:
    closed = {"type": "object", "additionalProperties": False, "properties": dict(properties)}
    return {**closed, "required": [*required]} if required else closed


def _constructor_schema(constructor: Constructor) -> dict[str, Any]:
    parameters = {name: parameter_schema(each) for name, each in constructor.parameters.items()}
    required = [name for name, each in constructor.parameters.items() if each.required]
    return {"description": constructor.text, **_object_schema(parameters, required)}


def parameter_schema(parameter: Parameter) -> dict[str, Any]:
    """Return the schema of a parameter."""
    described = {"description": parameter.text} if parameter.text else {}
    if parameter.shape == "rules":
        return {**described, **_rules_schema()}
    return {**described, **_schema(parameter.type)}


def _schema(hint: Any) -> dict[str, Any]:
    """Return the schema of an annotated JSON type."""
    origin, inner = get_origin(hint), get_args(hint)
    if hint is Any:
        return {}
    if hint in _TYPES:
        return {"type": _TYPES[hint]}
    if origin is Literal:
        return {"enum": [*inner]}
    if origin in (Union, UnionType):
        options = [_schema(each) for each in inner if each is not NoneType]
        return options[0] if len(options) == 1 else {"anyOf": options}
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return {"type": "object", "additionalProperties": _schema(inner[1])}
    if origin is tuple and inner[-1:] != (...,):
        items = [_schema(each) for each in inner]
        return {"type": "array", "prefixItems": items, "minItems": len(items), "maxItems": len(items)}
    if isinstance(origin, type) and issubclass(origin, Sequence):
        return {"type": "array", "items": _schema(inner[0])}
    message = f"a parameter of a rule is of the type {hint}, which rule documents do not have"
    raise TypeError(message)
