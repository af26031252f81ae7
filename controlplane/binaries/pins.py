"""The pinned Go modules: one folder per Kubernetes minor in ``kubernetes-minors/``, each with a go.mod and a go.sum.

No package can have that folder's name, so setuptools takes it for data.

Why one each: the API servers, controller managers and etcd of two minors need different dependencies, and a module
can require one version of each only. A minor's go.mod is what ``go mod tidy`` makes of that Kubernetes release's own
requirements, with all staging modules (``k8s.io/api``, …) replaced by those of the same release; etcd is the one that
the release requires.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from restow.controlplane.errors import ControlPlaneError

__all__ = ["DEFAULT_MINOR", "go_module", "kubernetes_version", "minors", "pinned_version"]

DEFAULT_MINOR: Final = "1.36"
"""The Kubernetes minor where nobody asks for another."""

_FOLDER: Final = Path(__file__).parent / "kubernetes-minors"
_MINOR: Final = re.compile(r"\d+\.\d+")
_RELEASE: Final = re.compile(r"\d+\.\d+\.\d+(-[0-9A-Za-z.-]+)?")


def minors() -> tuple[str, ...]:
    """Return the minors that can be built, oldest first."""
    found = (folder.name for folder in _FOLDER.iterdir() if _MINOR.fullmatch(folder.name))
    return tuple(sorted(found, key=lambda minor: [int(part) for part in minor.split(".")]))


def go_module(version: str) -> Path:
    """Return the go.mod of a version's minor (``1.35``, ``1.35.8``); the go.sum stands beside it.

    Raises:
        ControlPlaneError: that minor is not pinned here.
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
    """Return the release that a text asks for: nothing, a minor (``1.35``), or a release (``1.35.8``), with or without
    "v".

    A release need not be the pinned one: an archive may have it.

    Raises:
        ControlPlaneError: it is anything else.
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
