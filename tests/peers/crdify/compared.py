"""What crdify and restow say about a pair of CRDs, place by place, and why they differ where they do.

crdify knows errors only, so a place is compared by whether it has one, and whether restow calls it breaking. A
difference needs a row of ``ROWS``; docs/peers.md has the same rows.
"""

from __future__ import annotations

import atexit
import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, Final

from restow.crds import Crd
from restow.crds.crddiff import CrdFinding, between_versions, crd_findings
from restow.crds.schemachanges import ChangeVerdict
from tests.peers.building import Project
from tests.peers.crdify.pairs import Document
from tests.peers.recordings import Program, program

__all__ = ["CRDIFY", "ROWS", "differences"]

CRDIFY: Final = Project("crdify")
"""sigs.k8s.io/crdify, at the version that its go.mod pins."""

ROWS: Final = (
    *("description", "default-added", "reader", "required-with-default", "below", "kept", "unhandled", "least-of-zero"),
    *("unserved", "webhook", "between-versions", "was-there", "reads-of-versions"),
    *("what-is-served", "stored-by-default", "clients-of-a-version"),
)
"""The names of the rows."""


@cache
def _crdify() -> Program:
    found = program(CRDIFY)
    atexit.register(found.close)
    return found


Place = tuple[str, str]
"""A version, or ``a -> b`` for a pair of versions, and a path; both are empty for the CRD."""


def crdify_errors(old: Document, new: Document) -> dict[Place, set[str]]:
    """Return crdify's errors: the names of its validations by place."""
    said = _crdify().ask({"old": old, "new": new})
    assert "results" in said, said
    results = said["results"]
    found: dict[Place, set[str]] = {}
    for each in results.get("crdValidation") or ():
        for error in each.get("errors") or ():
            version, path = "", ""
            if each["name"] == "existingFieldRemoval":
                version, _, path = error.partition(" : ")[2].partition(".")
            found.setdefault((version, _path(path)), set()).add(each["name"])
    for group in ("sameVersionValidation", "servedVersionValidation"):
        for version, places in (results.get(group) or {}).items():
            for path, validations in places.items():
                names = {each["name"] for each in validations if each.get("errors")}
                if names:
                    found.setdefault((version, _path(path)), set()).update(names)
    return found


def _path(text: str) -> str:
    """Return a path in a notation that both have: ``[*]`` for items and values, names as they are."""
    text = text.removeprefix("^").replace("[]", "[*]").replace("{}", "[*]")
    return re.sub(r'\["([^"]*)"\]', r".\1", text).removeprefix(".")


def differences(old: Document, new: Document) -> Iterator[tuple[str, str]]:
    """Yield (row, difference) for each place at which the verdicts differ; the row is empty if none explains it."""
    errors = crdify_errors(old, new)
    before, after = Crd.from_document(old), Crd.from_document(new)
    found: dict[Place, set[CrdFinding]] = {}
    for each in crd_findings(before, after):
        is_of_crd = not each.path.startswith(".")
        version = "" if each.check == "stored-version-removed" else each.version
        found.setdefault((version, "" if is_of_crd else _path(each.path)), set()).add(each)
    for place, names in sorted(errors.items()):
        if not _breaks(found.get(place, ())):
            for name in sorted(names):
                yield _why_not(name, place, found, before, after), f"crdify alone: {' '.join(place)} {name}"
    for place, findings in sorted(found.items()):
        if place not in errors and _breaks(findings):
            for each in findings:
                if each.severity is ChangeVerdict.BREAKING:
                    yield _why(each), f"restow alone: {' '.join(place)} {each.check}: {each.what}"


def _breaks(findings: Any) -> bool:
    return any(each.severity is ChangeVerdict.BREAKING for each in findings)


_READER: Final = frozenset(
    {"enum-widened", "type-widened", "nullable-added", "nullable-removed", "required-dropped", "bound-widened"}
)


def _why_not(name: str, place: Place, found: Mapping[Place, set[CrdFinding]], before: Crd, after: Crd) -> str:
    """Return the row for an error of crdify at a place where restow finds nothing that breaks."""
    version, path = place
    if name == "description":
        return "description"
    if "->" in version:
        return _why_not_between(name, place, found, before, after)
    checks = {each.check for each in found.get(place, ())}
    known = before.version(version)
    if known is not None and not known.served:
        return "unserved"
    if any(
        _breaks(findings) and of == version and path.startswith((f"{above}.", f"{above}[")) and _ends(findings)
        for (of, above), findings in found.items()
    ):
        return "below"
    if "default-added" in checks and name == "default":
        return "default-added"
    if "required-with-default" in checks and name == "required":
        return "required-with-default"
    if name == "unhandled":
        return "unhandled"
    if name in ("minItems", "minLength", "minProperties") and not checks:
        return "least-of-zero"
    if checks & _READER:
        return "reader"
    return "kept" if name in ("existingFieldRemoval", "type") and _is_kept(after, version, path) else ""


def _why_not_between(name: str, place: Place, found: Mapping[Place, set[CrdFinding]], before: Crd, after: Crd) -> str:
    """Return the row for an error of crdify about two versions of the new CRD."""
    if after.strategy == "Webhook":
        return "webhook"
    pair, path = place[0].split(" -> "), place[1]
    if any(each.version in pair and _is_at(path, each) for group in found.values() for each in group):
        return "between-versions"
    if any(_is_at(path, each) for each in between_versions(before)):
        return "was-there"
    if name in ("default", "enum", "unhandled"):
        return "reads-of-versions"
    return "kept" if name == "type" and _is_kept(after, pair[1], path) else ""


def _is_at(path: str, finding: CrdFinding) -> bool:
    """Return whether a difference of versions is at a place or above it."""
    above = _path(finding.path)
    return finding.check.startswith("conversion-") and (path == above or path.startswith((f"{above}.", f"{above}[")))


def _ends(findings: set[CrdFinding]) -> bool:
    """Return whether nothing below a place is compared."""
    return bool({each.check for each in findings} & {"field-removed", "type"})


def _is_kept(crd: Crd, version: str, path: str) -> bool:
    """Return whether the new schema keeps a place that it does not declare."""
    known = crd.version(version)
    schema = None if known is None else known.schema
    for name in path.replace("[*]", ".[*]").split("."):
        if schema is None:
            return False
        if name != "[*]":
            schema = schema.field(name)
        else:
            schema = schema.items if schema.admits_list and schema.items else schema.values
    return schema is not None


def _why(finding: CrdFinding) -> str:
    """Return the row for a breaking change of restow's at a place where crdify has no error."""
    if finding.check in ("version-removed", "stored-version-removed"):
        return "stored-by-default" if finding.check == "stored-version-removed" else "what-is-served"
    if finding.check in ("subresource", "selectable-fields", "kind"):
        return "clients-of-a-version"
    return "between-versions" if finding.check == "conversion-dropped" else ""
