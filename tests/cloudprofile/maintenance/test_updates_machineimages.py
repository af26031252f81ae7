"""Where machine images are taken by maintenance: tables, the policy document's examples, laws."""

from __future__ import annotations

import contextlib
from datetime import UTC, datetime, timedelta
from operator import attrgetter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from restow.cloudprofile.maintenance import updates as imageupdate
from restow.cloudprofile.maintenance.plan import maintain
from restow.cloudprofile.maintenance.updates import NoUpdateTarget, image_due, image_target
from restow.cloudprofile.shoots.machineimages import fitting_versions
from restow.cloudprofile.versions.candidates import candidates, highest, latest
from restow.cloudprofile.versions.lifecycle import Classification, classification_at
from restow.cloudprofile.versions.semver import InvalidVersion, parse
from tests.cloudprofile.cases import Case, load, now_of, params

FILE = "image_update"
NOW = datetime(2025, 1, 15, 12, 0, 1, tzinfo=UTC)
PAST, FUTURE = "2025-01-14T12:00:00Z", "2025-01-16T12:00:00Z"


def image(strategy: str | None, *versions: dict[str, Any]) -> dict[str, Any]:
    """Return a machine image."""
    return {"name": "img", "versions": list(versions)} | ({"updateStrategy": strategy} if strategy else {})


def version(text: str, **fields: Any) -> dict[str, Any]:
    """Return an image version."""
    return {"version": text, **fields}


def target_of(case: Case, strategy: str, *, forced: bool) -> str:
    """Return where a case's list of versions leads, an empty string for nowhere."""
    try:
        listed = image(strategy, *case["input"]["versions"])
        return image_target(listed, case["input"]["currentVersion"], now_of(case), forced=forced) or ""
    except NoUpdateTarget:
        return ""


@pytest.mark.parametrize("case", params(load(FILE, "latest of the major")))
def test_minor_strategy_as_in_gardener(case: Case) -> None:
    """``minor`` that crossed a major, or took the newest minor before the newest patch, would break pools."""
    assert target_of(case, "minor", forced=False) == case["expected"]["version"]


@pytest.mark.parametrize("case", params(load(FILE, "latest of all")))
def test_major_strategy_as_in_gardener(case: Case) -> None:
    """``major`` takes the newest patch first, then the latest supported version of all."""
    assert target_of(case, "major", forced=False) == case["expected"]["version"]


@pytest.mark.parametrize("case", params(load(FILE, "next minor")))
def test_forced_to_the_next_minor_as_in_gardener(case: Case) -> None:
    """``patch`` by force goes to the next minor that is listed, and to no other."""
    assert target_of(case, "patch", forced=True) == case["expected"]["version"]


@pytest.mark.parametrize("case", params(load(FILE, "next major")))
def test_forced_to_the_next_major_as_in_gardener(case: Case) -> None:
    """``minor`` by force goes to the next major that is listed, and to no other."""
    assert target_of(case, "minor", forced=True) == case["expected"]["version"]


@pytest.mark.parametrize("case", params(load(FILE, "next higher")))
def test_next_higher_as_in_gardener(case: Case) -> None:
    """The search for the next minor or major, and for whether one was skipped, is what forced updates rest on."""
    given_, unit = case["input"], attrgetter(case["input"]["level"])
    at, now = parse(given_["currentVersion"]), now_of(case)
    expired = "dropExpired" not in given_["predicates"]
    found = imageupdate._highest_of_next(candidates(given_["versions"], now), at, unit, expired=expired)
    assert (found.text if found else None) == case["expected"]["version"]
    assert imageupdate._next_listed(given_["versions"], at, unit, now) == case["expected"]["nextMinorOrMajor"]


@pytest.mark.parametrize("case", params(load(FILE, "highest")))
def test_latest_qualifying_as_in_gardener(case: Case) -> None:
    """The highest version that is no preview; what is no version must not be passed over."""
    if case["expected"].get("error"):
        with pytest.raises(InvalidVersion):
            candidates(case["input"]["versions"], now_of(case))
        return
    best = highest(candidates(case["input"]["versions"], now_of(case)))
    assert (best.text if best else "") == case["expected"]["version"]


