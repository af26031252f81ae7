"""CloudProfiles at v1beta1, and the meaning of their plain fields: the special cases of the design's section 7."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.cloudprofile.conversions.family import (
    STASH,
    V1BETA1,
    at_time,
    down,
    moment,
    profile,
    spec_with,
    stage,
    up,
    without_stash,
)
from tests.cloudprofile.manifests import manifest

GEP32 = manifest("""
apiVersion: core.gardener.cloud/v1beta2
kind: CloudProfile
metadata:
  name: local
spec:
  kubernetes:
    versions:
    - version: 1.27.0
    - version: 1.28.0
      lifecycle:
      - classification: preview
      - classification: supported
        startTime: "2024-12-01T00:00:00Z"
    - version: 1.18.0
      lifecycle:
      - classification: supported
      - classification: deprecated
        startTime: "2022-01-01T00:00:00Z"
      - classification: expired
        startTime: "2022-06-01T00:00:00Z"
    - version: 2.0.0
      lifecycle:
      - classification: preview
        startTime: "2036-02-07T06:28:16Z"
status:
  kubernetes:
    versions:
    - version: 1.27.0
      classification: supported
    - version: 1.28.0
      classification: supported
    - version: 1.18.0
      classification: expired
    - version: 2.0.0
      classification: unavailable
""")


def test_the_example_of_the_proposal() -> None:
    """A client of v1beta1 would read GEP-32's own object differently from the proposal."""
    shown = down(GEP32)
    assert shown["spec"]["kubernetes"]["versions"] == [
        {"version": "1.27.0"},
        {"version": "1.28.0", "classification": "supported"},
        {"version": "1.18.0", "classification": "deprecated", "expirationDate": "2022-06-01T00:00:00Z"},
    ]
    assert shown["status"] == GEP32["status"], "the status lists what the spec hides"
    assert up(shown) == GEP32


def test_the_stash_has_what_cannot_be_said_and_nothing_else() -> None:
    """Every client would send a large or changing stash with more than the data that v1beta1 lacks fields for."""
    text = down(GEP32)["metadata"]["annotations"][STASH]
    items = json.loads(text)["kept"]["v1beta2"][".spec.kubernetes.versions"]["items"]
    assert [each.get("item", each.get("hidden", {}).get("version")) for each in items] == [
        ["1.28.0"],
        ["1.18.0"],
        "2.0.0",
    ]


CORNERS: list[Any] = [
    pytest.param(
        [stage("supported"), stage("expired", "2025-01-01")],
        "expired",
        {"classification": "supported", "expirationDate": "2025-01-01T00:00:00Z"},
        id="expired-is-the-stage-before-it",
    ),
    pytest.param(
        [stage("preview", "2024-01-01"), stage("supported", "2024-02-01"), stage("expired", "2025-01-01")],
        "expired",
        {"classification": "supported", "expirationDate": "2025-01-01T00:00:00Z"},
        id="expired-is-the-last-stage-before-it",
    ),
    pytest.param(
        [stage("expired", "2025-01-01")],
        "expired",
        {"expirationDate": "2025-01-01T00:00:00Z"},
        id="expired-alone-is-the-date-only",
    ),
    pytest.param(
        [stage("deprecated"), stage("expired")],
        "expired",
        {"classification": "deprecated", "expirationDate": "1970-01-01T00:00:00Z"},
        id="expired-without-a-start-is-the-epoch",
    ),
    pytest.param([stage("expired")], None, {"expirationDate": "1970-01-01T00:00:00Z"}, id="expired-since-ever"),
    pytest.param(
        [stage("unavailable"), stage("expired", "2025-01-01")],
        "expired",
        {"expirationDate": "2025-01-01T00:00:00Z"},
        id="unavailable-is-never-shown",
    ),
    pytest.param(
        [stage("preview"), stage("supported", "2025-01-01")],
        None,
        {"classification": "preview"},
        id="before-the-first-reconcile-the-leading-stage",
    ),
    pytest.param(
        [stage("preview"), stage("supported"), stage("deprecated", "2025-01-01")],
        None,
        {"classification": "supported"},
        id="of-leading-stages-the-last",
    ),
    pytest.param(
        [stage("preview"), stage("supported", "2025-01-01")],
        "supported",
        {"classification": "supported"},
        id="what-the-status-says",
    ),
    pytest.param(
        [stage("preview"), stage("supported", "2025-01-01")],
        "deprecated",
        {"classification": "preview"},
        id="a-status-older-than-the-lifecycle",
    ),
    pytest.param(
        [stage("preview"), stage("supported"), stage("expired", "2025-01-01")],
        "preview",
        {"classification": "supported", "expirationDate": "2025-01-01T00:00:00Z"},
        id="a-status-that-no-time-can-make-true",
    ),
    pytest.param(
        [stage("preview"), stage("expired", "2025-01-01")],
        "unavailable",
        {"classification": "preview", "expirationDate": "2025-01-01T00:00:00Z"},
        id="unavailable-that-no-time-can-make-true",
    ),
    pytest.param([stage("preview", "2025-01-01")], None, None, id="scheduled-before-the-first-reconcile-is-hidden"),
    pytest.param([stage("preview", "2025-01-01")], "unavailable", None, id="unavailable-is-hidden"),
    pytest.param(
        [stage("unavailable"), stage("preview", "2025-01-01")], None, None, id="unavailable-written-is-hidden"
    ),
    pytest.param([stage("expired", "2025-01-01")], "unavailable", None, id="only-an-expiration-to-come-is-hidden"),
    pytest.param(
        [stage("preview", "2025-01-01")], "preview", {"classification": "preview"}, id="hidden-until-it-starts"
    ),
    pytest.param([], None, {}, id="no-stages"),
]


