"""Gardener's cases of validating NamespacedCloudProfiles, as requests at the version in which they are written."""

from __future__ import annotations

from typing import Any

import pytest

from tests.cloudprofile.cases import Case, assert_answer, load, params
from tests.cloudprofile.requests import answer_to, server_of


@pytest.mark.parametrize("case", params(load("namespaced_validation")))
def test_a_namespacedcloudprofile_is_valid_or_refused_for_its_faults(case: Case) -> None:
    """A broken NamespacedCloudProfile would be stored, a good one refused, or the wrong field named."""
    given = case["input"]
    new, old = (given["new"], given["old"]) if given["group"] == "update" else (given["object"], None)
    parents = [given["parent"]] if "parent" in given else parents_of(new)
    server = server_of(case, {"cloudProfiles": parents})
    assert_answer(answer_to(server, "NamespacedCloudProfile", new, old), case["expected"])


def parents_of(profile: dict[str, Any]) -> list[dict[str, Any]]:
    """Return a parent that allows the entries of a case's profile, which comes without one.

    The parent has the overridden Kubernetes versions, and other versions of the images.
    """
    spec = profile.get("spec") or {}
    name = (spec.get("parent") or {}).get("name")
    if not name:
        return []
    numbers = dict.fromkeys(version["version"] for version in (spec.get("kubernetes") or {}).get("versions") or ())
    images = dict.fromkeys(image["name"] for image in spec.get("machineImages") or () if image.get("name"))
    return [
        {
            "metadata": {"name": name},
            "spec": {
                "kubernetes": {"versions": [{"version": number} for number in numbers or ["1.0.0"]]},
                "machineImages": [{"name": image, "versions": [{"version": "0.0.1"}]} for image in images],
            },
        }
    ]
