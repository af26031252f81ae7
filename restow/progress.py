"""How a run shows that it is getting on: a bar on a terminal, a plain line every few seconds elsewhere; on stderr."""

from __future__ import annotations

import asyncio
import contextlib
import time
from typing import Self

from rich.progress import BarColumn, MofNCompleteColumn, TaskID, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bars

from restow.migrator import CrdReport, Moment
from restow.printing import console

__all__ = ["Progress"]

_BAR_PERIOD = 0.2
_LINE_PERIOD = 5.0


class Progress:
    """An ``Observer`` of migrations, to be entered around a run."""

    def __init__(self) -> None:
        self._console = console(stderr=True)
        self._terminal = self._console.is_terminal
        self._report: CrdReport | None = None
        self._since = 0.0
        self._done_before = 0
        self._bars = Bars(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[rate]}"),
            TimeRemainingColumn(),
            console=self._console,
            auto_refresh=False,
        )
        self._bar: TaskID | None = None
        self._ticking: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        if self._terminal:
            self._bars.start()
        self._ticking = asyncio.create_task(self._tick(), name="progress")
        return self

    async def __aexit__(self, *_error: object) -> None:
        assert self._ticking is not None
        self._ticking.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._ticking
        if self._terminal:
            self._bars.stop()

    def at(self, moment: Moment, report: CrdReport) -> None:
        """Take note of a moment of the run."""
        if moment is Moment.SETTLING:
            self._line(f"{report.name}: waiting {report.settle_s:.1f} s for the CRD's last change to settle")
        elif moment is Moment.WRITING:
            self._report, self._since = report, time.monotonic()
            if self._terminal:
                self._bar = self._bars.add_task(report.name, total=None, rate="")
            self._line(f"{report.name}: bringing objects to {report.storage_version}")
        elif moment is Moment.PRUNING:
            self._show()
            self._line(f"{report.name}: all objects done, judging whether storedVersions may be pruned")
        elif self._report is report:
            self._show()
            self._report = self._bar = None

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(_BAR_PERIOD if self._terminal else _LINE_PERIOD)
            self._show()

    def _show(self) -> None:
        report = self._report
        if report is None:
            return
        counts = report.objects
        done = report.done
        rate = done / max(time.monotonic() - self._since, 0.001)
        if self._terminal and self._bar is not None:
            total = max(report.expected, counts.listed) or None
            failed = f", {counts.failed} failed" if counts.failed else ""
            self._bars.update(self._bar, completed=done, total=total, rate=f"{rate:.0f}/s{failed}")
            self._bars.refresh()
        elif not self._terminal:
            of = f" of {report.expected}" if report.expected else ""
            self._line(f"{report.name}: {done}{of} objects, {rate:.0f}/s, {counts.failed} failed")

    def _line(self, text: str) -> None:
        if not self._terminal:
            self._console.print(text, markup=False)
