"""Where a part of a profile is used, which decides on its defaults and on how strictly it is judged.

Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal

from restow.crds.api.nodes import Node

__all__ = ["API_VERSIONS", "ApiVersion", "Use", "described"]

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
    """Return a node that tells the shape, and neither judges nor defaults.

    For what a controller writes: a status that the server refuses cannot be mended by its reader, and a default would
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
