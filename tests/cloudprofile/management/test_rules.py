"""Automatic version management: two revisions of Gardener's draft, the policy document, laws."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from restow.cloudprofile.management import (
    InvalidConfiguration,
    KubernetesVersionManagement,
    MachineImageVersionManagement,
    VersionManagement,
    manage,
    parse_duration,
    read_configuration,
)
from restow.cloudprofile.versions.lifecycle import Classification, classification_at, parse_time, stages
from restow.cloudprofile.versions.semver import parse
from tests.cloudprofile.cases import Case, load, now_of, params
from tests.cloudprofile.requests import kept_by_request, profile_with
from tests.cloudprofile.served import GROUP, HUB, OLD, ApiServer, at_version

NOW = datetime(2025, 1, 15, 12, tzinfo=UTC)
PAST = "2025-01-14T12:00:00Z"
ON = VersionManagement(
    kubernetes_version_management=KubernetesVersionManagement(enabled=True),
    machine_image_version_management=MachineImageVersionManagement(enabled=True),
)

DEPRECATED, SUPPORTED = "deprecated", "supported"


def version(text: str, classification: str | None = None, expires: str | None = None) -> dict[str, Any]:
    """Return a version with those fields of v1beta1 that are given."""
    fields = {"version": text, "classification": classification, "expirationDate": expires}
    return {name: value for name, value in fields.items() if value is not None}


def configuration(case: Case) -> tuple[VersionManagement, bool]:
    """Return a case's configuration in the form of the policy document, and whether it is for images.

    The later revision of Gardener's draft had one configuration for both: with ``versionMaintenance`` it corresponds to
    the document's part for Kubernetes, without it to the part for images.
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
    """Return a version's classification, its expiration, and whether its author classified it, at either version."""
    expires = [stage.start for stage in stages(item) if stage.classification == Classification.EXPIRED]
    classified = bool(item.get("lifecycle") or item.get("classification"))
    return classification_at(item, NOW).value, expires[0] if expires else None, classified


@pytest.mark.parametrize("case", params(load("version_management")))
def test_management_as_in_gardeners_drafts(case: Case) -> None:
    """Management would classify versions differently from Gardener's drafts."""
    (config, for_images), now = configuration(case), now_of(case)

    def spec_with(versions: list[dict[str, Any]]) -> dict[str, Any]:
        images = [{"name": "img", "versions": versions}]
        return kept_by_request({"machineImages": images} if for_images else {"kubernetes": {"versions": versions}}, now)

    def listed_in(spec: dict[str, Any]) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = (spec["machineImages"][0] if for_images else spec["kubernetes"])["versions"]
        return found

    spec = spec_with(case["input"]["versions"])
    profile = {**profile_with({}), "apiVersion": f"{GROUP}/{HUB}"}
    written = ApiServer(now).update(
        {**profile, "spec": manage(spec, config, now).spec}, {**profile, "spec": spec}
    )  # admission must not refuse the changes of management
    assert written.stored is not None, written.refusal
    listed, got = listed_in(spec), listed_in(written.stored["spec"])
    expected = listed_in(spec_with(case["expected"]["versions"]))
    assert [item["version"] for item in got] == [item["version"] for item in expected]
    assert [said(item) for item in got] == [said(item) for item in expected]
    unchanged = [item for item, before in zip(expected, listed, strict=True) if item == before]
    assert [item for item in unchanged if item not in got] == []  # not even rewritten


def kubernetes(*listed: dict[str, Any]) -> dict[str, Any]:
    """Return a profile's spec with these Kubernetes versions."""
    return {"type": "x", "kubernetes": {"versions": list(listed)}}


def classes(spec: dict[str, Any], now: datetime = NOW) -> dict[str, str]:
    """Return the classifications of a spec's Kubernetes versions."""
    return {item["version"]: classification_at(item, now).value for item in spec["kubernetes"]["versions"]}


