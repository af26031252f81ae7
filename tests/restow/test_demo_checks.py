"""The demo's checks: each passes on a world as it should be, and fails on one that is broken in what it is about."""

from __future__ import annotations

import copy
import json
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from demo import checks, fixtures, outcomes
from demo.checks import ClientWrites
from demo.client import Response
from demo.fixtures import GROUP, NEW, OLD, Apply, Database
from demo.state import StoredObject, items_owned, owned_paths, stored

PLAIN, SHARED, CREATED = Database(7), Database(60), Database(fixtures.CREATED_FROM + 1)
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


def at_old() -> dict[str, StoredObject]:
    """The world before: a database of the platform alone, and one that three managers share."""
    return {
        PLAIN.key: stored(value(PLAIN, OLD, entry(fixtures.PLATFORM, PLATFORM_FIELDS, version=OLD))),
        SHARED.key: stored(
            value(
                SHARED,
                OLD,
                entry(fixtures.PLATFORM, PLATFORM_FIELDS, version=OLD),
                entry(fixtures.CONTROLLER, ATOMIC, version=OLD, sub="status"),
                entry(fixtures.EDITOR, EDIT_FIELDS, version=OLD, operation="Update"),
            )
        ),
    }


def shared_at_new(**changed: Any) -> StoredObject:
    """The shared database as it has to be after the migration, or with other entries."""
    entries = {
        "platform": entry(fixtures.PLATFORM, PLATFORM_FIELDS, version=NEW),
        "controller": entry(fixtures.CONTROLLER, KEYED, version=NEW, sub="status"),
        "editor": entry(fixtures.EDITOR, EDIT_FIELDS, version=NEW, operation="Update"),
        **changed,
    }
    return stored(value(SHARED, NEW, *filter(None, entries.values()), spec={"deletionPolicy": "Retain"}))


def at_new() -> dict[str, StoredObject]:
    """The world after a migration that lost nothing."""
    plain = value(PLAIN, NEW, entry(fixtures.PLATFORM, PLATFORM_FIELDS, version=NEW), spec={"deletionPolicy": "Retain"})
    return {PLAIN.key: stored(plain), SHARED.key: shared_at_new()}


def verdicts(
    now: dict[str, StoredObject], writes: ClientWrites | None = None, *, clients_of_old: bool = False
) -> dict[str, bool]:
    """How the checks of a migration come out, by their functions' words."""
    rows = checks.after_migration("now", at_old(), now, writes or ClientWrites(), clients_of_old=clients_of_old)
    names = ("present", "stored", "entries", "owners", "restow", "generations", "contents")
    return {name: row.passed for name, row in zip(names, rows, strict=True)}


def failing(
    now: dict[str, StoredObject], writes: ClientWrites | None = None, *, clients_of_old: bool = False
) -> set[str]:
    """Which checks fail."""
    return {name for name, passed in verdicts(now, writes, clients_of_old=clients_of_old).items() if not passed}


def test_all_checks_pass_where_nothing_was_lost() -> None:
    """A check that fails on a faultless migration would make the demo useless."""
    assert failing(at_new()) == set()


def test_nothing_passes_without_having_looked() -> None:
    """An empty world must not count as a success."""
    rows = checks.after_migration("now", {}, {}, ClientWrites(), clients_of_old=False)
    assert not any(row.passed for row in rows)


def test_an_object_that_was_not_migrated_is_seen() -> None:
    """Bytes and entries that are still the old version's must show in both checks, and as other ownership."""
    now = at_new() | {SHARED.key: at_old()[SHARED.key]}
    assert failing(now) == {"stored", "entries", "owners"}


