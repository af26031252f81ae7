"""The JSON Schema (draft 2020-12) of ``ConversionRules`` documents, for editors: they complete and check by it.

It is made from the vocabulary, so that it knows every rule with its parameters and their descriptions.

Pure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import NoneType, UnionType
from typing import Any, Final, Literal, Union, get_args, get_origin

from restow.conversion.rulefiles.parse import API_VERSION, KIND
from restow.conversion.rulefiles.vocabulary import Constructor, Parameter, vocabulary

__all__ = ["json_schema"]

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
        **_object(
            {
                "apiVersion": {"const": API_VERSION},
                "kind": {"const": KIND},
                "metadata": {"type": "object"},
                "spec": _object(
                    {
                        "target": {
                            "description": "The kind whose objects are converted.",
                            **_object({"group": text, "kind": text}, ["group", "kind"]),
                        },
                        "hub": {"description": "The version that every other version converts to and from.", **text},
                        "hubSchema": {
                            "description": "The openAPIV3Schema of a hub that is no version of the CRD.",
                            "type": "object",
                        },
                        "stash": {
                            "description": "The annotation for what a version cannot represent, and its size in bytes.",
                            **_object({"annotation": text, "budget": {"type": "integer", "minimum": 0}}, []),
                        },
                        "spokes": {
                            "description": "The other versions, each with the rules between it and the hub.",
                            "type": "array",
                            "items": _object({"version": text, "rules": _rules()}, ["version", "rules"]),
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
                "properties": {name: _constructor(each) for name, each in vocabulary().items()},
            }
        },
    }


def _rules() -> dict[str, Any]:
    return {"type": "array", "items": {"$ref": "#/$defs/rule"}}


def _object(properties: Mapping[str, Any], required: Sequence[str]) -> dict[str, Any]:
    closed = {"type": "object", "additionalProperties": False, "properties": dict(properties)}
    return {**closed, "required": [*required]} if required else closed


def _constructor(constructor: Constructor) -> dict[str, Any]:
    parameters = {name: _parameter(each) for name, each in constructor.parameters.items()}
    required = [name for name, each in constructor.parameters.items() if each.required]
    return {"description": constructor.text, **_object(parameters, required)}


def _parameter(parameter: Parameter) -> dict[str, Any]:
    described = {"description": parameter.text} if parameter.text else {}
    if parameter.shape == "rules":
        return {**described, **_rules()}
    return {**described, **_schema(parameter.type)}


def _schema(hint: Any) -> dict[str, Any]:
    """Return the schema of an annotated type of JSON."""
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
