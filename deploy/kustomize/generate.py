"""Writes the kustomize bases from the chart, so that there is one source; a test tells when they are out of date.

    python deploy/kustomize/generate.py

What belongs to Helm (hooks, labels) is left out, and of the migration its account and rights: an overlay has those of
its own CRDs, by `restow rbac`.
"""

from __future__ import annotations

import asyncio
import runpy
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import yaml

__all__ = ["BASES", "bases"]

HERE: Final = Path(__file__).parent
CHART: Final = HERE.parent / "chart" / "restow"
NAMESPACE: Final = "restow-system"
BASES: Final[Mapping[str, tuple[str, ...]]] = {
    "migration": ("migration.enabled=true", "migration.hook=false", "migration.crds={widgets.example.com}"),
    "webhook": ("webhook.enabled=true", "webhook.registry=conversions:registry", "webhook.crds={widgets.example.com}"),
    "operator": ("operator.enabled=true", "operator.crds=operator"),
}
_OF_HELM: Final = ("app.kubernetes.io/managed-by", "app.kubernetes.io/instance", "helm.sh/chart")
_RIGHTS: Final = ("ServiceAccount", "Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding")


def bases(helm: Path) -> Iterator[tuple[Path, str]]:
    """Yield each base's file and what has to stand in it."""
    for name, settings in BASES.items():
        command = [str(helm), "template", "restow", str(CHART), "--namespace", NAMESPACE]
        for setting in settings:
            command += ["--set", setting]
        text = subprocess.run(command, capture_output=True, text=True, check=True).stdout  # noqa: S603
        documents = [_plain(each) for each in yaml.safe_load_all(text) if each is not None]
        if name == "migration":
            documents = [_without_arguments(each) for each in documents if each["kind"] not in _RIGHTS]
        yield HERE / name / "manifests.yaml", yaml.safe_dump_all(documents, sort_keys=False, width=120)


def _plain(value: Any) -> Any:
    """Return a manifest without what only Helm reads."""
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if not isinstance(value, dict):
        return value
    kept = {
        key: _plain(item) for key, item in value.items() if key not in _OF_HELM and key != "helm.sh/resource-policy"
    }
    return {key: item for key, item in kept.items() if key != "annotations" or item}


def _without_arguments(document: dict[str, Any]) -> dict[str, Any]:
    if document["kind"] == "Job":
        document["metadata"]["name"] = document["metadata"]["name"].removesuffix("-1")
        del document["spec"]["template"]["spec"]["containers"][0]["args"]
    return document


def main() -> int:
    """Write them."""
    tools = runpy.run_path(str(HERE.parent / "tools" / "tools.py"))
    for file, text in bases(asyncio.run(tools["find_tools"](lambda _line: None))["helm"]):
        file.parent.mkdir(exist_ok=True)
        file.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
