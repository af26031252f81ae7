"""How a manifest is written down: plain YAML without anchors, what matters of a node first, long texts folded.

Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import yaml

__all__ = ["written"]

_WIDTH: Final = 116
_HEADER: Final = """\
# Written by `python -m restow.crds.api` from crds/api: change it there.
#
# Conversion is declared as a webhook without a CA bundle, which only an installation knows: `restow operator` adds it.
# Applied alone, this CRD works at v1beta2, and requests at v1beta1 fail once a conversion would be needed.
# Never set the strategy to None while both versions are served: what only one of them can say would be lost.
"""

_FIRST: Final = ("description", "type", "format", "enum", "default", "required", "maxItems")
_INSIDE: Final = ("items", "additionalProperties", "properties")


def written(document: Mapping[str, Any]) -> str:
    """Return the text of a manifest, the same for the same document."""
    body = yaml.dump(_arranged(document), Dumper=_Dumper, sort_keys=False, width=_WIDTH, allow_unicode=True)
    return f"{_HEADER}---\n{body}"


def _arranged(value: Any) -> Any:
    """Return a part of the document with every schema in it in order."""
    if isinstance(value, list):
        return [_arranged(each) for each in value]
    if not isinstance(value, Mapping):
        return value
    return {key: _node(each) if key == "openAPIV3Schema" else _arranged(each) for key, each in value.items()}


def _node(node: Mapping[str, Any]) -> dict[str, Any]:
    """Return a node with what it is first, then its bounds and rules, and last what is inside."""
    first = [key for key in _FIRST if key in node]
    bounds = sorted(key for key in node if key not in (*_FIRST, *_INSIDE))
    arranged = {key: node[key] for key in (*first, *bounds)}
    for key in ("items", "additionalProperties"):
        if key in node:
            arranged[key] = _node(node[key])
    if "properties" in node:
        arranged["properties"] = {name: _node(each) for name, each in node["properties"].items()}
    return arranged


class _Dumper(yaml.SafeDumper):
    """Writes every node in full, and texts that are longer than a line folded."""

    def ignore_aliases(self, _data: Any) -> bool:
        return True

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:  # noqa: ARG002
        super().increase_indent(flow, False)


def _text(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
    style = ">" if len(value) > 80 and " " in value else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)


_Dumper.add_representer(str, _text)
