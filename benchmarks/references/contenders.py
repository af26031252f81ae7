"""The contenders that search for the old version: restow, kubectl with jq, Helm itself. Each is one shell command.

helm-mapkubeapis, which rewrites releases by a file of mappings, is not a contender, because the module proxy refused
its module. ``helm list`` and one ``helm get manifest`` per release represent the reads that it needs. For the last
revision of a release, Helm lists all its revisions and decodes them.
"""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from benchmarks.references.content import GROUP, OLD, Sizes, plurals

__all__ = ["CONTENDERS", "Contender", "Tools"]


@dataclass(frozen=True, slots=True)
class Tools:
    """The programs, and their kubeconfig."""

    kubeconfig: Path
    kubectl: Path
    helm: Path | None


@dataclass(frozen=True, slots=True)
class Contender:
    """One way to search for the old version.

    Attributes:
        name: the name in tables.
        command: makes the shell command.
        found: returns the number of found references from its output.
        expected: the number of references to find.
        needs_helm: whether it runs Helm.
    """

    name: str
    command: Callable[[Tools, Sizes], str]
    found: Callable[[bytes], int]
    expected: Callable[[Sizes], int]
    needs_helm: bool = False


def _restow(tools: Tools, kinds: str) -> str:
    restow = shlex.join([sys.executable, "-c", "from restow.main import main; main()"])
    flags = f"-o json --kubeconfig {tools.kubeconfig}" + (f" --kinds {kinds}" if kinds else "")
    return f"{restow} references widgets.{GROUP} --version v1alpha1 {flags}; test $? = 3"


def _kubectl(tools: Tools, sizes: Sizes) -> str:
    names = ",".join(f"{plural}.{GROUP}" for plural in plurals(sizes.resources))
    refers = f'select([.. | objects | select(.apiVersion == "{OLD}")] | length > 0)'
    listed = f"{tools.kubectl} --kubeconfig {tools.kubeconfig} get {names} -A -o json"
    return f"{listed} | jq '[.items[] | {refers}] | length'"


def _helm(tools: Tools, _sizes: Sizes) -> str:
    helm = f"{tools.helm} --kubeconfig {tools.kubeconfig}"
    manifests = f"for name in $({helm} list -A -q -m 0); do {helm} get manifest $name; done"
    return f"{manifests} | grep -c '^apiVersion: {OLD}$'"


def _counted(*kinds: str) -> Callable[[bytes], int]:
    def count(output: bytes) -> int:
        (version,) = json.loads(output)["versions"]
        return sum(version["counts"].get(kind, 0) for kind in kinds)

    return count


OBJECTS: Final = ("owner-references", "typed")

CONTENDERS: Final = (
    Contender(
        "restow references",
        lambda tools, _sizes: _restow(tools, ""),
        _counted(*OBJECTS, "helm"),
        lambda sizes: sizes.referring + sizes.releases * sizes.revisions,
    ),
    Contender(
        "restow references, objects alone",
        lambda tools, _sizes: _restow(tools, ",".join(OBJECTS)),
        _counted(*OBJECTS),
        lambda sizes: sizes.referring,
    ),
    Contender(
        "kubectl get | jq, custom resources alone",
        _kubectl,
        int,
        lambda sizes: sizes.referring,
    ),
    Contender(
        "restow references, Helm alone",
        lambda tools, _sizes: _restow(tools, "helm"),
        _counted("helm"),
        lambda sizes: sizes.releases * sizes.revisions,
    ),
    Contender(
        "helm get manifest, last revisions alone",
        _helm,
        int,
        lambda sizes: sizes.releases,
        needs_helm=True,
    ),
)
