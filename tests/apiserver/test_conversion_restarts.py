"""Rolling restarts of the server behind a balancer, while clients of the API server are at work."""

from __future__ import annotations

import asyncio
from pathlib import Path

from restow.kube.client import HttpCluster
from tests.apiserver.balancer import Backend, balancing
from tests.apiserver.load import under_load
from tests.apiserver.provider import GATEWAYS, Provider
from tests.apiserver.serving import Instance, Local, certified

RESTARTS = 30
PROCESS_EVERY = 5  # the others are the same server within this process: to start one costs half a second of CPU


async def test_no_request_fails_over_rolling_restarts(cluster: HttpCluster, tmp_path: Path) -> None:
    """An upgrade of a provider must not be noticed by the clients of its kinds."""
    bundle = certified(tmp_path)
    provider = Provider(cluster)
    instances: list[Instance | Local] = []
    async with balancing() as balancer, asyncio.TaskGroup() as group:

        async def started(number: int) -> tuple[Instance | Local, Backend]:
            instance: Instance | Local
            if number % PROCESS_EVERY == 0:
                instance = await Instance.start(tmp_path)
            else:
                instance = Local(tmp_path)
                group.create_task(instance.run())
            instances.append(instance)
            backend = balancer.add(instance.port, instance.ready)
            while not backend.ready:
                await asyncio.sleep(0.01)
            return instance, backend

        async def stopped(instance: Instance | Local, backend: Backend) -> None:
            assert not await instance.stop()
            balancer.remove(backend)

        running = [await started(number) for number in range(2)]
        try:
            await provider.install(GATEWAYS, balancer.port, bundle)
            async with under_load(provider) as load:
                for number in range(RESTARTS):
                    running.append(await started(number))
                    await stopped(*running.pop(0))
                done = load.succeeded
            assert not load.failures, f"{len(load.failures)} of {done + len(load.failures)}: {load.failures[:3]}"
            assert done > 10 * RESTARTS and balancer.accepted > RESTARTS
        finally:
            await provider.remove()
            for instance in instances:
                await instance.stop()
