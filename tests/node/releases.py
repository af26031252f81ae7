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
_FILES: Final = {
    "webhook-own-ca": {
        "conversions.py": "conversions.py",
        "manifests/gateways.yaml": "manifests/gateways.yaml",
        "manifests/caches.yaml": "manifests/caches.yaml",
    },
    "webhook-rules": {
        "conversions.yaml": "conversions.yaml",
        "gateways.yaml": "manifests/gateways.yaml",
        "caches.yaml": "manifests/caches.yaml",
    },
}


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
        waits = ("--wait", "--timeout", "6m")
        return self._run(*command, *files, "--set", image, *waits, *flags, code=code)

    def uninstall(self, *flags: str, code: int = 0) -> str:
        """Take it away, its pods included."""
        return self._run("uninstall", self.name, "--wait", "--timeout", "6m", *flags, code=code)

    def is_there(self) -> bool:
        """Whether Helm knows it."""
        return self.name in self._run("list", "--short").split()

    def _run(self, *arguments: str | Path, code: int = 0) -> str:
        to = ("--kubeconfig", self.cluster.plane.kubeconfig, "--namespace", self.namespace)
        return self.helm.run(*arguments, *to, code=code, home=self.cluster.plane.folder)
