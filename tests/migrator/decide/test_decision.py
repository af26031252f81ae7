"""The decision for one object: no write that wipes, none too many, and nobody's ownership lost on the way."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from restow.migrator.decide.decision import ObjectDecision, WriteStep, decide
from restow.migrator.decide.policies import entry_policies
from restow.migrator.model.options import ManagedFields, Options, Phase, Scope
from restow.migrator.ownership.conversion import ConvertedEntry
from restow.migrator.ownership.entries import ETCD_TAKES, LARGE, ManagedFieldsEntry, identity, size_of
from restow.migrator.ownership.policy import EntryPolicies, EntryPolicy
from restow.migrator.ownership.translation import Translation
from tests.migrator import builders as b
from tests.migrator.builders import api_version, entry, fields_of
from tests.migrator.oracle import Path, members
from tests.migrator.strategies import entry_lists

APPLY, EMPTY, COMBINED = WriteStep.IDENTITY_APPLY, WriteStep.EMPTY_PATCH, WriteStep.COMBINED_PATCH
VERSIONS = ("v0", "v1", "v2", "removed")
"""v0 is unserved, v1 served, v2 the storage version, and one is in the CRD no more."""

SPEC = b.struct(spec=b.EVERYTHING_KEPT)
SPEC_WITH_DEFAULT = b.struct(spec=b.EVERYTHING_KEPT, size={"type": "integer", "default": 1})
V2 = api_version("v2")

fields = st.sampled_from(
    [
        {"f:metadata": {"f:labels": {"f:x": {}}}},
        {"f:spec": {"f:size": {}}},
        {"f:spec": {".": {}, "f:size": {}, "f:name": {}}},
        {"f:metadata": {"f:labels": {".": {}, "f:y": {}}}, "f:spec": {}},
        {"f:status": {"f:ready": {}}},
    ]
)


def rules_for(
    options: Options | None = None,
    *,
    reencode: bool = False,
    new_defaults: bool = False,
    webhook: bool = False,
    completed: bool = False,
) -> EntryPolicies:
    """The policies for the entries of a CRD with v0, v1 and v2."""
    crd = b.crd(
        ("v0", "v1", "v2"),
        unserved=("v0",),
        schemas={"v0": SPEC, "v1": SPEC, "v2": SPEC_WITH_DEFAULT if new_defaults else SPEC},
        webhook=webhook,
    )
    if not (reencode or new_defaults):
        crd = b.proved(crd)
    return entry_policies(crd, options or Options(), completed=completed)


all_options = st.builds(
    Options,
    skip=st.frozensets(st.sampled_from(Phase)),
    managed_fields=st.sampled_from(ManagedFields),
    scope=st.sampled_from(Scope),
    strip_served=st.booleans(),
)
all_rules = st.builds(
    rules_for,
    all_options,
    reencode=st.booleans(),
    new_defaults=st.booleans(),
    webhook=st.booleans(),
    completed=st.booleans(),
)
objects = entry_lists(VERSIONS, fields)


@dataclass(frozen=True)
class Case:
    """An object, the policies for its entries, their translation, and the decision."""

    found: list[ManagedFieldsEntry]
    rules: EntryPolicies
    translation: Translation

    @property
    def decision(self) -> ObjectDecision:
        """The decision."""
        return decide(self.found, self.rules, translation=self.translation)

    def converted(self, place: int) -> ConvertedEntry | None:
        """The converted entry; None for one that the converter did not get."""
        return self.translation.converted.get(place)

    def stays(self, place: int) -> bool:
        """Whether an entry is one of a served version that could not be carried over whole."""
        converted, one = self.converted(place), self.found[place]
        if converted is None or one.api_version not in self.rules.served:
            return False
        return not (converted.complete and (converted.fields or "f:metadata" in fields_of(one)))

    def due(self, place: int) -> bool:
        """Whether something is to happen to an entry."""
        policy = self.rules.of(self.found[place].api_version)
        return policy not in (EntryPolicy.CURRENT, EntryPolicy.KEEP) and not self.stays(place)

    @property
    def any_due(self) -> bool:
        """Whether something is to happen to any entry."""
        return any(self.due(place) for place in range(len(self.found)))

    def lost(self, place: int) -> bool:
        """Whether an entry is dropped, or cut."""
        converted, policy = self.converted(place), self.rules.of(self.found[place].api_version)
        return policy is EntryPolicy.DROP or (
            converted is not None and not converted.complete and not self.stays(place)
        )


def case(found: list[ManagedFieldsEntry], rules: EntryPolicies, hows: list[str]) -> Case:
    """The converter carries over an entry whole, a part of it, or nothing, or what it owns is nothing there."""
    carried = {}
    for place, (one, how) in enumerate(zip(found, hows, strict=False)):
        rest = {key: node for key, node in fields_of(one).items() if key != "f:metadata"}
        if rules.of(one.api_version) is EntryPolicy.TRANSLATE and rest:
            size = {"f:spec": {"f:size": {}}} if "f:size" in rest.get("f:spec", {}) else {}
            part = {"whole": rest, "part": size}.get(how, {})
            carried[place] = ConvertedEntry(part, complete=how in ("whole", "emptied"))
    return Case(found, rules, Translation(carried))


hows = st.lists(st.sampled_from(["whole", "part", "nothing", "emptied"]), min_size=5, max_size=5)
cases = st.builds(case, objects, all_rules, hows)


LEFTOVER = entry("restow-migrator", "v2", {"f:spec": {"f:policy": {}}}, operation="Update")
"""What a run leaves that was killed between a write that persisted a default and the next one."""


def with_leftover(drawn: Case, place: int) -> Case:
    """The same object with our own leftover among its entries."""
    place = min(place, len(drawn.found))
    moved = {old + (old >= place): carried for old, carried in drawn.translation.converted.items()}
    found = [*drawn.found[:place], LEFTOVER, *drawn.found[place:]]
    return Case(found, drawn.rules, Translation(moved))


cases_with_leftover = st.builds(with_leftover, cases, st.integers(0, 4))


def owned(
    found: list[ManagedFieldsEntry] | tuple[ManagedFieldsEntry, ...],
) -> dict[tuple[str, str, str], frozenset[Path]]:
    """The paths of each manager, operation and subresource, at whatever version."""
    paths: dict[tuple[str, str, str], frozenset[Path]] = defaultdict(frozenset)
    for one in found:
        paths[one.manager, one.operation, one.subresource] |= members(fields_of(one))
    return paths


@given(cases | cases_with_leftover)
def test_no_step_wipes(case: Case) -> None:
    """An inconvertible entry empties managedFields with a patch and fails an apply: neither may ever be sent so."""
    found, rules, decision = case.found, case.rules, case.decision
    if decision.refusal:
        assert decision.steps == ()
    if COMBINED in decision.steps:
        assert all(one.api_version in rules.present for one in decision.entries)
        assert decision.entries or all(one is LEFTOVER for one in found)
    if APPLY in decision.steps:
        assert all(one.api_version in rules.present for one in found)
    if EMPTY in decision.steps:
        assert not found


@given(cases)
def test_one_write_and_a_second_one_only_for_new_defaults(case: Case) -> None:
    """Every further request per object is a million of them on a large cluster."""
    steps = case.decision.steps
    assert len(steps) <= 2
    if len(steps) == 2:
        assert case.rules.new_defaults
        assert steps == (APPLY, COMBINED)


@given(cases)
def test_without_anything_due_nothing_is_sent(case: Case) -> None:
    """A rewrite that is not needed wakes up every watcher of the object."""
    if not case.rules.reencode and not case.any_due:
        assert case.decision.steps == ()


@given(cases)
def test_what_is_due_is_done_or_refused(case: Case) -> None:
    """An object that is passed over in silence would be lost at the prune that follows."""
    decision = case.decision
    if case.rules.reencode or case.any_due:
        assert bool(decision.steps) is not bool(decision.refusal)


@given(cases)
def test_nothing_is_reencoded_while_the_storage_phase_is_off(case: Case) -> None:
    """With the storage phase off the only write there is is the one that moves entries."""
    decision = case.decision
    if not case.rules.reencode and decision.steps:
        assert decision.steps[-1] is COMBINED
        assert decision.translated or decision.stripped


@given(cases)
def test_every_manager_keeps_every_path_that_is_not_stripped(case: Case) -> None:
    """Never lose an owner: what is translated, kept or current must come out with every path that it had."""
    decision, carried = case.decision, []
    if decision.refusal:
        return
    for place, one in enumerate(case.found):
        converted = case.converted(place)
        if converted is not None and not case.stays(place):
            part = entry(one.manager, fields=converted.fields, operation=one.operation, subresource=one.subresource)
            carried.append(part)  # of a complete conversion it is everything that the object still has
        elif not case.lost(place):
            carried.append(one)
    after = owned(decision.entries)
    for owner, paths in owned(carried).items():
        assert paths <= after[owner]


@given(cases)
def test_nobody_gains_a_path(case: Case) -> None:
    """A manager that owns more than before would delete it with its next apply."""
    before = owned(case.found)
    for owner, paths in owned(case.decision.entries).items():
        assert paths <= before[owner] | {("f:metadata", "f:name")}


@given(cases)
def test_metadata_is_carried_over_where_the_rest_is_stripped(case: Case) -> None:
    """Labels and finalizers mean the same in every version; stripping them too would lose their owners for nothing."""
    found, rules, decision = case.found, case.rules, case.decision
    if decision.refusal:
        return
    after = owned(decision.entries)
    for one in found:
        if rules.of(one.api_version) is EntryPolicy.TRANSLATE:
            metadata = {path for path in members(fields_of(one)) if path[0] == "f:metadata"}
            assert metadata <= after[one.manager, one.operation, one.subresource]


@given(cases_with_leftover)
def test_our_own_leftover_is_taken_off_or_the_object_refused(case: Case) -> None:
    """The field that it owns would stay ours for good, and its applier would meet a conflict."""
    decision = case.decision
    assert decision.refusal or (decision.steps and all(one.manager != "restow-migrator" for one in decision.entries))


@given(cases)
def test_identities_are_unique_and_versions_final(case: Case) -> None:
    """Of two entries with one identity the server keeps the last; one left at an old version would count as done."""
    found, rules, decision = case.found, case.rules, case.decision
    if decision.refusal:
        return
    assert len({identity(one) for one in decision.entries}) == len(decision.entries)
    kept = [one for place, one in enumerate(found) if case.stays(place)]
    for one in decision.entries:
        assert rules.of(one.api_version) in (EntryPolicy.CURRENT, EntryPolicy.KEEP) or one in kept


@given(cases)
def test_an_object_never_ends_without_managed_fields(case: Case) -> None:
    """Without any entry the next apply meets ``before-first-apply``: one manager's seed has to stay."""
    found, decision = case.found, case.decision
    if found and not decision.refusal:
        assert decision.entries
        assert {one.manager for one in decision.entries} <= {one.manager for one in found}


