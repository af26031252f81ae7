"""The chart as real Helm renders it, and parts of what comes out."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from restow.crds.documents import load_documents

ROOT = Path(__file__).parents[2]
CHART = ROOT / "deploy" / "chart" / "restow"
VALUES = sorted((ROOT / "deploy" / "values").glob("*.yaml"))
NAMESPACE = "my-system"
RELEASE = "edge"

Document = dict[str, Any]
Right = tuple[str, str, str, str, str | None]


@dataclass(frozen=True)
class Helm:
    """The binary."""

    binary: Path

    def run(self, *arguments: str | Path, code: int = 0, home: Path | None = None) -> str:
        """Run it; return what it said on stdout, and on stderr where it is to fail; a success comes without warnings.

        ``home`` is for what it remembers.
        """
        command = [str(part) for part in (self.binary, *arguments)]
        environment = os.environ | ({} if home is None else {"HOME": str(home)})
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT, env=environment)
        assert done.returncode == code, done.stdout + done.stderr
        # Helm's own watch may end early on a busy machine; it watches again.
        told = "\n".join(line for line in done.stderr.splitlines() if "reflector.go" not in line)
        assert code or not re.search("warn|link", told, re.IGNORECASE), done.stderr
        return done.stdout if code == 0 else done.stdout + done.stderr

    def text(self, *flags: str | Path, release: str = RELEASE, namespace: str = NAMESPACE) -> str:
        """What ``helm template`` prints."""
        return self.run("template", release, CHART, "--namespace", namespace, *flags)

    def render(self, *flags: str | Path, release: str = RELEASE, namespace: str = NAMESPACE) -> list[Document]:
        """The manifests."""
        text = self.text(*flags, release=release, namespace=namespace)
        return load_documents(text)


def is_hook(document: Document, event: str) -> bool:
    """Whether a document is there only for a hook."""
    return event in str((document["metadata"].get("annotations") or {}).get("helm.sh/hook"))


def of_kind(documents: Iterable[Document], *kinds: str) -> list[Document]:
    """The documents of these kinds."""
    return [each for each in documents if each["kind"] in kinds]


def the(documents: Iterable[Document], kind: str) -> Document:
    """The only document of a kind."""
    (found,) = of_kind(documents, kind)
    return found


def templates(documents: Iterable[Document]) -> Iterator[Document]:
    """The pod templates."""
    for each in of_kind(documents, "Job", "Deployment"):
        yield each["spec"]["template"]


def container(document: Document) -> Document:
    """The one container of a workload."""
    (found,) = document["spec"]["template"]["spec"]["containers"]
    return dict(found)


def rights(documents: Iterable[Mapping[str, Any]]) -> set[Right]:
    """All that Roles and ClusterRoles grant, one by one: (group, resource, verb, name, namespace)."""
    return {
        (group, resource, verb, name, role["metadata"].get("namespace"))
        for role in documents
        if role["kind"] in ("Role", "ClusterRole")
        for rule in role["rules"]
        for group in rule.get("apiGroups", [""])
        for resource in rule.get("resources") or rule["nonResourceURLs"]
        for verb in rule["verbs"]
        for name in rule.get("resourceNames", [""])
    }
