"""The words in which the API is declared: each makes one node of a structural schema. And where a part is used.

Every field has a description, for ``kubectl explain`` and editors. Lists and texts that CEL rules look at are bounded:
the server estimates a rule's cost from the bounds, and refuses a CRD that could cost too much. Where a part of a
profile is used (``Use``) decides on its defaults and on how strictly it is validated.

Pure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal

__all__ = [
    "API_VERSIONS",
    "ApiVersion",
    "Node",
    "Rule",
    "Use",
    "anything",
    "count",
    "described",
    "flag",
    "keyed",
    "listed",
    "mapped",
    "moment",
    "quantity",
    "record",
    "refused",
    "rule",
    "rule_unless_broken_before",
    "text",
]


Node = dict[str, Any]
Rule = dict[str, Any]
Reason = Literal["FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired"]

#: resource.Quantity as controller-gen declares it, without the sign that would make it negative.
_QUANTITY: Final = (
    r"^\+?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))"
    r"(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$"
)


def text(description: str, *, rules: Sequence[Rule] = (), **more: Any) -> Node:
    """Declare a string; ``more`` are ``enum``, ``pattern``, ``format``, ``minLength``, ``maxLength``, ``default``."""
    return {"description": description, "type": "string", **more, **_rules(rules)}


def moment(description: str) -> Node:
    """Declare a point in time, as RFC 3339 has it, of the years that date libraries know.

    The rule also refuses what the server's format takes and CEL cannot read: small letters, offsets of 99 hours.
    """
    known = rule(
        "self.getFullYear() >= 1 && self.getFullYear() <= 9999",
        "must be a time of the years 1 to 9999 (UTC), written like 2025-01-31T00:00:00Z",
    )
    return text(description, format="date-time", rules=[known])


def flag(description: str, **more: Any) -> Node:
    """Declare a boolean."""
    return {"description": description, "type": "boolean", **more}


def count(description: str, *, rules: Sequence[Rule] = (), long: bool = False, **more: Any) -> Node:
    """Declare an integer of 32 bits, or 64 if it is ``long``."""
    number = {"type": "integer", "format": "int64" if long else "int32"}
    return {"description": description, **number, **more, **_rules(rules)}


def refused(name: str, instead: str) -> Node:
    """Declare a text of v1beta1 at v1beta2, only to refuse it: an undeclared one would be pruned without a word."""
    message = f"{name} is a field of core.gardener.cloud/v1beta1: {instead}"
    return text(
        "Not a field of this version: it belongs to v1beta1, and is refused here.",
        rules=[rule("false", message, "FieldValueForbidden")],
    )


def quantity(description: str) -> Node:
    """Declare a resource quantity that is not negative, such as 4, 500m or 16Gi."""
    return {
        "description": description,
        "anyOf": [{"type": "integer"}, {"type": "string"}],
        "minimum": 0,
        "pattern": _QUANTITY,
        "x-kubernetes-int-or-string": True,
    }


def anything(description: str) -> Node:
    """Declare a value that is passed on as it is, whatever it is."""
    return {"description": description, "x-kubernetes-preserve-unknown-fields": True}


def record(
    description: str,
    properties: Mapping[str, Node],
    *,
    required: Sequence[str] = (),
    rules: Sequence[Rule] = (),
    open_: bool = False,
    **more: Any,
) -> Node:
    """Declare an object; an open one keeps fields that are not declared.

    Items of a list are described by the list: ``kubectl explain`` shows both texts in one.
    """
    return {
        **({"description": description} if description else {}),
        "type": "object",
        "properties": dict(properties),
        **({"required": list(required)} if required else {}),
        **more,
        **({"x-kubernetes-preserve-unknown-fields": True} if open_ else {}),
        **_rules(rules),
    }


def mapped(description: str, values: Node, *, rules: Sequence[Rule] = (), **more: Any) -> Node:
    """Declare a map from any name to ``values``."""
    return {
        **({"description": description} if description else {}),
        "type": "object",
        "additionalProperties": values,
        **more,
        **_rules(rules),
    }


def keyed(description: str, key: str, items: Node, *, most: int | None = None, rules: Sequence[Rule] = ()) -> Node:
    """Declare a list whose items are told apart, and owned one by one, by a field of theirs that they must have."""
    required = [key, *(name for name in items.get("required", ()) if name != key)]
    return {
        "description": description,
        "type": "array",
        "items": {**items, "required": required},
        **({"maxItems": most} if most is not None else {}),
        "x-kubernetes-list-map-keys": [key],
        "x-kubernetes-list-type": "map",
        **_rules(rules),
    }


def listed(
    description: str, items: Node, kind: Literal["atomic", "set"], *, rules: Sequence[Rule] = (), **more: Any
) -> Node:
    """Declare a list that is owned as a whole (``atomic``), or value by value without an order (``set``)."""
    return {
        "description": description,
        "type": "array",
        "items": items,
        **more,
        "x-kubernetes-list-type": kind,
        **_rules(rules),
    }


def rule(expression: str, message: str, reason: Reason = "FieldValueInvalid", *, at: str = "") -> Rule:
    """Declare a CEL rule; the message says what is wrong and what to write instead, ``at`` names the field to blame."""
    return {
        "rule": expression,
        "message": message,
        "reason": reason,
        **({"fieldPath": at} if at else {}),
    }


def rule_unless_broken_before(expression: str, message: str, reason: Reason = "FieldValueInvalid", *, at: str) -> Rule:
    """Declare a rule between distant fields of ``{0}`` that tolerates what the old object broke already.

    The server tolerates a broken rule only while the value that it is declared on stays equal. A whole spec seldom
    does, and counts as changed wherever something below it is not declared.
    """
    now, before = expression.format("self"), expression.format("oldSelf.value()")
    tolerant = f"({now}) || (oldSelf.hasValue() && !({before}))"
    return rule(tolerant, message, reason, at=at) | {"optionalOldSelf": True}


def _rules(rules: Sequence[Rule]) -> Node:
    return {"x-kubernetes-validations": list(rules)} if rules else {}


ApiVersion = Literal["v1beta1", "v1beta2"]

#: A CloudProfile; what a NamespacedCloudProfile overrides, where a default would turn a sparse override into a whole
#: replacement; the rendered result in its status, which is only described.
Use = Literal["profile", "override", "rendered"]

API_VERSIONS: Final[tuple[ApiVersion, ...]] = ("v1beta1", "v1beta2")

_JUDGING: Final = frozenset(
    {
        "default",
        "maxItems",
        "maxLength",
        "maxProperties",
        "minItems",
        "minLength",
        "minimum",
        "pattern",
        "x-kubernetes-validations",
    }
)


def described(node: Mapping[str, Any]) -> Node:
    """Return a node that declares the shape, without validation and defaults.

    For what a controller writes: the reader of a status that the server refuses cannot fix it, and a default would
    change what was rendered. Only the keys of lists stay required.
    """
    kept: Node = {key: value for key, value in node.items() if key not in _JUDGING and key != "required"}
    if "properties" in node:
        kept["properties"] = {name: described(each) for name, each in node["properties"].items()}
    if "additionalProperties" in node:
        kept["additionalProperties"] = described(node["additionalProperties"])
    if "items" in node:
        keys = node.get("x-kubernetes-list-map-keys")
        kept["items"] = described(node["items"]) | ({"required": keys} if keys else {})
    return kept