@given(cases)
def test_every_entry_is_counted_once(case: Case) -> None:
    """Reports tell people which managers lost something; none may be missing, and none named without reason."""
    found, rules, decision = case.found, case.rules, case.decision
    if decision.refusal:
        return
    old = [(place, one) for place, one in enumerate(found) if one.api_version != V2]
    assert decision.translated + len(decision.stripped) + decision.remaining == len(old)
    stay = [(one.manager, one.api_version) for place, one in old if case.stays(place)]
    assert decision.remaining == len(stay) + sum(rules.of(one.api_version) is EntryPolicy.KEEP for _place, one in old)
    assert sorted(decision.not_carried) == sorted(stay)
    assert sorted(decision.stripped) == sorted((one.manager, one.api_version) for place, one in old if case.lost(place))


@given(cases)
def test_entries_that_stay_are_sent_back_as_they_were(case: Case) -> None:
    """What is kept or current must stay byte-equal, unless another entry was merged into it."""
    found, decision = case.found, case.decision
    if decision.refusal:
        return
    alone = defaultdict(int)
    for one in found:
        alone[one.manager, one.operation, one.subresource] += 1
    for place, one in enumerate(found):
        if not case.due(place) and alone[one.manager, one.operation, one.subresource] == 1:
            assert one in decision.entries


