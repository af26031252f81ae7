"""``make test-node``: the tests of this folder, on a cluster with nodes that exists only for them.

    python -m tests.node [PYTEST_ARGUMENT...]

Binaries and images are made first, once, outside of the namespaces that have no network. Exit codes: pytest's; 2 if the
machine lacks something, which one sentence then says.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from pathlib import Path
from typing import Final

from deploy.tools.tools import find_tools
from restow.controlplane.binaries import BinarySearch, find_binaries
from tests.node.images import images
from tests.node.issuing import CERT_MANAGER
from tests.node.machine import missing, run_apart
from tests.peers.building import installed

HERE: Final = Path(__file__).parent
BINARIES: Final = (
    "etcd",
    "kube-apiserver",
    "kube-controller-manager",
    "kube-scheduler",
    "kube-proxy",
    "kubelet",
    "kubectl",
)


def main() -> int:
    """Prepare everything and run pytest."""
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))  # unwinds, so that nothing stays
    if why := missing():
        _say(why)
        return 2
    binaries = asyncio.run(find_binaries(BINARIES))
    binaries |= {"helm": asyncio.run(find_tools(_say))["helm"], "cert-manager": installed(CERT_MANAGER)}
    archives = images(BinarySearch.from_environment().cache.with_name("node"))
    environment = {
        **os.environ,
        "RESTOW_NODE_BINARIES": json.dumps({name: str(path) for name, path in binaries.items()}),
        "RESTOW_NODE_IMAGES": os.pathsep.join(map(str, archives)),
    }
    return run_apart([sys.executable, "-m", "pytest", HERE, *sys.argv[1:]], environment)


def _say(text: str) -> None:
    sys.stderr.write(f"test-node: {text}\n")


if __name__ == "__main__":
    sys.exit(main())
