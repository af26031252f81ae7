"""The binaries of a control plane: found, downloaded, or built; cached once and for all test runs.

Why it exists: tests use a real API server only if it needs no manual setup. The binaries come from, in
order:

1. the environment: ``TEST_ASSET_KUBE_APISERVER``, ``TEST_ASSET_ETCD``, ``TEST_ASSET_KUBECTL``,
   ``TEST_ASSET_KUBE_CONTROLLER_MANAGER``, then the folder ``KUBEBUILDER_ASSETS`` (as controller-runtime's
   envtest);
2. this room's cache folder;
3. the published envtest archive (sha512 checked; it has no kube-controller-manager);
4. built with Go from the ``go.mod`` that pins the wanted minor (see ``search``; minutes, once).

Invariants: what is in the cache is complete and was checked (files appear in one step); two processes never
download or build at the same time (a file lock); only what is asked for is fetched or built.
"""

from __future__ import annotations

from restow.controlplane.binaries.find import find_binaries
from restow.controlplane.binaries.search import BINARIES, BinarySearch

__all__ = ["BINARIES", "BinarySearch", "find_binaries"]
