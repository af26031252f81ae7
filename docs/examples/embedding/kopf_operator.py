"""An operator on kopf that keeps its CRDs migrated: ``kopf run --all-namespaces kopf_operator.py``."""

import asyncio
import signal
from typing import Any

import kopf

from restow.kube import connect
from restow.migrator import Migrator


@kopf.on.startup()
async def begin(memo: kopf.Memo, **_: Any) -> None:
    """Migrate in the background, from now on."""

    async def migrate() -> None:
        async with connect() as cluster:
            await Migrator(cluster, ["widgets.example.com"], lease="widgets-migrator").run_forever()

    def ended(task: asyncio.Task[None]) -> None:
        # It may not watch CRDs (403), say. Without rights on its lease it does not end: it logs a warning each time it
        # tries, and waits for the rights.
        if not task.cancelled():
            signal.raise_signal(signal.SIGTERM)

    memo.migrating = asyncio.create_task(migrate())
    memo.migrating.add_done_callback(ended)


@kopf.on.cleanup()
async def end(memo: kopf.Memo, **_: Any) -> None:
    """Finish what is being written, and release the lease, before kopf cancels whatever still runs in its loop."""
    memo.migrating.cancel()
    await asyncio.wait([memo.migrating])


@kopf.on.event("example.com", "widgets")
def noticed(name: str, event: kopf.RawEvent, logger: kopf.Logger, **_: Any) -> None:
    """Stand for the operator's own work."""
    logger.info("%s: %s", name, event["type"])
