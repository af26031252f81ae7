"""The targets of machine image updates in maintenance: tables, the policy document's examples, laws."""

from __future__ import annotations

import contextlib
from datetime import UTC, datetime, timedelta
from operator import attrgetter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from restow.cloudprofile.maintenance.plan import MACHINE_IMAGE, maintain
from restow.cloudprofile.shoots.machines import fitting_versions
from restow.cloudprofile.versions import updates as imageupdate
from restow.cloudprofile.versions.lifecycle import Classification, classification_at
from restow.cloudprofile.versions.semver import InvalidVersion, parse
from restow.cloudprofile.versions.updates import NoUpdateTarget, candidates, highest, image_due, image_target, latest
from tests.cloudprofile.cases import Case, load, now_of, params
from tests.cloudprofile.requests import answer_to, image_kept, image_versions_kept, kept_by_request, profile_with
from tests.cloudprofile.served import GROUP, HUB, ApiServer

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
    """Return the target of a case's update, an empty string if there is none."""
    try:
        now = now_of(case)
        listed = image_kept(image(strategy, *case["input"]["versions"]), now)
        return image_target(listed, case["input"]["currentVersion"], now, forced=forced) or ""
    except NoUpdateTarget:
        return ""


@pytest.mark.parametrize("case", params(load(FILE, "latest of the major")))
def test_minor_strategy_as_in_gardener(case: Case) -> None:
    """With ``minor``, an update would break pools by crossing a major, or by preferring a minor to a patch."""
    assert target_of(case, "minor", forced=False) == case["expected"]["version"]


@pytest.mark.parametrize("case", params(load(FILE, "latest of all")))
def test_major_strategy_as_in_gardener(case: Case) -> None:
    """With ``major``, an update would not take the newest patch first, or not the latest supported version then."""
    assert target_of(case, "major", forced=False) == case["expected"]["version"]


@pytest.mark.parametrize("case", params(load(FILE, "next minor")))
def test_forced_to_the_next_minor_as_in_gardener(case: Case) -> None:
    """With ``patch``, a forced update would not go to the next listed minor."""
    assert target_of(case, "patch", forced=True) == case["expected"]["version"]


@pytest.mark.parametrize("case", params(load(FILE, "next major")))
def test_forced_to_the_next_major_as_in_gardener(case: Case) -> None:
    """With ``minor``, a forced update would not go to the next listed major."""
    assert target_of(case, "minor", forced=True) == case["expected"]["version"]


@pytest.mark.parametrize("case", params(load(FILE, "next higher")))
def test_next_higher_as_in_gardener(case: Case) -> None:
    """Forced updates would miss the next minor or major, or skip one."""
    given_, unit = case["input"], attrgetter(case["input"]["level"])
    at, now = parse(given_["currentVersion"]), now_of(case)
    versions = image_versions_kept(given_["versions"], now)
    expired = "dropExpired" not in given_["predicates"]
    found = imageupdate._highest_of_next(candidates(versions, now), at, unit, expired=expired)
    assert (found.text if found else None) == case["expected"]["version"]
    assert imageupdate._next_listed(versions, at, unit, now) == case["expected"]["nextMinorOrMajor"]


@pytest.mark.parametrize("case", params(load(FILE, "highest")))
def test_latest_qualifying_as_in_gardener(case: Case) -> None:
    """A preview would count as the highest version, or an unreadable version would be ignored silently."""
    now, versions = now_of(case), case["input"]["versions"]
    if case["expected"].get("error"):
        assert_no_version(versions, now)
        return
    best = highest(candidates(image_versions_kept(versions, now), now))
    assert (best.text if best else "") == case["expected"]["version"]


@pytest.mark.parametrize("case", params(load(FILE, "latest")))
def test_latest_version_as_in_gardener(case: Case) -> None:
    """A newer deprecated version would be chosen before a supported one."""
    now = now_of(case)
    best = latest(candidates(image_versions_kept(case["input"]["versions"], now), now))
    assert (best is None) == case["expected"].get("error", False)
    assert best is None or best.text == case["expected"]["version"]


@pytest.mark.parametrize("case", params(load(FILE, "no version")))
def test_no_version_as_in_gardener(case: Case) -> None:
    """An image with an unreadable version would get a latest version."""
    assert case["expected"] == {"error": True}
    assert_no_version(case["input"]["images"][0]["versions"], now_of(case))


def assert_no_version(versions: list[dict[str, Any]], now: datetime) -> None:
    """Check that an unreadable version is refused, and raises if it was stored before."""
    answer = ApiServer(now).create(profile_with({"machineImages": [image(None, *versions)]}))
    assert "spec.machineImages[0].versions[0].version: Invalid value" in answer.refusal
    with pytest.raises(InvalidVersion):
        candidates(versions, now)


@pytest.mark.parametrize("case", params(load(FILE, "target")))
def test_target_as_in_gardener(case: Case) -> None:
    """An image's strategy would lead to another version than in Gardener, or its end of life would not be reported."""
    given_, expected = case["input"], case["expected"]
    listed = image_kept(given_["machineImage"], now_of(case))
    if expected["error"]:
        with pytest.raises(NoUpdateTarget) as refused:
            image_target(listed, given_["currentVersion"], now_of(case), forced=given_["isExpired"])
        assert expected["errorContains"] in str(refused.value)
        return
    target = image_target(listed, given_["currentVersion"], now_of(case), forced=given_["isExpired"])
    assert (target or "") == expected["version"]


