"""``make test-kind``: test restow and the chart on a kind cluster, created for this run and deleted after it.

    python deploy/tools/kind.py BASE [PYTEST_ARGUMENT...]

BASE is the Python image to build on, with its digest, as for ``make image``. Steps: create a cluster; build the image
and load it; run the tests of tests/apiserver with RESTOW_KUBECONFIG (tests that need etcd or a separate control plane
skip with a reason); install the chart with each file of deploy/values/. A step runs even if an earlier one failed,
unless it depends on that one. The cluster is always deleted.

Exit codes: 0 all steps succeeded; 1 a step failed; 2 usage, or Docker or kind is missing.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Final

import yaml

sys.path.insert(0, str(Path(__file__).parent))  # tools.py, even if this file is loaded by its path
from tools import find_tools

from restow.controlplane.binaries import find_binaries

__all__ = ["INSTALLATIONS", "main"]

ROOT: Final = Path(__file__).parents[2]
VALUES: Final = ROOT / "deploy" / "values"
PROVIDER: Final = ROOT / "docs" / "examples" / "provider"
CLUSTER: Final = "restow-test"
REPOSITORY: Final = "restow.local/restow"
TAG: Final = "test"
NAMESPACE: Final = "restow-test"
CREATE_WAIT: Final = "180s"
HELM_TIMEOUT: Final = "5m"


@dataclass(frozen=True, slots=True)
class _Installation:
    """The installation of the chart with one file of values, on a new kind cluster."""

    flags: tuple[str, ...] = ()
    waits: bool = True
    """Whether its pods can become ready, although there is no cert-manager to sign certificates."""
    upgraded: bool = False
    """Whether to upgrade it too, which runs the hook of the migration, and Helm waits for its Job."""


INSTALLATIONS: Final = {
    "conversions-cert-manager.yaml": _Installation(waits=False),
    "conversions.yaml": _Installation(),
    "migration-in-the-background.yaml": _Installation(upgraded=True),
    "migration-indexed-job.yaml": _Installation(upgraded=True),
    "migration-job.yaml": _Installation(upgraded=True),
    "migrator.yaml": _Installation(),
    "operator-cert-manager.yaml": _Installation(waits=False),
    "operator.yaml": _Installation(),
    "webhook-cert-manager.yaml": _Installation(waits=False),
    "webhook-own-ca.yaml": _Installation(
        (
            *("--set-file", f"webhook.files.conversions\\.py={PROVIDER / 'conversions.py'}"),
            *("--set-file", f"webhook.files.manifests/gateways\\.yaml={PROVIDER / 'manifests' / 'gateways.yaml'}"),
            *("--set-file", f"webhook.files.manifests/caches\\.yaml={PROVIDER / 'manifests' / 'caches.yaml'}"),
        )
    ),
    "webhook-rules.yaml": _Installation(
        (
            *("--set-file", f"webhook.files.conversions\\.yaml={PROVIDER / 'conversions.yaml'}"),
            *("--set-file", f"webhook.files.gateways\\.yaml={PROVIDER / 'manifests' / 'gateways.yaml'}"),
            *("--set-file", f"webhook.files.caches\\.yaml={PROVIDER / 'manifests' / 'caches.yaml'}"),
        )
    ),
}
"""The installation for each file of deploy/values/."""

_FOREIGN: Final = {
    "cert-manager.io": ("Certificate", "Issuer"),
    "monitoring.coreos.com": ("PrometheusRule", "ServiceMonitor"),
    "example.com": ("Widget", "Gadget"),
}
"""Kinds in the values files that a new cluster lacks; their schemas do not matter here."""


@dataclass(slots=True)
class _Run:
    """A run: its tools, and the failed steps so far."""

    python: str
    helm: str
    kubectl: str
    kubeconfig: Path
    failed: list[str] = field(default_factory=list)

    def step(self, what: str, *command: str | Path, stdin: str | None = None, **environment: str) -> bool:
        """Run one step; record ``what`` if it fails."""
        _say(what)
        done = subprocess.run(  # noqa: S603 - the program's own commands
            [str(part) for part in command],
            input=stdin,
            text=True,
            check=False,
            cwd=ROOT,
            env=os.environ | environment,
        )
        if done.returncode != 0:
            self.failed.append(what)
            _say(f"failed with {done.returncode}: {what}")
        return done.returncode == 0


def main(arguments: Sequence[str], *, python: str = sys.executable) -> int:
    """Run all steps; return the exit code. ``python`` runs pytest."""
    if not arguments or not arguments[0]:
        return _refuse("name the base of the image with its digest: make test-kind BASE=python:3.13-slim@sha256:…")
    if why := _missing():
        return _refuse(why)
    names = subprocess.run(["kind", "get", "clusters"], capture_output=True, text=True, check=False)  # noqa: S607
    if CLUSTER in names.stdout.split():
        return _refuse(f"there is a cluster {CLUSTER} already; delete it (kind delete cluster --name {CLUSTER}) first")
    signal.signal(signal.SIGTERM, _end)
    helm = shutil.which("helm") or str(asyncio.run(find_tools(_say))["helm"])
    kubectl = str(asyncio.run(find_binaries(("kubectl",)))["kubectl"])
    with tempfile.TemporaryDirectory(prefix="restow-kind-") as folder:
        run = _Run(python, helm, kubectl, Path(folder) / "kubeconfig")
        try:
            _work(run, base=arguments[0], pytest_arguments=arguments[1:])
        finally:
            run.step("deleting the cluster", "kind", "delete", "cluster", "--name", CLUSTER)
    if run.failed:
        _say(f"{len(run.failed)} of the steps failed: {', '.join(run.failed)}")
    return 1 if run.failed else 0


def _missing() -> str:
    """Return what this machine lacks, in one line; empty if it lacks nothing."""
    for tool in ("docker", "kind"):
        if shutil.which(tool) is None:
            return f"there is no {tool} here; install Docker and kind to run the tests on a kind cluster"
    if subprocess.run(["docker", "info"], capture_output=True, check=False).returncode != 0:  # noqa: S607
        return "Docker is here, but its daemon does not answer (docker info); start it"
    return ""


def _work(run: _Run, *, base: str, pytest_arguments: Sequence[str]) -> None:
    cluster = ("--name", CLUSTER, "--kubeconfig", run.kubeconfig, "--wait", CREATE_WAIT)
    if not run.step("creating the cluster", "kind", "create", "cluster", *cluster):
        return
    image = f"{REPOSITORY}:{TAG}"
    loaded = run.step("building the image", "make", "image", f"BASE={base}", f"TAG={image}") and run.step(
        "loading the image", "kind", "load", "docker-image", image, "--name", CLUSTER
    )
    tests = ("-m", "pytest", "tests/apiserver", *pytest_arguments)
    run.step("running the tests", run.python, *tests, RESTOW_KUBECONFIG=str(run.kubeconfig))
    if loaded and _prepared(run):
        for values in sorted(VALUES.glob("*.yaml")):
            _install(run, values)


def _prepared(run: _Run) -> bool:
    """Apply the CRDs that the values files name."""
    apply = (run.kubectl, "--kubeconfig", run.kubeconfig, "apply", "--server-side", "-f")
    documents = yaml.safe_dump_all(_crd(group, kind) for group, kinds in _FOREIGN.items() for kind in kinds)
    return run.step("applying foreign CRDs", *apply, "-", stdin=documents) and run.step(
        "applying the example's CRDs", *apply, PROVIDER / "manifests"
    )


def _install(run: _Run, values: Path) -> None:
    installation = INSTALLATIONS.get(values.name, _Installation())
    where = ("--kubeconfig", run.kubeconfig, "--namespace", NAMESPACE)
    release = f"restow-{values.stem}"
    command = [run.helm, "upgrade", "--install", release, "deploy/chart/restow", *where, "--create-namespace"]
    command += ["--values", values, "--set", f"image.repository={REPOSITORY},image.tag={TAG}", *installation.flags]
    command += ["--wait", "--timeout", HELM_TIMEOUT] if installation.waits else []
    installed = run.step(f"installing {values.name}", *command)
    if installed and installation.upgraded:
        run.step(f"upgrading {values.name}", *command)
    run.step(f"uninstalling {values.name}", run.helm, "uninstall", release, *where, "--ignore-not-found", "--wait")


def _crd(group: str, kind: str) -> dict[str, object]:
    plural = f"{kind.lower()}s"
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {"plural": plural, "singular": kind.lower(), "kind": kind, "listKind": f"{kind}List"}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {"group": group, "scope": "Namespaced", "names": names, "versions": [version]},
    }


def _end(number: int, _frame: FrameType | None) -> None:
    """Unwind the stack, so that the cluster is deleted."""
    raise SystemExit(128 + number)


def _say(text: str) -> None:
    sys.stderr.write(f"test-kind: {text}\n")
    sys.stderr.flush()


def _refuse(text: str) -> int:
    _say(text)
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
