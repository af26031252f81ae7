"""The demo's checks: each passes on a world as it should be, and fails on one that is broken in what it is about."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from demo import applying, cast, checks, endings
from demo.answers import Answer
from demo.applying import Apply
from demo.cast import Database
from demo.crd import GROUP, NEW, OLD
from demo.deeds import Deeds
from demo.truth import Stored, items_owned, owned_paths, stored

PLAIN, SHARED, CREATED = Database(7), Database(60), Database(cast.CREATED_FROM + 1)
PLATFORM_FIELDS = {"f:spec": {"f:engine": {}, "f:users": {'k:{"name":"app"}': {".": {}, "f:name": {}, "f:role": {}}}}}
ATOMIC = {"f:status": {"f:phase": {}, "f:conditions": {}}}
KEYED = {
    "f:status": {
        "f:phase": {},
        "f:conditions": {
            'k:{"type":"Ready"}': {".": {}, "f:type": {}, "f:status": {}},
            'k:{"type":"BackedUp"}': {".": {}, "f:type": {}, "f:status": {}, "f:reason": {}},
        },
    }
}
EDIT_FIELDS = {"f:spec": {"f:parameters": {".": {}, "f:max_connections": {}}}}


def entry(
    manager: str, fields: dict[str, Any], *, version: str, operation: str = "Apply", sub: str = ""
) -> dict[str, Any]:
    """Make a managedFields entry."""
    made = {"manager": manager, "operation": operation, "apiVersion": f"{GROUP}/{version}", "fieldsV1": fields}
    return made | {"subresource": sub} if sub else made


def value(
    database: Database, version: str, *entries: dict[str, Any], spec: dict[str, Any] | None = None, **metadata: Any
) -> bytes:
    """Make what etcd holds of a database."""
    document = {
        "apiVersion": f"{GROUP}/{version}",
        "metadata": {
            "name": database.name,
            "namespace": database.namespace,
            "uid": f"uid-{database.number}",
            "generation": 1,
            "managedFields": list(entries),
            **metadata,
        },
        "spec": {"engine": "postgres", **(spec or {})},
        "status": {
            "phase": "Ready",
            "conditions": [
                {"type": "Ready", "status": "True"},
                {"type": "BackedUp", "status": "Unknown", "reason": "NoBackupYet"},
            ],
        },
    }
    return json.dumps(document).encode()


def at_old() -> dict[str, Stored]:
    """The world before: a database of the platform alone, and one that three managers share."""
    return {
        PLAIN.key: stored(value(PLAIN, OLD, entry(cast.PLATFORM, PLATFORM_FIELDS, version=OLD))),
        SHARED.key: stored(
            value(
                SHARED,
                OLD,
                entry(cast.PLATFORM, PLATFORM_FIELDS, version=OLD),
                entry(cast.CONTROLLER, ATOMIC, version=OLD, sub="status"),
                entry(cast.EDITOR, EDIT_FIELDS, version=OLD, operation="Update"),
            )
        ),
    }


def shared_at_new(**changed: Any) -> Stored:
    """The shared database as it has to be after the migration, or with other entries."""
    entries = {
        "platform": entry(cast.PLATFORM, PLATFORM_FIELDS, version=NEW),
        "controller": entry(cast.CONTROLLER, KEYED, version=NEW, sub="status"),
        "editor": entry(cast.EDITOR, EDIT_FIELDS, version=NEW, operation="Update"),
        **changed,
    }
    return stored(value(SHARED, NEW, *filter(None, entries.values()), spec={"deletionPolicy": "Retain"}))


def at_new() -> dict[str, Stored]:
    """The world after a migration that lost nothing."""
    plain = value(PLAIN, NEW, entry(cast.PLATFORM, PLATFORM_FIELDS, version=NEW), spec={"deletionPolicy": "Retain"})
    return {PLAIN.key: stored(plain), SHARED.key: shared_at_new()}


def verdicts(now: dict[str, Stored], deeds: Deeds | None = None, *, clients_of_old: bool = False) -> dict[str, bool]:
    """How the checks of a migration come out, by their functions' words."""
    rows = checks.after_migration("now", at_old(), now, deeds or Deeds(), clients_of_old=clients_of_old)
    names = ("present", "stored", "entries", "owners", "restow", "generations", "contents")
    return {name: row.passed for name, row in zip(names, rows, strict=True)}


