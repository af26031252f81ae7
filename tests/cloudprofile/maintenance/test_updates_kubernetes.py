"""The targets of Kubernetes updates in maintenance: tables, the policy document's examples, laws."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from restow.cloudprofile.maintenance.plan import maintain
from restow.cloudprofile.versions.lifecycle import Classification, classification_at
from restow.cloudprofile.versions.semver import InvalidVersion, parse
from restow.cloudprofile.versions.updates import (
    auto_target,
    consecutive_minor_target,
    due,
    forced_chain,
    forced_target,
    gap_warnings,
)
from tests.cloudprofile.cases import Case, load, now_of, params
from tests.cloudprofile.requests import answer_to, kubernetes_kept, profile_with
from tests.cloudprofile.served import GROUP, HUB, ApiServer

NOW = datetime(2025, 1, 15, 12, 0, 1, tzinfo=UTC)
PAST, FUTURE = "2025-01-14T12:00:00Z", "2025-01-16T12:00:00Z"


def version(text: str, classification: str | None = None, expires: str | None = None) -> dict[str, Any]:
    """Return a version with those fields of v1beta1 that are given."""
    fields = {"version": text, "classification": classification, "expirationDate": expires}
    return {name: value for name, value in fields.items() if value is not None}


@pytest.mark.parametrize("case", params(load("kubernetes_update", "latest patch")))
def test_auto_target_as_in_gardener(case: Case) -> None:
    """An automatic update would leave its minor version or choose a preview, to the surprise of the owner."""
    now = now_of(case)
    target = auto_target(kubernetes_kept(case["input"]["versions"], now), case["input"]["currentVersion"], now)
    assert (target or "") == case["expected"]["version"]


@pytest.mark.parametrize("case", params(load("kubernetes_update", "next minor")))
def test_consecutive_minor_as_in_gardener(case: Case) -> None:
    """A forced update would skip a minor version and break the cluster."""
    now = now_of(case)
    versions = kubernetes_kept(case["input"]["versions"], now)
    target = consecutive_minor_target(versions, case["input"]["currentVersion"], now)
    assert (target or "") == case["expected"]["version"]


@pytest.mark.parametrize("case", params(load("kubernetes_update", "update")))
def test_updates_as_in_gardener(case: Case) -> None:
    """Updates would differ from Gardener's, which Shoot owners know, in their reason or their target."""
    given_, expected = case["input"], case["expected"]
    now, current = now_of(case), given_["currentVersion"]
    versions = kubernetes_kept(given_["versions"], now)
    why = due(versions, current, now, auto_update=given_["autoUpdate"])
    find = forced_target if why and why.forced else auto_target
    target = find(versions, current, now) if why else None
    assert after_maintenance(versions, current, now, auto_update=given_["autoUpdate"]) == expected["version"]
    assert (target is not None) == expected["changed"]
    assert bool(why and why.forced and target is None) == expected["error"]
    if "reason" in expected:
        assert why is not None and why.reason == expected["reason"]


def after_maintenance(versions: list[dict[str, Any]], current: str, now: datetime, *, auto_update: bool) -> str:
    """Return the Kubernetes version of a Shoot that is stored after its maintenance."""
    profile = {**profile_with({}), "apiVersion": f"{GROUP}/{HUB}", "spec": {"kubernetes": {"versions": versions}}}
    spec = {"cloudProfile": {"kind": "CloudProfile", "name": "p"}, "kubernetes": {"version": current}}
    shoot = {
        "metadata": {"name": "s"},
        "spec": {**spec, "maintenance": {"autoUpdate": {"kubernetesVersion": auto_update}}},
    }
    done = maintain(shoot, profile["spec"], now)
    answer = answer_to(ApiServer(now, {"cloudprofiles": [profile]}), "Shoot", {**shoot, "spec": done.spec}, shoot)
    stored: str = answer.at(HUB)["spec"]["kubernetes"]["version"]
    return stored


@pytest.mark.parametrize("case", params(load("kubernetes_update", "chain")))
def test_chain_as_in_gardener(case: Case) -> None:
    """The chain would promise another last version than repeated maintenance reaches."""
    now = now_of(case)
    chain = forced_chain(kubernetes_kept(case["input"]["versions"], now), case["input"]["currentVersion"], now)
    assert chain.steps == tuple(case["expected"]["sequence"])
    assert chain.gap is None


def test_a_forced_update_passes_over_an_expired_patch() -> None:
    """A Shoot would be moved to a version that has expired already, and be moved on at its next maintenance."""
    expired = [version(each, expires=PAST) for each in ("1.29.1", "1.29.3")]
    assert forced_target([*expired, version("1.30.1")], "1.29.1", NOW) == "1.30.1"


