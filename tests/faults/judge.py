"""The judgement over a run, from etcd's history alone: what was unsafe, lost or left behind, at any revision of it.

Every revision of an object is either one that a user is known to have written, which is right by definition, or the
migrator's, which may change nothing but the version and the bookkeeping. Pure.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from tests.faults.history import Change
from tests.faults.truth import Document, Shares, content, shares

_OURS = ("restow", "restow-migrator")
_NOBODY = "before-first-apply"
_HELPER = "canary"  # made and deleted to see at which version the API server stores


@dataclass(slots=True)
class _Object:
    """What the judge knows of one object: as it is stored, and who has to own what of it."""

    stored: Document
    content: Document
    owners: Shares
    wrote: set[str] = field(default_factory=set)  # in the run, and so may have entries of any version
    unsure: set[str] = field(default_factory=set)  # who wrote while its share was lost
    doubtful: bool = False  # the API server itself lost owners in a write of a user's


@dataclass(slots=True)
class Judge:
    """Reads changes in their order; ``wrong`` are its findings.

    Args:
        users: who wrote which revision.
        tried: who wrote a value that nobody wrote before, and did not hear at which revision, if at any.
        deleted: how often users deleted an object, by name.
        keeps: entries of other versions are to stay.
        may_lose: managers whose shares may go, since their version left the CRD and nothing can carry them over.
    """

    users: Mapping[int, str]
    tried: Mapping[object, str]
    deleted: Counter[str]
    may_lose: frozenset[str] = frozenset()
    keeps: bool = False
    wrong: list[str] = field(default_factory=list)
    prunes: int = 0
    _objects: dict[str, _Object] = field(default_factory=dict)
    _versions: dict[str, str] = field(default_factory=dict)
    _crd: Document = field(default_factory=dict)
    _was_unsafe: bool = False

    def begin(self, stored: Iterable[Change]) -> None:
        """Take what was stored before the run."""
        for change in stored:
            assert change.document is not None
            if change.of_crd:
                self._crd = change.document
            else:
                self._versions[change.name] = _version(change.document)
                self._objects[change.name] = _taken(change.document)

    def read(self, changes: Sequence[Change]) -> None:
        """Read what was written since."""
        for change in changes:
            if change.of_crd:
                self._read_crd(change)
            else:
                self._read_object(change)
            self._check_stored_versions(change.revision)

    def end(self) -> None:
        """Judge what is stored now that everything has ended."""
        status = self._crd["status"]["storedVersions"]
        storage = _storage(self._crd)
        if status != [storage]:
            self.wrong.append(f"status.storedVersions ended as {status}, the storage version being {storage}")
        for name, found in self._objects.items():
            if _version(found.stored) != storage:
                self.wrong.append(f"{name} ended at {_version(found.stored)} instead of {storage}")
            entries = found.stored["metadata"].get("managedFields") or []
            if any(entry["manager"] in _OURS for entry in entries):
                self.wrong.append(f"{name} ended with an entry of restow's own")
            if not self.keeps:
                self.wrong += [f"{name} ended with {who} at an older version" for who in _older(found, entries)]
            if not found.doubtful:
                self.wrong += [f"{name} ended so that {what}" for what in self._differences(found)]

    def _read_crd(self, change: Change) -> None:
        if change.document is None:
            self.wrong.append(f"revision {change.revision}: the CRD was deleted")
            return
        before = self._crd["status"]["storedVersions"]
        self._crd = change.document
        self.prunes += len(self._crd["status"]["storedVersions"]) < len(before)

    def _check_stored_versions(self, revision: int) -> None:
        told = set(self._crd["status"]["storedVersions"])
        real = set(self._versions.values()) | {_storage(self._crd)}
        unsafe = bool(real - told)
        if unsafe and not self._was_unsafe:
            where = [name for name, version in self._versions.items() if version not in told][:3]
            self.wrong.append(
                f"revision {revision}: status.storedVersions is {sorted(told)}, but {sorted(real - told)} is stored or "
                f"the storage version ({', '.join(where) or 'no object yet'})"
            )
        self._was_unsafe = unsafe

    def _read_object(self, change: Change) -> None:
        name = change.name
        if change.document is None:
            self._versions.pop(name, None)
            if self._objects.pop(name, None) is not None and name != _HELPER:
                self.deleted[name] -= 1
                if self.deleted[name] < 0:
                    self.wrong.append(f"revision {change.revision}: {name} was deleted, and by no user")
            return
        self._versions[name] = _version(change.document)
        if name == _HELPER:
            return
        known = self._objects.get(name)
        writer = self.users.get(change.revision) or self._who_tried(known, change.document)
        if known is None:
            if writer is None:
                self.wrong.append(f"revision {change.revision}: {name} was created, and by no user")
            self._objects[name] = _taken(change.document)
            self._objects[name].wrote |= {writer or "", _NOBODY}
        elif writer is not None:
            self._by_user(known, change.document, writer)
        else:
            self._by_migrator(known, change)

    def _who_tried(self, known: _Object | None, now: Document) -> str | None:
        before = _values(known.stored) if known is not None else ()
        new = [value for value in _values(now) if value in self.tried and value not in before]
        return self.tried[new[0]] if new else None

    def _by_user(self, known: _Object, now: Document, writer: str) -> None:
        before, after = shares(known.stored), shares(now)
        others = [owner for owner in before if owner[0] != writer]
        if any(owner not in after for owner in others):
            known.doubtful = True
        begun = not known.owners and all(owner[0] == _NOBODY for owner in before)
        if begun or self._same(before, known.owners):
            # ``begun``: the object was nobody's, and somebody wrote between the migrator's two writes that keep it so.
            # From there on it is tracked; the entry is the one that the first apply would have made.
            known.owners = after
        else:  # a later write may repair this: it is unknown which of its fields the writer gave up
            changed = {owner: paths for owner, paths in after.items() if owner[0] == writer}
            taken = frozenset().union(*changed.values())
            kept = {owner: paths - taken for owner, paths in known.owners.items() if owner[0] != writer}
            known.owners = kept | changed
            known.unsure.add(writer)
        known.stored, known.content = now, content(now)
        known.wrote |= {writer, _NOBODY}

    def _by_migrator(self, known: _Object, change: Change) -> None:
        assert change.document is not None
        now = content(change.document)
        if now != known.content:
            where = ", ".join(_different(known.content, now))
            self.wrong.append(f"revision {change.revision}: {change.name} was changed by no user ({where})")
            known.content = now
        known.stored = change.document

    def _differences(self, found: _Object) -> list[str]:
        real = shares(found.stored)
        if self._same(real, found.owners):
            return []
        told = []
        for owner in sorted(real.keys() | found.owners.keys()):
            if owner[0] in self.may_lose | found.unsure:
                continue
            lost = found.owners.get(owner, frozenset()) - real.get(owner, frozenset())
            won = real.get(owner, frozenset()) - found.owners.get(owner, frozenset())
            who = "/".join(part for part in owner if part)
            told += [f"{who} no longer owns {_paths(lost)}"] if lost else []
            told += [f"{who} owns {_paths(won)} too"] if won else []
        return told

    def _same(self, one: Shares, other: Shares) -> bool:
        return _without(one, self.may_lose) == _without(other, self.may_lose)


def _values(document: Document) -> tuple[object, ...]:
    spec, status = document.get("spec") or {}, document.get("status") or {}
    return spec.get("size"), spec.get("color"), status.get("phase")


def _taken(document: Document) -> _Object:
    return _Object(document, content(document), shares(document))


def _older(found: _Object, entries: Sequence[Document]) -> list[str]:
    others = {entry["manager"] for entry in entries if entry["apiVersion"] != found.stored["apiVersion"]}
    return sorted(others - found.wrote)


def _without(owners: Shares, managers: frozenset[str]) -> Shares:
    return {owner: paths for owner, paths in owners.items() if owner[0] not in managers}


def _version(document: Document) -> str:
    return str(document["apiVersion"]).rpartition("/")[2]


def _storage(crd: Document) -> str:
    return str(next(each["name"] for each in crd["spec"]["versions"] if each["storage"]))


def _paths(paths: Iterable[tuple[str, ...]]) -> str:
    return ", ".join(".".join(path) for path in sorted(paths))


def _different(one: Document, other: Document) -> list[str]:
    found = []
    for part in sorted(one.keys() | other.keys()):
        before, after = one.get(part), other.get(part)
        if before != after and isinstance(before, dict) and isinstance(after, dict):
            keys = before.keys() | after.keys()
            found += [f"{part}.{key}" for key in sorted(keys) if before.get(key) != after.get(key)]
        elif before != after:
            found.append(part)
    return found
