"""What happens to the entries of each version: the whole table, and what switches parts of it off."""

from __future__ import annotations

import itertools

import pytest

from restow.crds import Crd
from restow.migrator.decide.policies import entry_policies
from restow.migrator.model.options import ManagedFields, Options, Phase, Scope
from restow.migrator.ownership.policy import EntryPolicies, EntryPolicy
from tests.migrator import builders as b

TABLE = """
strategy  v1        scope        translate        strip          keep
None      served    not-storage  rename           rename         keep
None      served    unserved     keep             keep           keep
None      served    removed      keep             keep           keep
None      unserved  not-storage  rename           drop           keep
None      unserved  unserved     rename           drop           keep
None      unserved  removed      keep             keep           keep
None      removed   not-storage  reconcile-unknown  drop           keep
None      removed   unserved     reconcile-unknown  drop           keep
None      removed   removed      reconcile-unknown  drop           keep
Webhook   served    not-storage  translate        translate      keep
Webhook   served    unserved     keep             keep           keep
Webhook   served    removed      keep             keep           keep
Webhook   unserved  not-storage  translate        drop           keep
Webhook   unserved  unserved     translate        drop           keep
Webhook   unserved  removed      keep             keep           keep
Webhook   removed   not-storage  translate        drop           keep
Webhook   removed   unserved     translate        drop           keep
Webhook   removed   removed      translate        drop           keep
"""
"""What becomes of an entry of v1, with v2 as storage version and all options as they are by default."""

STATES = ("served", "unserved", "removed")
STRATEGIES = ("None", "Webhook")


def rows() -> dict[tuple[str, str, Scope, ManagedFields], EntryPolicy]:
    """The table by its coordinates."""
    heading, *lines = (line.split() for line in TABLE.strip().splitlines())
    return {
        (strategy, state, Scope(scope), ManagedFields(policy)): EntryPolicy(cell)
        for strategy, state, scope, *cells in lines
        for policy, cell in zip(heading[3:], cells, strict=True)
    }


ROWS = rows()


def a_crd(strategy: str, state: str, *, stored: tuple[str, ...] | None = None) -> Crd:
    """A CRD in which v1 is served, unserved or removed."""
    return b.crd(
        ("v2",) if state == "removed" else ("v1", "v2"),
        unserved=("v1",) if state == "unserved" else (),
        stored=stored,
        webhook=strategy == "Webhook",
    )


def of_v1(rules: EntryPolicies) -> EntryPolicy:
    """The policy for v1's entries."""
    return rules.of(b.api_version("v1"))


def test_the_table_has_every_row() -> None:
    """A row that is missing from the table is a rule that no test holds."""
    assert set(ROWS) == set(itertools.product(STRATEGIES, STATES, Scope, ManagedFields))


@pytest.mark.parametrize("row", ROWS, ids="-".join)
def test_the_policy_for_every_kind_of_entry(row: tuple[str, str, Scope, ManagedFields]) -> None:
    """Each combination of strategy, version, scope and policy has one right answer; a wrong one loses owners."""
    strategy, state, scope, policy = row
    assert of_v1(entry_policies(a_crd(strategy, state), Options(scope=scope, managed_fields=policy))) is ROWS[row]


@pytest.mark.parametrize("row", ROWS, ids="-".join)
def test_strip_served_drops_what_strip_would_translate_or_keep(row: tuple[str, str, Scope, ManagedFields]) -> None:
    """The flag must do what it says for served versions in scope, and nothing for any other entry."""
    strategy, state, scope, policy = row
    options = Options(scope=scope, managed_fields=policy, strip_served=True)
    asked_for = (state, scope, policy) == ("served", Scope.NOT_STORAGE, ManagedFields.STRIP)
    assert of_v1(entry_policies(a_crd(strategy, state), options)) is (EntryPolicy.DROP if asked_for else ROWS[row])


@pytest.mark.parametrize("row", ROWS, ids="-".join)
def test_switched_off_the_phase_leaves_every_entry(row: tuple[str, str, Scope, ManagedFields]) -> None:
    """``--skip-phase managed-fields`` promises entries that stay byte-equal."""
    strategy, state, scope, policy = row
    skip = frozenset({Phase.MANAGED_FIELDS})
    for strip_served in (False, True):
        options = Options(scope=scope, managed_fields=policy, skip=skip, strip_served=strip_served)
        assert of_v1(entry_policies(a_crd(strategy, state), options)) is EntryPolicy.KEEP