@pytest.mark.parametrize("case", params(load(FILE, "latest")))
def test_latest_version_as_in_gardener(case: Case) -> None:
    """A supported version comes before a newer deprecated one."""
    best = latest(candidates(case["input"]["versions"], now_of(case)))
    assert (best is None) == case["expected"].get("error", False)
    assert best is None or best.text == case["expected"]["version"]


@pytest.mark.parametrize("case", params(load(FILE, "no version")))
def test_no_version_as_in_gardener(case: Case) -> None:
    """An image with a version that is none has no latest version."""
    assert case["expected"] == {"error": True}
    with pytest.raises(InvalidVersion):
        candidates(case["input"]["images"][0]["versions"], now_of(case))


@pytest.mark.parametrize("case", params(load(FILE, "target")))
def test_target_as_in_gardener(case: Case) -> None:
    """What an image's strategy leads to; an image at its end of life has to say so."""
    given_, expected = case["input"], case["expected"]
    if expected["error"]:
        with pytest.raises(NoUpdateTarget) as refused:
            image_target(given_["machineImage"], given_["currentVersion"], now_of(case), forced=given_["isExpired"])
        assert expected["errorContains"] in str(refused.value)
        return
    target = image_target(given_["machineImage"], given_["currentVersion"], now_of(case), forced=given_["isExpired"])
    assert (target or "") == expected["version"]


@pytest.mark.parametrize("case", params(load(FILE, "fitting")))
def test_filter_as_in_gardener(case: Case) -> None:
    """A version that does not fit the pool must not be offered to it."""
    given_ = case["input"]
    machine = {**given_["worker"]["machine"], "type": given_["machineType"]["name"]}
    spec = {"machineTypes": [given_["machineType"]], "machineCapabilities": given_["machineCapabilities"]}
    worker = {**given_["worker"], "machine": machine}
    fitting = fitting_versions(given_["machineImage"], worker, spec, parse(given_["kubeletVersion"]))
    assert [item["version"] for item in fitting] == case["expected"]["fitting"]


@pytest.mark.parametrize("case", params(load(FILE, "maintenance")))
def test_maintenance_as_in_gardener(case: Case) -> None:
    """Which pool goes where, with all filters, is what Shoot owners know from Gardener."""
    expected = case["expected"]
    done = maintain(case["input"]["shoot"], case["input"]["cloudProfile"]["spec"], now_of(case))
    pools = {pool["name"]: pool["machine"]["image"] for pool in done.spec["provider"]["workers"]}
    assert bool(done.image_error) == expected["error"]
    assert expected.get("errorContains", "") in done.image_error
    for name, used in expected.get("workers", {}).items():
        assert pools[name] == used
    updates = done.report.workers_machine_image
    for name, result in expected.get("results", {}).items():
        assert updates[name].successful == result["successful"]


def test_policy_latest_version_of_the_image() -> None:
    """Policy, Forceful migration: pools "will be updated to the latest 'non-preview' version" of their image."""
    listed = image(
        None,
        version("2021.1", expirationDate=PAST),
        version("2021.2"),
        version("2023.5"),
        version("2023.6", classification="preview"),
    )
    due = image_due(listed, {"name": "img", "version": "2021.1"}, NOW, auto_update=False)
    assert due is not None and due.forced
    assert image_target(listed, "2021.1", NOW, forced=True) == "2023.5"


def test_expired_versions_are_only_taken_by_force() -> None:
    """An automatic update to an expired version would be followed by a forced one."""
    listed = image("patch", version("1.0.0"), version("1.1.0", expirationDate=PAST))
    assert image_target(listed, "1.0.0", NOW, forced=False) is None
    assert image_target(listed, "1.0.0", NOW, forced=True) == "1.1.0"


def test_next_minor_counts_minors_of_other_majors() -> None:
    """Gardener looks for a skipped minor over all majors: an expired patch is then preferred in the found minor."""
    listed = image(
        "patch",
        version("1.1.0", expirationDate=PAST),
        version("1.4.0"),
        version("1.4.1", expirationDate=PAST),
        version("2.2.0"),
    )
    assert image_target(listed, "1.1.0", NOW, forced=True) == "1.4.1"


def test_unavailable_versions_do_not_count_as_listed() -> None:
    """A version that is only scheduled must not push a pool to an expired one."""
    listed = image(
        "patch",
        version("1.1.0", expirationDate=PAST),
        version("1.2.0", lifecycle=[{"classification": "supported", "startTime": FUTURE}]),
        version("1.4.0"),
        version("1.4.1", expirationDate=PAST),
    )
    assert image_target(listed, "1.1.0", NOW, forced=True) == "1.4.0"