LOSSES: dict[str, dict[str, Any]] = {
    "a manager is gone": {"platform": None},
    "a field of a manager is gone": {
        "platform": entry(fixtures.PLATFORM, {"f:spec": {"f:users": PLATFORM_FIELDS["f:spec"]["f:users"]}}, version=NEW)
    },
    "an item of the keyed list is gone": {
        "platform": entry(fixtures.PLATFORM, {"f:spec": {"f:engine": {}}}, version=NEW)
    },
    "the item itself is not owned": {
        "platform": entry(
            fixtures.PLATFORM,
            {"f:spec": {"f:engine": {}, "f:users": {'k:{"name":"app"}': {"f:name": {}, "f:role": {}}}}},
            version=NEW,
        )
    },
    "a field was gained": {
        "editor": entry(
            fixtures.EDITOR,
            {"f:spec": EDIT_FIELDS["f:spec"] | {"f:deletionPolicy": {}}},
            version=NEW,
            operation="Update",
        )
    },
    "conditions are still one atomic list": {
        "controller": entry(fixtures.CONTROLLER, ATOMIC, version=NEW, sub="status")
    },
    "one condition is not owned": {
        "controller": entry(
            fixtures.CONTROLLER,
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
    "another operation owns it": {
        "platform": entry(fixtures.PLATFORM, PLATFORM_FIELDS, version=NEW, operation="Update")
    },
    "another subresource owns it": {"controller": entry(fixtures.CONTROLLER, KEYED, version=NEW)},
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
    old = entry(fixtures.EDITOR, EDIT_FIELDS, version=OLD, operation="Update")
    now = at_new() | {SHARED.key: shared_at_new(old=old)}
    assert failing(now) == {"entries"}
    edited = ClientWrites(spec_writes=Counter({SHARED.number: 0}))
    assert failing(now, edited, clients_of_old=True) == set()
    assert failing(now, edited, clients_of_old=False) == {"entries"}


def test_only_the_clients_own_entries_are_excused() -> None:
    """A manager that did not write meanwhile must not be at v1alpha1, even on an object that others wrote."""
    now = at_new() | {
        SHARED.key: shared_at_new(controller=entry(fixtures.CONTROLLER, KEYED, version=OLD, sub="status"))
    }
    edited = ClientWrites(spec_writes=Counter({SHARED.number: 0}))
    assert failing(now, edited, clients_of_old=True) == {"entries"}


def test_a_lost_object_is_seen() -> None:
    """An object that nobody deleted must be there."""
    now = at_new()
    del now[PLAIN.key]
    assert failing(now) == {"present"}
    assert failing(now, ClientWrites(deleted=[PLAIN])) == set()


def test_an_object_that_came_back_is_seen() -> None:
    """A server-side apply to a deleted object would create it again."""
    assert failing(at_new(), ClientWrites(deleted=[PLAIN])) == {"present"}


def test_an_object_under_another_uid_is_seen() -> None:
    """Deleted and created again is not the same object."""
    now = at_new()
    now[PLAIN.key] = replace(now[PLAIN.key], uid="another")
    assert failing(now) == {"present"}


def test_created_objects_are_expected_with_their_owner() -> None:
    """What a client creates during the migration must be there, owned by it as its other objects are."""
    writes = ClientWrites(created=[CREATED])
    entries = entry(fixtures.PLATFORM, PLATFORM_FIELDS, version=NEW)
    created = stored(value(CREATED, NEW, entries, spec={"deletionPolicy": "Retain"}))
    assert failing(at_new() | {CREATED.key: created}, writes) == set()
    assert failing(at_new(), writes) == {"present"}
    assert failing(at_new() | {CREATED.key: created}) == {"present"}
    unowned = stored(value(CREATED, NEW))
    assert failing(at_new() | {CREATED.key: unowned}, writes) == {"owners"}


def test_a_generation_that_moved_is_seen() -> None:
    """A migration that bumps generations makes every controller work; a client's change has to bump it."""
    now = at_new()
    now[SHARED.key] = replace(now[SHARED.key], generation=2)
    assert failing(now) == {"generations"}
    assert failing(now, ClientWrites(spec_writes=Counter({SHARED.number: 1}))) == set()
    assert failing(at_new(), ClientWrites(spec_writes=Counter({SHARED.number: 1}))) == {"generations"}


@pytest.mark.parametrize(
    "part",
    [
        {"spec": {"engine": "mysql"}},
        {"spec": {"deletionPolicy": "Delete"}},
        {"spec": {"storageGiB": 5}},
        {"labels": {"team": "another"}},
        {"finalizers": [fixtures.FINALIZER]},
        {"deletionTimestamp": "2026-01-01T00:00:00Z"},
    ],
    ids=lambda part: next(iter(part)),
)
def test_changed_content_is_seen(part: dict[str, Any]) -> None:
    """A migration must change nothing but the version."""
    entries = entry(fixtures.PLATFORM, PLATFORM_FIELDS, version=NEW)
    now = at_new() | {PLAIN.key: stored(value(PLAIN, NEW, entries, **part))}
    assert failing(now) == {"contents"}


def test_a_lost_write_of_a_client_is_seen() -> None:
    """What a client wrote during the migration must not be overwritten by what the migrator had read before."""
    resized = ClientWrites(storage={PLAIN.number: 99})
    assert failing(at_new(), resized) == {"contents"}
    entries = entry(fixtures.PLATFORM, PLATFORM_FIELDS, version=NEW)
    now = at_new() | {PLAIN.key: stored(value(PLAIN, NEW, entries, spec={"storageGiB": 99}))}
    assert failing(now, resized) == set()
    assert failing(at_new(), ClientWrites(connections={PLAIN.number: 300})) == {"contents"}


def test_a_refused_write_of_a_client_is_seen() -> None:
    """Clients must not notice that a migration is under way."""
    done = ClientWrites(spec_writes=Counter({1: 3}))
    assert checks.client_writes("now", done).passed
    assert not checks.client_writes("now", replace(done, refusals=["409 Conflict: it is"])).passed
    assert not checks.client_writes("now", ClientWrites()).passed


def test_what_the_crd_says_is_judged() -> None:
    """A storedVersions that still names v1alpha1, or a wrong answer of ready, must not pass."""
    assert checks.pruned("now", [NEW]).passed
    assert not checks.pruned("now", [OLD, NEW]).passed
    assert not checks.pruned("now", []).passed
    assert checks.readiness("now", True, wanted=True).passed
    assert not checks.readiness("now", False, wanted=True).passed
    assert not checks.readiness("now", True, wanted=False).passed
    assert not checks.accepted("now", "it goes", "422 Invalid: no").passed


def test_a_reference_that_was_not_found_or_not_moved_is_seen() -> None:
    """A dependent that still names v1alpha1 stays behind for good; a move that takes its field breaks its owner."""
    made = fixtures.config_map(fixtures.Database(0), "1-2")
    made["metadata"] |= {"resourceVersion": "1", "managedFields": [{"manager": fixtures.CONTROLLER}]}
    moved = copy.deepcopy(made)
    moved["metadata"]["ownerReferences"][0]["apiVersion"] = f"{fixtures.GROUP}/{NEW}"
    moved["metadata"]["resourceVersion"] = "2"
    taken = copy.deepcopy(moved)
    taken["metadata"]["managedFields"][0]["manager"] = "restow"
    assert checks.references_moved("now", [made], [moved]).passed
    for wrong in (made, taken):
        assert not checks.references_moved("now", [made], [wrong]).passed
    assert not checks.references_moved("now", [], []).passed
    assert checks.references_found("now", ["a/b"], ["a/b"]).passed
    for found in ([], ["a/b", "a/c"]):
        assert not checks.references_found("now", ["a/b"], found).passed
    assert (checks.unserving("now", True).passed, checks.unserving("now", False).passed) == (True, False)


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
    wanted = list(fixtures.applies([PLAIN, SHARED], NEW, {}))
    assert [each.manager for each in wanted] == [
        fixtures.PLATFORM,
        fixtures.PLATFORM,
        fixtures.BACKUP,
        fixtures.CONTROLLER,
    ]
    responses = [Response() for _ in wanted]
    assert checks.no_conflicts("now", "no conflict", wanted, responses).passed
    responses[2] = Response(refusal="409 Conflict: before-first-apply")
    (wrong,) = checks.no_conflicts("now", "no conflict", wanted, responses).wrong
    assert wrong == f"{SHARED.key}: {fixtures.BACKUP}: 409 Conflict: before-first-apply"


def test_a_written_byte_is_seen() -> None:
    """Applying what one owns must leave the very same bytes; another time in an entry is a write already."""
    before = at_new()
    wanted = list(fixtures.applies([PLAIN, SHARED], NEW, {}))
    assert checks.nothing_written("now", "same bytes", wanted, before, at_new()).passed
    touched = entry(fixtures.PLATFORM, PLATFORM_FIELDS, version=NEW) | {"time": "2026-01-01T00:00:00Z"}
    now = before | {SHARED.key: shared_at_new(platform=touched)}
    assert not checks.nothing_written("now", "same bytes", wanted, before, now).passed
    assert not checks.nothing_written("now", "same bytes", wanted, before, {}).passed


def response(**document: Any) -> Response:
    """Make the API server's response to an apply."""
    return Response({"metadata": {}, "spec": {}, "status": {}, **document})


def policy(value: str, *owners: str) -> Response:
    """Make a response with a deletionPolicy and its owners."""
    entries = [{"manager": owner, "fieldsV1": {"f:spec": {"f:deletionPolicy": {}}}} for owner in owners]
    return response(spec={"deletionPolicy": value}, metadata={"managedFields": entries})


REFUSED = Response(refusal='409 Conflict: Apply failed with 1 conflict: conflict with "before-first-apply": .spec')
RESPONSES: list[tuple[Response, list[Response]]] = [
    (response(spec={"engine": "postgres"}), [response(spec={"version": "17.5"}), REFUSED]),
    (
        response(spec={"users": [{"name": "app"}]}),
        [response(spec={"users": [{"name": "app"}, {"name": "backup"}]}), response(spec={}), REFUSED],
    ),
    (
        response(status={"conditions": [{"type": "Ready"}]}),
        [response(status={"conditions": [{"type": "Ready"}, {"type": "BackedUp"}]}), response(), REFUSED],
    ),
    (
        policy("Delete", fixtures.PLATFORM),
        [policy("Retain", fixtures.PLATFORM), policy("Delete"), policy("Delete", fixtures.PLATFORM, "restow"), REFUSED],
    ),
    (
        Response(refusal='409 Conflict: Apply failed with 1 conflict: conflict with "platform": .spec.storageGiB'),
        [response(), REFUSED, Response(refusal="500: request to convert CR to an invalid group/version")],
    ),
]


@pytest.mark.parametrize(
    ("outcome", "responses"),
    [
        pytest.param(outcome, responses, id=outcome.what)
        for outcome, responses in zip(outcomes.OUTCOMES, RESPONSES, strict=True)
    ],
)
def test_each_outcome_is_judged(outcome: outcomes.Outcome, responses: tuple[Response, list[Response]]) -> None:
    """An owner that could not do what only owners can, or a stranger that could, must fail the check."""
    good, bad = responses
    wanted = [Apply(PLAIN, outcome.manager, {})]
    assert outcomes.judge("now", outcome, wanted, [good]).passed
    for each in bad:
        assert not outcomes.judge("now", outcome, wanted, [each]).passed, each
    assert not outcomes.judge("now", outcome, [], []).passed


def test_a_deletion_that_goes_on_waiting_is_seen() -> None:
    """A finalizer that its owner could not drop keeps the object for ever."""
    assert outcomes.deletions_ended("now", [PLAIN], {}).passed
    assert not outcomes.deletions_ended("now", [PLAIN], at_new()).passed
    assert not outcomes.deletions_ended("now", [], {}).passed


def test_every_act_finds_its_databases() -> None:
    """Shares that miss each other would leave a check with nothing to look at, or two acts at the same field."""
    databases = [Database(number) for number in range(60)]
    acts = [outcome.share.of(databases) for outcome in outcomes.OUTCOMES]
    shares = (
        fixtures.APPLIED_MEANWHILE,
        fixtures.DELETED_MEANWHILE,
        fixtures.OLD_MANIFESTS,
        fixtures.APPLIED_AGAIN,
        fixtures.EDITED,
        fixtures.DELETING,
    )
    assert all(acts)
    assert all(share.of(databases) for share in shares)
    for share in (fixtures.OLD_MANIFESTS, fixtures.APPLIED_AGAIN):
        managers = {each.manager for each in fixtures.applies(share.of(databases), NEW, {})}
        assert managers == {fixtures.PLATFORM, fixtures.BACKUP, fixtures.CONTROLLER}
    gone = {*fixtures.DELETING.of(databases)}
    assert not any(gone & set(act) for act in acts)
    by_manager = [
        set(act) for outcome, act in zip(outcomes.OUTCOMES, acts, strict=True) if outcome.manager == fixtures.PLATFORM
    ]
    assert not set.intersection(*by_manager)
    for outcome, act in zip(outcomes.OUTCOMES, acts, strict=True):
        if outcome.manager in (fixtures.BACKUP, fixtures.CONTROLLER):
            share = fixtures.BACKED_UP if outcome.manager == fixtures.BACKUP else fixtures.WATCHED
            assert all(each.number in share for each in act)
