"""Which code reads ``status.storedVersions``, which every client may trim, and which therefore prove nothing."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
ROOMS = ("cloudprofile", "controlplane", "conversion", "crds", "kube", "migrator", "restow")

SHOWN = "shows them"
GUARD = "an API server refuses to remove the versions that they name, whether an object is stored there or not"
WRITTEN = "compares them with what is to be written there, after a proof"
SEARCHED = "looks for more than they name"
ALLOWED = {
    "crds/crd.py:from_document": "is the view of the document",
    "crds/composites.py:crd_of_composite": "hands on what the API server wrote",
    "crds/crddiff.py:_withdrawn": SHOWN,
    "restow/upgrade/rehearsal.py:_store": "hands on to a rehearsal what the API server wrote",
    "crds/crd.py:unknown_stored_versions": GUARD,
    "migrator/operate/hooks.py:facts": SHOWN,
    "migrator/operate/hooks.py:follow": SHOWN,
    "migrator/operate/log.py:log_details": SHOWN,
    "migrator/operate/metrics.py:__call__": SHOWN,
    "migrator/operate/reconciler.py:due_phases": WRITTEN,
    "migrator/planning/diagnosis.py:_migration_due": GUARD,
    "migrator/planning/plan.py:to_json": SHOWN,
    "migrator/planning/plan.py:plan": WRITTEN,
    "migrator/planning/ready.py:_judged_by": "compares them with themselves",
    "migrator/planning/ready.py:judge": GUARD,
    "migrator/planning/ready.py:ready": SEARCHED,
    "migrator/planning/status.py:_state": GUARD,
    "migrator/planning/status.py:_work_due": GUARD,
    "migrator/planning/status.py:to_json": SHOWN,
    "migrator/references/reference.py:old_versions": SEARCHED,
    "migrator/requests/preflight.py:_writes": WRITTEN,
    "migrator/run/begin.py:_name_stored_versions": WRITTEN,
    "migrator/run/begin.py:_take_down": SHOWN,
    "migrator/run/begin.py:begin": SHOWN,
    "migrator/requests/native.py:_put_back": WRITTEN,
    "migrator/run/end.py:_prune_proved": SHOWN,
    "migrator/run/end.py:_pruned_by_others": SHOWN,
    "migrator/run/end.py:_trim": WRITTEN,
    "migrator/run/run.py:_pass": SHOWN,
    "migrator/run/run.py:_prune_alone": WRITTEN,
    "migrator/run/shards.py:counts": "refuses a record that does not know one of them",
    "migrator/run/shards.py:record": "is an input of a decision (counts)",
    "migrator/timeline.py:observe": GUARD,
    "restow/commands/plan.py:_row": SHOWN,
    "restow/commands/plan.py:reasons": GUARD,
    "restow/commands/references.py:_sought": SEARCHED,
    "restow/commands/status.py:_row": SHOWN,
    "restow/report/views.py:_migrated": GUARD,
    "restow/report/views.py:_versions": SHOWN,
    "restow/report/views.py:view": SHOWN,
}
"""The places that read them, and why none of them takes them for the versions at which objects are stored."""


def places(text: str) -> Iterator[str]:
    """The functions that read them: an attribute, or a key of a document."""

    def visit(node: ast.AST, within: str) -> Iterator[str]:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            within = node.name
        attribute = isinstance(node, ast.Attribute) and node.attr == "stored_versions"
        key = isinstance(node, ast.Subscript) and _is_name(node.slice)
        got = isinstance(node, ast.Call) and any(map(_is_name, node.args[:1]))
        if attribute or key or got:
            yield within
        for child in ast.iter_child_nodes(node):
            yield from visit(child, within)

    yield from visit(ast.parse(text), "")


def _is_name(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and node.value == "storedVersions"


def found() -> set[str]:
    """The places in the product, but for the one folder that decides what is proved."""
    files = (path for room in ROOMS for path in sorted((ROOT / room).rglob("*.py")))
    return {
        f"{path.relative_to(ROOT)}:{name}"
        for path in files
        if ROOT / "migrator/decide" not in path.parents
        for name in places(path.read_text(encoding="utf-8"))
    }


def test_nothing_else_reads_stored_versions() -> None:
    """A step that believes them loses the objects at a version that was trimmed: ask ``what_is_proved``."""
    assert found() == set(ALLOWED)


@pytest.mark.parametrize(
    "text",
    [
        "def f(crd):\n    return crd.stored_versions",
        "async def f(status):\n    return status['storedVersions']",
        "def f(status):\n    return [v for v in status.get('storedVersions') or ()]",
    ],
)
def test_each_way_to_read_them_is_found(text: str) -> None:
    """A place that is not found is not judged."""
    assert list(places(text)) == ["f"]
