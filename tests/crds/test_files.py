"""CRDs from manifests: written by people, written by generators, and printed by kubectl."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from restow.crds import CrdError, load, loads
from restow.crds.documents import NotYaml, load_documents

CRD = """\
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.example.dev}
spec:
  group: example.dev
  scope: Namespaced
  names: {kind: Widget, plural: widgets}
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties:
          match:
            type: string
            enum:
            - =
            - "!="
          since: {type: string, default: 2024-01-01}
"""


def match_of(text: str) -> Any:
    (crd,) = loads(text)
    return crd.storage.schema.node["properties"]


def test_a_plain_equals_sign_and_a_date_are_strings() -> None:
    """The YAML 1.1 tags for `=` and dates would refuse the CRDs of Prometheus operator, or pass a date to JSON."""
    found = match_of(CRD)
    assert found["match"]["enum"] == ["=", "!="]
    assert found["since"]["default"] == "2024-01-01"


def test_documents_lists_and_other_kinds(tmp_path: Path) -> None:
    """Users could not load a list exported from a cluster, or a file that bundles CRDs with other kinds."""
    other = CRD.replace("widgets", "gears").replace("Widget", "Gear")
    several = f"---\nkind: ConfigMap\n---\n{CRD}---\n# nothing\n---\n{other}"
    assert [crd.name for crd in loads(several)] == ["widgets.example.dev", "gears.example.dev"]
    listed = {"kind": "List", "items": [{"kind": "Secret"}, *load_documents(f"{CRD}---\n{other}")]}
    (tmp_path / "list.json").write_text(json.dumps(listed))
    assert [crd.name for crd in load(tmp_path / "list.json")] == ["widgets.example.dev", "gears.example.dev"]


def test_folders(tmp_path: Path) -> None:
    """Users could not load a chart's folder, which has files without CRDs and templates that are not YAML."""
    (tmp_path / "below").mkdir()
    (tmp_path / "below" / "crd.yml").write_text(CRD)
    (tmp_path / "a.yaml").write_text("kind: ConfigMap\n")
    assert [crd.name for crd in load(tmp_path)] == ["widgets.example.dev"]
    (tmp_path / "b.yaml").write_text("{{- if .Values.crds }}\na: b\n{{- end }}\n")
    with pytest.raises(CrdError, match=r"b\.yaml cannot be read as YAML \(line 1"):
        load(tmp_path)
    skipped: list[str] = []
    assert len(load(tmp_path, skip=skipped.append)) == 1
    assert len(skipped) == 1


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: 1\nb: {\n", r"crd\.yaml cannot be read as YAML \(line 3: "),
        (
            "kind: ConfigMap\n---\nkind: Secret\n",
            r"crd\.yaml holds no CustomResourceDefinition, only ConfigMap, Secret",
        ),
        (f"# one\n---\n{CRD.replace('storage: true', 'storage: false')}", r"crd\.yaml:3: .*exactly one version"),
        (
            "items: [{kind: Secret},\n\n\n{apiVersion: a/v1, kind: CustomResourceDefinition}]\nkind: List\n",
            r"crd\.yaml:4: the document is not a CustomResourceDefinition of apiextensions\.k8s\.io/v1",
        ),
        (f"{CRD}kind: Again\n", r"crd\.yaml cannot be read as YAML \(line 22: the key kind a second time\)"),
        ("a: .inf\n", r"line 1: a number that JSON does not have"),
        ("a: !secret b\n", r"line 1: a scalar with the tag !secret"),
        ("a: &a [*a]\n", r"line 1: an alias of what it stands in"),
        ("[" * 100_000, r"crd\.yaml cannot be read as YAML \(line 1: it is nested too deeply\)"),
        ("- " * 100_000, r"crd\.yaml cannot be read as YAML \(line 1: it is nested too deeply\)"),
    ],
    ids=lambda value: value[:20],
)
def test_errors_name_file_and_line(tmp_path: Path, text: str, message: str) -> None:
    """Users could not find the mistake in a CRD file of 24,000 lines."""
    file = tmp_path / "crd.yaml"
    file.write_text(text)
    with pytest.raises(CrdError, match=message):
        load(file)


def test_aliases_are_bounded() -> None:
    """Ten lines of aliases would expand to billions of values, and a program that walks them would never return."""
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 10)]
    with pytest.raises(NotYaml, match="its aliases expand to too many values"):
        load_documents("\n".join(lines))


def test_anchors_and_merge_keys() -> None:
    """A merged field would replace a mapping's own one, or a later merge an earlier one, unlike in kubectl."""
    text = "a: &a {x: 1, w: 1}\nb: &b {w: 2, z: 2}\nc: {<<: [*a, *b], z: 3}\nd: *b\n1: y\n'2': 'y'\n"
    assert load_documents(text) == [
        {
            "a": {"x": 1, "w": 1},
            "b": {"w": 2, "z": 2},
            "c": {"x": 1, "w": 1, "z": 3},
            "d": {"w": 2, "z": 2},
            "1": True,
            "2": "y",
        }
    ]