def failing(now: dict[str, Stored], deeds: Deeds | None = None, *, clients_of_old: bool = False) -> set[str]:
    """Which checks fail."""
    return {name for name, passed in verdicts(now, deeds, clients_of_old=clients_of_old).items() if not passed}


def test_all_checks_pass_where_nothing_was_lost() -> None:
    """A check that fails on a faultless migration would make the demo useless."""
    assert failing(at_new()) == set()


def test_nothing_passes_without_having_looked() -> None:
    """An empty world must not count as a success."""
    rows = checks.after_migration("now", {}, {}, Deeds(), clients_of_old=False)
    assert not any(row.passed for row in rows)


def test_an_object_that_was_not_migrated_is_seen() -> None:
    """Bytes and entries that are still the old version's must show in both checks, and as other ownership."""
    now = at_new() | {SHARED.key: at_old()[SHARED.key]}
    assert failing(now) == {"stored", "entries", "owners"}


LOSSES: dict[str, dict[str, Any]] = {
    "a manager is gone": {"platform": None},
    "a field of a manager is gone": {
        "platform": entry(cast.PLATFORM, {"f:spec": {"f:users": PLATFORM_FIELDS["f:spec"]["f:users"]}}, version=NEW)
    },
    "an item of the keyed list is gone": {"platform": entry(cast.PLATFORM, {"f:spec": {"f:engine": {}}}, version=NEW)},
    "the item itself is not owned": {
        "platform": entry(
            cast.PLATFORM,
            {"f:spec": {"f:engine": {}, "f:users": {'k:{"name":"app"}': {"f:name": {}, "f:role": {}}}}},
            version=NEW,
        )
    },
    "a field was gained": {
        "editor": entry(
            cast.EDITOR, {"f:spec": EDIT_FIELDS["f:spec"] | {"f:deletionPolicy": {}}}, version=NEW, operation="Update"
        )
    },
    "conditions are still one atomic list": {"controller": entry(cast.CONTROLLER, ATOMIC, version=NEW, sub="status")},
    "one condition is not owned": {
        "controller": entry(
            cast.CONTROLLER,
            {
                "f:status": {
                    "f:phase": {},
                    "f:conditions": {'k:{"type":"Ready"}': {".": {}, "f:type": {}, "f:status": {}}},
                }
            },
            version=NEW,
            sub="status",
        )
    },
    "another operation owns it": {"platform": entry(cast.PLATFORM, PLATFORM_FIELDS, version=NEW, operation="Update")},
    "another subresource owns it": {"controller": entry(cast.CONTROLLER, KEYED, version=NEW)},
}


@pytest.mark.parametrize("entries", LOSSES.values(), ids=LOSSES)
def test_a_lost_or_gained_field_is_seen(entries: dict[str, Any]) -> None:
    """The comparison of owners must notice each way in which ownership can get lost."""
    assert failing(at_new() | {SHARED.key: shared_at_new(**entries)}) == {"owners"}


def test_an_entry_of_restow_is_seen() -> None:
    """An entry of the migrator itself is an owner too many."""
    mine = entry("restow", {"f:spec": {"f:deletionPolicy": {}}}, version=NEW, operation="Update")
    assert failing(at_new() | {SHARED.key: shared_at_new(restow=mine)}) == {"restow", "owners"}