@given(cases)
def test_riders_of_other_versions_are_rehearsed(case: Case) -> None:
    """A kept entry that the server cannot convert would wipe all others: only a dry run tells beforehand."""
    decision = case.decision
    riders = any(one.api_version != V2 for one in decision.entries)
    assert decision.rehearse is (COMBINED in decision.steps and riders)


ALICE_V1 = entry("alice", "v1")
ALICE_V2 = entry("alice", "v2")
BOB_V1 = entry("bob", "v1", operation="Update")
BOB_V2 = entry("bob", "v2", operation="Update")
CORRUPT = msgspec.structs.replace(entry("mallory", "v1"), operation="Patch")
ALICE_REMOVED = entry("alice", "removed")
KEEP = Options(managed_fields=ManagedFields.KEEP)


@pytest.mark.parametrize(
    ("found", "rules", "steps"),
    [
        ([ALICE_V2, BOB_V2], rules_for(), ()),
        ([], rules_for(), ()),
        ([ALICE_V1, BOB_V2], rules_for(), (COMBINED,)),
        ([ALICE_V1, BOB_V2], rules_for(reencode=True), (COMBINED,)),
        ([ALICE_V2, BOB_V2], rules_for(reencode=True), (APPLY,)),
        ([], rules_for(reencode=True), (EMPTY,)),
        ([ALICE_V1], rules_for(new_defaults=True), (APPLY, COMBINED)),
        ([ALICE_V2], rules_for(new_defaults=True), (APPLY,)),
        ([], rules_for(new_defaults=True), (APPLY, COMBINED)),
        ([BOB_V1, BOB_V2], rules_for(new_defaults=True), (APPLY, COMBINED)),
        ([BOB_V1, CORRUPT], rules_for(new_defaults=True), (COMBINED,)),
        ([ALICE_REMOVED], rules_for(new_defaults=True), (COMBINED,)),
        ([ALICE_V1], rules_for(KEEP), ()),
        ([ALICE_V1], rules_for(KEEP, reencode=True), (APPLY,)),
        ([ALICE_REMOVED], rules_for(KEEP), ()),
    ],
    ids=[
        "nothing due",
        "nothing due, no managedFields",
        "entries to translate",
        "entries to translate and to re-encode",
        "only to re-encode",
        "only to re-encode, no managedFields",
        "new defaults and entries to translate",
        "new defaults only",
        "new defaults, no managedFields",
        "new defaults and entries to merge",
        "new defaults and an entry that the server cannot read",
        "new defaults and an entry that no apply gets past",
        "kept, nothing due",
        "kept and to re-encode",
        "kept of a removed version, nothing due",
    ],
)
def test_the_requests_of_each_kind_of_object(
    found: list[ManagedFieldsEntry], rules: EntryPolicies, steps: tuple[WriteStep, ...]
) -> None:
    """The design's own list: which object needs which requests, in which order."""
    assert decide(found, rules).steps == steps


