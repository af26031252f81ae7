"""Where Kubernetes versions are taken by maintenance: tables, the policy document's examples, laws."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from restow.cloudprofile.maintenance.updates import (
    auto_target,
    consecutive_minor_target,
    due,
    forced_chain,
    forced_target,
    gap_findings,
)
from restow.cloudprofile.versions.lifecycle import Classification, classification_at
from restow.cloudprofile.versions.semver import InvalidVersion, parse
from tests.cloudprofile.cases import Case, load, now_of, params

NOW = datetime(2025, 1, 15, 12, 0, 1, tzinfo=UTC)
PAST, FUTURE = "2025-01-14T12:00:00Z", "2025-01-16T12:00:00Z"


def version(text: str, classification: str | None = None, expires: str | None = None) -> dict[str, Any]:
    """Return a version with the fields of v1beta1, those that are given."""
    fields = {"version": text, "classification": classification, "expirationDate": expires}
    return {name: value for name, value in fields.items() if value is not None}


@pytest.mark.parametrize("case", params(load("kubernetes_update", "latest patch")))
def test_auto_target_as_in_gardener(case: Case) -> None:
    """An automatic update that left its minor version or took a preview would surprise every owner."""
    target = auto_target(case["input"]["versions"], case["input"]["currentVersion"], now_of(case))
    assert (target or "") == case["expected"]["version"]


@pytest.mark.parametrize("case", params(load("kubernetes_update", "next minor")))
def test_consecutive_minor_as_in_gardener(case: Case) -> None:
    """A forced update that skipped a minor version would break the cluster."""
    target = consecutive_minor_target(case["input"]["versions"], case["input"]["currentVersion"], now_of(case))
    assert (target or "") == case["expected"]["version"]


@pytest.mark.parametrize("case", params(load("kubernetes_update", "update")))
def test_updates_as_in_gardener(case: Case) -> None:
    """What is due, why, and where it goes are what Shoot owners know from Gardener."""
    given_, expected = case["input"], case["expected"]
    versions, current, now = given_["versions"], given_["currentVersion"], now_of(case)
    why = due(versions, current, now, auto_update=given_["autoUpdate"])
    find = forced_target if why and why.forced else auto_target
    target = find(versions, current, now) if why else None
    assert (target or current) == expected["version"]
    assert (target is not None) == expected["changed"]
    assert bool(why and why.forced and target is None) == expected["error"]
    if "reason" in expected:
        assert why is not None and why.reason == expected["reason"]


@pytest.mark.parametrize("case", params(load("kubernetes_update", "chain")))
def test_chain_as_in_gardener(case: Case) -> None:
    """The chain has to end on the version that maintenance after maintenance ends on."""
    chain = forced_chain(case["input"]["versions"], case["input"]["currentVersion"], now_of(case))
    assert chain.steps == tuple(case["expected"]["sequence"])
    assert chain.gap is None


def test_unavailable_is_never_a_target() -> None:
    """GEP-32: a version that is not available yet cannot be referenced, so maintenance must not reference it."""
    soon = {"version": "1.28.6", "lifecycle": [{"classification": "supported", "startTime": FUTURE}]}
    next_minor = {"version": "1.29.0", "lifecycle": [{"classification": "preview", "startTime": FUTURE}]}
    versions = [version("1.28.5", expires=PAST), soon, next_minor]
    assert auto_target(versions, "1.28.5", NOW) is None
    chain = forced_chain(versions, "1.28.5", NOW)
    assert chain.steps == ()
    assert chain.gap is not None and "of 1.29 the profile offers only previews or versions" in chain.gap.detail


def test_a_stage_is_active_from_its_start_on() -> None:
    """A version that expires at this very instant forces the update in this maintenance, not in the next."""
    versions = [version("1.28.5", expires="2025-01-15T12:00:01Z"), version("1.28.6")]
    why = due(versions, "1.28.5", NOW, auto_update=False)
    assert why is not None and why.forced


def test_policy_latest_patch_of_the_minor_first() -> None:
    """Policy, Forceful migration: "picks the latest 'non-preview' patch version of the current minor version"."""
    versions = [
        version("1.16.1", expires=PAST),
        version("1.16.2", "deprecated"),
        version("1.16.9", "deprecated"),
        version("1.16.10", "preview"),
        version("1.17.0"),
    ]
    assert forced_target(versions, "1.16.1", NOW) == "1.16.9"


def test_policy_next_consecutive_minor() -> None:
    """Policy, Forceful migration: already on the latest patch, "the next consecutive minor Kubernetes version"."""
    versions = [version("1.16.9", expires=PAST), version("1.17.3"), version("1.17.4", "preview"), version("1.18.0")]
    assert forced_target(versions, "1.16.9", NOW) == "1.17.3"


def test_policy_repeats_until_not_expired() -> None:
    """Policy, Forceful migration: "the update process repeats until a non-expired Kubernetes version is reached"."""
    versions = [
        version("1.13.12", expires=PAST),
        version("1.14.9", expires=PAST),
        version("1.15.3", expires=PAST),
        version("1.15.4", expires=PAST),
        version("1.16.1", "supported"),
    ]
    assert forced_chain(versions, "1.13.12", NOW).steps == ("1.14.9", "1.15.4", "1.16.1")


def test_policy_a_gap_is_found() -> None:
    """Policy: "As a … update cannot skip a minor version, the CloudProfile has to be maintained properly"."""
    versions = [version("1.13.12", expires=PAST), version("1.14.9", expires=PAST), version("1.16.1")]
    chain = forced_chain(versions, "1.13.12", NOW)
    assert chain.steps == ("1.14.9",)
    assert chain.gap is not None and chain.gap.field == "spec.kubernetes.versions"
    assert (
        '"1.14.9" is expired or gone' in chain.gap.detail and "of 1.15 the profile offers nothing" in chain.gap.detail
    )


def test_policy_opted_out() -> None:
    """Policy: expired versions are updated "even if the owner has opted out of automatic cluster updates"."""
    why = due([version("1.16.1", expires=PAST)], "1.16.1", NOW, auto_update=False)
    assert why is not None and why.forced
    assert due([version("1.16.1", expires=FUTURE)], "1.16.1", NOW, auto_update=False) is None


def test_gaps_are_found_before_they_are_met() -> None:
    """A profile that will strand its Shoots next month has to say so today."""
    spec = {
        "kubernetes": {
            "versions": [
                version("1.30.1", expires="2025-03-01T00:00:00Z"),
                version("1.31.0", expires="2025-02-01T00:00:00Z"),
                version("1.33.0"),
            ]
        }
    }
    assert [finding.field for finding in gap_findings(spec, NOW)] == [
        "spec.kubernetes.versions[0]",
        "spec.kubernetes.versions[1]",
    ]
    spec["kubernetes"]["versions"].append(version("1.32.0"))
    assert gap_findings(spec, NOW) == ()
    assert gap_findings({}, NOW) == ()


def test_no_version_is_an_error() -> None:
    """A version that cannot be compared must not be taken for the newest or the oldest."""
    with pytest.raises(InvalidVersion):
        auto_target([version("1.x")], "1.28.1", NOW)


stage_days = st.integers(-3, 3)


@st.composite
def lifecycles(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Draw a lifecycle that validation admits, often one that has begun to end."""
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
    """Forced updates that never ended would roll a cluster in every maintenance."""
    chain = forced_chain(versions, current, NOW)
    end = chain.steps[-1] if chain.steps else current
    assert len(set(chain.steps)) == len(chain.steps)
    assert (due(versions, end, NOW, auto_update=False) is None) == (chain.gap is None)
    assert forced_chain(versions, end, NOW).steps == ()