def test_an_entry_of_the_old_version_is_seen() -> None:
    """One entry at v1alpha1 is enough to make later applies fail, whoever owns the same field at v1beta1."""
    old = entry(cast.EDITOR, EDIT_FIELDS, version=OLD, operation="Update")
    now = at_new() | {SHARED.key: shared_at_new(old=old)}
    assert failing(now) == {"entries"}
    edited = Deeds(spec_writes=Counter({SHARED.number: 0}))
    assert failing(now, edited, clients_of_old=True) == set()
    assert failing(now, edited, clients_of_old=False) == {"entries"}


def test_only_the_clients_own_entries_are_excused() -> None:
    """A manager that did not write meanwhile must not be at v1alpha1, even on an object that others wrote."""
    now = at_new() | {SHARED.key: shared_at_new(controller=entry(cast.CONTROLLER, KEYED, version=OLD, sub="status"))}
    edited = Deeds(spec_writes=Counter({SHARED.number: 0}))
    assert failing(now, edited, clients_of_old=True) == {"entries"}


def test_a_lost_object_is_seen() -> None:
    """An object that nobody deleted must be there."""
    now = at_new()
    del now[PLAIN.key]
    assert failing(now) == {"present"}
    assert failing(now, Deeds(deleted=[PLAIN])) == set()


def test_an_object_that_came_back_is_seen() -> None:
    """A server-side apply to a deleted object would create it anew."""
    assert failing(at_new(), Deeds(deleted=[PLAIN])) == {"present"}


def test_an_object_under_another_uid_is_seen() -> None:
    """Deleted and created again is not the same object."""
    now = at_new()
    now[PLAIN.key] = replace(now[PLAIN.key], uid="another")
    assert failing(now) == {"present"}


def test_created_objects_are_expected_with_their_owner() -> None:
    """What a client creates during the migration must be there, owned by it as its other objects are."""
    deeds = Deeds(created=[CREATED])
    entries = entry(cast.PLATFORM, PLATFORM_FIELDS, version=NEW)
    created = stored(value(CREATED, NEW, entries, spec={"deletionPolicy": "Retain"}))
    assert failing(at_new() | {CREATED.key: created}, deeds) == set()
    assert failing(at_new(), deeds) == {"present"}
    assert failing(at_new() | {CREATED.key: created}) == {"present"}
    unowned = stored(value(CREATED, NEW))
    assert failing(at_new() | {CREATED.key: unowned}, deeds) == {"owners"}


def test_a_generation_that_moved_is_seen() -> None:
    """A migration that bumps generations makes every controller work; a client's change has to bump it."""
    now = at_new()
    now[SHARED.key] = replace(now[SHARED.key], generation=2)
    assert failing(now) == {"generations"}
    assert failing(now, Deeds(spec_writes=Counter({SHARED.number: 1}))) == set()
    assert failing(at_new(), Deeds(spec_writes=Counter({SHARED.number: 1}))) == {"generations"}


@pytest.mark.parametrize(
    "part",
    [
        {"spec": {"engine": "mysql"}},
        {"spec": {"deletionPolicy": "Delete"}},
        {"spec": {"storageGiB": 5}},
        {"labels": {"team": "another"}},
        {"finalizers": [cast.FINALIZER]},
        {"deletionTimestamp": "2026-01-01T00:00:00Z"},
    ],
    ids=lambda part: next(iter(part)),
)
def test_changed_content_is_seen(part: dict[str, Any]) -> None:
    """A migration must change nothing but the version."""
    entries = entry(cast.PLATFORM, PLATFORM_FIELDS, version=NEW)
    now = at_new() | {PLAIN.key: stored(value(PLAIN, NEW, entries, **part))}
    assert failing(now) == {"contents"}


def test_a_lost_write_of_a_client_is_seen() -> None:
    """What a client wrote during the migration must not be overwritten by what the migrator had read before."""
    resized = Deeds(storage={PLAIN.number: 99})
    assert failing(at_new(), resized) == {"contents"}
    entries = entry(cast.PLATFORM, PLATFORM_FIELDS, version=NEW)
    now = at_new() | {PLAIN.key: stored(value(PLAIN, NEW, entries, spec={"storageGiB": 99}))}
    assert failing(now, resized) == set()
    assert failing(at_new(), Deeds(connections={PLAIN.number: 300})) == {"contents"}