def test_an_object_that_is_only_re_encoded_has_the_same_entries_afterwards() -> None:
    """The answer is compared with them: without them every object would count as one whose owners were lost."""
    for rules in (rules_for(reencode=True), rules_for(new_defaults=True)):
        assert decide([ALICE_V2, BOB_V2], rules).entries == (ALICE_V2, BOB_V2)


def test_a_kept_entry_of_a_removed_version_is_refused() -> None:
    """Re-encoding would wipe it and was asked for with ``keep``: the object must be named, not written."""
    decision = decide([ALICE_REMOVED, BOB_V2], rules_for(KEEP, reencode=True))
    assert decision.steps == ()
    assert "no longer in the CRD" in decision.refusal
    assert "--managed-fields translate" in decision.refusal
    assert (decision.remaining, decision.entries) == (1, (ALICE_REMOVED, BOB_V2))


@pytest.mark.parametrize("reencode", [False, True])
@pytest.mark.parametrize("place", [0, 1])
def test_a_kept_entry_of_a_removed_version_is_refused_next_to_our_leftover(reencode: bool, place: int) -> None:
    """The patch that takes our entry off would have the server empty the list for the sake of the kept one."""
    found = [ALICE_REMOVED, BOB_V2]
    found.insert(place, LEFTOVER)
    decision = decide(found, rules_for(KEEP, reencode=reencode))
    assert decision.steps == () and "no longer in the CRD" in decision.refusal
    assert decision.remaining == 1


def test_a_kept_entry_of_a_removed_version_is_refused_next_to_a_corrupt_one() -> None:
    """Dropping the entry that the server cannot read takes a write as well, and that would lose the kept one."""
    found = [ALICE_REMOVED, msgspec.structs.replace(BOB_V2, operation="Patch")]
    decision = decide(found, rules_for(KEEP, reencode=True))
    assert decision.steps == () and "no longer in the CRD" in decision.refusal


@pytest.mark.parametrize(("version", "stays"), [("v1", True), ("v0", False)], ids=["served", "unserved"])
def test_an_entry_of_which_nothing_is_left_at_the_storage_version(version: str, stays: bool) -> None:
    """A served version's client would lose its ownership; of an unserved one nobody is there to need it."""
    found, translation = [entry("alice", version), BOB_V2], Translation({0: ConvertedEntry({}, complete=True)})
    decision = decide(found, rules_for(webhook=True, reencode=True), {}, translation)
    owner = ("alice", api_version(version))
    assert decision.not_carried == ((owner,) if stays else ())
    assert [(one.manager, one.api_version) for one in decision.entries] == [*([owner] if stays else []), ("bob", V2)]


