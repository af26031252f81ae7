"""A simulated life of one profile: clients of both versions edit it while the clock, and so its status, moves."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from restow.cloudprofile.versions.lifecycle import Classification, classification_at
from restow.conversion.model.values import canonical
from tests.cloudprofile.conversions.family import (
    STASH,
    V1BETA1,
    at_time,
    down,
    moment,
    profile,
    replaced,
    spec_with,
    stage,
    up,
    without_stash,
)
from tests.cloudprofile.strategies import lifecycles

Json = dict[str, Any]
#: An image, or "" for Kubernetes, and a version of it.
Key = tuple[str, str]

KEYS = st.tuples(st.sampled_from(["", "suse"]), st.sampled_from(["1.30.1", "1.30.2", "1.31.0"]))
DAYS = st.integers(1, 9).map(lambda day: f"2025-01-{day:02}T00:00:00Z")
CLASSIFICATIONS = st.sampled_from(["preview", "supported", "deprecated"])
RANKS = [each.value for each in Classification]


def versions_of(obj: Json) -> dict[Key, Json]:
    """Return the versions of a profile, at either version of the API, without their names."""
    lists = {"": obj["spec"]["kubernetes"]["versions"]}
    lists |= {image["name"]: image["versions"] for image in obj["spec"]["machineImages"]}
    return {
        (image, item["version"]): {name: value for name, value in item.items() if name != "version"}
        for image, items in lists.items()
        for item in items
    }


def spec_of(versions: dict[Key, Json]) -> Json:
    """Return the spec with these versions."""

    def listed(image: str) -> list[Json]:
        return [{"version": name, **fields} for (its, name), fields in versions.items() if its == image]

    return {"kubernetes": {"versions": listed("")}, "machineImages": [{"name": "suse", "versions": listed("suse")}]}


def plain(fields: Json) -> Any:
    """Return the lifecycle that plain fields stand for, None if none."""
    classification, expiration = fields.get("classification"), fields.get("expirationDate")
    leading = [{"classification": classification or "supported"}] if classification or expiration else []
    return [*leading, *([{"classification": "expired", "startTime": expiration}] if expiration else [])] or None


def is_plain(lifecycle: Any) -> bool:
    """Return whether v1beta1 can represent all of a lifecycle."""
    if not lifecycle:
        return True
    (first, *others) = lifecycle
    # A version that is unavailable is hidden from v1beta1: its stage is in the stash, even if it is the only one.
    can_lead = "startTime" not in first and first["classification"] not in ("unavailable", "expired")
    dated = [each for each in others if each["classification"] == "expired" and "startTime" in each]
    return can_lead and others == dated


def by_the_table(lifecycle: Any, shown: Json, sent: Json) -> Any:
    """Return the lifecycle after an edit according to the design's table, implemented again as plainly as possible."""
    if is_plain(lifecycle):
        return plain(sent)
    stages = list(lifecycle)
    if sent.get("classification") != shown.get("classification"):
        named = sent.get("classification") or "supported"
        if named not in [each["classification"] for each in stages]:
            later = [each for each in stages if RANKS.index(each["classification"]) > RANKS.index(named)]
            stages = [{"classification": named}, *later]
    if sent.get("expirationDate") != shown.get("expirationDate"):
        stages = [each for each in stages if each["classification"] != "expired"]
        if expiration := sent.get("expirationDate"):
            stages = [each for each in stages if each.get("startTime", "") <= expiration]
            stages.append({"classification": "expired", "startTime": expiration})
    return stages or None


def assert_same(before: Json, after: Json) -> None:
    """Check that two stored objects are the same bytes, with one exception.

    The hub's stash may keep fields of v1beta1 for a version that a client of v1beta2 has since removed or changed.
    Those fields have no meaning any more, and the next write removes them.
    """
    assert canonical(without_stash(after)) == canonical(without_stash(before))
    if STASH not in before["metadata"].get("annotations", {}):
        assert canonical(after) == canonical(before)
    assert canonical(up(down(after))) == canonical(after)