def test_a_refused_write_of_a_client_is_seen() -> None:
    """Clients must not notice that a migration is under way."""
    done = Deeds(spec_writes=Counter({1: 3}))
    assert checks.client_writes("now", done).passed
    assert not checks.client_writes("now", replace(done, refusals=["409 Conflict: it is"])).passed
    assert not checks.client_writes("now", Deeds()).passed


def test_what_the_crd_says_is_judged() -> None:
    """A storedVersions that still names v1alpha1, or a wrong answer of ready, must not pass."""
    assert checks.pruned("now", [NEW]).passed
    assert not checks.pruned("now", [OLD, NEW]).passed
    assert not checks.pruned("now", []).passed
    assert checks.readiness("now", True, wanted=True).passed
    assert not checks.readiness("now", False, wanted=True).passed
    assert not checks.readiness("now", True, wanted=False).passed
    assert not checks.accepted("now", "it goes", "422 Invalid: no").passed


def test_field_sets_are_read_as_members() -> None:
    """A node is a member if it is empty or says so; JSON in a path element may be spelt in several ways."""
    fields = {"f:a": {".": {}, "f:b": {}}, "f:c": {"f:d": {}}, 'k:{"y": 1, "x":2}': {}}
    assert owned_paths(fields) == {("f:a",), ("f:a", "f:b"), ("f:c", "f:d"), ('k:{"x": 2, "y": 1}',)}
    assert owned_paths({}) == frozenset()


def test_an_atomic_list_means_its_items() -> None:
    """The expected field set of the keyed conditions is each item and each of its fields, and nothing besides."""
    content = at_new()[SHARED.key].content
    assert items_owned(owned_paths(ATOMIC), content) == owned_paths(KEYED)
    assert items_owned(owned_paths(PLATFORM_FIELDS), content) == owned_paths(PLATFORM_FIELDS)
    assert items_owned(owned_paths(ATOMIC), {"status": None}) == {("f:status", "f:phase")}


def test_a_refused_apply_is_seen() -> None:
    """One conflict among many applies must fail the check, and be told with its object and manager."""
    wanted = list(applying.applies([PLAIN, SHARED], NEW, {}))
    assert [each.manager for each in wanted] == [cast.PLATFORM, cast.PLATFORM, cast.BACKUP, cast.CONTROLLER]
    answers = [Answer() for _ in wanted]
    assert applying.no_conflicts("now", "no conflict", wanted, answers).passed
    answers[2] = Answer(refusal="409 Conflict: before-first-apply")
    (wrong,) = applying.no_conflicts("now", "no conflict", wanted, answers).wrong
    assert wrong == f"{SHARED.key}: {cast.BACKUP}: 409 Conflict: before-first-apply"


def test_a_written_byte_is_seen() -> None:
    """Applying what one owns must leave the very same bytes; another time in an entry is a write already."""
    before = at_new()
    wanted = list(applying.applies([PLAIN, SHARED], NEW, {}))
    assert applying.nothing_written("now", "same bytes", wanted, before, at_new()).passed
    touched = entry(cast.PLATFORM, PLATFORM_FIELDS, version=NEW) | {"time": "2026-01-01T00:00:00Z"}
    now = before | {SHARED.key: shared_at_new(platform=touched)}
    assert not applying.nothing_written("now", "same bytes", wanted, before, now).passed
    assert not applying.nothing_written("now", "same bytes", wanted, before, {}).passed


def answer(**document: Any) -> Answer:
    """Make the API server's answer to an apply."""
    return Answer({"metadata": {}, "spec": {}, "status": {}, **document})


