"""What an author outside of this repository writes: a project of three files, tested by its own pytest."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

CRD = """
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: lamps.outside.example.dev}
spec:
  group: outside.example.dev
  scope: Namespaced
  names: {kind: Lamp, plural: lamps}
  versions:
  - name: v2
    served: true
    storage: true
    schema:
      openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {brightness: {type: integer}}}}}
  - name: v1
    served: true
    storage: false
    schema:
      openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {dim: {type: integer}}}}}
"""

CONVERSIONS = """
from pathlib import Path

from restow import crds
from restow.conversion import Registry, rules

[crd] = crds.load(Path(__file__).with_name("crd.yaml"))
registry = Registry()
lamp = registry.kind("outside.example.dev", "Lamp", hub="v2")


@lamp.spoke("v1")
def v1():
    return [RULE]


graph = registry.freeze([crd])
"""

TESTS = """
from pathlib import Path

import pytest

from conversions import crd, graph
from restow.conversion.testing import check_golden, golden_reviews, roundtrip_suite

TestLamp = roundtrip_suite(graph, crd)


@pytest.mark.parametrize("review", golden_reviews(Path(__file__).parent / "reviews"), ids=lambda path: path.stem)
def test_reviews(review):
    check_golden(graph, review)
"""

SOUND = 'rules.pair("spec.dim", "spec.brightness", up=lambda v: -v, down=lambda v: -v)'
WRONG = 'rules.pair("spec.dim", "spec.brightness", up=lambda v: v // 2, down=lambda v: v * 2)'


def project(folder: Path, rule: str, *, shown: int) -> None:
    """Write the project; ``shown`` is what its recorded review expects of a dim of 4."""
    (folder / "crd.yaml").write_text(CRD)
    (folder / "conversions.py").write_text(CONVERSIONS.replace("RULE", rule))
    (folder / "test_conversions.py").write_text(TESTS)
    (folder / "reviews").mkdir()
    old = {"apiVersion": "outside.example.dev/v1", "kind": "Lamp", "metadata": {"name": "a"}, "spec": {"dim": 4}}
    new = {**old, "apiVersion": "outside.example.dev/v2", "spec": {"brightness": shown}}
    head = {"kind": "ConversionReview", "apiVersion": "apiextensions.k8s.io/v1"}
    request = {"uid": "1", "desiredAPIVersion": "outside.example.dev/v2", "objects": [old]}
    response = {"uid": "1", "convertedObjects": [new], "result": {"status": "Success"}}
    (folder / "reviews" / "lamp.request.json").write_text(json.dumps({**head, "request": request}))
    (folder / "reviews" / "lamp.response.json").write_text(json.dumps({**head, "response": response}))


def run_pytest(folder: Path) -> tuple[int, str]:
    """Run the project's tests in a process of their own, as the author would."""
    command = [sys.executable, "-m", "pytest", "-q", "-rf", "-p", "no:cacheprovider"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120, check=False)
    return done.returncode, done.stdout + done.stderr


def test_a_sound_project_passes(tmp_path: Path) -> None:
    """One line for the laws and three for recorded reviews are all that an author needs."""
    project(tmp_path, SOUND, shown=-4)
    status, output = run_pytest(tmp_path)
    assert status == 0, output
    assert "15 passed" in output


@pytest.mark.parametrize(
    ("rule", "shown", "words"),
    [
        (WRONG, 2, ["test_round_trip_from_v1", "without declaring it", "field:   /spec/dim: v1 1"]),
        (SOUND, 4, ["test_reviews[lamp.request]", "/response/convertedObjects/0/spec/brightness"]),
    ],
    ids=["wrong inverse", "another answer"],
)
def test_a_broken_project_fails(tmp_path: Path, rule: str, shown: int, words: list[str]) -> None:
    """A broken rule fails the author's run with what is wrong and how to see it again; else it would be shipped."""
    project(tmp_path, rule, shown=shown)
    status, output = run_pytest(tmp_path)
    assert status == 1, output
    assert [word for word in words if word not in output] == [], output
