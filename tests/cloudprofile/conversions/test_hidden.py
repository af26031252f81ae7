"""What an edit through v1beta1 takes away without its client having seen it, and what admission restores of it."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from restow.cloudprofile.conversions import with_displaced, with_unseen
from restow.cloudprofile.profiles.rendering import render
from restow.cloudprofile.versions.lifecycle import status_of
from tests.cloudprofile.conversions.family import (
    STASH,
    at_time,
    conversions,
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

NOW = moment("2025-02-01")
BEGUN = [stage("preview", "2025-01-01"), stage("supported", "2025-01-15")]
COMING = [stage("preview", "2030-01-01")]
ENDED = [stage("supported", "2024-01-01"), stage("expired", "2025-01-15")]
SHOWN_ALWAYS = [stage("preview"), stage("supported", "2025-01-15")]

Json = dict[str, Any]


def listed(obj: Json) -> dict[str, list[str]]:
    """Return the names of the versions by list."""
    spec = obj["spec"]
    lists = {"": spec.get("kubernetes", {}).get("versions", [])}
    lists |= {image["name"]: image["versions"] for image in spec.get("machineImages", [])}
    return {name: [version["version"] for version in versions] for name, versions in lists.items()}


def of_both(*versions: tuple[str, Any]) -> Json:
    """Return a spec with the same versions of Kubernetes and of one image."""
    items = [{"version": name, **({"lifecycle": stages} if stages else {})} for name, stages in versions]
    return {"kubernetes": {"versions": items}, "machineImages": [{"name": "suse", "versions": items}]}


@pytest.mark.parametrize("loses_stash", [False, True])
@pytest.mark.parametrize(
    ("lifecycle", "known", "stays"),
    [
        pytest.param(BEGUN, False, True, id="begun and not yet shown"),
        pytest.param(BEGUN, True, True, id="begun and shown"),
        pytest.param(COMING, True, True, id="still to come"),
        pytest.param([stage("unavailable"), *BEGUN], True, True, id="unavailable first"),
        pytest.param(ENDED, False, True, id="expired and not yet shown"),
        pytest.param(ENDED, True, False, id="expired and shown"),
        pytest.param(SHOWN_ALWAYS, True, False, id="always shown"),
        pytest.param(None, True, False, id="without lifecycle"),
    ],
)
def test_which_versions_stay(lifecycle: Any, known: bool, stays: bool, loses_stash: bool) -> None:
    """A client that never saw a version would delete it, or one that saw it could not."""
    stored = profile(of_both(("1.0.0", None), ("2.0.0", lifecycle), ("3.0.0", None)))
    stored = at_time(stored, NOW) if known else stored
    shown = down(stored)
    sent = {**shown, "spec": down(profile(of_both(("1.0.0", None), ("3.0.0", None))))["spec"]}
    found = replaced(stored, without_stash(sent) if loses_stash else sent, NOW)
    expected = ["1.0.0", "2.0.0", "3.0.0"] if stays else ["1.0.0", "3.0.0"]
    assert listed(found) == {"": expected, "suse": expected}
    if stays:
        assert found["spec"] == stored["spec"]


def test_the_place_of_what_stays() -> None:
    """A list that comes back in another order would show up in every diff, or two versions would change places."""
    stored = profile(of_both(("1.0.0", None), ("2.0.0", BEGUN), ("2.1.0", BEGUN), ("3.0.0", None)))
    for sent, expected in (
        (["3.0.0", "1.0.0"], ["3.0.0", "1.0.0", "2.0.0", "2.1.0"]),
        (["3.0.0"], ["2.0.0", "2.1.0", "3.0.0"]),
        (["0.9.0", "1.0.0", "2.1.0", "3.0.0"], ["0.9.0", "1.0.0", "2.0.0", "2.1.0", "3.0.0"]),
        ([], ["2.0.0", "2.1.0"]),
    ):
        new = profile(of_both(*((name, BEGUN if name == "2.1.0" else None) for name in sent)))
        found, unseen = with_unseen(stored, new, NOW)
        assert listed(dict(found)) == {"": expected, "suse": expected}
        assert set(unseen) == {(image, name) for image in ("", "suse") for name in {*expected} - {*sent}}
    found, _ = with_unseen(stored, profile({}), NOW)
    assert listed(dict(found)) == {"": ["2.0.0", "2.1.0"], "suse": ["2.0.0", "2.1.0"]}


@pytest.mark.parametrize(("lifecycle", "stays"), [(BEGUN, True), (COMING, False), (ENDED, False), (None, False)])
def test_an_image_stays_for_a_version_that_can_be_used(lifecycle: Any, stays: bool) -> None:
    """An image that looks empty would be removed with a version in use; or no image could be removed at all."""
    stored = profile(of_both(("1.0.0", None), ("2.0.0", lifecycle)))
    new = {**stored, "spec": {**stored["spec"], "machineImages": [{"name": "other", "versions": []}]}}
    found = listed(dict(with_unseen(stored, new, NOW)[0]))
    assert found == {"": ["1.0.0", "2.0.0"], "other": [], **({"suse": ["2.0.0"]} if stays else {})}


PARENT = spec_with(v2_0_0=[stage("preview", "2025-01-20")], v1_0_0=SHOWN_ALWAYS)
OVERRIDE = [stage("preview", "2025-01-25"), stage("expired", "2040-01-01")]
BRIEF = [stage("preview", "2025-01-25"), stage("expired", "2025-01-28")]


@pytest.mark.parametrize(
    ("version", "lifecycle", "day", "stays"),
    [
        pytest.param("v2_0_0", OVERRIDE, "2025-01-21", True, id="hidden, for the parent has not begun"),
        pytest.param("v2_0_0", OVERRIDE, "2025-02-01", True, id="shown since a moment ago"),
        pytest.param("v2_0_0", OVERRIDE[1:], "2025-02-01", False, id="a date alone is always shown"),
        pytest.param("v1_0_0", [stage("supported", "2025-03-01")], "2025-02-01", False, id="of a version always shown"),
        pytest.param("v2_0_0", OVERRIDE, None, False, id="never rendered, so never hidden"),
        pytest.param(
            "v2_0_0",
            [stage("preview", "2025-01-25"), stage("expired", "2025-01-28")],
            "2025-02-01",
            False,
            id="expired",
        ),
    ],
)
def test_which_overrides_stay(version: str, lifecycle: Any, day: str | None, stays: bool) -> None:
    """A project's plan would be deleted unseen, or a project could not take its own override back."""
    spec = spec_with(**{version: lifecycle})
    stored = profile(spec, kind="NamespacedCloudProfile")
    if day is not None:
        rendered = render(PARENT, spec)
        stored |= {"status": {"cloudProfileSpec": rendered, **status_of(rendered, moment(day))}}
    new = {**stored, "spec": {"kubernetes": {"versions": []}}}
    found, unseen = with_unseen(stored, new, NOW)
    assert bool(unseen) == stays
    assert found["spec"] == (stored if stays else new)["spec"]


