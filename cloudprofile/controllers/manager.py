"""The manager: runs all controllers of the CloudProfile family on one informer, in the leading process."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from restow.cloudprofile.controllers.index import ProfileIndex
from restow.cloudprofile.controllers.reconcilers import (
    EventRecorder,
    ManagedVersions,
    ProfileStatus,
    Reconcile,
    ShootMaintenance,
    again_if_changed,
)
from restow.cloudprofile.management import VersionManagement
from restow.cloudprofile.objects import (
    CLOUD_PROFILE,
    CLOUD_PROFILES,
    NAMESPACED_CLOUD_PROFILE,
    NAMESPACED_CLOUD_PROFILES,
    RESOURCES,
    SHOOTS,
)
from restow.kube.clock import SYSTEM_CLOCK, Clock
from restow.kube.cluster import Cluster
from restow.kube.controller import Controller, ControllerEvent, Source
from restow.kube.errors import first_error
from restow.kube.listwatch import Key, Selection
from restow.kube.resources import Resource


def _ignore(*_details: object) -> None:
    pass


@dataclass(frozen=True, slots=True)
class ControllerOptions:
    """The controllers to run, and their settings.

    Attributes:
        management: the policy of automatic version management; None disables it.
        applies_management: whether it writes the specs of CloudProfiles; otherwise it only proposes.
        maintenance: whether Shoots are maintained.
        workers: how many objects of a kind are reconciled at once; bounds the rate of requests.
        resync: the seconds after which every object is reconciled again; costs no request. None for never.
        grace: the seconds that running reconciles get to finish when ``run`` is cancelled.
        identity: this process, for events.
        refused: called with every CloudProfile and the number of changes of version management that admission refuses.
        hook: called with every event of the controllers, for metrics and readiness; must not block.
        chance: random numbers from [0, 1).
    """

    management: VersionManagement | None = None
    applies_management: bool = False
    maintenance: bool = False
    workers: int = 4
    resync: float | None = 6 * 3600.0
    grace: float = 4.0
    identity: str = "restow"
    hook: Callable[[ControllerEvent], None] = _ignore
    refused: Callable[[Key, int], None] = _ignore
    chance: Callable[[], float] = random.random


async def run(cluster: Cluster, clock: Clock = SYSTEM_CLOCK, options: ControllerOptions | None = None) -> None:
    """Run the controllers until cancelled. Only one process of a cluster may run them at a time (``LeaderElector``).

    Requires these rights: get, list, watch and patch on cloudprofiles and namespacedcloudprofiles, also on their
    status; list and watch on shoots, and for the maintenance get and patch, also on their status; create on
    events.events.k8s.io.

    Raises:
        KubeError: the resources cannot be watched: the CRDs are not installed (404), RBAC (403), credentials (401).
    """
    index = ProfileIndex()
    chosen = options or ControllerOptions()
    informer = index.informer(cluster, clock, chosen.chance)
    factory = _ControllerFactory(cluster, informer, index, clock, chosen)
    try:
        async with asyncio.TaskGroup() as group:
            group.create_task(informer.run(), name="informer")
            await informer.wait_for_sync()  # otherwise a finalizer would be removed before all Shoots are listed
            for controller in factory.controllers():
                group.create_task(controller.run(), name=controller.name)
    except BaseExceptionGroup as failures:
        raise first_error(failures) from None


@dataclass(frozen=True)
class _ControllerFactory:
    """A factory of the controllers."""

    live: Cluster
    informer: Cluster
    index: ProfileIndex
    clock: Clock
    options: ControllerOptions

    def controllers(self) -> list[Controller]:
        """Return the controllers that the options enable."""
        children = Source(Selection(NAMESPACED_CLOUD_PROFILES), self.index.keys_of_deleted_parent)
        parents = Source(Selection(CLOUD_PROFILES), self.index.keys_of_children)
        made = [self._status(CLOUD_PROFILE, children), self._status(NAMESPACED_CLOUD_PROFILE, parents)]
        if self.options.management is not None:
            made.append(self._management(self.options.management))
        if self.options.maintenance:
            made.append(self._maintenance())
        return made

    def _status(self, kind: str, family: Source) -> Controller:
        status = ProfileStatus(
            kind=kind,
            informer=self.informer,
            live=self.live,
            index=self.index,
            recorder=self._recorder(kind.lower()),
            now=self.clock.now,
        )
        shoots = Source(Selection(SHOOTS), partial(self.index.keys_of_deleted_profile, kind))
        return self._controller(kind.lower(), RESOURCES[kind], status.reconcile, family, shoots)

    def _management(self, config: VersionManagement) -> Controller:
        name = "version-management"
        managed = ManagedVersions(
            config=config,
            applies=self.options.applies_management,
            informer=self.informer,
            index=self.index,
            recorder=self._recorder(name),
            now=self.clock.now,
            refused=self.options.refused,
        )
        return self._controller(name, CLOUD_PROFILES, managed.reconcile)

    def _maintenance(self) -> Controller:
        name = "shoot-maintenance"
        maintenance = ShootMaintenance(
            informer=self.informer, index=self.index, recorder=self._recorder(name), now=self.clock.now
        )
        return self._controller(name, SHOOTS, maintenance.reconcile)

    def _recorder(self, controller: str) -> EventRecorder:
        return EventRecorder(self.live, f"restow-{controller}", self.options.identity, self.clock)

    def _controller(self, name: str, resource: Resource, reconcile: Reconcile, *sources: Source) -> Controller:
        return Controller(
            self.informer,
            resource,
            again_if_changed(resource, reconcile),
            name=name,
            sources=sources,
            workers=self.options.workers,
            resync=self.options.resync,
            grace=self.options.grace,
            hook=self.options.hook,
            clock=self.clock,
            chance=self.options.chance,
        )
