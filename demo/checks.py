"""The checks: what was before, what is now, and what clients did in between, judged. Pure.

Each check is a function that returns one row with what it found wrong, so each of them can fail, and is made to in its
tests.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from demo import cast
from demo.cast import Database
from demo.crd import GROUP, NEW, OLD
from demo.deeds import Deeds
from demo.truth import Owner, Path, Stored, World, items_owned, owners

__all__ = [
    "Check",
    "accepted",
    "after_migration",
    "client_writes",
    "contents",
    "entries_at_new",
    "generations",
    "nothing_of_restow",
    "present",
    "pruned",
    "readiness",
    "same_owners",
    "stored_at_new",
]

_AT_NEW, _AT_OLD = f"{GROUP}/{NEW}", f"{GROUP}/{OLD}"


@dataclass(frozen=True, slots=True)
class Check:
    """One row of the result.

    Attributes:
        when: the part of the story that it is about.
        what: what is to hold.
        count: how many things were looked at; a check that looked at nothing does not pass.
        wrong: what does not hold, one sentence each.
        note: what the count is made of.
    """

    when: str
    what: str
    count: int
    wrong: tuple[str, ...] = ()
    note: str = ""

    @property
    def passed(self) -> bool:
        """Whether it holds."""
        return self.count > 0 and not self.wrong

    @property
    def verdict(self) -> str:
        """Say how it came out."""
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


def after_migration(when: str, before: World, now: World, deeds: Deeds, *, clients_of_old: bool) -> list[Check]:
    """Judge a migration; ``clients_of_old`` where clients may have written at v1alpha1 since it looked."""
    written = deeds.written if clients_of_old else set()
    return [
        present(when, before, now, deeds),
        stored_at_new(when, now),
        entries_at_new(when, now, written),
        same_owners(when, before, now, deeds),
        nothing_of_restow(when, now),
        generations(when, before, now, deeds),
        contents(when, before, now, deeds),
    ]


def present(when: str, before: World, now: World, deeds: Deeds) -> Check:
    """No object is lost, none is another one under the same name, none came from nowhere."""
    deleted, created = _keys(deeds.deleted), _keys(deeds.created)
    expected = (before.keys() - deleted) | created
    wrong = [f"{key} is gone" for key in expected - now.keys()]
    wrong += [f"{key} should not be there" for key in now.keys() - expected]
    both = before.keys() & now.keys()
    wrong += [f"{key} has another uid" for key in both if before[key].uid != now[key].uid]
    return _check(when, "all objects are there, each with its uid", len(expected), wrong)


def stored_at_new(when: str, now: World) -> Check:
    """Every object's bytes in etcd are v1beta1's."""
    wrong = (f"{key} is stored at {each.api_version}" for key, each in now.items() if each.api_version != _AT_NEW)
    return _check(when, f"etcd holds each object at {NEW}", len(now), wrong)


def entries_at_new(when: str, now: World, written: Collection[str]) -> Check:
    """No managedFields entry names another version, but on objects that clients of v1alpha1 wrote meanwhile."""
    wrong = (
        f"{key} has an entry of {entry.owner[0]} at {entry.api_version}"
        for key, each in now.items()
        for entry in each.entries
        if entry.api_version != _AT_NEW
        and not (key in written and entry.owner[0] in (cast.PLATFORM, cast.EDITOR) and entry.api_version == _AT_OLD)
    )
    what = f"managedFields entries are at {NEW}" + (f", or just written at {OLD}" if written else "")
    return _check(when, what, _entries(now), wrong)


def same_owners(when: str, before: World, now: World, deeds: Deeds) -> Check:
    """Every manager owns exactly the fields that it owned, no more, no less, and nobody else owns anything."""
    wrong: list[str] = []
    counts: Counter[str] = Counter()
    pattern = _platform_paths(before)
    created = _keys(deeds.created)
    for key, each in now.items():
        if key in before:
            was = {owner: items_owned(paths, each.content) for owner, paths in owners(before[key]).items()}
        elif key in created:
            was = {_PLATFORM_OWNER: pattern}
        else:
            continue  # ``present`` says so
        counts.update(manager for manager, _, _ in was)
        wrong += _differences(key, was, owners(each))
    note = ", ".join(f"{manager} {count}" for manager, count in counts.most_common())
    return _check(when, "each owner has exactly the fields it had", counts.total(), wrong, note)


_PLATFORM_OWNER: Owner = (cast.PLATFORM, "Apply", "")


def _platform_paths(before: World) -> frozenset[Path]:
    """What the platform owns of a database without a finalizer."""
    every = (owners(each)[_PLATFORM_OWNER] for each in before.values() if not each.content["finalizers"])
    return next(every, frozenset())


def _differences(key: str, was: Mapping[Owner, frozenset[Path]], now: Mapping[Owner, frozenset[Path]]) -> Iterator[str]:
    for owner in was.keys() | now.keys():
        lost = was.get(owner, frozenset()) - now.get(owner, frozenset())
        gained = now.get(owner, frozenset()) - was.get(owner, frozenset())
        for verb, paths in (("lost", lost), ("gained", gained)):
            if paths:
                yield f"{key}: {' '.join(filter(None, owner))} {verb} {'/'.join(min(paths))}"


def nothing_of_restow(when: str, now: World) -> Check:
    """Restow owns nothing."""
    known = {cast.PLATFORM, cast.BACKUP, cast.CONTROLLER, cast.EDITOR}
    wrong = (
        f"{key} has an entry of {entry.owner[0]}"
        for key, each in now.items()
        for entry in each.entries
        if entry.owner[0] not in known
    )
    return _check(when, "restow owns nothing, nor anybody else new", _entries(now), wrong)


def generations(when: str, before: World, now: World, deeds: Deeds) -> Check:
    """A generation counts what clients did to the spec, and nothing else."""
    meanwhile = {Database(number).key: count for number, count in deeds.spec_writes.items()}
    both = sorted(before.keys() & now.keys())
    expected = {key: before[key].generation + meanwhile.get(key, 0) for key in both}
    wrong = (
        f"{key} has generation {now[key].generation}, not {expected[key]}"
        for key in both
        if now[key].generation != expected[key]
    )
    return _check(when, "generations count what clients changed, no more", len(both), wrong)


def contents(when: str, before: World, now: World, deeds: Deeds) -> Check:
    """Spec, status, labels, annotations, finalizers and timestamps are as they were, or as a client set them."""
    storage = {Database(number).key: size for number, size in deeds.storage.items()}
    connections = {Database(number).key: str(count) for number, count in deeds.connections.items()}
    both = sorted(before.keys() & now.keys())
    wrong = []
    for key in both:
        expected = _with_deeds(before[key], storage.get(key), connections.get(key))
        found = now[key].content
        wrong += [f"{key}: {part} is not what it was" for part in expected if expected[part] != found.get(part)]
    return _check(when, "contents are as their clients left them", len(both), wrong)


def _with_deeds(was: Stored, storage: int | None, connections: str | None) -> dict[str, Any]:
    spec = dict(was.content["spec"])
    if storage is not None:
        spec["storageGiB"] = storage
    if connections is not None:
        spec["parameters"] = {**spec.get("parameters", {}), "max_connections": connections}
    return {**was.content, "spec": spec}


def client_writes(when: str, deeds: Deeds) -> Check:
    """No client was refused while the migration ran."""
    return _check(
        when, "no write of a client was refused meanwhile", deeds.writes + len(deeds.refusals), deeds.refusals
    )


def pruned(when: str, stored_versions: Sequence[str]) -> Check:
    """The CRD's status names the storage version only."""
    wrong = [] if list(stored_versions) == [NEW] else [f"it is {', '.join(stored_versions)}"]
    return _check(when, f"status.storedVersions is {NEW} alone", 1, wrong)


def readiness(when: str, said: bool, *, wanted: bool) -> Check:
    """``restow ready`` tells the truth."""
    wrong = [] if said is wanted else [f"it says {'yes' if said else 'no'}"]
    return _check(when, f"restow ready --drop {OLD} says {'yes' if wanted else 'no'}", 1, wrong)


def accepted(when: str, what: str, refusal: str) -> Check:
    """The API server accepted a request."""
    return _check(when, what, 1, [refusal] if refusal else [])


def _check(when: str, what: str, count: int, wrong: Iterable[str], note: str = "") -> Check:
    return Check(when, what, count, tuple(sorted(wrong)), note)


def _entries(now: World) -> int:
    return sum(len(each.entries) for each in now.values())


def _keys(databases: Iterable[Database]) -> set[str]:
    return {database.key for database in databases}