class Life(RuleBasedStateMachine):
    """One stored profile. ``wanted`` holds the lifecycles that the design requires."""

    def __init__(self) -> None:
        super().__init__()
        self.now = moment("2024-12-31")
        self.wanted: dict[Key, Any] = {}
        self.stored = profile(spec_of({}))

    @initialize()
    def is_reconciled(self) -> None:
        self.tick(0)

    def write(self, obj: Json) -> None:
        self.stored = obj

    @rule(days=st.integers(0, 3))
    def tick(self, days: int) -> None:
        """Advance the clock, and let the reconciler write the status."""
        self.now += timedelta(days=days)
        self.write(at_time(self.stored, self.now))

    @rule(key=KEYS, lifecycle=lifecycles() | st.none())
    def new_client_writes(self, key: Key, lifecycle: Any) -> None:
        """Let a client of v1beta2 add a version, or change its lifecycle, before the reconciler runs."""
        versions = versions_of(self.stored)
        versions[key] = {} if lifecycle is None else {"lifecycle": lifecycle}
        self.write({**self.stored, "spec": spec_of(versions)})
        self.wanted[key] = lifecycle

    @precondition(lambda self: self.wanted)
    @rule(data=st.data())
    def new_client_removes(self, data: st.DataObject) -> None:
        """Let a client of v1beta2 remove a version."""
        key = data.draw(st.sampled_from(sorted(self.wanted)))
        versions = versions_of(self.stored)
        del versions[key], self.wanted[key]
        self.write({**self.stored, "spec": spec_of(versions)})

    def old_client_sends(self, change: Callable[[dict[Key, Json]], None], *, loses_stash: bool) -> None:
        """Let a client of v1beta1 read, change and replace the profile."""
        shown = down(self.stored)
        versions = versions_of(shown)
        change(versions)
        sent = {**shown, "spec": spec_of(versions)}
        self.write(replaced(self.stored, without_stash(sent) if loses_stash else sent))

    @rule(loses_stash=st.booleans())
    def old_client_changes_nothing(self, loses_stash: bool) -> None:
        """A client of v1beta1 that reads and writes without a change would change stored bytes."""
        before = self.stored
        self.old_client_sends(lambda _: None, loses_stash=loses_stash)
        assert_same(before, self.stored)

    @rule(
        key=KEYS,
        fields=st.fixed_dictionaries({}, optional={"classification": CLASSIFICATIONS, "expirationDate": DAYS}),
        keeps=st.sampled_from(["", "classification", "expirationDate"]),
        loses_stash=st.booleans(),
    )
    def old_client_writes(self, key: Key, fields: Json, keeps: str, loses_stash: bool) -> None:
        """Let a client of v1beta1 add or change a version, or add one again that is hidden from it."""
        shown = versions_of(down(self.stored)).get(key)
        if shown is None and key in self.wanted:
            # A date alone means a version that is supported until then; the client sends it as a new version.
            meant = {"classification": "supported", **fields} if "expirationDate" in fields else fields
            self.wanted[key] = by_the_table(self.wanted[key], {}, meant)
        else:
            fields = {**{name: value for name, value in fields.items() if name != keeps}}
            if shown and keeps in shown:
                fields[keeps] = shown[keeps]
            self.wanted[key] = by_the_table(self.wanted.get(key), shown or {}, fields)
        self.old_client_sends(lambda versions: versions.update({key: fields}), loses_stash=loses_stash)

    @precondition(lambda self: versions_of(down(self.stored)))
    @rule(data=st.data(), loses_stash=st.booleans())
    def old_client_removes(self, data: st.DataObject, loses_stash: bool) -> None:
        """Let a client of v1beta1 remove a version that it sees."""
        key = data.draw(st.sampled_from(sorted(versions_of(down(self.stored)))))
        self.old_client_sends(lambda versions: versions.pop(key), loses_stash=loses_stash)
        del self.wanted[key]

    @invariant()
    def lifecycles_are_as_the_design_says(self) -> None:
        """An edit of one version would change another one, or differ from its row of the table."""
        found = {key: fields.get("lifecycle") for key, fields in versions_of(self.stored).items()}
        assert found == self.wanted

    @invariant()
    def the_round_trip_is_the_identity(self) -> None:
        """A round trip would change a byte of the stored object."""
        assert_same(self.stored, up(down(self.stored)))

    @invariant()
    def v1beta1_sees_what_is_and_no_more(self) -> None:
        """After a reconcile, v1beta1 would show an outdated classification, or a version that is unavailable."""
        stored = at_time(self.stored, self.now)
        shown = versions_of(down(stored))
        for key, fields in versions_of(stored).items():
            now = classification_at(fields, self.now)
            assert (key in shown) == (now is not Classification.UNAVAILABLE)
            if now.is_active:
                assert (shown[key].get("classification") or "supported") == now
            elif key in shown:
                assert datetime.fromisoformat(shown[key]["expirationDate"]) <= self.now


def test_life() -> None:
    """A sequence of edits would break one of the invariants of ``Life``; the failure prints the shortest one."""
    run_state_machine_as_test(
        Life,
        settings=settings(settings(), stateful_step_count=25, deadline=None, suppress_health_check=list(HealthCheck)),
    )


