"""Automatic version management: Gardener's two revisions of it, the policy document, laws."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from restow.cloudprofile.management.config import (
    InvalidConfiguration,
    KubernetesVersionManagement,
    MachineImageVersionManagement,
    VersionManagement,
    parse_duration,
    read_configuration,
)
from restow.cloudprofile.management.rules import manage
from restow.cloudprofile.versions.lifecycle import Classification, classification_at, parse_time, stages
from restow.cloudprofile.versions.semver import parse
from tests.cloudprofile.cases import Case, load, now_of, params

NOW = datetime(2025, 1, 15, 12, tzinfo=UTC)
PAST = "2025-01-14T12:00:00Z"
ON = VersionManagement(
    kubernetes_version_management=KubernetesVersionManagement(enabled=True),
    machine_image_version_management=MachineImageVersionManagement(enabled=True),
)

DEPRECATED, SUPPORTED = "deprecated", "supported"


def version(text: str, classification: str | None = None, expires: str | None = None) -> dict[str, Any]:
    """Return a version with the fields of v1beta1, those that are given."""
    fields = {"version": text, "classification": classification, "expirationDate": expires}
    return {name: value for name, value in fields.items() if value is not None}


def configuration(case: Case) -> tuple[VersionManagement, bool]:
    """Return a case's configuration as the policy document would write it, and whether it is for images.

    The later revision of Gardener's draft had one configuration for both: with ``versionMaintenance`` it is what the
    document has for Kubernetes, without it what the document has for images.
    """
    config, group = case["input"]["config"], case["input"]["group"]
    if group != "either":
        return VersionManagement.model_validate(config), group == "images"
    if maintenance := config.get("versionMaintenance"):
        part = {
            "enabled": True,
            "maintainedKubernetesVersions": maintenance["maintainedVersions"],
            "expirationDurationMaintainedVersion": config["expirationDuration"],
            "expirationDurationUnmaintainedVersion": maintenance["expirationDurationUnmaintainedVersion"],
        }
        return VersionManagement.model_validate({"kubernetesVersionManagement": part}), False
    part = {"enabled": True, "expirationDuration": config["expirationDuration"]}
    return VersionManagement.model_validate({"machineImageVersionManagement": part}), True


def said(item: dict[str, Any]) -> tuple[str, datetime | None, bool]:
    """Return what a version says in either API version: classification, expiration, whether anybody classified it."""
    expires = [stage.start for stage in stages(item) if stage.classification == Classification.EXPIRED]
    classified = bool(item.get("lifecycle") or item.get("classification"))
    return classification_at(item, NOW).value, expires[0] if expires else None, classified


@pytest.mark.parametrize("case", params(load("version_management")))
def test_management_as_in_gardeners_drafts(case: Case) -> None:
    """What was designed for Gardener, written as stages instead of classification and date."""
    config, for_images = configuration(case)
    listed = case["input"]["versions"]
    spec = (
        {"machineImages": [{"name": "img", "versions": listed}]} if for_images else {"kubernetes": {"versions": listed}}
    )
    done = manage(spec, config, now_of(case))
    got = done.spec["machineImages"][0]["versions"] if for_images else done.spec["kubernetes"]["versions"]
    expected = case["expected"]["versions"]
    assert [item["version"] for item in got] == [item["version"] for item in expected]
    assert [said(item) for item in got] == [said(item) for item in expected]
    unchanged = [item for item, before in zip(expected, listed, strict=True) if item == before]
    assert [item for item in unchanged if item not in got] == []  # not even rewritten


def kubernetes(*listed: dict[str, Any]) -> dict[str, Any]:
    """Return a profile's spec with these Kubernetes versions."""
    return {"type": "x", "kubernetes": {"versions": list(listed)}}


def classes(spec: dict[str, Any], now: datetime = NOW) -> dict[str, str]:
    """Return what the Kubernetes versions of a spec are."""
    return {item["version"]: classification_at(item, now).value for item in spec["kubernetes"]["versions"]}


def test_it_is_off_by_default() -> None:
    """Policy: ``enabled`` "defaults to false"; a spec that changed all the same would fight with GitOps."""
    spec = kubernetes(version("1.0.0"), version("1.0.1"))
    done = manage(spec, VersionManagement(), NOW)
    assert done.changes == () and done.spec == spec


