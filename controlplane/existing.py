"""An existing cluster instead of a new control plane: ``RESTOW_KUBECONFIG``, or ``USE_EXISTING_CLUSTER=true``.

The same tests then run on kind or a staging cluster. Features that only a ``ControlPlane`` has (etcd, users signed by
its authority, its processes, further API servers) raise ``UnavailableError`` with a sentence, so that no test passes
without a check. The pytest plugin skips such a test with that sentence.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import yaml

from restow.controlplane.errors import ControlPlaneError, UnavailableError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from datetime import timedelta

    from restow.controlplane.etcd import Etcd
    from restow.controlplane.plane import ApiServer
    from restow.controlplane.users import ClusterUser


def use_existing_cluster(environment: Mapping[str, str] | None = None) -> bool:
    """Return whether ``RESTOW_KUBECONFIG`` names a cluster, or ``USE_EXISTING_CLUSTER`` is true (in Go's notation)."""
    environment = os.environ if environment is None else environment
    asked = environment.get("USE_EXISTING_CLUSTER", "").lower() in ("1", "t", "true")
    return asked or bool(environment.get("RESTOW_KUBECONFIG"))


class ExistingCluster:
    """The cluster of a kubeconfig's current context, with those features of ``ControlPlane`` that it has."""

    def __init__(self, kubeconfig: Path) -> None:
        """Read the kubeconfig; raise ``ControlPlaneError`` if it cannot be used."""
        self.kubeconfig = kubeconfig
        self.server = _server(kubeconfig)

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] | None = None) -> ExistingCluster:
        """Use the file that RESTOW_KUBECONFIG names, else that of KUBECONFIG, else ``~/.kube/config``."""
        environment = os.environ if environment is None else environment
        if ours := environment.get("RESTOW_KUBECONFIG"):
            return cls(Path(ours).absolute())
        named = [part for part in environment.get("KUBECONFIG", "").split(os.pathsep) if part]
        if len(named) > 1:
            message = "KUBECONFIG names several files; merge them into one (kubectl config view --flatten --raw)."
            raise ControlPlaneError(message)
        return cls(Path(named[0]) if named else Path.home() / ".kube" / "config")

    @property
    def etcd(self) -> Etcd:
        """Unavailable on an existing cluster."""
        self._unavailable("etcd cannot be read")

    @property
    def pids(self) -> dict[str, int]:
        """Unavailable on an existing cluster."""
        self._unavailable("the processes are not ours")

    def cpu_seconds(self) -> dict[str, float]:
        """Raise ``UnavailableError``."""
        self._unavailable("the processes are not ours")

    def user(
        self,
        name: str,
        groups: Iterable[str] = (),  # noqa: ARG002 - the signature of ControlPlane.user
        *,
        valid_for: timedelta | None = None,  # noqa: ARG002
        apiserver: ApiServer | None = None,  # noqa: ARG002
    ) -> ClusterUser:
        """Raise ``UnavailableError``."""
        self._unavailable(f"no certificate can be signed for {name}")

    def __getattr__(self, name: str) -> NoReturn:
        """Raise ``UnavailableError`` for other attributes of ``ControlPlane``, and ``AttributeError`` for the rest."""
        from restow.controlplane.plane import ControlPlane

        if name.startswith("_") or not hasattr(ControlPlane, name):
            message = f"{type(self).__name__!r} object has no attribute {name!r}"
            raise AttributeError(message)
        self._unavailable(f"there is no {name} of ours")

    def _unavailable(self, what: str) -> NoReturn:
        message = (
            f"On the existing cluster {self.server} {what}; unset RESTOW_KUBECONFIG and USE_EXISTING_CLUSTER for a "
            "control plane."
        )
        raise UnavailableError(message)


def _server(kubeconfig: Path) -> str:
    try:
        document = yaml.safe_load(kubeconfig.read_bytes())
        context = _named(document, "contexts", document["current-context"])["context"]
        return str(_named(document, "clusters", context["cluster"])["cluster"]["server"])
    except OSError as error:
        message = f"The kubeconfig {kubeconfig} cannot be read ({error.strerror}); set KUBECONFIG."
        raise ControlPlaneError(message) from error
    except (yaml.YAMLError, KeyError, TypeError, LookupError) as error:
        message = f"The kubeconfig {kubeconfig} has no usable current context; check it with kubectl config view."
        raise ControlPlaneError(message) from error


def _named(document: dict[str, Any], section: str, name: str) -> dict[str, Any]:
    (entry,) = [each for each in document[section] if each["name"] == name][:1] or [None]
    if entry is None:
        raise LookupError(name)
    return dict(entry)