@pytest.mark.parametrize("row", ROWS, ids="-".join)
def test_after_a_complete_run_served_versions_are_their_clients(row: tuple[str, str, Scope, ManagedFields]) -> None:
    """While v1 is served its clients write entries again: translating those on each run would never end."""
    strategy, state, scope, policy = row
    options = Options(scope=scope, managed_fields=policy)
    done = entry_policies(a_crd(strategy, state), options, completed=True)
    assert of_v1(done) is (EntryPolicy.KEEP if state == "served" else ROWS[row])


EVERYTHING = list(
    itertools.product(
        STRATEGIES,
        STATES,
        Scope,
        ManagedFields,
        [frozenset(), *(frozenset({phase}) for phase in Phase)],
        [False, True],
        [False, True],
    )
)


def test_an_entry_of_a_served_version_is_never_stripped_unless_asked_for() -> None:
    """Design law: clients of a served version need their entries, whatever else is switched on or off."""
    for strategy, state, scope, policy, skip, strip_served, completed in EVERYTHING:
        options = Options(scope=scope, managed_fields=policy, skip=skip, strip_served=strip_served)
        found = of_v1(entry_policies(a_crd(strategy, state), options, completed=completed))
        if state == "served" and found is EntryPolicy.DROP:
            assert strip_served, options
            assert policy is ManagedFields.STRIP, options


def test_the_storage_versions_own_entries_are_never_touched() -> None:
    """Nothing may translate, strip or even decode what is current already."""
    for strategy, state, scope, policy, skip, strip_served, completed in EVERYTHING:
        options = Options(scope=scope, managed_fields=policy, skip=skip, strip_served=strip_served)
        rules = entry_policies(a_crd(strategy, state), options, completed=completed)
        assert rules.of(b.api_version("v2")) is EntryPolicy.CURRENT
        assert rules.storage == b.api_version("v2")


def test_only_versions_of_the_crd_are_present() -> None:
    """``present`` says what the server can convert; a removed version in it would let a wiping write through."""
    for strategy, state in itertools.product(STRATEGIES, STATES):
        rules = entry_policies(a_crd(strategy, state), Options())
        assert rules.present == {b.api_version(name) for name in (("v2",) if state == "removed" else ("v1", "v2"))}


LISTS = {
    "v1": b.struct(spec=b.struct(names=b.atomic_list(b.STRING))),
    "v2": b.struct(spec=b.struct(names=b.set_list(b.STRING))),
}


@pytest.mark.parametrize(
    ("options", "completed", "webhook", "policy", "whole"),
    [
        (Options(), False, False, EntryPolicy.RECONCILE, True),
        (Options(), True, False, EntryPolicy.KEEP, False),
        (Options(), False, True, EntryPolicy.TRANSLATE, False),
        (Options(scope=Scope.UNSERVED), False, False, EntryPolicy.KEEP, False),
        (Options(managed_fields=ManagedFields.STRIP), False, False, EntryPolicy.RECONCILE, True),
        (Options(managed_fields=ManagedFields.STRIP, strip_served=True), False, False, EntryPolicy.DROP, False),
        (Options(skip=frozenset({Phase.MANAGED_FIELDS})), False, False, EntryPolicy.KEEP, False),
    ],
    ids=["translate", "completed", "webhook", "out of scope", "strip", "strip served", "phase off"],
)
def test_objects_are_listed_whole_only_to_reconcile_entries(
    options: Options, completed: bool, webhook: bool, policy: EntryPolicy, whole: bool
) -> None:
    """A renamed entry whose lists changed would lose its items; whole objects where none is reconciled waste memory."""
    rules = entry_policies(b.crd(schemas=LISTS, webhook=webhook), options, completed=completed)
    assert (of_v1(rules), rules.whole_objects) == (policy, whole)
    assert rules.schemas[b.api_version("v1")].node is LISTS["v1"]


@pytest.mark.parametrize("row", ROWS, ids="-".join)
def test_whole_objects_are_read_for_the_converter_where_entries_of_the_crds_versions_are_due(
    row: tuple[str, str, Scope, ManagedFields],
) -> None:
    """Half an object cannot be converted; whole ones for nothing would make every run of a webhook's CRD slow."""
    strategy, state, scope, policy = row
    rules = entry_policies(a_crd(strategy, state), Options(scope=scope, managed_fields=policy))
    assert rules.translates is (state != "removed" and of_v1(rules) is EntryPolicy.TRANSLATE)
    assert not rules.whole_objects
    assert rules.served == {b.api_version("v2")} | ({b.api_version("v1")} if state == "served" else set())


