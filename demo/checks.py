"""The checks: they compare the stored objects before and after, given the clients' writes in between. Pure.

Each check is a function that returns one row with its violations. A test makes each check fail once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from demo import fixtures
from demo.client import Response
from demo.fixtures import GROUP, NEW, OLD, Apply, Database
from demo.state import Owner, Path, StoredObject, StoredObjects, items_owned, owners

__all__ = [
    "Check",
    "ClientWrites",
    "accepted",
    "after_migration",
    "client_writes",
    "contents",
    "entries_at_new",
    "generations",
    "no_conflicts",
    "nothing_of_restow",
    "nothing_written",
    "present",
    "pruned",
    "readiness",
    "references_found",
    "references_moved",
    "same_owners",
    "stored_at_new",
    "unserving",
]


@dataclass(slots=True)
class ClientWrites:
    """The writes of clients during the migration.

    Attributes:
        storage: GiB of each database that the platform resized, by number.
        connections: the editor's last value, by number.
        spec_writes: the number of changes of each database's spec, by number.
        created, deleted: the databases that clients created and deleted.
        refusals: the refusals, each with its status and message.
    """

    storage: dict[int, int] = field(default_factory=dict)
    connections: dict[int, int] = field(default_factory=dict)
    spec_writes: Counter[int] = field(default_factory=Counter)
    created: list[Database] = field(default_factory=list)
    deleted: list[Database] = field(default_factory=list)
    refusals: list[str] = field(default_factory=list)

    @property
    def written(self) -> set[str]:
        """The keys of the databases that clients wrote and that still exist."""
        return {Database(number).key for number in self.spec_writes} | {each.key for each in self.created}

    @property
    def total(self) -> int:
        """The number of successful writes."""
        return self.spec_writes.total() + len(self.created) + len(self.deleted)


_AT_NEW, _AT_OLD = f"{GROUP}/{NEW}", f"{GROUP}/{OLD}"


@dataclass(frozen=True, slots=True)
class Check:
    """One row of the result.

    Attributes:
        when: the step of the scenario.
        what: the expectation.
        count: the number of checked items; a check of none does not pass.
        wrong: the violations, one sentence each.
        note: the parts of the count.
    """

    when: str
    what: str
    count: int
    wrong: tuple[str, ...] = ()
    note: str = ""

    @property
    def passed(self) -> bool:
        """Whether the check holds."""
        return self.count > 0 and not self.wrong

    @property
    def verdict(self) -> str:
        """Return the result as text."""
        if self.passed:
            return f"ok, {self.count} of {self.count}"
        if not self.wrong:
            return "FAILED: nothing was looked at"
        return f"FAILED ({len(self.wrong)} of {self.count}): {self.wrong[0]}"

    def to_json(self) -> dict[str, Any]:
        """Return the element of ``checks`` in the JSON result."""
        return {
            "when": self.when,
            "check": self.what,
            "count": self.count,
            "passed": self.passed,
            "wrong": len(self.wrong),
            "examples": list(self.wrong[:5]),
            "note": self.note,
        }


def after_migration(
    when: str, before: StoredObjects, now: StoredObjects, writes: ClientWrites, *, clients_of_old: bool
) -> list[Check]:
    """Check a migration; with ``clients_of_old`` clients may have written at v1alpha1 after the migrator's reads."""
    written = writes.written if clients_of_old else set()
    return [
        present(when, before, now, writes),
        stored_at_new(when, now),
        entries_at_new(when, now, written),
        same_owners(when, before, now, writes),
        nothing_of_restow(when, now),
        generations(when, before, now, writes),
        contents(when, before, now, writes),
    ]


def present(when: str, before: StoredObjects, now: StoredObjects, writes: ClientWrites) -> Check:
    """Check that no object is lost, replaced under the same name, or unexpected."""
    deleted, created = _keys(writes.deleted), _keys(writes.created)
    expected = (before.keys() - deleted) | created
    wrong = [f"{key} is gone" for key in expected - now.keys()]
    wrong += [f"{key} should not be there" for key in now.keys() - expected]
    both = before.keys() & now.keys()
    wrong += [f"{key} has another uid" for key in both if before[key].uid != now[key].uid]
    return _check(when, "all objects are there, each with its uid", len(expected), wrong)


def stored_at_new(when: str, now: StoredObjects) -> Check:
    """Check that etcd stores every object at v1beta1."""
    wrong = (f"{key} is stored at {each.api_version}" for key, each in now.items() if each.api_version != _AT_NEW)
    return _check(when, f"etcd holds each object at {NEW}", len(now), wrong)


