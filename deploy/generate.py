"""Write the generated files of deploy/, so that each has one source; tests fail when one is out of date.

    python deploy/generate.py

- The chart's copies of crds/manifests/: Helm warns about links, and a copied chart would lack their targets.
- The table of values in the chart's README, from the comments in values.yaml.
- The kustomize bases, from the chart, without Helm's parts (hooks, labels), and without the account and the rights of
  the migration: an overlay has those for its own CRDs, from ``restow rbac``.
"""

from __future__ import annotations

import asyncio
import runpy
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import yaml

from restow.crds.documents import load_documents

__all__ = ["BASES", "bases", "crds", "readme"]

HERE: Final = Path(__file__).parent
CHART: Final = HERE / "chart" / "restow"
NAMESPACE: Final = "restow-system"
BASES: Final[Mapping[str, tuple[str, ...]]] = {
    "migration": ("migration.enabled=true", "migration.hook=false", "migration.crds={widgets.example.com}"),
    "webhook": ("webhook.enabled=true", "webhook.registry=conversions:registry", "webhook.crds={widgets.example.com}"),
    "operator": ("operator.enabled=true", "operator.crds=operator"),
    "conversions": ("conversions.enabled=true",),
}
_OF_HELM: Final = ("app.kubernetes.io/managed-by", "app.kubernetes.io/instance", "helm.sh/chart")
_RIGHTS: Final = ("ServiceAccount", "Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding")
_BEGIN: Final = "<!-- values: written by deploy/generate.py -->\n"
_END: Final = "<!-- end of values -->\n"


def crds() -> Iterator[tuple[Path, str]]:
    """Yield each CRD's file in the chart, and its content."""
    for file in sorted((HERE.parent / "crds" / "manifests").glob("*.yaml")):
        yield CHART / "files" / "crds" / file.name, file.read_text(encoding="utf-8")


def readme() -> tuple[Path, str]:
    """Return the chart's README, with the table of values between its markers."""
    file = CHART / "README.md"
    before, rest = file.read_text(encoding="utf-8").split(_BEGIN)
    rows = "".join(
        f"| `{name}` | `{default}` | {said} |\n"
        for name, default, said in _values((CHART / "values.yaml").read_text(encoding="utf-8"))
    )
    table = f"\n| value | default | |\n|---|---|---|\n{rows}\n"
    return file, before + _BEGIN + table + _END + rest.split(_END)[1]


def _values(text: str) -> Iterator[tuple[str, str, str]]:
    """Yield the path, the default and the comment of each value that has no values of its own below it."""
    path: list[str] = []
    comment: list[str] = []
    lines = text.splitlines()
    for line, following in zip(lines, [*lines[1:], ""], strict=True):
        words = line.strip()
        if words.startswith("#"):
            comment.append(words.removeprefix("#").strip())
            continue
        if words:
            depth = (len(line) - len(line.lstrip())) // 2
            key, _, default = words.partition(":")
            path = [*path[:depth], key]
            if default or not following.startswith("  " * (depth + 1)):
                yield ".".join(path), default.strip(), _cell(" ".join(comment))
        comment = []


def _cell(text: str) -> str:
    """Return a comment as a cell, with characters escaped that have a meaning in Markdown."""
    return text.replace("|", "\\|").replace("<", "&lt;")


def bases(helm: Path) -> Iterator[tuple[Path, str]]:
    """Yield each base's file and its content."""
    for name, settings in BASES.items():
        command = [str(helm), "template", "restow", str(CHART), "--namespace", NAMESPACE]
        for setting in settings:
            command += ["--set", setting]
        text = subprocess.run(command, capture_output=True, text=True, check=True).stdout  # noqa: S603
        documents = [_anywhere(_plain(each)) for each in load_documents(text) if not _is_hook(each)]
        if name == "migration":
            documents = [_without_arguments(each) for each in documents if each["kind"] not in _RIGHTS]
        yield HERE / "kustomize" / name / "manifests.yaml", yaml.safe_dump_all(documents, sort_keys=False, width=120)


def _is_hook(document: dict[str, Any]) -> bool:
    """Return whether the object is a hook, which only Helm runs at the right time."""
    return "helm.sh/hook" in (document["metadata"].get("annotations") or {})


def _plain(value: Any) -> Any:
    """Return a manifest without the parts that only Helm reads."""
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if not isinstance(value, dict):
        return value
    kept = {
        key: _plain(item) for key, item in value.items() if key not in _OF_HELM and key != "helm.sh/resource-policy"
    }
    return {key: item for key, item in kept.items() if key != "annotations" or item}


def _anywhere(document: dict[str, Any]) -> dict[str, Any]:
    """Return a manifest that an overlay may move into another namespace.

    kustomize rewrites only ``metadata.namespace`` and references to objects. Therefore the pod gets its namespace from
    the downward API, the variable of webhook/kustomization.yaml replaces the namespace in the certificate's names, and
    no name contains a namespace.
    """
    named = [document["metadata"], *([document["roleRef"]] if "roleRef" in document else [])]
    for each in named:
        each["name"] = each["name"].removeprefix(f"{NAMESPACE}:")
    if document["kind"] == "Deployment":
        (container,) = document["spec"]["template"]["spec"]["containers"]
        own = f"--own-ca={NAMESPACE}/"
        if any(argument.startswith(own) for argument in container["args"]):
            reference = {"fieldRef": {"fieldPath": "metadata.namespace"}}
            container["env"] = [{"name": "POD_NAMESPACE", "valueFrom": reference}, *container["env"]]
            container["args"] = [each.replace(own, "--own-ca=$(POD_NAMESPACE)/") for each in container["args"]]
    if document["kind"] == "Certificate" and "dnsNames" in document["spec"]:
        names = document["spec"]["dnsNames"]
        document["spec"]["dnsNames"] = [each.replace(f".{NAMESPACE}.", ".$(WEBHOOK_NAMESPACE).") for each in names]
    return document


def _without_arguments(document: dict[str, Any]) -> dict[str, Any]:
    if document["kind"] == "Job":
        document["metadata"]["name"] = document["metadata"]["name"].removesuffix("-1")
        del document["spec"]["template"]["spec"]["containers"][0]["args"]
    return document


def main() -> int:
    """Write the generated files."""
    written = dict(crds())
    for file in (CHART / "files" / "crds").glob("*"):
        if file not in written:
            file.unlink()
    _write(written.items())
    tools = runpy.run_path(str(HERE / "tools" / "tools.py"))
    _write((readme(), *bases(asyncio.run(tools["find_tools"](lambda _line: None))["helm"])))
    return 0


def _write(files: Iterable[tuple[Path, str]]) -> None:
    for file, text in files:
        file.parent.mkdir(exist_ok=True)
        file.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
