"""An operator in plain asyncio that keeps its CRDs migrated."""

import asyncio
import logging
import signal

from restow.kube import connect
from restow.migrator import Migrator


async def main() -> None:
    """Run until SIGTERM: the migrator then finishes what it writes, and releases its lease."""
    async with connect() as cluster, asyncio.TaskGroup() as tasks:
        migrator = Migrator(cluster, ["widgets.example.com"], lease="widgets-migrator")
        migrating = tasks.create_task(migrator.run_forever())
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, migrating.cancel)
        # … and the operator's own tasks


logging.basicConfig(level=logging.INFO)
asyncio.run(main())
