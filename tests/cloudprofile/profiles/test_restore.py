"""Restoring a profile from a backup that was valid when it was made."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from restow.cloudprofile.versions.lifecycle import parse_time
from tests.cloudprofile.conversions.family import stage
from tests.cloudprofile.served import HUB, OLD, Answer, ApiServer, at_version
from tests.cloudprofile.validation.test_supported import profile

THEN, NOW = parse_time("2025-03-01T00:00:00Z"), parse_time("2026-03-01T00:00:00Z")


def with_bastion(*images: dict[str, Any]) -> dict[str, Any]:
    made = profile(HUB, images=images)
    made["spec"]["bastion"] = {"machineImage": {"name": "ubuntu", "version": "1.0.0"}}
    return made


GROWN_OLD = {
    "a preview that is no longer the latest": profile(
        HUB,
        {"version": "1.31.5", "lifecycle": [stage("preview")]},
        {"version": "1.31.6", "lifecycle": [stage("supported", "2026-01-01")]},
    ),
    "a supported version above a preview": profile(
        HUB,
        {"version": "1.31.5", "lifecycle": [stage("supported"), stage("deprecated", "2025-12-01")]},
        {"version": "1.31.6", "lifecycle": [stage("unavailable"), stage("preview", "2026-02-01")]},
        {"version": "1.31.7", "lifecycle": [stage("preview", "2025-12-01"), stage("supported", "2026-02-01")]},
    ),
    "an expired version": profile(
        HUB,
        {"version": "1.30.1", "lifecycle": [stage("supported"), stage("expired", "2026-01-01")]},
        {"version": "1.31.0"},
    ),
    "the image of the bastion": with_bastion(
        {"version": "1.0.0", "lifecycle": [stage("supported"), stage("deprecated", "2026-01-01")]}, {"version": "2.0.0"}
    ),
}


def restored(backup: dict[str, Any]) -> Answer:
    return ApiServer(NOW).create(backup)


@pytest.mark.parametrize("at", [OLD, HUB])
@pytest.mark.parametrize("made", GROWN_OLD.values(), ids=GROWN_OLD)
def test_what_time_alone_brings_about_only_warns(made: dict[str, Any], at: str) -> None:
    """After a disaster a backup would be refused because of rules that only time has broken."""
    first = ApiServer(THEN).create(made)
    assert first.allowed, first.refusal
    answer = restored(at_version(first.at(HUB), at))
    assert answer.allowed, answer.refusal
    assert answer.warnings
    assert answer.at(HUB)["spec"] == first.at(HUB)["spec"]


REFUSED = {
    "a preview that is not the latest": (
        profile(
            HUB,
            {"version": "1.31.5", "lifecycle": [stage("preview")]},
            {"version": "1.31.6", "lifecycle": [stage("supported")]},
        ),
        "must be the latest patch version",
    ),
    "the image of the bastion": (
        with_bastion({"version": "1.0.0", "lifecycle": [stage("deprecated")]}, {"version": "2.0.0"}),
        "no image with classification supported",
    ),
    "two supported versions": (
        profile(
            HUB, *({"version": f"1.31.{patch}", "lifecycle": [stage("supported", "2020-01-01")]} for patch in (1, 2))
        ),
        "must not overlap",
    ),
}


@pytest.mark.parametrize(("made", "why"), REFUSED.values(), ids=REFUSED)
def test_what_was_never_valid_is_refused(made: dict[str, Any], why: str) -> None:
    """A restore would admit a profile that no other request can create."""
    answer = restored(made)
    assert not answer.allowed
    assert why in answer.refusal


def test_an_update_is_held_against_the_rules_of_today() -> None:
    """An update that adds a version against the rules would only cause a warning."""
    old = profile(HUB, {"version": "1.31.5", "lifecycle": [stage("preview")]})
    new = copy.deepcopy(old)
    new["spec"]["kubernetes"]["versions"].append({"version": "1.31.6", "lifecycle": [stage("supported", "2026-02-01")]})
    answer = ApiServer(NOW).update(new, old)
    assert "must be lower than all preview versions" in answer.refusal
