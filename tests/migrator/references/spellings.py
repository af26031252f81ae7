"""How real projects name a version: the cases of ``spellings.yaml``, for each of which docs/references.md has a row."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from restow.migrator.references.reference import Reference

TEXT = {"type": "string"}
OPEN = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
_LEAVES = {
    "text": TEXT,
    "flag": {"type": "boolean"},
    "open": OPEN,
    "strings": {"type": "object", "additionalProperties": TEXT},
}


@dataclass(frozen=True)
class Case:
    """A project's CRD, an object, and what is to be found in it."""

    project: str
    spelling: str
    resource: str
    where: str
    moved: str
    blocks: str
    object: str
    kind: str
    schema: dict[str, Any]

    def content(self, group: str, version: str) -> dict[str, Any]:
        """The object, naming a version of a group."""
        text = self.object.replace("GROUP", group).replace("v1alpha1", version)
        found: dict[str, Any] = yaml.safe_load(text)
        return found


def _schema(node: Any) -> dict[str, Any]:
    if isinstance(node, list):
        return {"type": "array", "items": _schema(node[0])}
    if isinstance(node, dict):
        return {"type": "object", "properties": {name: _schema(each) for name, each in node.items()}}
    return _LEAVES[node]


def _read() -> list[Case]:
    text = Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8")
    cases = []
    for each in yaml.safe_load(text):
        content = yaml.safe_dump(each.pop("object"), width=1000)
        schema = _schema(each.pop("schema", {}))
        cases.append(Case(**{"kind": "", **each}, object=content, schema=schema))
    return cases


CASES = _read()


def blocks(found: Reference) -> str:
    """The first step that a reference stands against."""
    if found.effect.against_unserving:
        return "unserving"
    return "removal" if found.effect.against_removal else "nothing"


def moved(found: Reference) -> str:
    """Whether ``--move`` writes a reference."""
    if not found.effect.movable:
        return "no"
    return "same fields" if found.effect.same_fields else "yes"
