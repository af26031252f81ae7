"""Whether a value that passes unchanged fits both versions: types, list and map types, enums, required fields.

Pure.
"""

from __future__ import annotations

from typing import Any

from restow.conversion.definition.findings import Findings
from restow.conversion.path import Path
from restow.conversion.rules.model import Side
from restow.crds import Schema

__all__ = ["compare_types", "is_guaranteed"]


def compare_types(spoke: Schema, hub: Schema, spoke_path: Path, hub_path: Path, findings: Findings) -> bool:
    """Report how two fields that take the same value differ; say whether it makes sense to look inside."""
    ours, theirs = _type(spoke), _type(hub)
    if ours != theirs:
        findings.add(
            "spoke",
            spoke_path,
            f"is {ours}, but {findings.hub} {findings.place('hub', hub_path)} is {theirs}",
            "Convert it with rules.pair (or rules.wrap, for a value that became a list)",
        )
        return False
    _compare_enums(spoke, hub, spoke_path, hub_path, findings)
    if spoke.kind == "list" and (spoke.list_type, set(spoke.list_keys)) != (
        hub.list_type,
        set(hub.list_keys),
    ):
        findings.add(
            "spoke",
            spoke_path,
            f"is a list of the type {_list(spoke)}, but in {findings.hub} of the type {_list(hub)}",
            "Declare the change with rules.each, or make the schemas agree",
        )
    if (spoke.values is None) != (hub.values is None) and spoke.kind == "map":
        open_side: Side = "hub" if spoke.values is None else "spoke"
        closed = findings.version("spoke" if open_side == "hub" else "hub")
        findings.add(
            open_side,
            spoke_path if open_side == "spoke" else hub_path,
            f"keeps undeclared fields, which {closed} would prune",
            "Let both versions keep them, or stash the field as a whole",
        )
    return True


def is_guaranteed(spoke: Schema, hub: Schema, spoke_path: Path, hub_path: Path, findings: Findings) -> None:
    """Report a field that one version requires and the other may lack; the schemas are those of the objects around."""
    sides: tuple[tuple[Side, Schema, Path, Side, Schema, Path], ...] = (
        ("hub", hub, hub_path, "spoke", spoke, spoke_path),
        ("spoke", spoke, spoke_path, "hub", hub, hub_path),
    )
    for side, schema, path, other, around, its_path in sides:
        field, source = schema.field(path[-1]), around.field(its_path[-1])
        if field is None or path[-1] not in schema.required or field.has_default:
            continue
        if its_path[-1] not in around.required and not (source is not None and source.has_default):
            fix = (
                "Fill it in with rules.default"
                if side == "hub"
                else "Make it optional there, or convert it with rules.pair"
            )
            findings.add(side, path, f"is required, but {findings.version(other)} may leave it out", fix)


def _compare_enums(spoke: Schema, hub: Schema, spoke_path: Path, hub_path: Path, findings: Findings) -> None:
    ours, theirs = _enum(spoke), _enum(hub)
    for side, mine, yours, path in (("spoke", ours, theirs, spoke_path), ("hub", theirs, ours, hub_path)):
        if yours is None or mine == yours:
            continue
        other = findings.hub if side == "spoke" else findings.spoke
        if mine is None:
            problem = f"takes values that the enum of {other} does not"
        else:
            extra = [value for value in mine if value not in yours]
            if not extra:
                continue
            problem = f"takes {', '.join(map(repr, extra))}, which {other} does not"
        direction = "up" if side == "spoke" else "down"
        findings.add(side, path, problem, f"Say with rules.enum(…, {direction}=…) what {other} shows instead")  # type: ignore[arg-type]


def _enum(schema: Schema) -> list[Any] | None:
    values = schema.node.get("enum")
    return None if values is None else [value for value in values if value is not None]


def _type(schema: Schema) -> str:
    return "integer or string" if schema.int_or_string else schema.node.get("type") or "untyped"


def _list(schema: Schema) -> str:
    return f"{schema.list_type}{list(schema.list_keys) if schema.list_keys else ''}"