def test_changes_say_what_and_why() -> None:
    """A proposal that a person is to judge has to name the version, what becomes of it, and the rule."""
    spec = kubernetes(version("1.31.1", SUPPORTED), version("1.31.2"))
    done = manage(spec, ON, NOW)
    assert [str(change) for change in done.changes] == [
        (
            "Kubernetes 1.31.1: deprecated, expires 2025-05-15T12:00:00Z "
            "(one version of the minor version 1.31 is supported, and this one is not the highest)"
        ),
        "Kubernetes 1.31.2: supported (the latest version of the minor version 1.31 has no classification)",
    ]
    assert [change.field for change in done.changes] == [
        "spec.kubernetes.versions[0]",
        "spec.kubernetes.versions[1]",
    ]


def test_it_is_written_as_stages() -> None:
    """Design 7: ``deprecated@now``, ``expired@now+duration``, behind the stages that are over."""
    preview = {"version": "1.31.2", "lifecycle": [{"classification": "preview"}]}
    promoted = {
        "version": "1.31.1",
        "lifecycle": [
            {"classification": "preview"},
            {"classification": "supported", "startTime": "2024-12-01T00:00:00Z"},
            {"classification": "deprecated", "startTime": "2036-01-01T00:00:00Z"},
        ],
        "extra": "kept",
    }
    done = manage(kubernetes(preview, promoted, version("1.31.3", SUPPORTED)), ON, NOW)
    assert done.spec["kubernetes"]["versions"] == [
        preview,
        {
            "version": "1.31.1",
            "extra": "kept",
            "lifecycle": [
                {"classification": "preview"},
                {"classification": "supported", "startTime": "2024-12-01T00:00:00Z"},
                {"classification": "deprecated", "startTime": "2025-01-15T12:00:00Z"},
                {"classification": "expired", "startTime": "2025-05-15T12:00:00Z"},
            ],
        },
        version("1.31.3", SUPPORTED),
    ]
    assert done.spec["type"] == "x"


def test_dates_that_a_person_has_set_stay() -> None:
    """An expiration that moved would break what owners were told, earlier or later."""
    spec = kubernetes(
        version("1.31.2", SUPPORTED), version("1.31.1", SUPPORTED, "2025-03-01T00:00:00+01:00"), version("1.31.0")
    )
    done = manage(spec, ON, NOW)
    assert done.spec["kubernetes"]["versions"][1]["lifecycle"][-1] == {
        "classification": "expired",
        "startTime": "2025-03-01T00:00:00+01:00",
    }


def test_a_new_minor_puts_the_oldest_out_of_maintenance() -> None:
    """Policy: only maintained versions are preview or supported; the latest patch of the others waits for a person."""
    spec = kubernetes(
        version("1.34.0", "preview"),
        version("1.33.1", SUPPORTED),
        version("1.32.5", SUPPORTED),
        version("1.31.9", SUPPORTED),
        version("1.31.8", DEPRECATED, "2025-03-31T00:00:00Z"),
        version("1.31.7", DEPRECATED),
    )
    done = manage(spec, ON, NOW)
    assert {change.version: change.what for change in done.changes} == {
        "1.31.9": "deprecated, without expiration",
        "1.31.7": "expires 2025-02-14T12:00:00Z",
    }


def test_a_scheduled_minor_is_not_there_yet() -> None:
    """A minor version that is announced for next year must not end the maintenance of the oldest one today."""
    scheduled = {"version": "1.34.0", "lifecycle": [{"classification": "preview", "startTime": "2036-01-01T00:00:00Z"}]}
    spec = kubernetes(
        scheduled, version("1.33.1", SUPPORTED), version("1.32.5", SUPPORTED), version("1.31.9", SUPPORTED)
    )
    assert manage(spec, ON, NOW).changes == ()


def test_promoting_a_preview_deprecates_the_supported_version() -> None:
    """Policy: a preview can be promoted "without manually having to deprecate the currently 'supported' version"."""
    promoted = {
        "version": "1.33.1",
        "lifecycle": [{"classification": "preview"}, {"classification": "supported", "startTime": PAST}],
    }
    done = manage(kubernetes(promoted, version("1.33.0", SUPPORTED)), ON, NOW)
    assert classes(done.spec) == {"1.33.1": SUPPORTED, "1.33.0": DEPRECATED}


def test_a_preview_does_not_count_as_latest() -> None:
    """A minor version whose only trusted version was deprecated for a preview would have none for new Shoots."""
    done = manage(kubernetes(version("1.18.1", "preview"), version("1.18.0")), ON, NOW)
    assert [(change.version, change.what) for change in done.changes] == [("1.18.0", SUPPORTED)]


def test_an_older_patch_is_deprecated_even_if_the_latest_is() -> None:
    """Both of Gardener's drafts: what is not the latest patch is deprecated; what is meant to be supported stays."""
    done = manage(kubernetes(version("1.18.2", DEPRECATED), version("1.18.1"), version("1.18.0", SUPPORTED)), ON, NOW)
    assert classes(done.spec) == {"1.18.2": DEPRECATED, "1.18.1": DEPRECATED, "1.18.0": SUPPORTED}