UNAVAILABLE = stage("unavailable")
CHANGES = [
    {name: value for name, value in (("classification", classification), ("expirationDate", date)) if value}
    for classification in ("", "preview", "supported", "deprecated")
    for date in ("", "2025-01-03T00:00:00Z", "2025-01-07T00:00:00Z")
]


@pytest.mark.parametrize(
    "lifecycle",
    [
        [UNAVAILABLE],
        [UNAVAILABLE, stage("expired", "2025-01-05")],
        [UNAVAILABLE, stage("preview", "2025-01-05")],
    ],
    ids=["alone", "until it expires", "until it is previewed"],
)
@pytest.mark.parametrize("days", [1, 6], ids=["before", "after"])
def test_a_version_that_begins_unavailable(lifecycle: Json, days: int) -> None:
    """A client of v1beta1 that sends such a version without fields would make it supported."""
    key = ("", "1.30.1")
    for fields in CHANGES:
        for loses_stash in (False, True):
            life = Life()
            life.is_reconciled()
            life.new_client_writes(key, lifecycle)
            life.tick(days)
            life.old_client_writes(key, fields, "", loses_stash)
            life.lifecycles_are_as_the_design_says()
            life.the_round_trip_is_the_identity()
            life.v1beta1_sees_what_is_and_no_more()


# A pipeline that sends its fixed file again and again.


def replace(stored: Json, file: Json) -> Json:
    """Act like ``kubectl replace``: the file replaces the whole object, including the annotation."""
    return replaced(stored, {**file, "metadata": stored["metadata"]})


def apply_client_side(stored: Json, file: Json) -> Json:
    """Act like ``kubectl apply``: a JSON merge patch, which replaces lists and keeps other annotations."""
    live = down(stored)
    return replaced(stored, {**live, "spec": {**live["spec"], **file["spec"]}})


def apply_server_side(stored: Json, file: Json) -> Json:
    """Act like ``kubectl apply --server-side``: merge lists by their keys, keep other fields."""
    live = down(stored)
    versions = versions_of(live)
    for key, fields in versions_of(file).items():
        versions[key] = {**versions.get(key, {}), **fields}
    return replaced(stored, {**live, "spec": spec_of(versions)})


WAYS = [replace, apply_client_side, apply_server_side]
DAYS_OF_LIFE = [datetime(2024, 12, 31, tzinfo=UTC) + timedelta(days=day) for day in range(10)]


@pytest.mark.parametrize("way", WAYS)
@settings(suppress_health_check=list(HealthCheck), deadline=None)
@given(
    versions=st.dictionaries(KEYS, lifecycles().map(lambda stages: {"lifecycle": stages}) | st.just({}), max_size=5),
    written=st.integers(0, 9),
)
def test_a_pipeline_loses_nothing(way: Callable[[Json, Json], Json], versions: dict[Key, Json], written: int) -> None:
    """A pipeline that sends a file every day, exported on one day, would remove stages or hidden versions.

    A version that is no longer hidden, and is not in the file, is removed by the ways that replace the list;
    server-side apply keeps it.
    """
    stored = at_time(profile(spec_of(versions)), DAYS_OF_LIFE[written])
    exported = without_stash(down(stored))
    file = {name: exported[name] for name in ("apiVersion", "kind", "metadata", "spec")}
    for now in DAYS_OF_LIFE[written:]:
        stored = at_time(stored, now)
        before, shown = versions_of(stored), versions_of(down(stored))
        stored = way(stored, file)
        named = versions_of(file)
        expected = {
            key: fields
            for key, fields in before.items()
            if way is apply_server_side or key in named or key not in shown
        }
        assert versions_of(stored) == expected


PLANNED = [
    stage("preview"),
    stage("supported", "2025-01-02"),
    stage("deprecated", "2025-01-05"),
    stage("expired", "2025-01-08"),
]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("classification", ["preview", "supported", "deprecated"])
def test_a_pipelines_own_words_give_way_to_a_plan(way: Callable[[Json, Json], Json], classification: str) -> None:
    """A pipeline's old file would undo stages planned at v1beta2, or remove scheduled versions."""
    words = {"classification": classification, "expirationDate": "2025-01-08T00:00:00Z"}
    image = {"machineImages": [{"name": "suse", "versions": []}]}
    file = profile({**spec_with(v1_30_1=words), **image}, version=V1BETA1)
    created = up(file)
    planned = {**spec_with(v1_30_1=PLANNED, v2_0_0=[stage("preview", "2036-02-07")]), **image}
    stored = {**created, "spec": planned}
    for now in DAYS_OF_LIFE:
        stored = at_time(stored, now)
        before = canonical(stored)
        stored = way(stored, file)
        assert canonical(stored) == before
