"""Wait until every API server follows the CRD, and notice one that lags during a pass.

An API server that lags behind a flip of the storage version stores objects at the old version
(``restow.migrator.requests.apiservers``): up to 157 ms were measured within one server (Kubernetes issue 130235). A
request keeps the version with which it began, while an admission webhook holds it for example. Such a server also
converts by the strategy and the schemas that it knows, so owners that are written through it are of other fields.

Therefore a run waits, before it lists, until every server follows the CRD (``settle``), and checks the servers during
and after the pass (``LagWatch``): a pass during which one lagged proves nothing. A run that stores every object also
waits for the settle time, until the requests of clients from before have ended.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from restow.crds import Crd, CrdError
from restow.kube.errors import KubeError
from restow.migrator.decide.premise import Followers
from restow.migrator.decide.proof import reencoding_due
from restow.migrator.model.callbacks import MigrationRefused, Moment
from restow.migrator.model.watermark import ANNOTATION as WATERMARK
from restow.migrator.requests.apiservers import ApiServers
from restow.migrator.requests.crdaccess import annotate, read_crd
from restow.migrator.run.context import CrdRun

_log = logging.getLogger(__name__)

LAG_PATIENCE_S = 300.0
"""Seconds to wait for an API server that does not follow the CRD."""

_POLL_S = 0.5
_LOOK_AGAIN_S = 5.0
_WATCH_S = 10.0

_RESTLESS = 3
"""After so many changes of its spec during the wait, a CRD counts as one that is changed all the time."""

_CHANGING = (
    "{name} was changed {changes} times within the {seconds:.0f} seconds for which it was waited for, so its objects "
    "cannot be proved to be at one version. Most often two tools install different versions of the CRD: see who writes "
    "its spec (kubectl get crd {name} -o yaml --show-managed-fields), then run again"
)


class Lagging(Exception):
    """An API server does not follow the CRD, or the CRD changes too often; the message says what to do."""


async def remaining(
    servers: ApiServers, followers: Followers, crd: Crd, *, settle_s: float, clock: Callable[[], float]
) -> tuple[str, float]:
    """Look at the API servers once.

    Returns:
        A sentence about a server that does not follow the CRD, or an empty text. And the seconds until all requests
        have ended that began before every server followed it, or until the next look at that server.

    Raises:
        KubeError: an API server cannot be reached.
    """
    views = await servers.views(crd)
    late = {view.server: why for view in views if (why := view.behind(crd))}
    current = {view.server for view in views} - late.keys()
    wait = followers.remaining(crd, current, behind=late, settle_s=settle_s, now=clock())
    return (next(iter(late.values())), min(settle_s, _LOOK_AGAIN_S)) if late else ("", wait)


async def settle(run: CrdRun, servers: ApiServers, crd: Crd) -> Crd:
    """Wait until every API server follows the current CRD.

    If every object is to be stored again, also wait until all requests from before that have ended.

    Raises:
        Lagging: a server has not seen it after minutes, or the CRD is changed all the time.
        MigrationRefused: the CRD was deleted, or may no longer be read.
        KubeError: an API server cannot be reached.
    """
    clock, options, report = run.environment.clock, run.options, run.report
    begun, first = clock(), crd.generation
    give_up = begun + LAG_PATIENCE_S
    while not run.stop:
        settle_s = options.settle_s if reencoding_due(crd, options) else 0.0
        now, changes = clock(), crd.generation - first
        if changes >= _RESTLESS and now - begun >= LAG_PATIENCE_S + settle_s:
            raise Lagging(_CHANGING.format(name=report.name, changes=changes, seconds=now - begun))
        behind, wait = await remaining(servers, run.followers, crd, settle_s=settle_s, clock=clock)
        if behind:
            if now >= give_up:
                msg = f"{behind}. It was waited for {LAG_PATIENCE_S:.0f} seconds; look at it, then run again"
                raise Lagging(msg)
            report.lagging, wait = behind, _POLL_S
            run.at(Moment.LAGGING)
        elif wait <= 0:
            return crd
        else:
            report.settle_s = wait
            run.at(Moment.SETTLING)
        await run.stop.sleep(wait)
        crd = await read_crd(run.cluster, report.name)
    return crd


class LagWatch:
    """Checks the API servers while a pass runs.

    Args:
        run: the migration.
        servers: the API servers.
        crd: the CRD as it was when the pass began.

    Attributes:
        lagged: a sentence about a server that was seen to lag; empty if none was.
    """

    def __init__(self, run: CrdRun, servers: ApiServers, crd: Crd) -> None:
        self._run = run
        self._servers = servers
        self._crd = crd
        self.lagged = ""

    async def follow(self) -> None:
        """Check periodically, until cancelled, or until a server lags."""
        while not self.lagged:
            await asyncio.sleep(_WATCH_S)
            try:
                self.lagged = await self._servers.behind(self._crd)
            except KubeError as error:
                _log.debug("%s: the API servers could not be looked at in between: %s", self._crd.name, error)

    async def after_pass(self) -> str:
        """Return why the pass that has just ended proves nothing, or an empty text.

        The reason is that a server lagged during the pass, lags now, or cannot be checked. If the storage version
        changed meanwhile, the prune is refused for that reason, and this one is not returned.
        """
        crd, cluster, report = self._crd, self._run.cluster, self._run.report
        try:
            behind = self.lagged or await self._servers.behind(crd)
            flipped = behind and (await read_crd(cluster, crd.name)).storage.name != crd.storage.name
        except (KubeError, MigrationRefused, CrdError) as error:
            why = f"the API servers could not be looked at after the pass: {error}"
            if isinstance(error, KubeError) and error.out_of_reach:
                report.unfinished, report.unreachable = f"{why}. Run again to prune", cluster.host
            return why
        return "" if flipped else behind

    async def drop_watermark(self) -> None:
        """Remove the watermark: objects that a lagging server stores at another version are newer than it."""
        run, name = self._run, self._crd.name
        if run.options.dry_run:
            return
        try:
            said = await annotate(run.cluster, await read_crd(run.cluster, name), {WATERMARK: None})
        except KubeError as error:
            said = error.said
        except (MigrationRefused, CrdError):
            return  # the next read of the CRD says why
        if said:
            why = f"the watermark on {name} could not be removed after an API server had lagged ({said})"
            run.report.unfinished = run.report.unfinished or f"{why}. Run again without --resume"