def entries_at_new(when: str, now: StoredObjects, written: Collection[str]) -> Check:
    """Check that managedFields entries are at v1beta1, except on objects that clients of v1alpha1 wrote meanwhile."""
    wrong = (
        f"{key} has an entry of {entry.owner[0]} at {entry.api_version}"
        for key, each in now.items()
        for entry in each.entries
        if entry.api_version != _AT_NEW
        and not (
            key in written and entry.owner[0] in (fixtures.PLATFORM, fixtures.EDITOR) and entry.api_version == _AT_OLD
        )
    )
    what = f"managedFields entries are at {NEW}" + (f", or just written at {OLD}" if written else "")
    return _check(when, what, _entries(now), wrong)


def same_owners(when: str, before: StoredObjects, now: StoredObjects, writes: ClientWrites) -> Check:
    """Check that every manager owns exactly the same fields as before, and no other manager owns a field."""
    wrong: list[str] = []
    counts: Counter[str] = Counter()
    pattern = _platform_paths(before)
    created = _keys(writes.created)
    for key, each in now.items():
        if key in before:
            was = {owner: items_owned(paths, each.content) for owner, paths in owners(before[key]).items()}
        elif key in created:
            was = {_PLATFORM_OWNER: pattern}
        else:
            continue  # ``present`` reports it
        counts.update(manager for manager, _, _ in was)
        wrong += _differences(key, was, owners(each))
    note = ", ".join(f"{manager} {count}" for manager, count in counts.most_common())
    return _check(when, "each owner has exactly the fields it had", counts.total(), wrong, note)


_PLATFORM_OWNER: Owner = (fixtures.PLATFORM, "Apply", "")


def _platform_paths(before: StoredObjects) -> frozenset[Path]:
    """Return the platform's fields of a database without a finalizer."""
    every = (owners(each)[_PLATFORM_OWNER] for each in before.values() if not each.content["finalizers"])
    return next(every, frozenset())


def _differences(key: str, was: Mapping[Owner, frozenset[Path]], now: Mapping[Owner, frozenset[Path]]) -> Iterator[str]:
    for owner in was.keys() | now.keys():
        lost = was.get(owner, frozenset()) - now.get(owner, frozenset())
        gained = now.get(owner, frozenset()) - was.get(owner, frozenset())
        for verb, paths in (("lost", lost), ("gained", gained)):
            if paths:
                yield f"{key}: {' '.join(filter(None, owner))} {verb} {'/'.join(min(paths))}"


def nothing_of_restow(when: str, now: StoredObjects) -> Check:
    """Check that restow owns no field."""
    known = {fixtures.PLATFORM, fixtures.BACKUP, fixtures.CONTROLLER, fixtures.EDITOR}
    wrong = (
        f"{key} has an entry of {entry.owner[0]}"
        for key, each in now.items()
        for entry in each.entries
        if entry.owner[0] not in known
    )
    return _check(when, "restow owns nothing, nor anybody else new", _entries(now), wrong)


def generations(when: str, before: StoredObjects, now: StoredObjects, writes: ClientWrites) -> Check:
    """Check that a generation counts only the changes of the spec by clients."""
    meanwhile = {Database(number).key: count for number, count in writes.spec_writes.items()}
    both = sorted(before.keys() & now.keys())
    expected = {key: before[key].generation + meanwhile.get(key, 0) for key in both}
    wrong = (
        f"{key} has generation {now[key].generation}, not {expected[key]}"
        for key in both
        if now[key].generation != expected[key]
    )
    return _check(when, "generations count what clients changed, no more", len(both), wrong)


def contents(when: str, before: StoredObjects, now: StoredObjects, writes: ClientWrites) -> Check:
    """Check that spec, status, labels, annotations, finalizers and times are unchanged, or as a client set them."""
    storage = {Database(number).key: size for number, size in writes.storage.items()}
    connections = {Database(number).key: str(count) for number, count in writes.connections.items()}
    both = sorted(before.keys() & now.keys())
    wrong = []
    for key in both:
        expected = _with_writes(before[key], storage.get(key), connections.get(key))
        found = now[key].content
        wrong += [f"{key}: {part} is not what it was" for part in expected if expected[part] != found.get(part)]
    return _check(when, "contents are as their clients left them", len(both), wrong)