def test_entries_of_another_group_are_not_the_converters_business() -> None:
    """A restored backup may bring them; a webhook asked for a group that is not its own could only fail."""
    rules = entry_policies(a_crd("Webhook", "removed"), Options())
    assert rules.may_convert(b.api_version("v1"))
    assert not rules.may_convert("other.example.com/v1")
    assert not rules.may_convert("v1")


@pytest.mark.parametrize(
    ("crd", "skip", "reencode"),
    [
        (b.proved(b.crd()), frozenset(), False),
        (b.proved(b.crd(stored=("v1", "v2"))), frozenset(), False),
        (b.crd(("v2",)), frozenset(), False),
        (b.crd(), frozenset(), True),
        (b.crd(stored=("v1", "v2")), frozenset(), True),
        (b.crd(stored=("v1",)), frozenset(), True),
        (b.crd(stored=()), frozenset(), True),
        (b.crd(stored=("v1", "v2")), frozenset({Phase.STORAGE}), False),
        (b.crd(stored=("v1", "v2")), frozenset({Phase.PRUNE, Phase.MANAGED_FIELDS}), True),
    ],
    ids=["proved", "proved, not pruned", "one version", "trimmed", "two", "old", "none", "no storage", "no prune"],
)
def test_objects_are_reencoded_unless_it_is_proved_that_they_need_not_be(
    crd: Crd, skip: frozenset[Phase], reencode: bool
) -> None:
    """An object that is not rewritten although another version may be stored is lost once that version goes."""
    assert entry_policies(crd, Options(skip=skip)).reencode is reencode


SIZE = b.struct(spec=b.struct(size=b.INTEGER))
SIZE_BY_DEFAULT = b.struct(spec=b.struct(size=b.INTEGER | {"default": 1}))
SIZE_REQUIRED = b.struct(spec=b.struct(size=b.INTEGER) | {"required": ["size"]})


@pytest.mark.parametrize(
    ("schemas", "proved", "webhook", "defaults"),
    [
        ({"v1": SIZE, "v2": SIZE_BY_DEFAULT}, False, False, (".spec.size",)),
        ({"v1": SIZE, "v2": SIZE_BY_DEFAULT}, True, False, ()),
        ({"v1": SIZE_BY_DEFAULT, "v2": SIZE_BY_DEFAULT}, False, False, ()),
        ({"v1": SIZE_BY_DEFAULT, "v2": SIZE}, False, False, ()),
        ({"v1": SIZE_REQUIRED, "v2": SIZE_BY_DEFAULT}, False, False, ()),
        ({"v1": SIZE_REQUIRED, "v2": SIZE_BY_DEFAULT}, False, True, (".spec.size",)),
        ({"v0": SIZE, "v1": SIZE, "v2": SIZE_BY_DEFAULT}, False, False, (".spec.size",)),
    ],
    ids=["new", "nothing stored at v1", "old", "dropped", "required", "webhook", "two versions, once"],
)
def test_new_defaults_are_those_that_a_stored_object_may_lack(
    schemas: dict[str, b.Node], proved: bool, webhook: bool, defaults: tuple[str, ...]
) -> None:
    """A default that goes unnoticed is persisted under restow's name; one too many costs a second write per object."""
    crd = b.crd(tuple(schemas), schemas=schemas, webhook=webhook)
    found = entry_policies(b.proved(crd) if proved else crd, Options())
    assert found.new_defaults == defaults


@pytest.mark.parametrize(
    "options",
    [Options(), Options(managed_fields=ManagedFields.STRIP, strip_served=True)],
    ids=["translate", "strip"],
)
def test_objects_are_listed_whole_where_a_field_changed_its_type(options: Options) -> None:
    """A value that the storage version cannot type would not be seen, and a write would empty managedFields."""
    schemas = {
        "v1": b.struct(spec=b.struct(names=b.atomic_list(b.STRING))),
        "v2": b.struct(spec=b.struct(names=b.atomic_list({"type": "integer"}))),
    }
    assert entry_policies(b.crd(schemas=schemas), options).whole_objects
    assert not entry_policies(b.crd(schemas={"v1": schemas["v1"], "v2": schemas["v1"]}), options).whole_objects
