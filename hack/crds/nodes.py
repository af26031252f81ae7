"""The functions that declare the API, each of which makes one node of a structural schema, and the uses of a part.

Every field has a description, for ``kubectl explain`` and editors. Lists and texts that CEL rules read have bounds:
the server estimates a rule's cost from the bounds, and refuses a CRD whose rules could cost too much. The use of a
part of a profile (``Use``) decides which defaults it has and how strictly the server validates it.

Pure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal

Node = dict[str, Any]
Rule = dict[str, Any]
Reason = Literal["FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired"]

#: resource.Quantity as controller-gen declares it, but without a minus sign.
_QUANTITY: Final = (
    r"^\+?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))"
    r"(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$"
)


def text(description: str, *, rules: Sequence[Rule] = (), **more: Any) -> Node:
    """Declare a string; ``more`` takes ``enum``, ``pattern``, ``format``, ``minLength``, ``maxLength``, ``default``."""
    return {"description": description, "type": "string", **more, **_rules(rules)}


def moment(description: str) -> Node:
    """Declare a point in time in RFC 3339, in the years that date libraries support.

    The rule also refuses values that the server's format accepts and CEL cannot parse: lower-case letters, offsets of
    99 hours.
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
    """Declare a text field of v1beta1 at v1beta2 so that the server refuses it instead of pruning it silently."""
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
    """Declare a value of any type, which is passed on unchanged."""
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
    """Declare an object; an open object keeps undeclared fields.

    Only the list has a description, not its items: ``kubectl explain`` shows both texts as one.
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
    """Declare a list whose items are identified, and owned one by one, by a required field."""
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
    """Declare a CEL rule.

    ``message`` says what is wrong and what to write instead; ``at`` names the field that the error refers to.
    """
    return {
        "rule": expression,
        "message": message,
        "reason": reason,
        **({"fieldPath": at} if at else {}),
    }


def rule_unless_broken_before(expression: str, message: str, reason: Reason = "FieldValueInvalid", *, at: str) -> Rule:
    """Declare a rule between distant fields of ``{0}`` that tolerates a violation that the old object already has.

    The server tolerates a broken rule only while the value that declares the rule stays equal. A whole spec seldom
    stays equal, and the server counts it as changed wherever it contains an undeclared field.
    """
    now, before = expression.format("self"), expression.format("oldSelf.value()")
    tolerant = f"({now}) || (oldSelf.hasValue() && !({before}))"
    return rule(tolerant, message, reason, at=at) | {"optionalOldSelf": True}


def _rules(rules: Sequence[Rule]) -> Node:
    return {"x-kubernetes-validations": list(rules)} if rules else {}


ApiVersion = Literal["v1beta1", "v1beta2"]

#: ``profile``: a CloudProfile. ``override``: the spec of a NamespacedCloudProfile, where a default would turn a sparse
#: override into a full replacement. ``rendered``: the result in its status, which has no validation.
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
    """Return a node that declares only the shape, without validation and defaults.

    Statuses use it, because a controller writes them: the reader of a status that the server refuses cannot fix it, and
    a default would change the rendered profile. Only the keys of lists stay required.
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