def test_it_is_off_by_default() -> None:
    """Management would change specs and conflict with GitOps although ``enabled`` "defaults to false" (policy)."""
    spec = kubernetes(version("1.0.0"), version("1.0.1"))
    done = manage(spec, VersionManagement(), NOW)
    assert done.changes == () and done.spec == spec


def test_changes_say_what_and_why() -> None:
    """A person could not judge a proposal without the version, its new stages and the rule."""
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
    """The new stages would not be ``deprecated@now`` and ``expired@now+duration``, behind the past ones (Design 7)."""
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
    """A moved expiration would break a date that owners rely on, earlier or later."""
    spec = kubernetes(
        version("1.31.2", SUPPORTED), version("1.31.1", SUPPORTED, "2025-03-01T00:00:00+01:00"), version("1.31.0")
    )
    done = manage(spec, ON, NOW)
    assert done.spec["kubernetes"]["versions"][1]["lifecycle"][-1] == {
        "classification": "expired",
        "startTime": "2025-03-01T00:00:00+01:00",
    }


def test_a_new_minor_puts_the_oldest_out_of_maintenance() -> None:
    """Policy: unmaintained versions would stay preview or supported, or their latest patch would get an expiration."""
    spec = kubernetes(
        version("1.34.0", "preview"),
        version("1.33.1", SUPPORTED),
        version("1.32.5", SUPPORTED),
        version("1.31.9", SUPPORTED),
        version("1.31.8", DEPRECATED, "2025-03-31T00:00:00Z"),
        version("1.31.7", DEPRECATED),
    )
    done = manage(spec, ON, NOW)
    assert {change.key[1]: change.what for change in done.changes} == {
        "1.31.9": "deprecated, without expiration",
        "1.31.7": "expires 2025-02-14T12:00:00Z",
    }


def test_a_scheduled_minor_is_not_there_yet() -> None:
    """A minor version announced for next year would end the maintenance of the oldest one today."""
    scheduled = {"version": "1.34.0", "lifecycle": [{"classification": "preview", "startTime": "2036-01-01T00:00:00Z"}]}
    spec = kubernetes(
        scheduled, version("1.33.1", SUPPORTED), version("1.32.5", SUPPORTED), version("1.31.9", SUPPORTED)
    )
    assert manage(spec, ON, NOW).changes == ()


def test_promoting_a_preview_deprecates_the_supported_version() -> None:
    """Policy: promoting a preview would require deprecating the supported version by hand."""
    promoted = {
        "version": "1.33.1",
        "lifecycle": [{"classification": "preview"}, {"classification": "supported", "startTime": PAST}],
    }
    done = manage(kubernetes(promoted, version("1.33.0", SUPPORTED)), ON, NOW)
    assert classes(done.spec) == {"1.33.1": SUPPORTED, "1.33.0": DEPRECATED}


def test_a_preview_does_not_count_as_latest() -> None:
    """A minor version would have no version for new Shoots, with its only trusted one deprecated for a preview."""
    done = manage(kubernetes(version("1.18.1", "preview"), version("1.18.0")), ON, NOW)
    assert [(change.key[1], change.what) for change in done.changes] == [("1.18.0", SUPPORTED)]


def test_an_older_patch_is_deprecated_even_if_the_latest_is() -> None:
    """Older patches would stay unclassified, or a version that a person set to supported would be deprecated."""
    done = manage(kubernetes(version("1.18.2", DEPRECATED), version("1.18.1"), version("1.18.0", SUPPORTED)), ON, NOW)
    assert classes(done.spec) == {"1.18.2": DEPRECATED, "1.18.1": DEPRECATED, "1.18.0": SUPPORTED}


def test_expired_and_unavailable_versions_are_left_alone() -> None:
    """Management would change versions that have expired, or that a person has scheduled."""
    scheduled = {
        "version": "1.33.2",
        "lifecycle": [{"classification": "supported", "startTime": "2036-01-01T00:00:00Z"}],
    }
    spec = kubernetes(scheduled, version("1.33.1"), version("1.33.9", SUPPORTED, PAST), version("1.33.0", None, PAST))
    done = manage(spec, ON, NOW)
    assert [(change.key[1], change.what) for change in done.changes] == [("1.33.1", SUPPORTED)]


