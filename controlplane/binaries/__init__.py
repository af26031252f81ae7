"""The binaries of a control plane: found, downloaded, or built, and cached for all test runs.

Tests can use a real API server only if it needs no manual setup. The binaries come from, in this order:

1. the environment: ``TEST_ASSET_KUBE_APISERVER``, ``TEST_ASSET_ETCD``, ``TEST_ASSET_KUBECTL``,
  ``TEST_ASSET_KUBE_CONTROLLER_MANAGER``, then the folder ``KUBEBUILDER_ASSETS`` (as in controller-runtime's
  envtest);
2. the cache folder of this package;
3. the published envtest archive (sha512 checked; it has no kube-controller-manager);
4. a build with Go from the ``go.mod`` that pins the wanted minor (see ``search``; it takes minutes, once).

Invariants: every file in the cache is complete and was checked (files appear in one step); two processes never
download or build at the same time (a file lock); only the requested binaries are fetched or built.
"""

from __future__ import annotations

from restow.controlplane.binaries.find import find_binaries
from restow.controlplane.binaries.search import BINARIES, BinarySearch

__all__ = ["BINARIES", "BinarySearch", "find_binaries"]