def test_unavailable_is_never_a_target() -> None:
    """Maintenance would choose a version that is not available yet, which admission refuses (GEP-32)."""
    soon = {"version": "1.28.6", "lifecycle": [{"classification": "supported", "startTime": FUTURE}]}
    next_minor = {"version": "1.29.0", "lifecycle": [{"classification": "preview", "startTime": FUTURE}]}
    versions = [version("1.28.5", expires=PAST), soon, next_minor]
    assert auto_target(versions, "1.28.5", NOW) is None
    chain = forced_chain(versions, "1.28.5", NOW)
    assert chain.steps == ()
    assert chain.gap is not None and "of 1.29 the profile offers only previews or versions" in chain.gap.detail


def test_a_stage_is_active_from_its_start_on() -> None:
    """A version that expires at this very instant would be updated only in the next maintenance."""
    versions = [version("1.28.5", expires="2025-01-15T12:00:01Z"), version("1.28.6")]
    why = due(versions, "1.28.5", NOW, auto_update=False)
    assert why is not None and why.forced


def test_policy_latest_patch_of_the_minor_first() -> None:
    """Policy, Forceful migration: another version than the latest non-preview patch of the minor would be chosen."""
    versions = [
        version("1.16.1", expires=PAST),
        version("1.16.2", "deprecated"),
        version("1.16.9", "deprecated"),
        version("1.16.10", "preview"),
        version("1.17.0"),
    ]
    assert forced_target(versions, "1.16.1", NOW) == "1.16.9"


def test_policy_next_consecutive_minor() -> None:
    """Policy, Forceful migration: the latest patch would not lead on to the next consecutive minor version."""
    versions = [version("1.16.9", expires=PAST), version("1.17.3"), version("1.17.4", "preview"), version("1.18.0")]
    assert forced_target(versions, "1.16.9", NOW) == "1.17.3"


def test_policy_repeats_until_not_expired() -> None:
    """Policy, Forceful migration: the updates would stop before a version that is not expired."""
    versions = [
        version("1.13.12", expires=PAST),
        version("1.14.9", expires=PAST),
        version("1.15.3", expires=PAST),
        version("1.15.4", expires=PAST),
        version("1.16.1", "supported"),
    ]
    assert forced_chain(versions, "1.13.12", NOW).steps == ("1.14.9", "1.15.4", "1.16.1")


def test_policy_a_gap_is_found() -> None:
    """Policy: a gap that no update may skip would not be reported to the author of the profile."""
    versions = [version("1.13.12", expires=PAST), version("1.14.9", expires=PAST), version("1.16.1")]
    chain = forced_chain(versions, "1.13.12", NOW)
    assert chain.steps == ("1.14.9",)
    assert chain.gap is not None and chain.gap.field == "spec.kubernetes.versions"
    assert (
        '"1.14.9" is expired or gone' in chain.gap.detail and "of 1.15 the profile offers nothing" in chain.gap.detail
    )


def test_policy_opted_out() -> None:
    """Policy: a Shoot whose owner has opted out would stay on an expired version, or be updated before it expires."""
    why = due([version("1.16.1", expires=PAST)], "1.16.1", NOW, auto_update=False)
    assert why is not None and why.forced
    assert due([version("1.16.1", expires=FUTURE)], "1.16.1", NOW, auto_update=False) is None


def test_gaps_are_found_before_they_are_met() -> None:
    """The author of a profile would not learn today that its Shoots have no version to move to next month."""
    spec = {
        "kubernetes": {
            "versions": [
                version("1.30.1", expires="2025-03-01T00:00:00Z"),
                version("1.31.0", expires="2025-02-01T00:00:00Z"),
                version("1.33.0"),
            ]
        }
    }
    assert [
        finding.field for finding in gap_warnings(spec["kubernetes"]["versions"], "spec.kubernetes.versions", NOW)
    ] == ["spec.kubernetes.versions[1]"]
    spec["kubernetes"]["versions"].append(version("1.32.0"))
    assert gap_warnings(spec["kubernetes"]["versions"], "spec.kubernetes.versions", NOW) == ()
    assert gap_warnings((), "spec.kubernetes.versions", NOW) == ()


def test_no_version_is_an_error() -> None:
    """A version that cannot be compared would count as the newest or the oldest."""
    with pytest.raises(InvalidVersion):
        auto_target([version("1.x")], "1.28.1", NOW)


stage_days = st.integers(-3, 3)


