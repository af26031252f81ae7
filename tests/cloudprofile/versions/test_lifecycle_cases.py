"""Gardener's cases of lifecycle evaluation and of the CloudProfile's status."""

from __future__ import annotations

from datetime import timedelta

import pytest

from restow.cloudprofile.versions.lifecycle import classification_at, next_transition_of, status_of
from tests.cloudprofile.cases import Case, load, now_of, params
from tests.cloudprofile.requests import as_stored, versions_as_stored


@pytest.mark.parametrize("case", params(load("lifecycle", "classification")))
def test_a_version_is_what_its_stages_say(case: Case) -> None:
    """A Shoot would be refused an offered version, or get one that is not offered."""
    (version,) = versions_as_stored([case["input"]["version"]])
    assert classification_at(version, now_of(case)) == case["expected"]["classification"]


@pytest.mark.parametrize("case", params(load("lifecycle", "next transition")))
def test_the_next_transition_is_known(case: Case) -> None:
    """The status would be stale after a stage begins."""
    now = now_of(case)
    at = next_transition_of(as_stored(case["input"]["spec"]), now)
    assert (0 if at is None else (at - now).total_seconds()) == case["expected"]["seconds"]


@pytest.mark.parametrize("case", params(load("lifecycle", "status")))
def test_the_status_lists_every_version_and_the_time_of_the_next_change(case: Case) -> None:
    """The status, which down-conversion reads, would miss a version or change too late."""
    now, spec = now_of(case), as_stored(case["input"]["spec"])
    assert status_of(spec, now) == case["expected"]["status"]
    due = next_transition_of(spec, now)
    assert (timedelta(0) if due is None else due - now).total_seconds() == case["expected"]["requeueAfterSeconds"]