def test_a_translated_applier_is_one_with_its_own_newer_entry() -> None:
    """One manager's Update entries of two versions become one entry, or the server would drop the first."""
    found = [
        entry("bob", "v1", {"f:spec": {"f:a": {}}}, operation="Update", time="2024-05-01T10:00:00Z"),
        entry("bob", "v2", {"f:spec": {"f:b": {}}}, operation="Update", time="2024-05-01T09:00:00Z"),
    ]
    (merged,) = decide(found, rules_for()).entries
    assert (merged.api_version, merged.time) == (V2, "2024-05-01T10:00:00Z")
    assert fields_of(merged) == {"f:spec": {"f:a": {}, "f:b": {}}}


def test_a_seed_stays_where_everything_is_stripped() -> None:
    """The seed is at the storage version and owns nothing of the object but its name."""
    found = [entry("alice", "v0"), entry("bob", "v0", operation="Update", subresource="status")]
    decision = decide(found, rules_for(Options(managed_fields=ManagedFields.STRIP)))
    assert [identity(one) for one in decision.entries] == [("alice", "Apply", "", "")]
    assert decision.entries[0].api_version == V2
    assert fields_of(decision.entries[0]) == {"f:metadata": {"f:name": {}}}
    assert decision.stripped == (("alice", api_version("v0")), ("bob", api_version("v0")))


def test_the_seed_that_stays_is_never_our_own_leftover() -> None:
    """The object would be tracked in restow's name, and each later run would write it again."""
    found = [LEFTOVER, entry("alice", "v0")]
    decision = decide(found, rules_for(Options(managed_fields=ManagedFields.STRIP)))
    assert [identity(one) for one in decision.entries] == [("alice", "Apply", "", "")]


def test_an_entry_of_nothing_but_metadata_is_translated_not_stripped() -> None:
    """Nothing of it is lost, so nobody is to be told that its manager lost something."""
    found = [entry("alice", "v0", {"f:metadata": {"f:labels": {"f:x": {}}}})]
    decision = decide(found, rules_for(webhook=True))
    assert (decision.translated, decision.stripped) == (1, ())
    assert fields_of(decision.entries[0]) == fields_of(found[0])


LABEL = {"f:metadata": {"f:labels": {"f:x": {}}}}
CONDITION = b.struct(type=b.STRING, status=b.STRING)
LISTS = {
    "v1": b.struct(status=b.struct(conditions=b.atomic_list(CONDITION))),
    "v2": b.struct(status=b.struct(conditions=b.keyed_list(CONDITION, "type"))),
}
OWNS_CONDITIONS = {"f:status": {"f:conditions": {}}}
LIVE: dict[str, Any] = {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}
EXPANDED = {"f:status": {"f:conditions": {'k:{"type":"Ready"}': {".": {}, "f:type": {}, "f:status": {}}}}}


@pytest.mark.parametrize("version", ["v1", "removed"])
def test_a_whole_list_that_is_keyed_now_is_expanded_from_the_object(version: str) -> None:
    """Cluster API's conditions: renamed only, the entry would own no item, and the next apply would meet a conflict."""
    rules = entry_policies(b.crd(schemas=LISTS), Options())
    found = [entry("alice", version, OWNS_CONDITIONS)]
    assert decide(found, rules) == ObjectDecision(needs_object=True)
    decision = decide(found, rules, LIVE)
    assert (decision.steps, decision.translated) == ((COMBINED,), 1)
    assert members(fields_of(decision.entries[0])) == members(EXPANDED)


@pytest.mark.parametrize("version", ["v2", "removed"])
def test_an_update_of_a_removed_version_takes_no_items_of_others(version: str) -> None:
    """An Update entry has a leaf for a keyed list that was empty: expanded, it would own what others added since."""
    rules = entry_policies(b.crd(schemas=LISTS), Options())
    found = [
        entry("controller", "removed", OWNS_CONDITIONS, operation="Update"),
        entry("reporter", version, EXPANDED),
    ]
    controller, _reporter = decide(found, rules, LIVE).entries
    assert fields_of(controller) == OWNS_CONDITIONS


@pytest.mark.parametrize(("version", "operation"), [("v1", "Update"), ("removed", "Apply")])
def test_a_whole_list_is_expanded_with_the_items_of_others(version: str, operation: str) -> None:
    """An atomic list belongs to its owner whole, also where another manager owns an item of the keyed list."""
    rules = entry_policies(b.crd(schemas=LISTS), Options())
    found = [entry("alice", version, OWNS_CONDITIONS, operation=operation), entry("reporter", "v2", EXPANDED)]
    alice, _reporter = decide(found, rules, LIVE).entries
    assert members(fields_of(alice)) == members(EXPANDED)


