"""Gardener's cases of validating CloudProfiles, as requests at the version in which they are written."""

from __future__ import annotations

import pytest

from tests.cloudprofile.cases import Case, assert_answer, load, params
from tests.cloudprofile.requests import answer_to, server_of


@pytest.mark.parametrize("case", params(load("cloudprofile_validation")))
def test_a_cloudprofile_is_valid_or_refused_for_its_faults(case: Case) -> None:
    """A broken CloudProfile would be stored, a good one refused, or the wrong field named."""
    given = case["input"]
    new, old = (given["object"], None) if given["group"] == "create" else (given["new"], given["old"])
    assert_answer(answer_to(server_of(case), "CloudProfile", new, old), case["expected"])
