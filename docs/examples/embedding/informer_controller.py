"""A controller that reads from an informer: it logs how many ConfigMaps each namespace has."""

import asyncio
import logging
from collections.abc import Mapping
from typing import Any

from restow.kube import Cluster, Controller, Informer, Key, ReconcileResult, Store, connect
from restow.kube.resources import CONFIG_MAPS

log = logging.getLogger("example")


def transform(config_map: Mapping[str, Any]) -> dict[str, Any]:
    """Keep the metadata and drop the data."""
    return {"metadata": config_map["metadata"]}


def namespace_of(config_map: Mapping[str, Any]) -> str:
    """Index ConfigMaps by their namespace."""
    return config_map["metadata"]["namespace"]


async def run(cluster: Cluster) -> None:
    """Run the informer, and the controller as soon as the informer is in sync."""
    store = Store(transform, index_by=namespace_of)
    informer = Informer(cluster, {CONFIG_MAPS: store})

    async def reconcile(key: Key) -> ReconcileResult:
        log.info("%s has %d ConfigMaps", key.namespace, len(store.by_index(key.namespace)))
        return ReconcileResult()

    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(informer.run())
        await informer.wait_for_sync()
        tasks.create_task(Controller(informer, CONFIG_MAPS, reconcile).run())


async def main() -> None:
    """Connect as kubectl does, and run until cancelled."""
    async with connect() as cluster:
        await run(cluster)


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO)
    asyncio.run(main())
