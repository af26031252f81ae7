"""Gardener's cases of merging a NamespacedCloudProfile into its parent, and of the form of capabilities."""

from __future__ import annotations

from typing import Any

import pytest

from restow.cloudprofile.capabilities import definitions_of, in_form_of
from restow.cloudprofile.profiles.rendering import render
from tests.cloudprofile.cases import Case, load, params


@pytest.mark.parametrize("case", params(load("rendering", "merge")))
def test_a_namespacedcloudprofile_renders(case: Case) -> None:
    """Shoots would be offered versions, images or machines that neither profile says."""
    given = case["input"]
    rendered = render(given["parent"]["spec"], given["namespacedCloudProfile"]["spec"])
    assert rendered == case["expected"]["cloudProfileSpec"]


@pytest.mark.parametrize("case", params(load("rendering", "form")))
def test_a_project_may_use_the_other_form_of_architectures(case: Case) -> None:
    """An image of a project would fit no machine of its parent's, for being described in the other form."""
    given = case["input"]
    changed = in_form_of(given["spec"], definitions_of(given))
    assert _without_order(changed, case) == _without_order(case["expected"]["spec"], case)


def _without_order(spec: dict[str, Any], case: Case) -> dict[str, Any]:
    if "unordered" not in case["expected"]:
        return spec
    images = [
        {**image, "versions": [{**v, "architectures": sorted(v.get("architectures") or ())} for v in image["versions"]]}
        for image in spec["machineImages"]
    ]
    return {**spec, "machineImages": images}