def test_each_image_has_its_own_supported_version() -> None:
    """Images would share one supported version, or an image without versions would change (Design 7)."""
    images = [
        {"name": "a", "versions": [version("1.0.0"), version("2.0.0")]},
        {"name": "b", "versions": [version("18.4", SUPPORTED)]},
        {"name": "c"},
    ]
    done = manage({"machineImages": images}, ON, NOW)
    assert [(change.key[0], change.key[1], change.field) for change in done.changes] == [
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
    """The example file of the policy document could not be read, or its commented settings would have no effect."""
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
    """A part without settings would be an error, or would enable management."""
    assert read_configuration(text) == VersionManagement()


@pytest.mark.parametrize(
    ("text", "said_"),
    [
        ("maintainedKubernetesVersion: 4", "kubernetesVersionManagement.maintainedKubernetesVersion"),
        ("maintainedKubernetesVersions: 0", "greater than or equal to 1"),
        ("expirationDurationMaintainedVersion: 120 days", "must be a duration like 720h"),
        ("expirationDurationMaintainedVersion: 120", "must be a duration like 720h"),
        ("expirationDurationMaintainedVersion: 99999999999999h", "of at most 2562047h"),
        (f"expirationDurationMaintainedVersion: {'9' * 400}h", "of at most 2562047h"),
    ],
)
def test_a_setting_that_cannot_be_heeded_is_an_error(text: str, said_: str) -> None:
    """A misspelled setting would be ignored, and versions would expire at other times than intended."""
    with pytest.raises(InvalidConfiguration, match=said_):
        read_configuration(f"controllers: {{cloudProfile: {{kubernetesVersionManagement: {{{text}}}}}}}")


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("kind: ControllerManagerConfiguration\ncontroller: {cloudProfile: {}}", "did you mean controllers"),
        ("controllers: {cloudProfiles: {}}", "did you mean cloudProfile"),
        ("controllers: {cloudprofile: {}}", "did you mean cloudProfile"),
        (
            "controllers: {cloudProfile: {kubernetesVersionsManagement: {enabled: true}}}",
            "kubernetesVersionsManagement",
        ),
        ("controllers: {cloudProfile: {machineImageVersionManagment: {}}}", "machineImageVersionManagment"),
    ],
)
def test_a_misspelled_section_is_an_error(text: str, meant: str) -> None:
    """A misspelled section would silently turn version management off."""
    with pytest.raises(InvalidConfiguration, match=meant):
        read_configuration(text)


def test_other_controllers_are_left_to_others() -> None:
    """A Gardener file with settings of other controllers would be refused."""
    text = "controllers: {namespacedCloudProfile: {concurrentSyncs: 5}, shoot: {}, cloudProfile: {concurrentSyncs: 5}}"
    assert read_configuration(text) == VersionManagement()
    assert read_configuration("controllers: {namespacedCloudProfile: {concurrentSyncs: 5}}") == VersionManagement()


@pytest.mark.parametrize(
    "text", ["", "- a", "kind: Deployment", "spec: {}", "controllers: 5", "controllers: {cloudProfile: [1]}", "a: b: c"]
)
def test_no_configuration_is_an_error(text: str) -> None:
    """Any other file would be accepted, or fail without a sentence."""
    with pytest.raises(InvalidConfiguration):
        read_configuration(text)


def test_durations_are_those_of_go() -> None:
    """A duration in a Gardener file, in the notation of Go, would be refused or misread."""
    assert parse_duration("1h30m5s") == timedelta(hours=1, minutes=30, seconds=5)
    assert parse_duration("1.5h") == timedelta(minutes=90)
    assert parse_duration("250ms") == timedelta(milliseconds=250)


