"""restow in a host program: one migration through the library, in a separate process.

python -m benchmarks.migration.embedded KUBECONFIG CRD '{"managed_fields": "translate", …}'
"""

from __future__ import annotations

import asyncio
import resource
import sys
import time
from typing import Any

import msgspec

from restow.kube import connect
from restow.migrator import Migration, Options


async def measure(kubeconfig: str, name: str, options: Options) -> dict[str, Any]:
    """Migrate one CRD; return restow's own report, with the wall time and the CPU time of the call."""
    async with connect(kubeconfig) as cluster:
        begun, cpu_before = time.perf_counter(), _cpu()
        report = await Migration(cluster, options).run([name])
        return {
            "report": report.to_json(),
            "seconds": time.perf_counter() - begun,
            "cpu_seconds": _cpu() - cpu_before,
        }


def _cpu() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def main() -> None:
    """Read the command line, print the measurements as JSON."""
    kubeconfig, name, options = sys.argv[1:]
    done = asyncio.run(measure(kubeconfig, name, Options(**msgspec.json.decode(options))))
    sys.stdout.buffer.write(msgspec.json.encode(done) + b"\n")


if __name__ == "__main__":
    main()