def test_expired_and_unavailable_versions_are_left_alone() -> None:
    """What is over is deleted by a person; what is scheduled was planned by one."""
    scheduled = {
        "version": "1.33.2",
        "lifecycle": [{"classification": "supported", "startTime": "2036-01-01T00:00:00Z"}],
    }
    spec = kubernetes(scheduled, version("1.33.1"), version("1.33.9", SUPPORTED, PAST), version("1.33.0", None, PAST))
    done = manage(spec, ON, NOW)
    assert [(change.version, change.what) for change in done.changes] == [("1.33.1", SUPPORTED)]


def test_each_image_has_its_own_supported_version() -> None:
    """Design 7: one per image; an image without versions stays as it is."""
    images = [
        {"name": "a", "versions": [version("1.0.0"), version("2.0.0")]},
        {"name": "b", "versions": [version("18.4", SUPPORTED)]},
        {"name": "c"},
    ]
    done = manage({"machineImages": images}, ON, NOW)
    assert [(change.image, change.version, change.field) for change in done.changes] == [
        ("a", "1.0.0", "spec.machineImages[0].versions[0]"),
        ("a", "2.0.0", "spec.machineImages[0].versions[1]"),
    ]
    assert done.spec["machineImages"][1:] == images[1:]


POLICY_EXAMPLE = """
controllers:
  cloudProfile:
    # monitorPeriod: 40s
    concurrentSyncs: 5
    kubernetesVersionManagement:
      enabled: true # defaults to false
#      maintainedKubernetesVersions: 4 # defaults to 3
#      expirationDurationMaintainedVersion: 2880h # defaults to 120 days / 4 months
#      expirationDurationUnmaintainedVersion: 720h # defaults to 30 days / 1 months
    machineImageVersionManagement:
      enabled: true # defaults to false
#      expirationDuration: 2880h # defaults to 120 days / 4 months
"""


def test_policy_example_is_read_unchanged() -> None:
    """Policy, "Example Gardener Controller Manager config file", with its commented lines and with them set."""
    assert read_configuration(POLICY_EXAMPLE) == ON
    full = read_configuration(POLICY_EXAMPLE.replace("#      ", "      ").replace("# monitor", "monitor"))
    assert full.kubernetes_version_management.maintained_kubernetes_versions == 4
    assert full.kubernetes_version_management.expiration_duration_maintained_version == timedelta(days=120)
    assert full.kubernetes_version_management.expiration_duration_unmaintained_version == timedelta(days=30)
    assert full.machine_image_version_management.expiration_duration == timedelta(days=120)


@pytest.mark.parametrize(
    "text",
    [
        "kind: ControllerManagerConfiguration",
        "controllers:",
        "controllers:\n  cloudProfile:\n    kubernetesVersionManagement:",
    ],
)
def test_what_is_not_written_is_off(text: str) -> None:
    """A part without settings is not an error, and enables nothing."""
    assert read_configuration(text) == VersionManagement()


@pytest.mark.parametrize(
    ("text", "said_"),
    [
        ("maintainedKubernetesVersion: 4", "kubernetesVersionManagement.maintainedKubernetesVersion"),
        ("maintainedKubernetesVersions: 0", "greater than or equal to 1"),
        ("expirationDurationMaintainedVersion: 120 days", "must be a duration like 720h"),
        ("expirationDurationMaintainedVersion: 120", "must be a duration like 720h"),
    ],
)
def test_a_setting_that_cannot_be_heeded_is_an_error(text: str, said_: str) -> None:
    """A misspelled setting that was passed over would let versions expire at other times than was meant."""
    with pytest.raises(InvalidConfiguration, match=said_):
        read_configuration(f"controllers: {{cloudProfile: {{kubernetesVersionManagement: {{{text}}}}}}}")


@pytest.mark.parametrize(
    "text", ["", "- a", "kind: Deployment", "spec: {}", "controllers: 5", "controllers: {cloudProfile: [1]}", "a: b: c"]
)
def test_no_configuration_is_an_error(text: str) -> None:
    """Any other file must be refused with a sentence."""
    with pytest.raises(InvalidConfiguration):
        read_configuration(text)


def test_durations_are_those_of_go() -> None:
    """Gardener's files write durations as Go does."""
    assert parse_duration("1h30m5s") == timedelta(hours=1, minutes=30, seconds=5)
    assert parse_duration("1.5h") == timedelta(minutes=90)
    assert parse_duration("250ms") == timedelta(milliseconds=250)


days = st.integers(-40, 40).map(lambda number: (NOW + timedelta(days=number)).isoformat())