@pytest.mark.parametrize(("lifecycle", "status", "fields"), CORNERS)
def test_what_is_shown(lifecycle: Any, status: str | None, fields: dict[str, Any] | None) -> None:
    """v1beta1 would show a wrong classification in a special case, or a round trip would lose the lifecycle."""
    item, seen = {"version": "1.28.0", "lifecycle": lifecycle}, [{"version": "1.28.0", "classification": status}]
    spec = {"kubernetes": {"versions": [item]}, "machineImages": [{"name": "suse", "versions": [item]}]}
    stored = profile(spec)
    if status is not None:
        others = {"name": "other", "versions": [{"version": "1.28.0", "classification": "deprecated"}]}
        stored["status"] = {
            "kubernetes": {"versions": seen},
            "machineImages": [others, {"name": "suse", "versions": seen}],
        }
    shown = down(stored)
    expected = [] if fields is None else [{"version": "1.28.0", **fields}]
    assert shown["spec"]["kubernetes"]["versions"] == expected
    assert shown["spec"]["machineImages"] == [{"name": "suse", "versions": expected}]
    assert up(shown) == stored


PLAIN: list[Any] = [
    pytest.param({}, None, id="nothing"),
    pytest.param({"classification": "preview"}, [stage("preview")], id="classification"),
    pytest.param(
        {"classification": "deprecated", "expirationDate": "2025-01-01T00:00:00Z"},
        [stage("deprecated"), stage("expired", "2025-01-01")],
        id="both",
    ),
]


@pytest.mark.parametrize(("fields", "lifecycle"), PLAIN)
def test_what_the_old_fields_say_all_of_needs_no_stash(fields: dict[str, Any], lifecycle: Any) -> None:
    """The many objects with nothing but plain fields would grow by a stash."""
    old = profile(spec_with(v1_28_0=fields), version=V1BETA1)
    new = up(old)
    assert new["spec"] == spec_with(v1_28_0={} if lifecycle is None else lifecycle)
    assert (new["metadata"], down(new)) == ({"name": "p"}, old)


def test_a_date_alone_means_supported_until_then() -> None:
    """A version of v1beta1 with only an expiration would become unavailable, as a lone ``expired`` stage makes it."""
    old = profile(spec_with(v1_28_0={"expirationDate": "2025-01-01T00:00:00Z"}), version=V1BETA1)
    new = up(old)
    assert new["spec"] == spec_with(v1_28_0=[stage("supported"), stage("expired", "2025-01-01")])
    assert down(new) == old, "and is read as it was written"
    assert down(without_stash(new))["spec"]["kubernetes"]["versions"][0]["classification"] == "supported"


def test_a_manifest_at_the_wrong_version_is_lifted() -> None:
    """``restow convert`` could not lift GEP-32's examples, or v1beta1 would keep showing the refused field."""
    assert up({**GEP32, "apiVersion": V1BETA1}) == GEP32


def test_what_contradicts_itself_comes_back_to_be_refused() -> None:
    """Plain fields that contradict a lifecycle would vanish instead of being refused."""
    wrong = profile(
        spec_with(v1_28_0={"classification": "preview", "lifecycle": [stage("supported")]}), version=V1BETA1
    )
    new = up(wrong)
    assert new["spec"] == spec_with(v1_28_0=[stage("supported")])
    assert down(new) == wrong


def test_time_passes_through_the_status_alone() -> None:
    """v1beta1 would not show the stage that the reconciler wrote to the status."""
    spec = spec_with(
        v1_28_0=[
            stage("preview", "2025-01-01"),
            stage("supported", "2025-02-01"),
            stage("deprecated", "2025-03-01"),
            stage("expired", "2025-04-01"),
        ]
    )
    seen = []
    for day in ("2024-12-31", "2025-01-01", "2025-02-01", "2025-03-01", "2025-04-01", "2026-01-01"):
        stored = at_time(profile(spec), moment(day))
        shown = down(stored)
        assert up(shown) == stored
        seen.append([version.get("classification") for version in shown["spec"]["kubernetes"]["versions"]])
    assert seen == [[], ["preview"], ["supported"], ["deprecated"], ["deprecated"], ["deprecated"]]


def test_hundreds_of_rich_versions_fit_into_the_stash() -> None:
    """A large landscape's profile would exceed the stash's budget and lose stages."""
    starts = {"supported": "2025-01-01", "deprecated": "2025-06-01", "expired": "2025-09-01"}
    full = [stage("preview"), *(stage(name, start) for name, start in starts.items())]
    versions = [{"version": f"1.{minor}.{patch}", "lifecycle": full} for minor in range(20) for patch in range(10)]
    images = [{"name": f"image-{number}", "versions": versions} for number in range(2)]
    kubernetes = {"versions": versions}
    stored = at_time(profile({"kubernetes": kubernetes, "machineImages": images}), moment("2025-02-01"))
    shown = down(stored)
    assert up(shown) == stored