PLAN = [stage("preview"), stage("supported", "2029-01-01"), stage("deprecated", "2030-01-01")]
EARLY = "2028-01-01T00:00:00Z"


def dated(stored: Json, name: str, date: str | None, **fields: str) -> Json:
    """Return what a client of v1beta1 stores that changes the date of a version, and perhaps its classification."""
    shown = json.loads(json.dumps(down(stored)))
    for version in (each for image in shown["spec"]["machineImages"] for each in image["versions"]):
        if version["version"] == name:
            version.pop("expirationDate", None)
            version.update(fields | ({"expirationDate": date} if date else {}))
    return replaced(stored, shown, NOW)


def one(lifecycle: Any) -> Json:
    """Return a profile with one image version, and its status."""
    item = {"version": "1.0.0", **({"lifecycle": lifecycle} if lifecycle else {})}
    return at_time(profile({"machineImages": [{"name": "suse", "versions": [item]}]}), NOW)


def lifecycle_in(obj: Json) -> Any:
    return obj["spec"]["machineImages"][0]["versions"][0].get("lifecycle")


def test_a_date_taken_back_leaves_no_trace() -> None:
    """A slip at v1beta1 would cost the stages that it displaced, or leave the annotation behind."""
    stored = one(PLAN)
    slipped = dated(stored, "1.0.0", EARLY)
    assert lifecycle_in(slipped) == [stage("preview"), stage("expired", "2028-01-01")]
    assert dated(slipped, "1.0.0", None) == stored