def policy(value: str, *owners: str) -> Answer:
    """Make an answer with a deletionPolicy and its owners."""
    entries = [{"manager": owner, "fieldsV1": {"f:spec": {"f:deletionPolicy": {}}}} for owner in owners]
    return answer(spec={"deletionPolicy": value}, metadata={"managedFields": entries})


REFUSED = Answer(refusal='409 Conflict: Apply failed with 1 conflict: conflict with "before-first-apply": .spec')
ENDINGS: list[tuple[Answer, list[Answer]]] = [
    (answer(spec={"engine": "postgres"}), [answer(spec={"version": "17.5"}), REFUSED]),
    (
        answer(spec={"users": [{"name": "app"}]}),
        [answer(spec={"users": [{"name": "app"}, {"name": "backup"}]}), answer(spec={}), REFUSED],
    ),
    (
        answer(status={"conditions": [{"type": "Ready"}]}),
        [answer(status={"conditions": [{"type": "Ready"}, {"type": "BackedUp"}]}), answer(), REFUSED],
    ),
    (
        policy("Delete", cast.PLATFORM),
        [policy("Retain", cast.PLATFORM), policy("Delete"), policy("Delete", cast.PLATFORM, "restow"), REFUSED],
    ),
    (
        Answer(refusal='409 Conflict: Apply failed with 1 conflict: conflict with "platform": .spec.storageGiB'),
        [answer(), REFUSED, Answer(refusal="500: request to convert CR to an invalid group/version")],
    ),
]


@pytest.mark.parametrize(
    ("ending", "answers"),
    [pytest.param(ending, answers, id=ending.what) for ending, answers in zip(endings.ENDINGS, ENDINGS, strict=True)],
)
def test_each_ending_is_judged(ending: endings.Ending, answers: tuple[Answer, list[Answer]]) -> None:
    """An owner that could not do what only owners can, or a stranger that could, must fail the check."""
    good, bad = answers
    wanted = [Apply(PLAIN, ending.manager, {})]
    assert endings.judge("now", ending, wanted, [good]).passed
    for each in bad:
        assert not endings.judge("now", ending, wanted, [each]).passed, each
    assert not endings.judge("now", ending, [], []).passed


def test_a_deletion_that_goes_on_waiting_is_seen() -> None:
    """A finalizer that its owner could not drop keeps the object for ever."""
    assert endings.deletions_ended("now", [PLAIN], {}).passed
    assert not endings.deletions_ended("now", [PLAIN], at_new()).passed
    assert not endings.deletions_ended("now", [], {}).passed


def test_every_act_finds_its_databases() -> None:
    """Shares that miss each other would leave a check with nothing to look at, or two acts at the same field."""
    databases = [Database(number) for number in range(60)]
    acts = [ending.share.of(databases) for ending in endings.ENDINGS]
    shares = (
        cast.APPLIED_MEANWHILE,
        cast.DELETED_MEANWHILE,
        cast.OLD_MANIFESTS,
        cast.APPLIED_AGAIN,
        cast.EDITED,
        cast.DELETING,
    )
    assert all(acts)
    assert all(share.of(databases) for share in shares)
    for share in (cast.OLD_MANIFESTS, cast.APPLIED_AGAIN):
        managers = {each.manager for each in applying.applies(share.of(databases), NEW, {})}
        assert managers == {cast.PLATFORM, cast.BACKUP, cast.CONTROLLER}
    gone = {*cast.DELETING.of(databases)}
    assert not any(gone & set(act) for act in acts)
    by_manager = [
        set(act) for ending, act in zip(endings.ENDINGS, acts, strict=True) if ending.manager == cast.PLATFORM
    ]
    assert not set.intersection(*by_manager)
    for ending, act in zip(endings.ENDINGS, acts, strict=True):
        if ending.manager in (cast.BACKUP, cast.CONTROLLER):
            share = cast.BACKED_UP if ending.manager == cast.BACKUP else cast.WATCHED
            assert all(each.number in share for each in act)