def test_an_entry_that_is_renamed_stays_as_it_is_next_to_one_that_is_reconciled() -> None:
    """Two versions with one schema have the same field sets: a leaf for a keyed list means an empty one in both."""
    rules = entry_policies(b.crd(("v0", "v1", "v2"), schemas=LISTS | {"v0": LISTS["v2"]}), Options())
    found = [entry("alice", "v0", OWNS_CONDITIONS, operation="Update"), entry("bob", "v1", OWNS_CONDITIONS)]
    alice, bob = decide(found, rules, LIVE).entries
    assert fields_of(alice) == OWNS_CONDITIONS
    assert members(fields_of(bob)) == members(EXPANDED)


def test_an_update_of_a_removed_version_keeps_the_items_that_are_nobody_elses() -> None:
    """Where the list was atomic its writer owned every item; renamed only, nobody would own those that it wrote."""
    rules = entry_policies(b.crd(schemas=LISTS), Options())
    live = {"status": {"conditions": [*LIVE["status"]["conditions"], {"type": "Old", "status": "True"}]}}
    found = [
        entry("controller", "removed", OWNS_CONDITIONS, operation="Update"),
        entry("reporter", "v2", EXPANDED),
    ]
    controller, _reporter = decide(found, rules, live).entries
    old = {'k:{"type":"Old"}': {".": {}, "f:type": {}, "f:status": {}}}
    assert members(fields_of(controller)) == members({"f:status": {"f:conditions": old}})


def test_a_removed_versions_other_managers_tell_that_a_list_was_keyed() -> None:
    """Where one manager of the version owns an item, another one's leaf was never the whole list: no read is needed."""
    rules = entry_policies(b.crd(schemas=LISTS), Options())
    found = [entry("alice", "removed", OWNS_CONDITIONS), entry("bob", "removed", EXPANDED)]
    decision = decide(found, rules)
    assert not decision.needs_object
    assert [fields_of(one) for one in decision.entries] == [OWNS_CONDITIONS, EXPANDED]


def test_entries_of_the_old_version_say_nothing_about_a_removed_one() -> None:
    """What another version's managers own is no evidence: there the list may have been keyed when it was whole here."""
    rules = entry_policies(b.crd(schemas=LISTS), Options())
    found = [entry("alice", "removed", OWNS_CONDITIONS), entry("bob", "v2", EXPANDED)]
    assert decide(found, rules).needs_object


LONGER = b.crd(("v1", "v10"), storage="v10", stored=("v1", "v10"))


def test_a_list_that_grows_needs_the_object_to_see_how_large_it_is() -> None:
    """Metadata says nothing of an object's size, and one that etcd refuses is stored without owners."""
    rules = entry_policies(LONGER, Options())
    assert rules.whole_objects
    assert decide([ALICE_V1], rules).needs_object
    assert decide([ALICE_V1], entry_policies(b.proved(b.crd(("v1", "v10"), storage="v10")), Options())).needs_object
    small, large = ({"metadata": {}, "spec": {"color": "x" * size}} for size in (10, LARGE))
    assert decide([ALICE_V1], rules, small).entries[0].time == ALICE_V1.time
    assert decide([ALICE_V1], rules, large).entries[0].time == ""
    assert not decide([entry("alice", "v1"), entry("bob", "longer")], rules_for()).needs_object


def test_a_large_object_whose_list_cannot_be_made_to_fit_is_refused() -> None:
    """An atomic list that is owned item by item now may grow by more than all times take."""
    conditions = [{"type": f"T{number:05}", "status": "True"} for number in range(34_000)]
    rules = entry_policies(b.crd(schemas=LISTS), Options())
    live: dict[str, Any] = {"metadata": {}, "status": {"conditions": conditions}}
    decision = decide([entry("alice", "v1", OWNS_CONDITIONS)], rules, live)
    assert (decision.steps, decision.reason) == ((), "TooLarge") and "1.5 MiB" in decision.refusal
    live["status"]["conditions"] = conditions * 2  # more than etcd takes by default: it is configured otherwise
    assert decide([entry("alice", "v1", OWNS_CONDITIONS)], rules, live).steps