def test_the_round_trip_keeps_what_is_displaced() -> None:
    """A read at v1beta1 and a write of the same would lose the displaced stages, or change bytes."""
    slipped = dated(one(PLAN), "1.0.0", EARLY)
    assert up(down(slipped)) == slipped
    assert replaced(slipped, down(slipped), NOW) == slipped
    assert replaced(slipped, without_stash(down(slipped)), NOW) == slipped
    bare = {name: value for name, value in slipped.items() if name != "status"}
    assert up(down(bare)) == bare


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        pytest.param({"classification": "deprecated"}, [stage("deprecated")], id="a later one leads"),
        pytest.param(
            {"classification": "supported"}, [stage("supported"), stage("deprecated", "2030-01-01")], id="one leads"
        ),
    ],
)
def test_a_classification_that_leads(change: dict[str, str], expected: Any) -> None:
    """Stages before the one that a client named would begin after it."""
    slipped = dated(one(PLAN), "1.0.0", EARLY)
    assert lifecycle_in(dated(dated(slipped, "1.0.0", EARLY, **change), "1.0.0", None, **change)) == expected
    assert lifecycle_in(dated(slipped, "1.0.0", None, **change)) == expected


def test_no_fields_at_all_mean_supported() -> None:
    """A version without fields would stay unavailable until a displaced stage begins."""
    slipped = dated(one([stage("preview"), stage("deprecated", "2030-01-01")]), "1.0.0", EARLY)
    shown = down(slipped)
    shown["spec"] = {"machineImages": [{"name": "suse", "versions": [{"version": "1.0.0"}]}]}
    assert lifecycle_in(replaced(slipped, shown, NOW)) == [stage("supported"), stage("deprecated", "2030-01-01")]


def test_an_override_gets_its_own_stages_back() -> None:
    """A project's date would displace the stages that it moved for good."""
    spec = {"machineImages": [{"name": "suse", "versions": [{"version": "1.0.0", "lifecycle": [PLAN[2]]}]}]}
    stored = profile(spec, kind="NamespacedCloudProfile")
    slipped = dated(stored, "1.0.0", EARLY)
    assert lifecycle_in(slipped) == [stage("expired", "2028-01-01")]
    assert dated(slipped, "1.0.0", None) == stored


@pytest.mark.parametrize("forge", [lambda _: 1, lambda _: {"of": 1}, lambda entry: {**entry, "stages": "x"}])
def test_a_forged_record_does_nothing(forge: Callable[[Any], Any]) -> None:
    """Any client may edit the annotation, and admission would fail on it."""
    slipped = dated(one(PLAN), "1.0.0", EARLY)
    stash = json.loads(slipped["metadata"]["annotations"][STASH])
    [place] = stash["kept"]["displaced"]
    stash["kept"]["displaced"][place] = forge(stash["kept"]["displaced"][place])
    forged = {**slipped, "metadata": {"name": "p", "annotations": {STASH: json.dumps(stash)}}}
    assert lifecycle_in(dated(forged, "1.0.0", None)) == [stage("preview")]


def test_a_stash_of_a_newer_release_stays() -> None:
    """An older replica would destroy what a newer release keeps, in the middle of an upgrade."""
    annotations = {STASH: json.dumps({"format": 99})}
    stored = {**one(PLAN), "metadata": {"name": "p", "annotations": annotations}}
    new = {**one([PLAN[0], stage("expired", "2028-01-01")]), "metadata": {"name": "p", "annotations": annotations}}
    assert with_displaced(conversions(), stored, new) == new


DATES = st.none() | st.integers(1, 9).map(lambda day: f"2025-02-{day:02}T12:00:00Z")


@settings(suppress_health_check=list(HealthCheck), deadline=None)
@given(lifecycle=lifecycles() | st.none(), first=DATES, second=DATES)
def test_of_several_dates_only_the_last_counts(lifecycle: Any, first: str | None, second: str | None) -> None:
    """What a client of v1beta1 corrects would have left something behind."""
    shifted = json.loads(json.dumps(lifecycle).replace("2025-01-0", "2025-02-0")) if lifecycle else lifecycle
    stored = one(shifted)
    assume(listed(down(stored))["suse"])
    assert lifecycle_in(dated(dated(stored, "1.0.0", first), "1.0.0", second)) == lifecycle_in(
        dated(stored, "1.0.0", second)
    )
