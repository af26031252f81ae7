"""``restow timeline``: the documented example, findings and their exit codes, wrong use."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.restow.commandline import restow
from tests.upstream.files import cluster_api

POLICY = Path(__file__).parents[2] / "docs" / "examples" / "timeline" / "cluster-api.yaml"


def test_the_example():
    """The documentation's example shows the issue's own tables, and finds nothing."""
    ran = restow("timeline", "-f", POLICY)
    assert (ran.code, ran.err) == (0, "")
    assert ["v1.14", "August 26", "Served: false", "Served: true, Storage", "v1beta1 unserved"] in ran.rows


def test_real_manifests():
    """Cluster API's CRDs, which have v1beta1 served and v1beta2 stored, are right in v1.13 and late in v1.16."""
    crds = cluster_api()
    assert restow("timeline", "-f", POLICY, f"v1.13={crds}").code == 0
    late = restow("timeline", "-f", POLICY, f"v1.16={crds}", "-o", "json")
    assert late.code == 1
    assert {(each["level"], each["version"]) for each in late.json["findings"]} == {("due", "v1beta1")}
    assert len(late.json["findings"]) == len(list(crds.glob("*.yaml")))
    assert {"version": "v1beta1", "step": "removed", "release": "v1.18"} in late.json["steps"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["timeline"], "Missing option '-f'"),
        (["timeline", "-f", POLICY, "--all"], "--all and --at RELEASE belong together"),
        (["timeline", "-f", POLICY, "somewhere"], "is no RELEASE=FILE"),
        (["timeline", "-f", POLICY, f"v9={POLICY.parent}"], "holds no CustomResourceDefinition"),
        (["timeline", "-f", POLICY, "--since", "v9"], "v9 is no release of the policy"),
        (["timeline", "-f", __file__], "cannot be read as YAML"),
    ],
)
def test_wrong_use(arguments, said):
    """Exit code 2 and a sentence; a timeline of something else would be believed."""
    ran = restow(*arguments)
    assert ran.code == 2
    assert said in ran.err
