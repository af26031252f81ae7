"""Wrong use, told before any server is asked: contradicting flags, and files that hold no CRD."""

from __future__ import annotations

import json
from pathlib import Path
from textwrap import indent

import pytest

from restow.cli.options import crd_names
from restow.crds.documents import load_documents
from tests.restow.commandline import restow

CRD = "widgets.example.com"
MANIFEST = f"""\
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {{name: {CRD}}}
spec:
  group: example.com
  scope: Namespaced
  names: {{plural: widgets, kind: Widget}}
  versions: [{{name: v1, served: true, storage: true}}]
"""


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["migrate"], "name the CRDs, give -f FILE, or --all"),
        (["ready", "--drop", "v1"], "Missing argument 'CRD'"),
        (["ready", CRD], "say which version: --drop VERSION to remove it"),
        (["plan", CRD, "--all"], "name CRDs or give --all, not both"),
        (["migrate", "-f", __file__, "--all"], "name CRDs or give --all, not both"),
        (["migrate", CRD, "-n", "a", "-A"], "--namespace and --all-namespaces exclude each other"),
        (["migrate", CRD, "--strip-served"], "--strip-served needs --managed-fields strip"),
        (["plan", CRD, "--managed-fields", "keep", "--strip-served"], "--strip-served needs --managed-fields strip"),
        (["plan", CRD, "--managed-fields", "TRANSLATE"], "is not one of 'translate', 'strip', 'keep'"),
        (["plan", CRD, "--scope", "all"], "is not one of 'not-storage', 'unserved', 'removed'"),
        (["plan", CRD, "--skip-phase", "list"], "is not one of 'storage', 'managed-fields', 'prune'"),
        (["migrate", CRD, "--only", "list"], "is not one of 'storage', 'managed-fields', 'prune'"),
        (["migrate", CRD, "--only", "prune", "--skip-phase", "storage"], "--only says which phase runs"),
        (["migrate", CRD, "--concurrency", "0"], "0 is not in the range"),
        (["migrate", CRD, "--rate", "0"], "0.0 is not in the range"),
        (["migrate", CRD, "--page-size", "0"], "0 is not in the range"),
        (["migrate", CRD, "--settle", "-1"], "-1.0 is not in the range"),
        (["status", "-o", "xml"], "is not one of 'table', 'wide', 'json', 'yaml'"),
        (["plan", CRD, "--dry-run"], "No such option"),
        (["plan", "-f", "/nonexistent/crd.yaml"], "'/nonexistent/crd.yaml' does not exist"),
        (["migrate", CRD, "--report", "/"], "is a directory"),
    ],
)
def test_wrong_use(arguments: list[str], said: str) -> None:
    """Exit code 2 and a hint; a run that began anyway would do something else than was meant."""
    ran = restow(*arguments, kubeconfig=Path("/nonexistent"))
    assert ran.code == 2
    assert said in ran.err
    assert ran.out == ""


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("kind: ConfigMap\nmetadata: {name: a}\n", "{file} holds no CustomResourceDefinition"),
        ("", "{file} holds no CustomResourceDefinition"),
        ("just a text\n", "{file} holds no CustomResourceDefinition"),
        ("kind: CustomResourceDefinition\n", "{file}:1: the document is not a CustomResourceDefinition of"),
        (MANIFEST.replace(f"{{name: {CRD}}}", "[name]"), "{file}:1: a CustomResourceDefinition has no metadata.name"),
        ("a: b\nc: {\n", "{file} cannot be read as YAML (line 3: did not find expected node content)"),
        ("{{ if .Values.crds }}\n", "{file} cannot be read as YAML (line 1: "),
        ("a: b: c\n", "{file} cannot be read as YAML (line 1: mapping values are not allowed in this context)"),
        ("a: \t\x00", "{file} cannot be read as YAML"),
    ],
)
def test_a_file_without_a_crd_is_refused(text: str, said: str, tmp_path: Path) -> None:
    """Doing nothing with success would leave the CRD unmigrated, and a pipeline green."""
    file = tmp_path / "crd.yaml"
    file.write_text(text)
    for command in ("plan", "migrate"):
        ran = restow(command, "-f", file, kubeconfig=Path("/nonexistent"))
        assert ran.refusal.startswith(said.format(file=file))
        assert ran.out == ""


def test_a_file_that_is_no_text_is_refused(tmp_path: Path) -> None:
    """A chart's archive, say."""
    file = tmp_path / "chart.tgz"
    file.write_bytes(b"\x1f\x8b\x08\xff\xfe")
    assert restow("plan", "-f", file).refusal.startswith(f"{file} cannot be read as YAML")


@pytest.mark.parametrize(
    ("files", "names"),
    [
        ({"crd.yaml": MANIFEST}, (CRD,)),
        ({"crd.yaml": f"---\n---\nkind: Namespace\n---\n{MANIFEST}---\n{MANIFEST}"}, (CRD,)),
        ({"crd.json": json.dumps(load_documents(MANIFEST)[0])}, (CRD,)),
        ({"list.yaml": f"kind: List\nitems:\n- kind: Pod\n- {indent(MANIFEST, '  ').strip()}"}, (CRD,)),
        ({"date.yaml": MANIFEST + "  when: 2026-99-99\n"}, (CRD,)),
        (
            {
                "b/two.yml": MANIFEST.replace("widgets", "gadgets"),
                "a/one.yaml": MANIFEST,
                "a/notes.txt": "{{{",
                "a/kustomization.yaml": "resources: [one.yaml]",
            },
            (CRD, "gadgets.example.com"),
        ),
    ],
)
def test_the_crds_of_files(files: dict[str, str], names: tuple[str, ...], tmp_path: Path) -> None:
    """What ``kubectl apply -f`` and ``kubectl get -o yaml`` have to do with must do here too."""
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    given = tmp_path if len(files) > 1 else tmp_path / next(iter(files))
    assert crd_names((), everything=False, files=(given,)) == names


def test_a_name_that_is_given_twice_is_done_once(tmp_path: Path) -> None:
    """By name and by file, or in two files."""
    (tmp_path / "crd.yaml").write_text(MANIFEST)
    found = crd_names((CRD, "a.b", CRD), everything=False, files=(tmp_path, tmp_path))
    assert found == (CRD, "a.b")


def test_a_report_that_cannot_be_written_is_told_before_anything_is_done(tmp_path: Path) -> None:
    """After an hour of migrating it would be too late."""
    ran = restow("migrate", CRD, "--report", tmp_path / "absent" / "report.json", kubeconfig=Path("/nonexistent"))
    assert "report.json cannot be written" in ran.refusal