@st.composite
def versions(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Draw versions in both API versions' fields, in any order."""
    numbers = draw(st.sets(st.tuples(st.just(1), st.integers(0, 4), st.integers(0, 3)), max_size=10))
    listed = []
    for number in numbers:
        item: dict[str, Any] = {"version": ".".join(map(str, number))}
        kind = draw(st.sampled_from(["none", "legacy", "lifecycle"]))
        if kind == "legacy":
            item["classification"] = draw(st.sampled_from(["preview", SUPPORTED, DEPRECATED]))
        if kind != "lifecycle" and draw(st.booleans()):
            item["expirationDate"] = draw(days)
        if kind == "lifecycle":
            chosen = sorted(
                draw(st.sets(st.sampled_from(["preview", SUPPORTED, DEPRECATED, "expired"]), min_size=1)),
                key=lambda name: Classification(name).rank,
            )
            starts = sorted(draw(st.lists(days, min_size=len(chosen), max_size=len(chosen))), key=parse_time)
            item["lifecycle"] = [
                {"classification": name, "startTime": start} for name, start in zip(chosen, starts, strict=True)
            ]
        listed.append(item)
    return draw(st.permutations(listed))


specs = st.builds(
    lambda listed, images: kubernetes(*listed) | {"machineImages": [{"name": "img", "versions": images}]},
    versions(),
    versions(),
)
instants = st.integers(0, 3_000_000).map(lambda microseconds: NOW + timedelta(microseconds=microseconds))


@given(specs, instants)
def test_managing_twice_changes_nothing(spec: dict[str, Any], now: datetime) -> None:
    """Two controllers, or one that is restarted, must not push dates on and on."""
    before = repr(spec)
    once = manage(spec, ON, now)
    again = manage(once.spec, ON, now)
    assert again.changes == () and again.spec == once.spec
    assert repr(spec) == before
    assert (once.spec == spec) == (once.changes == ())


@given(specs)
def test_one_supported_version_per_maintained_minor_and_image(spec: dict[str, Any]) -> None:
    """Policy: "Makes sure there is only one 'supported version'", and none that is not maintained."""
    done = manage(spec, ON, NOW).spec
    lines = sorted(
        {
            parse(item["version"]).line
            for item in spec["kubernetes"]["versions"]
            if classification_at(item, NOW) != Classification.UNAVAILABLE
        }
    )
    active = [item for item in done["kubernetes"]["versions"] if classification_at(item, NOW).is_active]
    for line in lines:
        found = [classification_at(item, NOW).value for item in active if parse(item["version"]).line == line]
        assert found.count(SUPPORTED) <= 1
        assert line in lines[-3:] or set(found) <= {DEPRECATED}
    images = [classification_at(item, NOW).value for item in done["machineImages"][0]["versions"]]
    assert images.count(SUPPORTED) <= 1


@given(specs)
def test_lifecycles_stay_in_order(spec: dict[str, Any]) -> None:
    """What is written has to pass validation: ranks ascend, starts do not go back, dates of people stay."""
    done = manage(spec, ON, NOW)
    for change in done.changes:
        listed = (done.spec["machineImages"][0] if change.image else done.spec["kubernetes"])["versions"]
        item = next(item for item in listed if item["version"] == change.version)
        assert "classification" not in item and "expirationDate" not in item
        written = stages(item)
        ranks = [stage.classification.rank for stage in written]
        assert ranks == sorted(set(ranks))
        starts = [stage.start or datetime.min.replace(tzinfo=UTC) for stage in written]
        assert starts == sorted(starts)
        before = next(
            old
            for old in (spec["machineImages"][0] if change.image else spec["kubernetes"])["versions"]
            if old["version"] == change.version
        )
        ends = [stage.start for stage in stages(before) if stage.classification == Classification.EXPIRED]
        assert not ends or ends == [stage.start for stage in written if stage.classification == Classification.EXPIRED]


@given(specs)
def test_the_latest_patch_of_a_minor_is_never_given_an_end(spec: dict[str, Any]) -> None:
    """Policy: that date forces Shoots to the next minor version, so a person sets it."""
    done = manage(spec, ON, NOW)
    for change in done.changes:
        if change.image or "expires" not in change.what:
            continue
        before = next(item for item in spec["kubernetes"]["versions"] if item["version"] == change.version)
        had = [stage for stage in stages(before) if stage.classification == Classification.EXPIRED]
        higher = [
            item
            for item in spec["kubernetes"]["versions"]
            if parse(item["version"]).line == parse(change.version).line
            and parse(item["version"]) > parse(change.version)
            and classification_at(item, NOW).is_active
        ]
        assert had or higher
