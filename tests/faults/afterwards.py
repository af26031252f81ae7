"""What managers do next: each applies its configuration at the new version, without force, with one value changed.

That meets no conflict only if nobody else was made an owner of it; and what it then leaves out goes away only if it is
still its own.
"""

from __future__ import annotations

from restow.kube.errors import ApiError
from tests.faults.truth import Document, Owner, Path, manifest, shares
from tests.faults.widgets import Widgets

_MOST = 4
"""Objects tried: one of each shape is enough, the judge has seen them all."""


async def applies_on(widgets: Widgets) -> list[str]:
    """Let the appliers of some objects go on; return what went wrong."""
    stored = await widgets.stored()
    wrong: list[str] = []
    for key in sorted(stored)[:_MOST]:
        entries = stored[key]["metadata"].get("managedFields") or []
        # A client of the old version that wrote since may have to go on there: the API server can be unable to convert
        # its entry, and says so to everybody.
        if all(entry["apiVersion"] == stored[key]["apiVersion"] for entry in entries):
            wrong += await _object(widgets, stored[key])
    return wrong


async def _object(widgets: Widgets, stored: Document) -> list[str]:
    wrong = []
    owners = shares(stored)
    for owner, paths in owners.items():
        others: frozenset[Path] = frozenset().union(*(theirs for other, theirs in owners.items() if other != owner))
        if owner[1] == "Apply":
            wrong += await _applier(widgets, stored, owner, paths, others)
    return wrong


async def _applier(
    widgets: Widgets, stored: Document, owner: Owner, paths: frozenset[Path], others: frozenset[Path]
) -> list[str]:
    name, alone = stored["metadata"]["name"], sorted(path for path in paths - others if path[0] == "spec")
    said = f"{owner[0]} could not go on with {name}"
    size = ("spec", "size")
    dropped = next((path for path in alone if path != size and "parts" not in path and "notes" not in path), None)
    body = manifest(stored, paths - {dropped} if dropped else paths)
    if size in alone:
        body["spec"]["size"] = 7_000_000
    whole = {"apiVersion": stored["apiVersion"], "kind": stored["kind"]} | body
    whole["metadata"] = body.get("metadata", {}) | {"name": name, "namespace": "default"}
    try:
        applied = await widgets.apply(whole, owner[0], subresource=owner[2] or None)
    except ApiError as error:
        return [f"{said}: {error.message}"]
    left = shares(applied).get(owner, frozenset())
    if dropped is not None and any(dropped in theirs for theirs in shares(applied).values()):
        return [f"{said}: {'.'.join(dropped)} stayed although nobody else owns it"]
    expected = paths - {dropped}
    return [] if left == expected else [f"{said}: it owns {sorted(left ^ expected)} otherwise than expected"]
