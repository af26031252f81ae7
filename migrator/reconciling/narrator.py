"""Tells the hooks of a reconciler what happens, and of a run while it is under way."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeAlias

from restow.crds import Crd
from restow.kube.clock import Clock
from restow.kube.failures import describe_failure
from restow.migrator.model import Phase
from restow.migrator.observer import Moment
from restow.migrator.reconciling.details import Happening, MigrationDetails, facts, progress
from restow.migrator.report import CrdReport

__all__ = ["Hook", "Narrator", "Run"]

_log = logging.getLogger(__name__)

Hook: TypeAlias = Callable[[MigrationDetails], Awaitable[None] | None]
"""Is told of everything that happens, in the migrator's event loop; a plain function must not block."""

_FIRST_PROGRESS_S = 1.0
_HOOK_S = 10.0  # that an asynchronous hook gets; a migration does not wait for those who watch it


class Run:
    """Observes a run: keeps its report, which grows, and knows whether it looks at objects yet, and has ended."""

    def __init__(self, crd: Crd, due: tuple[Phase, ...]) -> None:
        self.crd = crd
        self.due = due
        self.report = CrdReport(name=crd.name)
        self.began = False
        self._looks = asyncio.Event()
        self._ended = asyncio.Event()

    def at(self, moment: Moment, report: CrdReport) -> None:
        """Take note of a moment of the migration."""
        self.report = report
        if moment in (Moment.NATIVE, Moment.WRITING):
            self.began = True
            self._looks.set()

    def end(self) -> None:
        """Take note of its end."""
        self._ended.set()
        self._looks.set()

    async def looks_or_ends(self) -> None:
        """Wait until it looks at objects, or ends without."""
        await self._looks.wait()

    async def ends_within(self, seconds: float) -> bool:
        """Wait for its end, but not longer than that."""
        try:
            async with asyncio.timeout(seconds):
                await self._ended.wait()
        except TimeoutError:
            return False
        return True


class Narrator:
    """Tells hooks, one after the other; one that fails or hangs is logged and disturbs nobody.

    Args:
        hooks: whom.
        clock: its ``now`` and ``monotonic``.
        progress_s: seconds between two ``progress`` of a run; the first ones come sooner.
    """

    def __init__(self, hooks: Sequence[Hook], clock: Clock, progress_s: float) -> None:
        self._hooks = tuple(hooks)
        self._clock = clock
        self._progress_s = progress_s

    async def tell(self, happening: Happening, crd: Crd | str, report: CrdReport | None = None, **more: Any) -> None:
        """Tell what happened to a CRD, or to one that could not be read; ``more`` are fields of the details."""
        known = {"crd": crd} if isinstance(crd, str) else facts(crd, report)
        details = MigrationDetails(happening=happening, at=self._clock.now(), **(known | more))
        for hook in self._hooks:
            try:
                async with asyncio.timeout(_HOOK_S):
                    answer = hook(details)
                    if inspect.isawaitable(answer):
                        await answer
            except Exception as broken:  # noqa: BLE001 - foreign code
                _log.error("%s: a hook failed: %s", details.crd, describe_failure(broken))

    async def follow(self, run: Run, failures: int) -> None:
        """Tell of a run from when it looks at objects until it ends; ``failures`` are those before it, in a row."""
        await run.looks_or_ends()
        if not run.began:
            return
        begun = self._clock.monotonic()
        more: dict[str, Any] = {"due": run.due, "failures": failures}
        # The run read the CRD once more: it may have changed since ``due`` was found.
        stored = ", ".join(run.report.stored_before or run.crd.stored_versions)
        storage = run.report.storage_version or run.crd.storage.name
        told = f"due: {', '.join(run.due)}; stored at {stored}, to be at {storage}"
        await self.tell(Happening.STARTED, run.crd, message=told, **more)
        pause = min(_FIRST_PROGRESS_S, self._progress_s)
        while not await run.ends_within(pause):
            pause = min(2 * pause, self._progress_s)
            message, seconds = progress(run.report), self._clock.monotonic() - begun
            await self.tell(Happening.PROGRESS, run.crd, run.report, message=message, duration_s=seconds, **more)