@pytest.mark.parametrize(
    ("free", "time", "fits"),
    [(0, "2024-05-01T10:00:00Z", True), (0, "", False), (1, "", False), (2, "", True)],
    ids=["a time makes room", "full", "a byte short", "just enough"],
)
def test_an_object_that_fits_by_a_byte_is_written(free: int, time: str, fits: bool) -> None:
    """One byte too many and etcd takes no owner; one byte too careful and the object blocks the prune for nothing."""
    crd = b.crd(("v0", "v1", "v10"), unserved=("v1",), storage="v10", stored=("v1", "v10"))
    rules = entry_policies(crd, Options(scope=Scope.UNSERVED))
    live: dict[str, Any] = {"metadata": {}, "spec": {"color": ""}}
    live["spec"]["color"] = "x" * (ETCD_TAKES - free - size_of(live))
    decision = decide([entry("alice", "v1", time=time), entry("bob", "v0", time="")], rules, live)
    assert (decision.steps, decision.remaining) == ((COMBINED,) if fits else (), 1)
    assert fits or f"it has {ETCD_TAKES - free} bytes" in decision.refusal


def times(decision: ObjectDecision) -> dict[str, str]:
    return {each.manager: each.time for each in decision.entries}


def test_only_as_many_times_go_as_make_room() -> None:
    """Clients see from the times who wrote last; the oldest one says least."""
    crd = b.crd(("v0", "v1", "v10"), unserved=("v1",), storage="v10", stored=("v1", "v10"))
    rules = entry_policies(crd, Options(scope=Scope.UNSERVED))
    live: dict[str, Any] = {"metadata": {}, "spec": {"color": "x" * LARGE}}
    owners = [entry("alice", "v1", time="2025-05-01T10:00:00Z"), entry("bob", "v0", time="2024-05-01T10:00:00Z")]
    assert times(decide(owners, rules, live)) == {"alice": "2025-05-01T10:00:00Z", "bob": ""}


def test_a_time_makes_room_for_the_longer_name_of_the_version() -> None:
    """The managedFields may keep their length while the object grows, by the name of its own version."""
    crd = b.crd(("v1", "v100", "v10"), unserved=("v1", "v100"), storage="v10", stored=("v1", "v10"))
    rules = entry_policies(crd, Options(scope=Scope.UNSERVED))
    live: dict[str, Any] = {"metadata": {}, "spec": {"color": "x" * LARGE}}
    owners = [entry("alice", "v1", time="2025-05-01T10:00:00Z"), entry("bob", "v100", time="2024-05-01T10:00:00Z")]
    decision = decide(owners, rules, live)
    assert rules.grows == 1, "one version's name gets longer by as much as the other's gets shorter"
    assert times(decision) == {"alice": "2025-05-01T10:00:00Z", "bob": ""}


SIZES = {"v1": b.struct(spec=b.struct(size=b.STRING)), "v2": b.struct(spec=b.struct(size=b.INTEGER))}


def test_an_object_that_the_server_cannot_type_is_refused() -> None:
    """Any patch would empty its managedFields, even one with nothing but convertible entries."""
    rules = entry_policies(b.crd(schemas=SIZES), Options())
    assert rules.whole_objects
    live: dict[str, Any] = {"apiVersion": V2, "kind": "Widget", "metadata": {"labels": {}}, "spec": {"size": "7"}}
    decision = decide([ALICE_V1, BOB_V2], rules, live)
    assert (decision.steps, decision.entries) == ((), ())
    assert ".spec.size is of another type" in decision.refusal
    assert decide([ALICE_V1, BOB_V2], rules, live | {"spec": {"size": 7}}).steps == (COMBINED,)


def test_a_refused_object_counts_as_one_whose_entries_remain() -> None:
    """The report would tell that no object keeps an entry of a served version."""
    crd = b.crd(VERSIONS[:3], unserved=("v0",), schemas=SIZES | {"v0": SIZES["v1"]})
    rules = entry_policies(crd, Options(scope=Scope.UNSERVED))
    decision = decide([entry("alice", "v0"), entry("bob", "v1")], rules, {"spec": {"size": "7"}})
    assert decision.refusal and decision.remaining == 1


@pytest.mark.parametrize(
    "spoilt",
    [
        {"fields_type": ""},
        {"operation": "Patch"},
        {"api_version": ""},
        {"fields": msgspec.Raw(b"[1]")},
        {"fields": b.raw({"f:spec": {"f:size": 1}})},
        {"fields": b.raw({"f:spec": {"k:name": {}}})},
        {"fields": b.raw({"f:spec": {"i:x": {}}})},
    ],
    ids=["no type", "no operation", "no version", "no object", "no object below", "no key", "no index"],
)
@pytest.mark.parametrize("webhook", [False, True], ids=["None", "Webhook"])
def test_an_entry_that_the_server_cannot_read_does_not_cost_the_others(spoilt: dict[str, Any], webhook: bool) -> None:
    """The server empties the whole list for the sake of one such entry, whatever else is sent with it."""
    found = [ALICE_V2, msgspec.structs.replace(entry("mallory", "v1"), **spoilt), entry("carol", "v1", LABEL)]
    decision = decide(found, rules_for(reencode=True, webhook=webhook))
    assert decision.steps == (COMBINED,)
    assert [(one.manager, one.api_version) for one in decision.entries] == [("alice", V2), ("carol", V2)]
    assert [manager for manager, _version in decision.stripped] == ["mallory"]
    assert decide(found[:2], rules_for()).steps == (), "it is no reason by itself to write an object"