@pytest.mark.parametrize("case", params(load(FILE, "fitting")))
def test_filter_as_in_gardener(case: Case) -> None:
    """A pool would be updated to a version that does not fit it."""
    given_ = case["input"]
    worker = {**given_["worker"], "machine": {**given_["worker"]["machine"], "type": given_["machineType"]["name"]}}
    parts = {"machineTypes": [given_["machineType"]], "machineCapabilities": given_["machineCapabilities"]}
    spec = kept_by_request({**parts, "machineImages": [given_["machineImage"]]}, now_of(case))
    fitting = fitting_versions(spec["machineImages"][0], worker, spec, parse(given_["kubeletVersion"]))
    assert [item["version"] for item in fitting] == case["expected"]["fitting"]


@pytest.mark.parametrize("case", params(load(FILE, "maintenance")))
def test_maintenance_as_in_gardener(case: Case) -> None:
    """Pools would move to other versions than in Gardener, which Shoot owners know."""
    expected = case["expected"]
    now = now_of(case)
    spec, shoot = kept_by_request(case["input"]["cloudProfile"]["spec"], now), case["input"]["shoot"]
    done = maintain(shoot, spec, now)
    written = after_maintenance(shoot, done.spec, spec, now)
    pools = {pool["name"]: pool["machine"]["image"] for pool in written["spec"]["provider"]["workers"]}
    assert bool(done.image_error) == expected["error"]
    assert expected.get("errorContains", "") in done.image_error
    for name, used in expected.get("workers", {}).items():
        assert pools[name] == used
    successful = {update.pool: update.successful for update in done.updates if update.part == MACHINE_IMAGE}
    for name, result in expected.get("results", {}).items():
        assert successful[name] == result["successful"]


def after_maintenance(
    shoot: dict[str, Any], after: dict[str, Any], spec: dict[str, Any], now: datetime
) -> dict[str, Any]:
    """Return a Shoot as stored after the request of its maintenance, which admission must not refuse."""
    profile = {**profile_with({}), "apiVersion": f"{GROUP}/{HUB}", "spec": spec}
    of_profile = {"cloudProfile": {"kind": "CloudProfile", "name": "p"}}
    old, new = ({**shoot, "spec": {**each, **of_profile}} for each in (shoot["spec"], after))
    return answer_to(ApiServer(now, {"cloudprofiles": [profile]}), "Shoot", new, old).at(HUB)


def test_policy_latest_version_of_the_image() -> None:
    """Policy, Forceful migration: pools would not move to the latest non-preview version of their image."""
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
    """A forced update would choose another version than Gardener, which looks for a skipped minor over all majors."""
    listed = image(
        "patch",
        version("1.1.0", expirationDate=PAST),
        version("1.4.0"),
        version("1.4.1", expirationDate=PAST),
        version("2.2.0"),
    )
    assert image_target(listed, "1.1.0", NOW, forced=True) == "1.4.1"


def test_of_builds_of_one_version_the_update_takes_gardeners() -> None:
    """Two operators of one profile, Gardener's and restow's, would move a pool to different builds."""
    versions = [version("1.0.0", expirationDate=PAST), version("1.1.0"), version("1.1.0+b1")]
    for listed in (versions, versions[::-1]):
        of_next = [each["version"] for each in listed if each["version"] != "1.0.0"]
        assert image_target(image("patch", *listed), "1.0.0", NOW, forced=True) == of_next[-1]
        assert image_target(image("minor", *listed), "1.0.0", NOW, forced=False) == of_next[0]
    majors = [version("1.0.0", expirationDate=PAST), version("2.0.0+b1"), version("2.0.0")]
    assert image_target(image("minor", *majors), "1.0.0", NOW, forced=True) == "2.0.0"


def test_unavailable_versions_do_not_count_as_listed() -> None:
    """A version that is only scheduled would push a pool to an expired version."""
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
    """An owner would not learn that the image reaches its end of life and that another image is needed."""
    listed = image(strategy, version("1.0.0", expirationDate=PAST), version("2.0.0", expirationDate=PAST))
    with pytest.raises(NoUpdateTarget, match='machine image "img" is reaching end of life'):
        image_target(listed, "1.0.0", NOW, forced=True)


def test_names_are_compared_as_spelled() -> None:
    """A pool that spells the image in another case would not be updated by force, as it is in Gardener."""
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
    """An update would choose a preview, an unavailable or a lower version, or automatically an expired one."""
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
    """An automatic update would go further than ``updateStrategy`` allows, to the surprise of the owner."""
    target = image_target(listed, current, NOW, forced=False)
    if target is None:
        return
    strategy, at, to = listed.get("updateStrategy"), parse(current), parse(target)
    assert strategy != "patch" or to.line == at.line
    assert strategy != "minor" or to.major == at.major


@given(images, numbers)
def test_forced_updates_end(listed: dict[str, Any], current: str) -> None:
    """Forced updates would not end, and roll the machines in every maintenance."""
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
    """A search that sorts its input, as Gardener's does, would change the profile in a shared cache."""
    before = repr(listed)
    with contextlib.suppress(NoUpdateTarget):
        image_target(listed, current, NOW, forced=True)
    assert repr(listed) == before
