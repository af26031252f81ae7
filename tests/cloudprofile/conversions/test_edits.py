"""Every row of the design's table "Edits through v1beta1", with the stash sent back and with the stash lost."""

from __future__ import annotations

from typing import Any

import pytest

from restow.cloudprofile.conversions import edit_warnings
from tests.cloudprofile.conversions.family import (
    V1BETA1,
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

NOW = moment("2025-02-01")
FULL = [
    stage("preview"),
    stage("supported", "2025-01-01"),
    stage("deprecated", "2025-06-01"),
    stage("expired", "2025-09-01"),
]
SHOWN = {"classification": "supported", "expirationDate": "2025-09-01T00:00:00Z"}
SHORT = [stage("preview"), stage("deprecated", "2025-06-01")]
HIDDEN = [stage("preview", "2036-02-07"), stage("expired", "2037-01-01")]
UNAVAILABLE = [stage("unavailable")]
ENDING = [*UNAVAILABLE, stage("expired", "2037-01-01")]

SPEC = spec_with(
    v1_27_0={}, v1_28_0=FULL, v1_29_0=SHORT, v2_0_0=HIDDEN, v1_30_0=FULL, v2_1_0=UNAVAILABLE, v2_2_0=ENDING
)
STORED = at_time(profile(SPEC), NOW)


def day(text: str) -> str:
    return f"{text}T00:00:00Z"


ROWS: list[Any] = [
    pytest.param("1.28.0", SHOWN, FULL, [], id="what-was-shown"),
    pytest.param(
        "1.28.0",
        {**SHOWN, "classification": "preview"},
        FULL,
        [
            "Kubernetes 1.28.0: classification stays supported, by its lifecycle; change lifecycle at v1beta2",
        ],
        id="a-stage-of-the-past",
    ),
    pytest.param(
        "1.28.0",
        {**SHOWN, "classification": "deprecated"},
        FULL,
        [
            "Kubernetes 1.28.0: classification stays supported, by its lifecycle; change lifecycle at v1beta2",
        ],
        id="a-stage-of-the-future",
    ),
    pytest.param(
        "1.28.0", {"expirationDate": SHOWN["expirationDate"]}, FULL, [], id="no-classification-means-supported"
    ),
    pytest.param(
        "1.29.0",
        {"classification": "supported"},
        [stage("supported"), stage("deprecated", "2025-06-01")],
        [],
        id="a-classification-that-it-lacks-leads",
    ),
    pytest.param(
        "1.29.0",
        {},
        [stage("supported"), stage("deprecated", "2025-06-01")],
        [],
        id="none-means-supported-that-it-lacks",
    ),
    pytest.param(
        "1.29.0",
        {"classification": "preview", "expirationDate": day("2026-01-01")},
        [*SHORT, stage("expired", "2026-01-01")],
        [],
        id="expiration-added",
    ),
    pytest.param(
        "1.29.0",
        {"classification": "preview", "expirationDate": day("2025-05-01")},
        [stage("preview"), stage("expired", "2025-05-01")],
        ["Kubernetes 1.29.0: set aside until expirationDate is later or removed: deprecated"],
        id="expiration-added-before-a-stage",
    ),
    pytest.param(
        "1.29.0",
        {"classification": "preview", "expirationDate": day("2025-06-01")},
        [*SHORT, stage("expired", "2025-06-01")],
        [],
        id="a-stage-that-starts-at-that-time-stays",
    ),
    pytest.param(
        "1.28.0",
        {**SHOWN, "expirationDate": day("2025-12-01")},
        [*FULL[:3], stage("expired", "2025-12-01")],
        [],
        id="expiration-moved",
    ),
    pytest.param(
        "1.28.0",
        {**SHOWN, "expirationDate": day("2025-03-01")},
        [*FULL[:2], stage("expired", "2025-03-01")],
        ["Kubernetes 1.28.0: set aside until expirationDate is later or removed: deprecated"],
        id="expiration-moved-before-a-stage",
    ),
    pytest.param("1.28.0", {"classification": "supported"}, FULL[:3], [], id="expiration-removed"),
    pytest.param(
        "1.29.0",
        {"classification": "supported", "expirationDate": day("2025-05-01")},
        [stage("supported"), stage("expired", "2025-05-01")],
        ["Kubernetes 1.29.0: set aside until expirationDate is later or removed: deprecated"],
        id="both",
    ),
    pytest.param(
        "2.0.0",
        {"classification": "preview"},
        HIDDEN,
        ["Kubernetes 2.0.0 stays hidden: no stage of its lifecycle has started; change lifecycle at v1beta2"],
        id="a-hidden-version-in-a-pipelines-file",
    ),
    pytest.param(
        "2.0.0",
        {"classification": "supported"},
        [stage("supported"), stage("expired", "2037-01-01")],
        [],
        id="a-hidden-version-with-a-classification-that-it-lacks",
    ),
    pytest.param(
        "2.0.0",
        {"expirationDate": day("2036-06-01")},
        [stage("supported"), stage("expired", "2036-06-01")],
        [],
        id="a-hidden-version-with-a-date-alone",
    ),
    pytest.param(
        "2.1.0",
        {},
        UNAVAILABLE,
        ["Kubernetes 2.1.0 stays hidden: no stage of its lifecycle has started; change lifecycle at v1beta2"],
        id="a-version-that-is-unavailable-for-good",
    ),
    pytest.param(
        "2.1.0",
        {"classification": "supported"},
        [stage("supported")],
        [],
        id="a-version-that-is-unavailable-for-good-with-a-classification",
    ),
    pytest.param(
        "2.2.0",
        {},
        ENDING,
        ["Kubernetes 2.2.0 stays hidden: no stage of its lifecycle has started; change lifecycle at v1beta2"],
        id="a-version-that-is-unavailable-until-it-expires",
    ),
    pytest.param(
        "2.2.0",
        {"expirationDate": day("2036-06-01")},
        [stage("supported"), stage("expired", "2036-06-01")],
        [],
        id="a-version-that-is-unavailable-until-it-expires-with-a-date",
    ),
    pytest.param("1.31.0", {}, None, [], id="a-version-added"),
    pytest.param(
        "1.31.0",
        {"classification": "preview", "expirationDate": day("2027-01-01")},
        [stage("preview"), stage("expired", "2027-01-01")],
        [],
        id="a-version-added-with-fields",
    ),
    pytest.param(
        "1.31.0",
        {"expirationDate": day("2027-01-01")},
        [stage("supported"), stage("expired", "2027-01-01")],
        [],
        id="a-version-added-with-a-date",
    ),
]


def edited(stored: dict[str, Any], version: str, fields: dict[str, Any] | None) -> dict[str, Any]:
    """Return the object that a client of v1beta1 sends after it read one and changed or removed one version."""
    shown = down(stored)
    versions = [each for each in shown["spec"]["kubernetes"]["versions"] if each["version"] != version]
    position = next(
        (index for index, each in enumerate(shown["spec"]["kubernetes"]["versions"]) if each["version"] == version),
        len(versions),
    )
    if fields is not None:
        versions.insert(position, {"version": version, **fields})
    return {**shown, "spec": {**shown["spec"], "kubernetes": {"versions": versions}}}


def stages_in(obj: dict[str, Any]) -> dict[str, Any]:
    return {version["version"]: version.get("lifecycle") for version in obj["spec"]["kubernetes"]["versions"]}


@pytest.mark.parametrize(("version", "fields", "lifecycle", "warnings"), ROWS)
def test_an_edit(version: str, fields: dict[str, Any], lifecycle: Any, warnings: list[str]) -> None:
    """An edit through v1beta1 would have another result than the documented one, or change other versions."""
    sent = edited(STORED, version, fields)
    expected = {**stages_in(STORED), version: lifecycle}
    assert stages_in(up(sent)) == expected
    assert stages_in(replaced(STORED, without_stash(sent))) == expected
    assert edit_warnings(conversions(), STORED, sent) == warnings
    assert edit_warnings(conversions(), STORED, without_stash(sent)) == warnings
    assert all(len(warning) < 120 for warning in warnings), "longer ones may be cut off"


@pytest.mark.parametrize("name", ["1.27.0", "1.28.0", "1.30.0"])
def test_a_version_removed(name: str) -> None:
    """Removing a version at v1beta1 would have no effect, or would remove a hidden version too."""
    sent = edited(STORED, name, None)
    expected = {version: stages for version, stages in stages_in(STORED).items() if version != name}
    assert stages_in(up(sent)) == expected
    assert stages_in(replaced(STORED, without_stash(sent))) == expected
    assert edit_warnings(conversions(), STORED, sent) == []


@pytest.mark.parametrize("kubernetes", [{"versions": []}, {}])
def test_hidden_versions_outlive_the_list(kubernetes: dict[str, Any]) -> None:
    """A typed client that omits an empty list would delete the hidden versions."""
    stored = at_time(profile(spec_with(v2_0_0=HIDDEN)), NOW)
    shown = down(stored)
    assert shown["spec"] == {"kubernetes": {"versions": []}}
    sent = {**shown, "spec": {"kubernetes": kubernetes}}
    assert up(sent) == stored
    assert replaced(stored, without_stash(sent)) == stored


def test_hidden_versions_keep_their_places() -> None:
    """Lists would be reordered without a reason, which shows up in every diff and moves the ownership of items."""
    spec = spec_with(v1_27_0={}, v2_0_0=HIDDEN, v1_28_0={}, v2_1_0=HIDDEN, v1_29_0={})
    stored = at_time(profile(spec), NOW)
    assert [each["version"] for each in down(stored)["spec"]["kubernetes"]["versions"]] == [
        "1.27.0",
        "1.28.0",
        "1.29.0",
    ]
    sent = edited(stored, "1.29.0", None)
    assert list(stages_in(up(sent))) == ["1.27.0", "2.0.0", "1.28.0", "2.1.0"]


def test_an_edit_of_something_else_leaves_stages_alone() -> None:
    """Most edits change other fields; each of them would change or lose stages."""
    shown = down(STORED)
    sent = {**shown, "spec": {**shown["spec"], "caBundle": "bundle"}}
    expected = {**STORED, "spec": {**STORED["spec"], "caBundle": "bundle"}}
    assert up(sent) == expected
    assert replaced(STORED, without_stash(sent)) == expected


def test_an_edit_of_an_image_version() -> None:
    """Edits of image versions would lose stages, or their warnings would not name the image."""
    images = [
        {"name": "suse", "versions": [{"version": "1", "lifecycle": FULL}, {"version": "2", "lifecycle": HIDDEN}]}
    ]
    stored = at_time(profile({**spec_with(), "machineImages": images}), NOW)
    shown = down(stored)
    assert shown["spec"]["machineImages"] == [{"name": "suse", "versions": [{"version": "1", **SHOWN}]}]
    moved = {"version": "1", "classification": "preview", "expirationDate": day("2025-03-01")}
    sent = {**shown, "spec": {**shown["spec"], "machineImages": [{"name": "suse", "versions": [moved]}]}}
    became = [*FULL[:2], stage("expired", "2025-03-01")]
    wanted = [{"name": "suse", "versions": [{"version": "1", "lifecycle": became}, images[0]["versions"][1]]}]
    assert up(sent)["spec"]["machineImages"] == wanted
    assert replaced(stored, without_stash(sent))["spec"]["machineImages"] == wanted
    assert edit_warnings(conversions(), stored, sent) == [
        "suse 1: classification stays supported, by its lifecycle; change lifecycle at v1beta2",
        "suse 1: set aside until expirationDate is later or removed: deprecated",
    ]


def test_an_image_removed_takes_its_hidden_versions_along() -> None:
    """A user who removes an image would keep its hidden versions."""
    images = [{"name": "suse", "versions": [{"version": "2", "lifecycle": HIDDEN}]}]
    stored = at_time(profile({**spec_with(), "machineImages": images}), NOW)
    shown = down(stored)
    assert shown["spec"]["machineImages"] == [{"name": "suse", "versions": []}]
    sent = {**shown, "spec": {**shown["spec"], "machineImages": []}}
    assert replaced(stored, without_stash(sent))["spec"]["machineImages"] == []


def test_warnings_are_of_the_stash_that_was_sent() -> None:
    """A user who restores a backup would be warned of the stages that it overwrites instead of the result."""
    saved = [FULL[0], *FULL[2:]]
    versions = [{"version": "1.28.0", "lifecycle": saved}]
    backup = down(profile({"kubernetes": {"versions": versions}}))
    assert stages_in(up(backup)) == {"1.28.0": saved}
    assert edit_warnings(conversions(), STORED, backup) == []
    assert edit_warnings(conversions(), STORED, without_stash(backup)) != []


def test_there_are_no_warnings_for_others() -> None:
    """Clients of v1beta2, and clients of Shoots, would get warnings about lifecycles that their edits do not affect."""
    shoot = {"apiVersion": V1BETA1, "kind": "Shoot", "metadata": {"name": "s"}, "spec": {"cloudProfileName": "p"}}
    assert edit_warnings(conversions(), up(shoot), shoot) == []
    assert edit_warnings(conversions(), STORED, STORED) == []


@pytest.mark.parametrize(
    "lifecycle", [None, "x", [1], [{}], [{"classification": 1, "startTime": []}], [{"startTime": "?"}]]
)
def test_nothing_fails_whatever_a_lifecycle_is(lifecycle: Any) -> None:
    """One object with a broken lifecycle would make every LIST fail, because the server validates only later."""
    stored = profile(spec_with(v1_28_0={"lifecycle": lifecycle}))
    up(down(stored))
    for fields in (
        {},
        {"classification": "nonsense", "expirationDate": "x"},
        {"classification": [], "expirationDate": 3},
    ):
        up(edited(stored, "1.28.0", fields))
        replaced(stored, without_stash(edited(stored, "1.28.0", fields)))
