"""Releases of the chart in a namespace that admits restricted pods only, by real Helm and with its hooks."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.deploy.rendering import CHART, ROOT, Helm
from tests.node.cluster import Cluster
from tests.node.images import REPOSITORY, TAG

__all__ = ["PROVIDER", "Release"]

PROVIDER: Final = ROOT / "docs" / "examples" / "provider"
_VALUES: Final = ROOT / "deploy" / "values"
_WAITS: Final = ("--wait", "--timeout", "6m")
_MODULE: Final = {name: name for name in ("conversions.py", "manifests/gateways.yaml", "manifests/caches.yaml")}
_FILES: Final = {
    "webhook-cert-manager": _MODULE,
    "webhook-own-ca": _MODULE,
    "webhook-rules": {
        "conversions.yaml": "conversions.yaml",
        "gateways.yaml": "manifests/gateways.yaml",
        "caches.yaml": "manifests/caches.yaml",
    },
}

_KINDS: Final = (
    "deployments,services,configmaps,secrets,serviceaccounts,roles,rolebindings,networkpolicies,poddisruptionbudgets,"
    "clusterroles,clusterrolebindings,mutatingwebhookconfigurations,validatingwebhookconfigurations,"
    "issuers.cert-manager.io,certificates.cert-manager.io"
)
"""What the chart has, of which an uninstall leaves nothing."""


@dataclass
class Release:
    """The release of a values file, which has its name."""

    cluster: Cluster
    helm: Helm
    namespace: str
    values: str

    @property
    def name(self) -> str:
        """The name of the release."""
        return self.values

    def upgrade(self, *flags: str | Path, code: int = 0) -> str:
        """Install or upgrade it; Helm returns when everything is ready and every hook has ended."""
        image = f"image.repository={REPOSITORY},image.tag={TAG}"
        files = [
            f"--set-file=webhook.files.{name.replace('.', chr(92) + '.')}={PROVIDER / path}"
            for name, path in _FILES.get(self.values, {}).items()
        ]
        command = ("upgrade", "--install", self.name, CHART, "--values", _VALUES / f"{self.values}.yaml")
        return self._run(*command, *files, "--set", image, *_WAITS, *flags, code=code)

    def roll_back(self, revision: int) -> None:
        """Return to the manifests of a revision, and wait until they are ready."""
        self._run("rollback", self.name, str(revision), *_WAITS)

    def uninstall(self, *flags: str, code: int = 0) -> str:
        """Take it away, its pods included."""
        return self._run("uninstall", self.name, *_WAITS, *flags, code=code)

    def log_levels(self) -> set[str]:
        """Return what its pods have as log level: a value that tests change to see an upgrade and a rollback."""
        pods = self.cluster.pods(self.namespace, f"app.kubernetes.io/instance={self.name}")
        serving = [each["spec"]["containers"][0] for each in pods if "deletionTimestamp" not in each["metadata"]]
        return {each["value"] for container in serving for each in container["env"] if each["name"].endswith("LEVEL")}

    def left(self) -> list[str]:
        """Return what still has its label; CRDs stay, and Jobs of Helm's hooks until their time is over."""
        label = f"--selector=app.kubernetes.io/instance={self.name}"
        return self.cluster.kubectl("get", _KINDS, "-n", self.namespace, label, "--output=name").split()

    def is_there(self) -> bool:
        """Whether Helm knows it."""
        return self.name in self._run("list", "--short").split()

    def _run(self, *arguments: str | Path, code: int = 0) -> str:
        to = ("--kubeconfig", self.cluster.plane.kubeconfig, "--namespace", self.namespace)
        return self.helm.run(*arguments, *to, code=code, home=self.cluster.plane.folder)
