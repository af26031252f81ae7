"""The verdict on a CRD before it is applied: what clients of each served version notice.

``crd_findings`` compares two states of one CRD: the schema of each version with its successor of the same name, what is
served and stored, names, subresources, columns; and, where the strategy None only renames versions, what a version and
the storage version do not both keep.

Pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from restow.crds.compare import dropped_fields
from restow.crds.crd import Crd, Version
from restow.crds.schemachanges import ChangeVerdict, SchemaChange, schema_changes


@dataclass(frozen=True, slots=True)
class CrdFinding:
    """One finding.

    Attributes:
        crd: the CRD's name.
        version: the version whose clients notice it; empty for all.
        check: the kind of change, a key of ``CHECKS``.
        severity: what it means for clients.
        path: the place in the schema, or the field of the CRD.
        what: the change in a few words.
        remedy: what to do, if it differs from that of the check.
        objects: the first objects that it is about, as ``namespace/name``.
    """

    crd: str
    version: str
    check: str
    severity: ChangeVerdict
    path: str
    what: str
    remedy: str = ""
    objects: tuple[str, ...] = ()

    @property
    def effect(self) -> str:
        """What clients notice, a sentence."""
        return CHECKS[self.check][0]

    def to_json(self) -> dict[str, Any]:
        """Return the finding as data."""
        about = {"objects": list(self.objects)} if self.objects else {}
        return about | {
            "crd": self.crd,
            "version": self.version,
            "path": self.path,
            "check": self.check,
            "verdict": self.severity.value,
            "change": self.what,
            "reason": self.effect,
            "fix": self.remedy or CHECKS[self.check][1],
        }


_NEW_VERSION: Final = "Keep it, or make the change in a new version with conversion rules"
_CORRECT: Final = "Keep it as it was, or correct clients and stored objects before"

#: Each check with its effect and what to do. A finding that is ok needs neither.
CHECKS: Final[Mapping[str, tuple[str, str]]] = {
    "crd-removed": ("All objects are deleted with the CRD", "Keep the CRD until nobody uses it"),
    "crd-added": ("", ""),
    "scope": ("The API server refuses another scope", "Make a CRD with another name, and move the objects"),
    "kind": (
        "Clients that name the kind find no resource, and stored objects keep the old kind",
        "Make a CRD with another name, and move the objects",
    ),
    "names": ("Scripts and commands that use the name fail", "Keep the name"),
    "stored-version-removed": (
        "The API server cannot read what is stored at the version, and refuses to drop one of status.storedVersions",
        "Keep it with served: false, and run restow migrate; restow ready says when it can go",
    ),
    "version-removed": (
        "Clients of the version get 404",
        "Serve it until its clients have moved; restow references finds who names it",
    ),
    "version-added": ("", ""),
    "deprecated": ("Clients of the version get a warning", "Tell them which version to use"),
    "storage": (
        "Objects stay stored at the old version until each is written, and it must stay in the CRD until then",
        "Run restow migrate after the change",
    ),
    "conversion": (
        "The webhook must answer before versions other than the stored one can be read",
        "Start it before the CRD is applied",
    ),
    "conversion-unjudged": (
        "A webhook converts between the versions, and only its rules say what it keeps",
        "Give the rules with --rules",
    ),
    "conversion-dropped": (
        "Without a webhook the API server drops the field when it converts to a version that lacks it",
        "Declare it in both versions, or convert it with rules",
    ),
    "conversion-rules": ("The rules do not convert the field as both schemas need it", "Complete the rules"),
    "conversion-bounds": (
        "An object that one version admits cannot be changed at another",
        "Make the bounds agree, or convert the value",
    ),
    "subresource": (
        "Writes of status go to another place; without the scale subresource kubectl scale and autoscalers fail",
        "Keep the subresource",
    ),
    "subresource-added": ("", ""),
    "columns": ("kubectl get shows another table, which scripts may read", "Keep the column if scripts use it"),
    "columns-added": ("", ""),
    "selectable-fields": ("The API server refuses lists and watches that select by the field", "Keep the field"),
    "field-removed": ("The API server drops the field from writes, and readers find nothing", _NEW_VERSION),
    "field-added": ("", ""),
    "fields-closed": ("The API server drops undeclared fields from writes, and readers find nothing", _NEW_VERSION),
    "fields-opened": ("", ""),
    "type": ("The API server refuses values of the old type, stored ones too", _NEW_VERSION),
    "type-widened": ("Readers may meet a value of another type", "Tell clients before"),
    "nullable-removed": ("A null in a list is refused, any other null counts as absent", _CORRECT),
    "nullable-added": ("Readers may meet null", "Tell clients before"),
    "enum": ("The API server refuses the other values", _CORRECT),
    "enum-widened": ("Readers may meet a value that they do not know", "Tell clients before"),
    "bound": ("The API server refuses values beyond it", _CORRECT),
    "bound-widened": ("", ""),
    "pattern": ("The API server may refuse values that it took before", _CORRECT),
    "format": ("The API server may refuse values that it took before", _CORRECT),
    "required": ("The API server refuses objects without the field", "Give it a default, or leave it optional"),
    "required-with-default": ("", ""),
    "required-dropped": ("Readers may find nothing", "Tell clients before"),
    "default": ("Objects without the field mean something else, and nobody has changed them", _NEW_VERSION),
    "default-removed": ("Objects without the field stay without it, and readers find nothing", _NEW_VERSION),
    "default-added": (
        "Objects without the field get the default, which an old client cannot have meant",
        "Check that it means what a missing field has meant so far",
    ),
    "list-type": (
        "Server-side apply merges the list otherwise: owners lose items or get conflicts; duplicates may be refused",
        "Make the change in a new storage version and run restow migrate, which moves the owners",
    ),
    "map-type": (
        "Server-side apply owns the object otherwise: owners conflict, or overwrite each other",
        "Make the change in a new storage version and run restow migrate, which moves the owners",
    ),
    "embedded": ("The API server refuses objects without apiVersion, kind and metadata", _CORRECT),
    "cel": ("The API server may refuse objects that it took before", _CORRECT),
    "cel-removed": ("", ""),
    "junctor": ("The API server may refuse objects that it took before", _CORRECT),
    "junctor-removed": ("", ""),
    "clients": ("They write what the new CRD no longer takes", "Tell their owners, and wait until they have moved"),
    "crd-refused": ("The API server refuses the new CRD", "Correct it"),
    "objects-unjudged": ("Stored objects were not tried", "Look at them with restow plan after the change"),
    "object-unreadable": ("Reads of it fail, and so does every list of the kind", "Correct the object or the rules"),
    "object-refused": (
        "It cannot be created again, by a restore for instance, nor can the field be changed to such a value",
        "Correct the objects before, or admit their values",
    ),
    "object-pruned": ("The API server drops the value, and nobody can get it back", _NEW_VERSION),
    "object-changed": ("Readers get another value, and nobody has changed it", "Correct the rules or the schema"),
    "object-defaulted": ("Readers get a value that nobody has written", "Check that it means what was meant"),
    "object-failed": ("The migration ends with failures, and the old version cannot go", "Correct it before"),
    "owner-lost": (
        "Its manager no longer owns the field: removing it from an apply leaves it in place",
        "Have the manager apply the objects once more",
    ),
    "apply-refused": ("The API server refuses the manager's next apply", "Change what the manager applies before"),
    "owner-conflict": ("Its manager's next apply fails", "Have the manager apply with --force-conflicts once"),
    "migration-due": ("Objects or their owners stay at an old version", "Run restow migrate after the change"),
    "version-needed": ("The version cannot be removed after the migration yet", "Do as restow ready says"),
}


def crd_findings(old: Crd, new: Crd, *, judged: bool = False) -> tuple[CrdFinding, ...]:
    """Return the findings about two states of a CRD; without a change, none.

    With ``judged``, conversion rules judge what passes between versions, and nothing here does.
    """
    found = [*_definition(old, new), *_versions(old, new)]
    if not judged:
        before = set(between_versions(old))
        found += [finding for finding in between_versions(new) if finding not in before]
    return tuple(dict.fromkeys(found))


def _definition(old: Crd, new: Crd) -> Iterator[CrdFinding]:
    """Yield the changes that concern all versions."""
    yield from _changed(new, "scope", ChangeVerdict.BREAKING, "spec.scope", _scope(old), _scope(new))
    yield from _changed(new, "kind", ChangeVerdict.BREAKING, "spec.names.kind", old.kind, new.kind)
    yield from _changed(new, "names", ChangeVerdict.NOTICE, "spec.names.singular", old.singular, new.singular)
    yield from _changed(new, "names", ChangeVerdict.NOTICE, "spec.names.listKind", old.list_kind, new.list_kind)
    ours, theirs = old.document["spec"]["names"], new.document["spec"]["names"]
    for key in ("shortNames", "categories"):
        for name in sorted({*(ours.get(key) or ())} - {*(theirs.get(key) or ())}):
            yield CrdFinding(new.name, "", "names", ChangeVerdict.NOTICE, f"spec.names.{key}", f"{name} is gone")
    if old.storage.name != new.storage.name:
        what = f"storage version is {new.storage.name}, was {old.storage.name}"
        yield CrdFinding(new.name, "", "storage", ChangeVerdict.NOTICE, "spec.versions", what)
    if old.strategy != new.strategy == "Webhook":
        what = "strategy is Webhook, was None"
        yield CrdFinding(new.name, "", "conversion", ChangeVerdict.NOTICE, "spec.conversion", what)


def _scope(crd: Crd) -> str:
    return "Namespaced" if crd.namespaced else "Cluster"


def _changed(crd: Crd, check: str, severity: ChangeVerdict, path: str, ours: str, theirs: str) -> Iterator[CrdFinding]:
    if ours != theirs:
        yield CrdFinding(crd.name, "", check, severity, path, f"{path.rpartition('.')[2]} is {theirs}, was {ours}")


def _versions(old: Crd, new: Crd) -> Iterator[CrdFinding]:
    for before in old.versions:
        after = new.version(before.name)
        if after is None or (before.served and not after.served):
            yield from _withdrawn(old, before, gone=after is None)
        if after is not None:
            yield from (_capped(finding, before) for finding in _version(new, before, after, (old, new)))
    for after in new.versions:
        if old.version(after.name) is None:
            yield CrdFinding(new.name, after.name, "version-added", ChangeVerdict.OK, "spec.versions", "version is new")


def _withdrawn(old: Crd, version: Version, *, gone: bool) -> Iterator[CrdFinding]:
    """Yield what the end of a version means for its clients and for the objects stored at it."""
    name, path = version.name, "spec.versions"
    if gone and (version.storage or name in old.stored_versions):
        what = "version is gone, and objects are stored at it"
        yield CrdFinding(old.name, name, "stored-version-removed", ChangeVerdict.BREAKING, path, what)
    if version.served:
        what = "version is gone" if gone else "version is not served, was"
        yield CrdFinding(old.name, name, "version-removed", ChangeVerdict.BREAKING, path, what)
    elif gone:
        yield CrdFinding(
            old.name, name, "version-removed", ChangeVerdict.NOTICE, path, "version is gone, was not served"
        )


def _capped(finding: CrdFinding, version: Version) -> CrdFinding:
    """Return a finding about a version; one that was not served has no clients who could notice."""
    breaks = finding.severity is ChangeVerdict.BREAKING
    return replace(finding, severity=ChangeVerdict.NOTICE) if breaks and not version.served else finding


def _version(crd: Crd, before: Version, after: Version, both: tuple[Crd, Crd]) -> Iterator[CrdFinding]:
    name = after.name
    for change in schema_changes(before.schema, after.schema):
        yield _finding(crd, name, change)
    if after.served and not before.served:
        yield CrdFinding(
            crd.name, name, "version-added", ChangeVerdict.OK, "spec.versions", "version is served, was not"
        )
    if after.deprecated and not before.deprecated:
        yield CrdFinding(crd.name, name, "deprecated", ChangeVerdict.NOTICE, "spec.versions", "version is deprecated")
    yield from _subresources(crd, before, after)
    ours, theirs = (_entry(each, name) for each in both)
    yield from _columns(crd, name, ours, theirs)
    for field in sorted(_selectable(ours) - _selectable(theirs)):
        what = f"{field} is gone"
        yield CrdFinding(crd.name, name, "selectable-fields", ChangeVerdict.BREAKING, "selectableFields", what)


def _finding(crd: Crd, version: str, change: SchemaChange) -> CrdFinding:
    return CrdFinding(crd.name, version, change.check, change.severity, change.path, change.what)


def _entry(crd: Crd, version: str) -> Mapping[str, Any]:
    return next(each for each in crd.document["spec"]["versions"] if each["name"] == version)


def _subresources(crd: Crd, before: Version, after: Version) -> Iterator[CrdFinding]:
    for name, ours, theirs in (
        ("status", before.has_status_subresource, after.has_status_subresource),
        ("scale", before.has_scale, after.has_scale),
    ):
        if ours == theirs:
            continue
        path = f"subresources.{name}"
        if ours or name == "status":
            what = "subresource is gone" if ours else "subresource is new"
            yield CrdFinding(crd.name, after.name, "subresource", ChangeVerdict.BREAKING, path, what)
        else:
            yield CrdFinding(crd.name, after.name, "subresource-added", ChangeVerdict.OK, path, "subresource is new")


def _columns(crd: Crd, version: str, ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> Iterator[CrdFinding]:
    before, after = (
        {each["name"]: each.get("jsonPath") for each in entry.get("additionalPrinterColumns") or ()}
        for entry in (ours, theirs)
    )
    path = "additionalPrinterColumns"
    for name in (name for name in before if name not in after):
        yield CrdFinding(crd.name, version, "columns", ChangeVerdict.NOTICE, path, f"column {name} is gone")
    for name in (name for name in before if name in after and before[name] != after[name]):
        yield CrdFinding(crd.name, version, "columns", ChangeVerdict.NOTICE, path, f"column {name} shows {after[name]}")
    for name in (name for name in after if name not in before):
        yield CrdFinding(crd.name, version, "columns-added", ChangeVerdict.OK, path, f"column {name} is new")


def _selectable(entry: Mapping[str, Any]) -> frozenset[str]:
    return frozenset(each.get("jsonPath", "") for each in entry.get("selectableFields") or ())


def between_versions(crd: Crd) -> Iterator[CrdFinding]:
    """Yield what a served version and the storage version do not both keep or admit.

    With a webhook only its rules say what both keep.
    """
    storage = crd.storage
    for version in crd.versions:
        if not version.served or version is storage:
            continue
        if crd.strategy == "Webhook":
            what = f"{version.name} and {storage.name} are converted by a webhook"
            yield CrdFinding(
                crd.name, version.name, "conversion-unjudged", ChangeVerdict.NOTICE, "spec.conversion", what
            )
            continue
        yield from _renamed(crd, version, storage, ChangeVerdict.BREAKING)  # what clients write is not stored
        yield from _renamed(crd, storage, version, ChangeVerdict.NOTICE)  # only a client that writes back drops it


def _renamed(crd: Crd, source: Version, target: Version, severity: ChangeVerdict) -> Iterator[CrdFinding]:
    """Yield what is lost or refused when only the apiVersion of an object changes."""
    for path in dropped_fields(source.schema, target.schema):
        what = f"{target.name} lacks the field of {source.name}"
        yield CrdFinding(crd.name, source.name, "conversion-dropped", severity, path, what)
    for change in schema_changes(source.schema, target.schema):
        if change.severity is ChangeVerdict.BREAKING and change.check in _REFUSED:
            what = f"{target.name} differs from {source.name}: {change.what.partition(', was ')[0]}"
            yield CrdFinding(crd.name, source.name, "conversion-bounds", ChangeVerdict.NOTICE, change.path, what)


_REFUSED: Final = frozenset({"type", "enum", "bound", "pattern", "format", "required", "cel", "junctor"})