@pytest.mark.parametrize("strategy", ["major", None])
def test_end_of_life_names_the_image(strategy: str | None) -> None:
    """An owner whose image ends has to learn that another image is needed."""
    listed = image(strategy, version("1.0.0", expirationDate=PAST), version("2.0.0", expirationDate=PAST))
    with pytest.raises(NoUpdateTarget, match='machine image "img" is reaching end of life'):
        image_target(listed, "1.0.0", NOW, forced=True)


def test_names_are_compared_as_spelled() -> None:
    """A pool that spells the image in another case is updated by force, as in Gardener."""
    listed = image("major", version("1.0.0"), version("1.0.1"))
    due = image_due(listed, {"name": "IMG", "version": "1.0.0"}, NOW, auto_update=False)
    assert due is not None and due.forced and due.reason == "Version does not exist in CloudProfile"


numbers = st.one_of(
    st.builds("{}.{}.{}".format, st.integers(0, 3), st.integers(0, 3), st.integers(0, 3)),
    st.builds("{}.{}".format, st.integers(0, 3), st.integers(0, 3)),
    st.builds("{}".format, st.integers(0, 3)),
    st.builds("{}.{}.{}-{}".format, st.integers(0, 3), st.integers(0, 3), st.integers(0, 3), st.sampled_from("ab")),
)
fields = st.one_of(
    st.builds(dict),
    st.builds(lambda name: {"classification": name}, st.sampled_from(["preview", "supported", "deprecated"])),
    st.builds(lambda days: {"expirationDate": (NOW + timedelta(days=days)).isoformat()}, st.sampled_from([-1, 1])),
    st.builds(
        lambda name: {"lifecycle": [{"classification": name, "startTime": FUTURE}]},
        st.sampled_from(["preview", "supported"]),
    ),
)
images = st.builds(
    lambda strategy, listed: image(strategy, *({"version": text} | more for text, more in listed.items())),
    st.sampled_from(["patch", "minor", "major", None]),
    st.dictionaries(numbers, fields, max_size=10),
)


@given(images, numbers, st.booleans())
def test_targets_are_never_preview_never_unavailable_never_lower(
    listed: dict[str, Any], current: str, forced: bool
) -> None:
    """A target that must not be used is worse than none; an automatic one is not expired either."""
    try:
        target = image_target(listed, current, NOW, forced=forced)
    except NoUpdateTarget:
        assert forced
        return
    if target is None:
        assert not forced
        return
    reached = classification_at(next(item for item in listed["versions"] if item["version"] == target), NOW)
    assert reached >= Classification.SUPPORTED
    assert parse(target) > parse(current)
    assert forced or reached != Classification.EXPIRED


@given(images, numbers)
def test_updates_stay_in_scope(listed: dict[str, Any], current: str) -> None:
    """An automatic update that left what ``updateStrategy`` allows would surprise every owner."""
    target = image_target(listed, current, NOW, forced=False)
    if target is None:
        return
    strategy, at, to = listed.get("updateStrategy"), parse(current), parse(target)
    assert strategy != "patch" or to.line == at.line
    assert strategy != "minor" or to.major == at.major


@given(images, numbers)
def test_forced_updates_end(listed: dict[str, Any], current: str) -> None:
    """Forced updates that never ended would roll the machines in every maintenance."""
    seen = [parse(current)]
    for _ in range(len(listed["versions"]) + 1):
        due = image_due(listed, {"name": "img", "version": current}, NOW, auto_update=False)
        if due is None:
            return
        try:
            target = image_target(listed, current, NOW, forced=due.forced)
        except NoUpdateTarget:
            return
        assert target is not None and parse(target) > seen[-1]
        seen.append(parse(target))
        current = target
    pytest.fail("forced updates go round in circles")


@given(images, numbers)
def test_inputs_stay_as_they_are(listed: dict[str, Any], current: str) -> None:
    """Profiles come from a shared cache: Gardener's own search sorts the list that it is given."""
    before = repr(listed)
    with contextlib.suppress(NoUpdateTarget):
        image_target(listed, current, NOW, forced=True)
    assert repr(listed) == before
