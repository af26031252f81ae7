"""A replica of ``restow operator --conversions`` as a process, for tests that wait for what takes minutes otherwise.

Its Leases are short, and it often looks for records of rules that do not exist.

Its arguments: the kubeconfig, the port of the webhook, the port of the probes, and the address for API servers.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from restow.conversion.certificates import Url
from restow.conversion.operate import declarations, members
from restow.conversion.server import Limits, bind
from restow.kube import LeaseTiming, connect
from restow.operator import Settings
from restow.operator.conversions import run


def main(kubeconfig: str, port: str, probes: str, address: str) -> None:
    """Run until killed."""
    members._DURATION_S, members._RENEW_S = 3, 0.5  # type: ignore[misc]
    declarations._COLLECT_S = 2.0  # type: ignore[misc]
    settings = Settings(
        identity=Url(address),
        listen=lambda _webhook, _certificate: (bind("127.0.0.1", int(port)), bind("127.0.0.1", int(probes))),
        connect=lambda: connect(Path(kubeconfig)),
        limits=Limits(drain_seconds=0.2),
        installs_crds=True,
        timing=LeaseTiming(lease_duration=4, renew_deadline=3.0, retry_period=0.5),
    )
    asyncio.run(run(settings, asyncio.Event()))


if __name__ == "__main__":
    main(*sys.argv[1:])
