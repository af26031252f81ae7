"""Real CRDs and manifests of other projects, out of pinned Go modules: ``files.tar.xz``, which ``make peers`` writes.

``go.mod`` next to this file pins the modules and ``go.sum`` their contents: Go refuses a module with another checksum.
The archive has the modules' licenses as well. The tests read it, and need no Go; with other pins they fail.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import hashlib
import io
import json
import os
import re
import shutil
import sys
import tarfile
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from restow.controlplane.binaries.build import build_environment, find_go, run
from restow.controlplane.binaries.cache import scratch
from restow.controlplane.binaries.search import BinarySearch

__all__ = ["CLUSTER_API", "GARDENER", "GARDENER_ALL", "cluster_api", "crossplane", "gardener", "kueue", "metallb"]

_HERE: Final = Path(__file__).parent
_PINS: Final = (_HERE / "go.mod", _HERE / "go.sum")
_ARCHIVE: Final = _HERE / "files.tar.xz"

_CLUSTER_API: Final = "sigs.k8s.io/cluster-api"
_CROSSPLANE: Final = "github.com/crossplane/crossplane/v2"
_GARDENER: Final = "github.com/gardener/gardener"
_KUEUE: Final = "sigs.k8s.io/kueue"
_METALLB: Final = "go.universe.tf/metallb"

_FILES: Final[Mapping[str, tuple[str, ...]]] = {
    _CLUSTER_API: (
        "bootstrap/kubeadm/config/crd/bases/bootstrap.cluster.x-k8s.io_kubeadmconfigs.yaml",
        "controlplane/kubeadm/config/crd/bases/controlplane.cluster.x-k8s.io_kubeadmcontrolplanes.yaml",
        "core/config/crd/bases/cluster.x-k8s.io_clusterclasses.yaml",
        "core/config/crd/bases/cluster.x-k8s.io_clusters.yaml",
        "core/config/crd/bases/cluster.x-k8s.io_machines.yaml",
    ),
    _CROSSPLANE: ("cluster/crds/apiextensions.crossplane.io_compositeresourcedefinitions.yaml",),
    _GARDENER: (
        "example/30-cloudprofile.yaml",
        "example/35-namespacedcloudprofile.yaml",
        "example/90-shoot.yaml",
        "example/provider-local/shoot.yaml",
        "example/provider-local/shoot-ipv6.yaml",
        "example/provider-local/shoot-workerless.yaml",
        "example/provider-local/managedseeds/shoot-managedseed.yaml",
        "example/provider-local/managedseeds/shoot-managedseed-ipv6.yaml",
        "dev-setup/gardenconfig/components/cloudprofile/cloudprofile.yaml",
        "dev-setup/gardenadm/resources/base/shoot.yaml",
    ),
    _KUEUE: ("config/components/crd/bases/kueue.x-k8s.io_workloads.yaml",),
    _METALLB: ("config/crd/bases/metallb.io_bgppeers.yaml",),
}

CLUSTER_API: Final = tuple(Path(file).name for file in _FILES[_CLUSTER_API])
"""The names of Cluster API's CRDs: v1beta1 deprecated, v1beta2 stored."""

GARDENER: Final = tuple(Path(file).name for file in _FILES[_GARDENER][:3])
"""The names of the example manifests that Gardener's documentation begins with."""

GARDENER_ALL: Final = (
    *dict.fromkeys(Path(file).name for file in _FILES[_GARDENER]),
    "dev-setup-gardenadm-resources-base-shoot.yaml",
)
"""The names of all whole manifests of the module with a kind that restow has; of equal names one has its folders."""


def cluster_api() -> Path:
    """Return the folder with Cluster API's CRDs, and nothing else."""
    return _folder() / "cluster-api"


def crossplane() -> Path:
    """Return the folder with Crossplane's CRD of CompositeResourceDefinitions, and nothing else."""
    return _folder() / "crossplane"


def gardener() -> Path:
    """Return the folder with Gardener's example manifests, and nothing else."""
    return _folder() / "gardener"


def kueue() -> Path:
    """Return the folder with Kueue's CRD of workloads, and nothing else."""
    return _folder() / "kueue"


def metallb() -> Path:
    """Return the folder with MetalLB's CRD of BGP peers, and nothing else."""
    return _folder() / "metallb"


@functools.cache
def _folder() -> Path:
    """Return the folder with the files of the archive, below restow's cache.

    Raises:
        AssertionError: the archive was made with other pins, or of other files.
    """
    content = _ARCHIVE.read_bytes()
    cache = BinarySearch.from_environment().cache.with_name("upstream")
    folder = cache / hashlib.sha256(content).hexdigest()[:12]
    if not folder.is_dir():
        cache.mkdir(parents=True, exist_ok=True)
        work = scratch(cache)
        with tarfile.open(fileobj=io.BytesIO(content)) as archive:
            archive.extractall(work, filter="data")
        with contextlib.suppress(OSError):  # another process was as quick
            work.replace(folder)
        shutil.rmtree(work, ignore_errors=True)
    pins = (folder / "pins").read_text(encoding="utf-8")
    assert pins == _pins(), f"{_ARCHIVE.name} of tests/upstream was made with other pins: run `make peers`."
    return folder


def _pins() -> str:
    return hashlib.sha256(b"".join(file.read_bytes() for file in _PINS) + repr(_FILES).encode()).hexdigest()


def main() -> None:
    """Take the files out of the modules, and write the archive."""
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        asyncio.run(_download(BinarySearch.from_environment(), work))
        (work / "files" / "pins").write_text(_pins(), encoding="utf-8")
        with tarfile.open(_ARCHIVE, "w:xz", preset=9) as archive:
            for file in sorted((work / "files").rglob("*")):
                archive.add(file, file.relative_to(work / "files"), recursive=False, filter=_anonymous)


def _anonymous(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    """Return an entry that is the same wherever it is made."""
    return entry.replace(mtime=0, mode=0o755 if entry.isdir() else 0o644, uid=0, gid=0, uname="", gname="", deep=False)


async def _download(search: BinarySearch, work: Path) -> None:
    """Take the files out of the modules, into ``files/<the module's name>/`` of a work folder."""
    for pin in _PINS:
        shutil.copy(pin, work)
    go = await find_go(search, _PINS[0].read_text(encoding="utf-8"), _say)
    environment = build_environment(os.environ, offline=search.offline)
    for module, files in _FILES.items():
        _say(f"Downloading {module} with {go}.")
        version = await run([str(go), "list", "-m", module], cwd=work, environment=environment)
        command = [str(go), "mod", "download", "-json", version.strip().replace(" ", "@")]
        found = Path(json.loads(await run(command, cwd=work, environment=environment))["Dir"])
        project = re.sub("/v[0-9]+$", "", module).rpartition("/")[2]
        target, licenses = work / "files" / project, work / "files" / "licenses"
        for folder in (target, licenses):
            folder.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(found / "LICENSE", licenses / project)
        taken: set[str] = set()
        for file in files:
            name = Path(file).name
            shutil.copyfile(found / file, target / (name if name not in taken else file.replace("/", "-")))
            taken.add(name)
    changed = [pin.name for pin in _PINS if (work / pin.name).read_bytes() != pin.read_bytes()]
    assert not changed, f"{', '.join(changed)} of tests/upstream is incomplete: add what `go mod download` adds."


def _say(line: str) -> None:
    sys.stderr.write(f"{line}\n")


if __name__ == "__main__":
    main()