days = st.integers(-40, 40).map(lambda number: (NOW + timedelta(days=number)).isoformat())


@st.composite
def versions(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Draw versions with the fields of both API versions, in any order."""
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
    """A second controller, or a restart, would move the dates of all versions further."""
    before = repr(spec)
    once = manage(spec, ON, now)
    again = manage(once.spec, ON, now)
    assert again.changes == () and again.spec == once.spec
    assert repr(spec) == before
    assert (once.spec == spec) == (once.changes == ())


@given(specs)
def test_one_supported_version_per_maintained_minor_and_image(spec: dict[str, Any]) -> None:
    """Policy: a maintained minor would have two supported versions, or an unmaintained one would have one."""
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
    """Admission would refuse the written stages, or a person's date would move."""
    done = manage(spec, ON, NOW)
    for change in done.changes:
        listed = (done.spec["machineImages"][0] if change.key[0] else done.spec["kubernetes"])["versions"]
        item = next(item for item in listed if item["version"] == change.key[1])
        assert "classification" not in item and "expirationDate" not in item
        written = stages(item)
        ranks = [stage.classification.rank for stage in written]
        assert ranks == sorted(set(ranks))
        starts = [stage.start or datetime.min.replace(tzinfo=UTC) for stage in written]
        assert starts == sorted(starts)
        before = next(
            old
            for old in (spec["machineImages"][0] if change.key[0] else spec["kubernetes"])["versions"]
            if old["version"] == change.key[1]
        )
        ends = [stage.start for stage in stages(before) if stage.classification == Classification.EXPIRED]
        assert not ends or ends == [stage.start for stage in written if stage.classification == Classification.EXPIRED]


@given(specs)
def test_the_latest_patch_of_a_minor_is_never_given_an_end(spec: dict[str, Any]) -> None:
    """Policy: Shoots would be forced to the next minor version by a date that no person has set."""
    done = manage(spec, ON, NOW)
    for change in done.changes:
        if change.key[0] or "expires" not in change.what:
            continue
        before = next(item for item in spec["kubernetes"]["versions"] if item["version"] == change.key[1])
        had = [stage for stage in stages(before) if stage.classification == Classification.EXPIRED]
        higher = [
            item
            for item in spec["kubernetes"]["versions"]
            if parse(item["version"]).line == parse(change.key[1]).line
            and parse(item["version"]) > parse(change.key[1])
            and classification_at(item, NOW).is_active
        ]
        assert had or higher


@st.composite
def staged_profiles(draw: st.DrawFn) -> dict[str, Any]:
    """Draw a stored profile with at least one version of Kubernetes and of an image."""
    profile = {**profile_with({}), "apiVersion": f"{GROUP}/{HUB}"}
    listed, images = (draw(versions().filter(bool)) for _ in range(2))
    drawn = {"kubernetes": {"versions": listed}, "machineImages": [{"name": "img", "versions": images}]}
    for item in (*listed, *images):
        if "lifecycle" not in item:
            old = {**profile_with({}), "apiVersion": f"{GROUP}/{OLD}"}
            (stored,) = at_version({**old, "spec": {**old["spec"], "kubernetes": {"versions": [dict(item)]}}}, HUB)[
                "spec"
            ]["kubernetes"]["versions"]
            item.clear()
            item.update(stored)
    return {**profile, "spec": {**profile["spec"], **drawn}}


@given(staged_profiles(), instants)
def test_admission_takes_what_management_writes(profile: dict[str, Any], now: datetime) -> None:
    """Admission would refuse changes of the operator that it allows a person, and the versions would not be managed."""
    spec, server = profile["spec"], ApiServer(now)
    by_person = {**spec, "regions": [*(spec.get("regions") or ()), {"name": "added"}]}
    assume(server.update({**profile, "spec": by_person}, profile).allowed)
    answer = server.update({**profile, "spec": manage(spec, ON, now).spec}, profile)
    assert answer.allowed, answer.refusal