@st.composite
def lifecycles(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Draw a lifecycle that validation admits, often one whose last stages have begun."""
    chosen = sorted(
        draw(st.sets(st.sampled_from(["preview", "supported", "deprecated", "expired"]), min_size=1)),
        key=lambda name: Classification(name).rank,
    )
    days = sorted(draw(st.lists(stage_days, min_size=len(chosen), max_size=len(chosen))))
    stages = [
        {"classification": name, "startTime": (NOW + timedelta(days=day)).isoformat()}
        for name, day in zip(chosen, days, strict=True)
    ]
    if draw(st.booleans()):
        del stages[0]["startTime"]
    return stages


@st.composite
def profiles(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Draw the Kubernetes versions of a profile, in any order, with gaps."""
    numbers = draw(st.sets(st.tuples(st.integers(1, 2), st.integers(0, 4), st.integers(0, 2)), min_size=1, max_size=14))
    listed = [{"version": ".".join(map(str, number)), "lifecycle": draw(lifecycles())} for number in numbers]
    return draw(st.permutations(listed))


currents = st.builds("{}.{}.{}".format, st.integers(1, 2), st.integers(0, 4), st.integers(0, 2))


@given(profiles(), currents)
def test_forced_updates_reach_a_fixed_point(versions: list[dict[str, Any]], current: str) -> None:
    """Forced updates would not end, and roll a cluster in every maintenance."""
    chain = forced_chain(versions, current, NOW)
    end = chain.steps[-1] if chain.steps else current
    assert len(set(chain.steps)) == len(chain.steps)
    assert (due(versions, end, NOW, auto_update=False) is None) == (chain.gap is None)
    assert forced_chain(versions, end, NOW).steps == ()


@given(profiles(), currents)
def test_forced_updates_never_skip_a_minor(versions: list[dict[str, Any]], current: str) -> None:
    """Admission refuses a control plane that skips a minor version, so the Shoot would be stuck."""
    before = parse(current)
    for step in map(parse, forced_chain(versions, current, NOW).steps):
        assert step > before and step.major == before.major and step.minor <= before.minor + 1
        before = step


@given(profiles(), currents)
def test_targets_are_never_preview_never_unavailable_never_lower(versions: list[dict[str, Any]], current: str) -> None:
    """An update would choose a preview, an unavailable or a lower version, or automatically an expired one."""
    by_text = {item["version"]: item for item in versions}
    automatic, forced = auto_target(versions, current, NOW), forced_target(versions, current, NOW)
    for target in filter(None, (automatic, forced)):
        assert classification_at(by_text[target], NOW) >= Classification.SUPPORTED
        assert parse(target) > parse(current)
    if automatic:
        assert classification_at(by_text[automatic], NOW) != Classification.EXPIRED
        assert parse(automatic).line == parse(current).line


@given(profiles(), currents)
def test_expired_only_where_the_minor_has_no_other(versions: list[dict[str, Any]], current: str) -> None:
    """Design 7: a Shoot forced off an expired version would move to another one although the minor has a better one."""
    target = forced_target(versions, current, NOW)
    if target is None:
        return
    minor = [item for item in versions if parse(item["version"]).line == parse(target).line]
    classes = {classification_at(item, NOW) for item in minor if parse(item["version"]) > parse(current)}
    reached = classification_at(next(item for item in minor if item["version"] == target), NOW)
    order = [Classification.SUPPORTED, Classification.DEPRECATED, Classification.EXPIRED]
    assert reached == next(classification for classification in order if classification in classes)


@given(profiles())
def test_each_gap_is_told_once_and_where_it_is(versions: list[dict[str, Any]]) -> None:
    """An author would look at a version that has no gap, or a gap would stay unnoticed."""
    warnings = gap_warnings(versions, "versions", NOW)
    named = {f"versions[{index}]": f'"{item["version"]}"' for index, item in enumerate(versions)}
    assert all(named[warning.field] in warning.detail for warning in warnings)
    assert len({warning.field for warning in warnings}) == len(warnings)
    for index, item in enumerate(versions):
        chain = forced_chain(versions, item["version"], NOW)
        if chain.gap is not None and not chain.steps:
            assert f"versions[{index}]" in {warning.field for warning in warnings}


@given(profiles(), currents)
def test_inputs_stay_as_they_are(versions: list[dict[str, Any]], current: str) -> None:
    """A rule that changes its input would change the profile in a shared cache for all its readers."""
    before = repr(versions)
    forced_chain(versions, current, NOW)
    gap_warnings(versions, "spec.kubernetes.versions", NOW)
    assert repr(versions) == before
