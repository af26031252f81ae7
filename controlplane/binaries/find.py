"""The search for binaries: named or cached ones at once, the others from an archive or a build, under the lock."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from restow.controlplane.binaries.archive import fetch_archive
from restow.controlplane.binaries.build import build
from restow.controlplane.binaries.cache import executable, locked
from restow.controlplane.binaries.search import BINARIES, BinarySearch, BinarySource, this_platform
from restow.controlplane.errors import BinariesUnavailableError, ControlPlaneError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from restow.controlplane.binaries.search import BuildProgress

_SYSTEMS = ("linux", "darwin")
_BUILD_LINE_EVERY = 15.0  # seconds

_ADVICE = (
    "Set KUBEBUILDER_ASSETS to a folder that has them, or install Go, or let this machine reach the network; "
    "then run `python -m restow.controlplane binaries`."
)


async def find_binaries(
    names: Iterable[str], search: BinarySearch | None = None, progress: BuildProgress | None = None
) -> dict[str, Path]:
    """Return the path of each named binary; download or build the missing ones.

    ``progress`` is called with one sentence per step (default: lines on stderr), and often during a build.

    Raises:
        BinariesUnavailableError: a binary can neither be found nor downloaded nor built.
        ControlPlaneError: the environment names a file that does not exist.
    """
    if (system := this_platform()[0]) not in _SYSTEMS:
        message = (
            f"The control plane runs on Linux and macOS, not on {system}: run it in WSL or in a container, or name a "
            "cluster with RESTOW_KUBECONFIG. restow itself needs no control plane."
        )
        raise BinariesUnavailableError(message)
    names = tuple(dict.fromkeys(names))
    search = BinarySearch.from_environment() if search is None else search
    progress = _Lines() if progress is None else progress
    if unknown := [name for name in names if name not in BINARIES]:
        message = f"There is no binary named {', '.join(unknown)}; there are {', '.join(BINARIES)}."
        raise ControlPlaneError(message)
    found = {name: path for name in names if (path := _existing_binary(name, search)) is not None}
    missing = [name for name in names if name not in found]
    if missing:
        try:
            found |= await _get(missing, search, progress)
        except OSError as error:
            message = f"The cache folder {search.folder} cannot be used ({error}); set RESTOW_CONTROLPLANE_CACHE."
            raise BinariesUnavailableError(message) from error
    return {name: found[name] for name in names}


def _existing_binary(name: str, search: BinarySearch) -> Path | None:
    """Return the path of a binary in the places that envtest searches, else in the cache; None if it is in neither."""
    variable = BINARIES[name].environment
    if named := search.environment.get(variable):
        if not executable(Path(named)):
            message = f"{variable} names {named}, which is no file that can be run; correct it or unset it."
            raise ControlPlaneError(message)
        return Path(named).absolute()
    folders = [search.folder]
    if assets := search.environment.get("KUBEBUILDER_ASSETS"):
        folders.insert(0, Path(assets).absolute())
    return next((folder / name for folder in folders if executable(folder / name)), None)


async def _get(names: list[str], search: BinarySearch, progress: BuildProgress) -> dict[str, Path]:
    failures: list[str] = []

    def waiting() -> None:
        progress(f"Another process is getting binaries into {search.folder}; waiting for it.")

    async with locked(search.folder, waiting):
        for source in search.sources:
            missing = [name for name in names if not executable(search.folder / name)]
            if not missing:
                break
            way = fetch_archive if source is BinarySource.ARCHIVE else build
            try:
                await way(missing, search, progress)
            except BinariesUnavailableError as error:
                failures.append(f"{source.value}: {error}")
                progress(f"The way '{source.value}' did not lead to {', '.join(missing)}: {error}")
    missing = [name for name in names if not executable(search.folder / name)]
    if missing:
        raise BinariesUnavailableError(_explain(missing, search, failures))
    return {name: search.folder / name for name in names}


def _explain(missing: list[str], search: BinarySearch, failures: list[str]) -> str:
    variables = ", ".join(BINARIES[name].environment for name in missing)
    lines = [
        f"No way led to {', '.join(missing)} of Kubernetes {search.version}:",
        f"- environment: neither {variables} nor KUBEBUILDER_ASSETS names them;",
        f"- cache: they are not in {search.folder};",
        *(f"- {failure}" for failure in failures),
        _ADVICE,
    ]
    return "\n".join(lines)


class _Lines:
    """Prints the progress to stderr; of a build a line every few seconds."""

    def __init__(self) -> None:
        self._next = 0.0

    def __call__(self, sentence: str, share: float | None = None, /) -> None:
        now = time.monotonic()
        if share is not None and now < self._next:
            return
        self._next = now + _BUILD_LINE_EVERY
        sys.stderr.write(f"restow.controlplane: {sentence}\n")
        sys.stderr.flush()