def _with_writes(was: StoredObject, storage: int | None, connections: str | None) -> dict[str, Any]:
    spec = dict(was.content["spec"])
    if storage is not None:
        spec["storageGiB"] = storage
    if connections is not None:
        spec["parameters"] = {**spec.get("parameters", {}), "max_connections": connections}
    return {**was.content, "spec": spec}


def client_writes(when: str, writes: ClientWrites) -> Check:
    """Check that no client was refused during the migration."""
    return _check(
        when, "no write of a client was refused meanwhile", writes.total + len(writes.refusals), writes.refusals
    )


def pruned(when: str, stored_versions: Sequence[str]) -> Check:
    """Check that the CRD's status names only the storage version."""
    wrong = [] if list(stored_versions) == [NEW] else [f"it is {', '.join(stored_versions)}"]
    return _check(when, f"status.storedVersions is {NEW} alone", 1, wrong)


def readiness(when: str, said: bool, *, wanted: bool) -> Check:
    """Check that ``restow ready`` gives the expected answer."""
    wrong = [] if said is wanted else [f"it says {'yes' if said else 'no'}"]
    return _check(when, f"restow ready --drop {OLD} says {'yes' if wanted else 'no'}", 1, wrong)


def unserving(when: str, said: bool) -> Check:
    """Check that ``restow ready`` allows the version to be unserved."""
    wrong = [] if said else ["it says no"]
    return _check(when, f"restow ready says that {OLD} may be unserved", 1, wrong)


def references_found(when: str, made: Collection[str], found: Collection[str]) -> Check:
    """Check that the search finds every ConfigMap whose ownerReference names the old version, and nothing else."""
    wrong = [f"{key} was not found" for key in {*made} - {*found}]
    wrong += [f"{key} does not name {OLD}" for key in {*found} - {*made}]
    return _check(when, f"every ownerReference at {OLD} is found", len(made), wrong)


def references_moved(when: str, before: Sequence[Mapping[str, Any]], now: Sequence[Mapping[str, Any]]) -> Check:
    """Check that each ConfigMap names the new version, and is otherwise unchanged, including the owners of fields."""
    wrong = [
        f"{was['metadata']['name']} is {'not' if _owner_version(is_now) != _AT_NEW else 'more than'} moved"
        for was, is_now in zip(before, now, strict=True)
        if _without_version(was) != _without_version(is_now) or _owner_version(is_now) != _AT_NEW
    ]
    return _check(when, f"they name {NEW}, and their fields' owners stay", len(before), wrong)


def _owner_version(config_map: Mapping[str, Any]) -> str:
    (owner,) = config_map["metadata"]["ownerReferences"]
    return str(owner["apiVersion"])


def _without_version(config_map: Mapping[str, Any]) -> dict[str, Any]:
    """Return a ConfigMap without the parts that a move changes: the reference's version, and the resourceVersion."""
    metadata = {name: value for name, value in config_map["metadata"].items() if name != "resourceVersion"}
    (owner,) = metadata["ownerReferences"]
    return {**config_map, "metadata": {**metadata, "ownerReferences": [{**owner, "apiVersion": ""}]}}


def accepted(when: str, what: str, refusal: str) -> Check:
    """Check that the API server accepted a request."""
    return _check(when, what, 1, [refusal] if refusal else [])


def _check(when: str, what: str, count: int, wrong: Iterable[str], note: str = "") -> Check:
    return Check(when, what, count, tuple(sorted(wrong)), note)


def _entries(now: StoredObjects) -> int:
    return sum(len(each.entries) for each in now.values())


def _keys(databases: Iterable[Database]) -> set[str]:
    return {database.key for database in databases}


def no_conflicts(when: str, what: str, wanted: Sequence[Apply], responses: Sequence[Response]) -> Check:
    """Check that the API server refused no apply."""
    pairs = zip(wanted, responses, strict=True)
    wrong = (f"{each.database.key}: {each.manager}: {response.refusal}" for each, response in pairs if response.refusal)
    return Check(when, what, len(wanted), tuple(wrong))


def nothing_written(when: str, what: str, wanted: Sequence[Apply], before: StoredObjects, now: StoredObjects) -> Check:
    """Check that an apply of owned fields writes nothing: the stored bytes are the same."""
    keys = sorted({each.database.key for each in wanted})
    wrong = (f"{key} was written" for key in keys if _digest(before, key) != _digest(now, key))
    return Check(when, what, len(keys), tuple(wrong))


def _digest(objects: StoredObjects, key: str) -> str:
    each = objects.get(key)
    return each.digest if each else ""
