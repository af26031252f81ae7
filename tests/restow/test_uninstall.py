"""The table of what restow writes to a cluster, compared with the code that writes."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from restow.uninstall.written import WRITTEN

ROOT = Path(__file__).parents[2]
ROOMS = ("cloudprofile", "conversion", "crds", "kube", "migrator", "restow")
NAME = re.compile(r"restow\.dev/(?!v\d)[A-Za-z][A-Za-z-]*\Z")
WRITES = ("create", "replace", "patch")

NOT_LEFT = {
    "restow.dev/conversion": "the controller in Events, which expire",
    "restow.dev/migrator": "the controller in Events, which expire",
    "restow.dev/stopping": "an annotation of a replica's Lease, which goes as a whole",
    "restow.dev/delete-although-needed": "an annotation of ConversionRules, which go as a whole",
    "restow.dev/declared": "an annotation of ConversionRules, which go as a whole",
    "restow.dev/moved": "an annotation of a backup, which goes as a whole",
    "restow.dev/helm-release": "the type of a backup, which goes as a whole",
}
"""Names that no uninstall has to look for, and why."""

OTHERS = {
    "kube/events.py": "Events, which expire after an hour",
    "conversion/server/rights.py": "a SubjectAccessReview, which is not stored",
    "migrator/requests/preflight.py": "a SelfSubjectAccessReview, which is not stored",
    "restow/webhook/testing.py": "objects of a test of conversions, in a cluster that is for tests",
    "migrator/requests/webhook.py": "a ConversionReview, sent through the API server's proxy",
    "migrator/requests/writer.py": "objects of users, with nothing of restow's own",
    "migrator/references/move.py": "references of users, and backups",
    "cloudprofile/controllers/reconcilers.py": "the status of objects of the CloudProfile family",
    "restow/uninstall/leftovers.py": "removes only",
    "restow/upgrade/rehearsal.py": "copies of objects, in a control plane of its own that ends with the command",
}
"""Modules that write, and leave nothing that is to be removed but what the table has for them."""


def sources() -> Iterator[tuple[str, ast.Module]]:
    """Each module of the product, parsed."""
    for room in ROOMS:
        for file in sorted((ROOT / room).rglob("*.py")):
            yield file.relative_to(ROOT).as_posix(), ast.parse(file.read_text())


def test_each_name_of_restow_is_in_the_table() -> None:
    """An annotation, label or condition that the table lacks stays in clusters after an uninstall."""
    found = {
        node.value
        for _, module in sources()
        for node in ast.walk(module)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and NAME.match(node.value)
    }
    known = {name for each in WRITTEN for name in each.names}
    assert found - known - {*NOT_LEFT} == set(), "add it to WRITTEN in restow/uninstall/written.py"
    assert {*NOT_LEFT} <= found, "it is not in the code any more"


def test_each_module_that_writes_is_in_the_table() -> None:
    """A new kind of object that restow writes must be found at an uninstall, whatever its name is."""
    found = {
        name
        for name, module in sources()
        for node in ast.walk(module)
        if isinstance(node, ast.Await)
        and isinstance(node.value, ast.Call)
        and isinstance(node.value.func, ast.Attribute)
        and node.value.func.attr in WRITES
    }
    known = {writer for each in WRITTEN for writer in each.writers}
    assert found - known - {*OTHERS} == set(), "add it to WRITTEN in restow/uninstall/written.py"
    assert known | {*OTHERS} <= found, "it does not write any more"


def test_the_page_has_each_name() -> None:
    """An administrator who searches the page for a name from a cluster finds when it goes."""
    page = (ROOT / "docs/howto/uninstall.md").read_text()
    for each in WRITTEN:
        for name in each.names:
            assert name in page, name
