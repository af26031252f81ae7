"""The known binaries, their pinned versions, and the sources they may come from."""

from __future__ import annotations

import os
import platform
import re
import sys
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Protocol, Self

from restow.controlplane.errors import ControlPlaneError

if TYPE_CHECKING:
    from collections.abc import Mapping

PUBLISHED_INDEX = "https://raw.githubusercontent.com/kubernetes-sigs/controller-tools/HEAD/envtest-releases.yaml"
"""The index of envtest archives that controller-tools publishes; setup-envtest uses the same."""
_ARCHITECTURES = {"x86_64": "amd64", "amd64": "amd64", "aarch64": "arm64", "arm64": "arm64"}


class BuildProgress(Protocol):
    """Called with one sentence for each step, and during a build with the share of it that is done."""

    def __call__(self, sentence: str, share: float | None = None, /) -> None:
        """Show it."""


class BinarySource(Enum):
    """A source of binaries that are neither named nor cached."""

    ARCHIVE = "archive"
    BUILD = "build"


@dataclass(frozen=True, slots=True)
class BinarySearch:
    """The settings of ``find_binaries``."""

    cache: Path
    """The cache folder of all versions; each version has its own subfolder, ``<version>-<os>-<arch>``."""
    version: str
    """The Kubernetes version without "v"."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """Environment variables, searched for ``TEST_ASSET_*`` and ``KUBEBUILDER_ASSETS``."""
    sources: tuple[BinarySource, ...] = (BinarySource.ARCHIVE, BinarySource.BUILD)
    """The sources to try, in this order."""
    offline: bool = False
    """Use no network: no archive, and a build only from Go's module cache."""
    index_url: str = PUBLISHED_INDEX
    """The URL of the index of archives."""
    platform: tuple[str, str] = ("linux", "amd64")
    """Operating system and architecture, as Go names them."""

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] | None = None, *, kubernetes: str | None = None) -> Self:
        """Read the settings from environment variables (``os.environ`` by default).

        ``RESTOW_KUBERNETES``, or the argument ``kubernetes`` instead: another Kubernetes, as a minor (its pinned
        release) or as a release (one that is not pinned comes from an archive only); ``RESTOW_CONTROLPLANE_CACHE``: the
        cache folder (default ``$XDG_CACHE_HOME/restow/controlplane``); ``RESTOW_CONTROLPLANE_SOURCE=archive|build``:
        use only this source; ``RESTOW_CONTROLPLANE_OFFLINE=true``: no network; ``RESTOW_CONTROLPLANE_INDEX``: the URL
        of another index of archives (a mirror).
        """
        environment = os.environ if environment is None else environment
        caches = Path(environment.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        cache = environment.get("RESTOW_CONTROLPLANE_CACHE")
        return cls(
            cache=Path(cache).absolute() if cache else caches / "restow" / "controlplane",
            version=kubernetes_version(environment.get("RESTOW_KUBERNETES", "") if kubernetes is None else kubernetes),
            environment=environment,
            sources=_sources(environment.get("RESTOW_CONTROLPLANE_SOURCE", "")),
            offline=_truth("RESTOW_CONTROLPLANE_OFFLINE", environment.get("RESTOW_CONTROLPLANE_OFFLINE", "")),
            index_url=environment.get("RESTOW_CONTROLPLANE_INDEX") or PUBLISHED_INDEX,
            platform=this_platform(),
        )

    @property
    def folder(self) -> Path:
        """The cache folder of this version and platform."""
        return self.cache / "-".join((self.version, *self.platform))


def this_platform() -> tuple[str, str]:
    """Return operating system and architecture, as Go names them."""
    machine = platform.machine().lower()
    return sys.platform, _ARCHITECTURES.get(machine, machine)


def _sources(text: str) -> tuple[BinarySource, ...]:
    try:
        return (BinarySource(text),) if text else tuple(BinarySource)
    except ValueError as error:
        message = f"RESTOW_CONTROLPLANE_SOURCE is {text!r}; it can be archive or build."
        raise ControlPlaneError(message) from error


def _truth(name: str, text: str) -> bool:
    if text.lower() in ("", "0", "false", "no"):
        return False
    if text.lower() in ("1", "true", "yes"):
        return True
    message = f"{name} is {text!r}; it can be true or false."
    raise ControlPlaneError(message)


DEFAULT_MINOR: Final = "1.37"
"""The default Kubernetes minor."""

_FOLDER: Final = Path(__file__).parent / "kubernetes-minors"
_MINOR: Final = re.compile(r"\d+\.\d+")
_RELEASE: Final = re.compile(r"\d+\.\d+\.\d+(-[0-9A-Za-z.-]+)?")


def minors() -> tuple[str, ...]:
    """Return the minors that can be built, oldest first."""
    found = (folder.name for folder in _FOLDER.iterdir() if _MINOR.fullmatch(folder.name))
    return tuple(sorted(found, key=lambda minor: [int(part) for part in minor.split(".")]))


def go_module(version: str) -> Path:
    """Return the go.mod of a version's minor (``1.35``, ``1.35.8``); the go.sum is in the same folder.

    Raises:
        ControlPlaneError: restow pins no release of that minor.
    """
    minor = ".".join(version.split(".")[:2])
    if minor not in minors():
        message = f"Kubernetes {minor} is not pinned here; there are {', '.join(minors())}."
        raise ControlPlaneError(message)
    return _FOLDER / minor / "go.mod"


def pinned_version(minor: str = DEFAULT_MINOR) -> str:
    """Return the Kubernetes release, without "v", that a minor's go.mod pins."""
    file = go_module(minor)
    match = re.search(r"^\s*k8s\.io/kubernetes v(\S+)", file.read_text(encoding="utf-8"), re.MULTILINE)
    if match is None:
        message = f"{file} pins no k8s.io/kubernetes; the installation of restow is damaged."
        raise ControlPlaneError(message)
    return match[1]


def kubernetes_version(text: str) -> str:
    """Return the release for a text that is empty, a minor (``1.35``), or a release (``1.35.8``), with or without "v".

    A release need not be the pinned one: an archive may have it.

    Raises:
        ControlPlaneError: the text has another form, or the minor has no pinned release.
    """
    asked = text.strip().removeprefix("v")
    if not asked:
        return pinned_version()
    if _MINOR.fullmatch(asked):
        return pinned_version(asked)
    if _RELEASE.fullmatch(asked):
        return asked
    message = f"{text!r} is no Kubernetes version; give a minor ({', '.join(minors())}) or a release (1.35.8)."
    raise ControlPlaneError(message)


@dataclass(frozen=True, slots=True)
class Binary:
    """A binary of a control plane or of its nodes."""

    name: str
    environment: str
    """The environment variable that names the file (envtest's; restow's own for what is in no archive)."""
    package: str
    """The Go package to build."""
    in_archive: bool
    """Whether the published envtest archive has it."""


BINARIES: Mapping[str, Binary] = MappingProxyType(
    {
        binary.name: binary
        for binary in (
            Binary("etcd", "TEST_ASSET_ETCD", "go.etcd.io/etcd/server/v3", in_archive=True),
            Binary(
                "kube-apiserver",
                "TEST_ASSET_KUBE_APISERVER",
                "k8s.io/kubernetes/cmd/kube-apiserver",
                in_archive=True,
            ),
            Binary("kubectl", "TEST_ASSET_KUBECTL", "k8s.io/kubernetes/cmd/kubectl", in_archive=True),
            *(
                Binary(
                    name,
                    f"TEST_ASSET_{name.upper().replace('-', '_')}",
                    f"k8s.io/kubernetes/cmd/{name}",
                    in_archive=False,
                )
                for name in ("kube-controller-manager", "kube-proxy", "kube-scheduler", "kubelet")
            ),
        )
    }
)
