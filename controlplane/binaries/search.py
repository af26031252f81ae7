"""Where binaries may come from: one frozen description, read from the environment once."""

from __future__ import annotations

import os
import platform
import sys
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Self

from restow.controlplane.binaries.pins import kubernetes_version
from restow.controlplane.errors import ControlPlaneError

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["PUBLISHED_INDEX", "Search", "Source"]

PUBLISHED_INDEX = "https://raw.githubusercontent.com/kubernetes-sigs/controller-tools/HEAD/envtest-releases.yaml"
"""The index of envtest archives that controller-tools publishes; setup-envtest reads the same."""
_ARCHITECTURES = {"x86_64": "amd64", "amd64": "amd64", "aarch64": "arm64", "arm64": "arm64"}


class Source(Enum):
    """A way to get binaries that are neither named nor cached."""

    ARCHIVE = "archive"
    BUILD = "build"


@dataclass(frozen=True, slots=True)
class Search:
    """What ``find_binaries`` may use."""

    cache: Path
    """The folder of all versions; each has its own below it, ``<version>-<os>-<arch>``."""
    version: str
    """The Kubernetes version without "v"."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """Looked at for ``TEST_ASSET_*`` and ``KUBEBUILDER_ASSETS``."""
    sources: tuple[Source, ...] = (Source.ARCHIVE, Source.BUILD)
    """The ways to try, in this order."""
    offline: bool = False
    """Use no network: no archive, and a build only from what is in Go's module cache."""
    index_url: str = PUBLISHED_INDEX
    """The index of archives."""
    platform: tuple[str, str] = ("linux", "amd64")
    """Operating system and architecture in Go's words."""

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] | None = None, *, kubernetes: str | None = None) -> Self:
        """Read the description from environment variables (``os.environ`` by default).

        ``RESTOW_KUBERNETES``, or ``kubernetes`` in its place: another Kubernetes, as a minor (its pinned release) or
        as a release (one that is not pinned comes from an archive only); ``RESTOW_CONTROLPLANE_CACHE``: the cache
        folder (default ``$XDG_CACHE_HOME/restow/controlplane``); ``RESTOW_CONTROLPLANE_SOURCE=archive|build``: only
        this way; ``RESTOW_CONTROLPLANE_OFFLINE=true``: no network; ``RESTOW_CONTROLPLANE_INDEX``: the URL of another
        index of archives (a mirror).
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
    """Return operating system and architecture in Go's words."""
    machine = platform.machine().lower()
    return sys.platform, _ARCHITECTURES.get(machine, machine)


def _sources(text: str) -> tuple[Source, ...]:
    try:
        return (Source(text),) if text else tuple(Source)
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