@given(profiles(), currents)
def test_forced_updates_never_skip_a_minor(versions: list[dict[str, Any]], current: str) -> None:
    """A control plane that skips a minor version is refused by admission: the Shoot would be stuck."""
    before = parse(current)
    for step in map(parse, forced_chain(versions, current, NOW).steps):
        assert step > before and step.major == before.major and step.minor <= before.minor + 1
        before = step


@given(profiles(), currents)
def test_targets_are_never_preview_never_unavailable_never_lower(versions: list[dict[str, Any]], current: str) -> None:
    """A target that must not be used is worse than none; an automatic one is not expired either."""
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
    """Design 7: who is forced off an expired version must not land on one while a better one is there."""
    target = forced_target(versions, current, NOW)
    if target is None:
        return
    minor = [item for item in versions if parse(item["version"]).line == parse(target).line]
    classes = {classification_at(item, NOW) for item in minor if parse(item["version"]) > parse(current)}
    reached = classification_at(next(item for item in minor if item["version"] == target), NOW)
    order = [Classification.SUPPORTED, Classification.DEPRECATED, Classification.EXPIRED]
    assert reached == next(classification for classification in order if classification in classes)


@given(profiles(), currents)
def test_inputs_stay_as_they_are(versions: list[dict[str, Any]], current: str) -> None:
    """Profiles come from a shared cache: a rule that sorted or filled them in would change everybody's view."""
    before = repr(versions)
    forced_chain(versions, current, NOW)
    gap_findings({"kubernetes": {"versions": versions}}, NOW)
    assert repr(versions) == before