def test_a_seed_that_the_server_can_read_stays_where_no_entry_can_be() -> None:
    """Where all entries are corrupt, the next apply would otherwise begin with before-first-apply."""
    found = [msgspec.structs.replace(entry("mallory", "v1"), operation="Patch", fields_type="")]
    [left] = decide(found, rules_for(reencode=True)).entries
    assert (left.operation, left.fields_type, left.api_version) == ("Update", "FieldsV1", V2)


def test_renamed_entries_are_passed_on_as_they_are() -> None:
    """Field sets are most of an object's metadata; to encode each once more would cost as much as the rest."""
    odd = b.raw({"f:spec": {"f:b": {}, "f:a": {}}})
    found = [
        ManagedFieldsEntry(
            manager="a", operation="Apply", api_version=api_version("v1"), fields_type="FieldsV1", fields=odd
        )
    ]
    assert bytes(decide(found, rules_for()).entries[0].fields) == bytes(odd)


ALICE_WEBHOOK = rules_for(webhook=True)


def test_an_entry_that_has_to_be_converted_waits_for_the_answer() -> None:
    """Deciding without it could only strip, or keep, what the converter might carry over."""
    assert decide([ALICE_V1], ALICE_WEBHOOK).needs_object
    assert decide([ALICE_V1], ALICE_WEBHOOK, {}).needs_object
    assert not decide(
        [ALICE_V1], ALICE_WEBHOOK, {}, Translation({0: ConvertedEntry({"f:spec": {"f:x": {}}})})
    ).needs_object


def test_labels_alone_wait_for_nothing() -> None:
    """Labels are the same in every version: asking a webhook for them would be a conversion for nothing."""
    decision = decide([entry("alice", "v1", LABEL)], ALICE_WEBHOOK)
    assert (decision.translated, [fields_of(one) for one in decision.entries]) == (1, [LABEL])


def test_what_was_carried_is_joined_with_the_metadata() -> None:
    """An entry is one: the fields that the converter gave join the labels that it never got."""
    found = [entry("alice", "v1", LABEL | {"f:spec": {"f:size": {}}})]
    decision = decide(found, ALICE_WEBHOOK, None, Translation({0: ConvertedEntry({"f:spec": {"f:amount": {}}})}))
    (after,) = decision.entries
    assert fields_of(after) == LABEL | {"f:spec": {"f:amount": {}}}
    assert (after.api_version, after.time) == (V2, found[0].time)


def test_an_object_that_cannot_be_translated_is_not_written() -> None:
    """A write without its translation would strip what a healthy converter carries over."""
    decision = decide([ALICE_V1], rules_for(webhook=True, reencode=True), None, Translation(failure="out of order"))
    assert (decision.steps, decision.refusal, decision.reason) == ((), "out of order", "CannotConvert")


def test_an_entry_of_another_group_is_stripped_without_a_question() -> None:
    """No converter knows it, and with it left in the list every apply would fail."""
    foreign = msgspec.structs.replace(entry("velero", "v1", LABEL | {"f:spec": {}}), api_version="other/v1")
    decision = decide([foreign, ALICE_V2], ALICE_WEBHOOK)
    assert decision.stripped == (("velero", "other/v1"),) and not decision.needs_object
    assert [fields_of(one) for one in decision.entries] == [LABEL, fields_of(ALICE_V2)]


def test_a_kept_and_a_translated_entry_of_one_updater_stay_two() -> None:
    """They are two for the server, too: the version belongs to an updater's identity."""
    found = [entry("bob", "v1", operation="Update"), entry("carol", "v1")]
    translation = Translation({0: ConvertedEntry(complete=False), 1: ConvertedEntry({"f:spec": {"f:amount": {}}})})
    decision = decide(found, ALICE_WEBHOOK, None, translation)
    assert [one.api_version for one in decision.entries] == [api_version("v1"), V2]
    assert decision.rehearse and decision.not_carried == (("bob", api_version("v1")),)
