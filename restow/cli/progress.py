"""Show the progress of a run on stderr: live bars on a terminal, periodic plain lines elsewhere.

Progress must not end the work: without a terminal or a reader of the pipe, it stops printing.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Self

from rich.console import Console, Group
from rich.control import Control
from rich.live import Live
from rich.segment import ControlType
from rich.text import Text

from restow.cli.console import console as standard_console
from restow.migrator import CrdReport
from restow.migrator.model.callbacks import Moment

_FRAME_PERIOD = 0.2
_LINE_PERIOD = 5.0
_LATER_PERIOD = 30.0  # after some minutes, so that the log of a run of hours stays readable
_LATER = 120.0
_WINDOW = 15.0  # seconds that a rate covers
_SHORTEST_WINDOW = 0.5
_BAR = (10, 40)  # cells, minimum and maximum
_INDENT = "  "


@dataclass(slots=True)
class _Track:
    """The progress of one CRD, with the samples from which its rate is computed."""

    report: CrdReport
    moment: Moment
    since: float
    told: float = float("-inf")
    samples: deque[tuple[float, int]] = field(default_factory=deque)

    def move(self, moment: Moment, now: float) -> None:
        self.moment, self.since = moment, now
        self.samples.clear()

    def sample(self, now: float) -> None:
        """Add a sample of the progress; a new pass starts at zero again."""
        done = self.report.done
        if self.samples and done < self.samples[-1][1]:
            self.samples.clear()
        self.samples.append((now, done))
        while now - self.samples[0][0] > _WINDOW:
            self.samples.popleft()

    @property
    def total(self) -> int:
        """The number of objects, as far as the lists have reported it."""
        return max(self.report.expected, self.report.objects.listed)

    @property
    def rate(self) -> float | None:
        """The recent rate in objects per second; None while there are too few samples."""
        if not self.samples or self.samples[-1][0] - self.samples[0][0] < _SHORTEST_WINDOW:
            return None
        (start, before), (end, done) = self.samples[0], self.samples[-1]
        return (done - before) / (end - start)

    @property
    def left(self) -> float | None:
        """The seconds until all objects are done at this rate; None if unknown."""
        rate, total = self.rate, self.total
        return (total - self.report.done) / rate if rate and total else None

    def phase(self, now: float) -> str:
        """Return the current phase in a word or two, and what the CRD waits for."""
        if self.moment is Moment.SETTLING:
            return f"settling {max(self.report.settle_s - (now - self.since), 0):.0f}s"
        wait = self.report.waits.sentence()
        if self.moment is Moment.NATIVE and wait:
            return wait
        return f"{_PHASES[self.moment]}, {wait}" if wait else _PHASES[self.moment]

    def sentence(self, now: float) -> str:
        """Return all of the progress as one line that is understandable alone in a log."""
        report, name = self.report, self.report.name
        if self.moment is Moment.SETTLING:
            left = max(report.settle_s - (now - self.since), 0)
            return (
                f"{name}: waiting {left:.1f} s more, until requests have ended that began before the API servers "
                "followed the CRD (--settle)"
            )
        if self.moment is Moment.LAGGING:
            return f"{name}: waiting, since {report.lagging}"
        if self.moment is Moment.PRUNING:
            return f"{name}: all objects done, judging whether storedVersions may be pruned"
        if self.moment is Moment.ENDED:
            return f"{name}: {_ending(report)}"
        if self.moment is not Moment.WRITING:
            return f"{name}: {self.phase(now)}"
        wait = report.waits.sentence()
        if not report.done and not self.total:
            return f"{name}: " + (wait or f"bringing objects to {report.storage_version}")
        return f"{name}: " + ", ".join(self._figures()) + (f"; {wait}" if wait else "")

    def _figures(self) -> Iterator[str]:
        report, total, rate, left = self.report, self.total, self.rate, self.left
        yield f"{report.done} of {total} objects at {report.storage_version} ({_percent(report.done, total)})"
        if rate is not None:
            yield f"{rate:.0f}/s"
        if left is not None:
            yield f"about {_span(left)} left"
        yield f"{report.requests.retried} retried"
        yield f"{report.objects.failed} failed"


_PHASES = {
    Moment.LAGGING: "waiting for an API server that lags",
    Moment.WRITING: "writing",
    Moment.PRUNING: "pruning",
    Moment.ENDED: "ended",
    Moment.NATIVE: "waiting for the cluster's own StorageVersionMigration",
}


class Progress:
    """An ``Observer`` of migrations and a context manager around a run.

    Args:
        crds: the number of CRDs, if it is known.
        console: the console to print on; stderr except in tests.
        environment: if it has ``CI``, the progress is a log even on a terminal.
        clock: a monotonic clock, in seconds.
    """

    def __init__(
        self,
        crds: int | None = None,
        *,
        console: Console | None = None,
        environment: Mapping[str, str] = os.environ,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._console = console or standard_console(stderr=True)
        self._clock = clock
        self._crds = crds
        self._begun = clock()
        self._tracks: dict[str, _Track] = {}
        self._ended: list[bool] = []
        self._told = float("-inf")
        self._widths: Sequence[int] = ()
        self._ticking: asyncio.Task[None] | None = None
        # FORCE_COLOR asks for colours in a log, not for bars. Therefore this asks the stream itself.
        live = self._console.file.isatty() and not self._console.is_dumb_terminal and not environment.get("CI")
        self._live = Live(console=self._console, auto_refresh=False, transient=True, redirect_stdout=False)
        self._is_live = live

    async def __aenter__(self) -> Self:
        if self._is_live:
            self._live.start()
        self._ticking = asyncio.create_task(self._tick(), name="progress")
        return self

    async def __aexit__(self, *_error: object) -> None:
        assert self._ticking is not None
        self._ticking.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._ticking
        if self._is_live:
            with contextlib.suppress(OSError):
                self._live.stop()

    def at(self, moment: Moment, report: CrdReport) -> None:
        """Record a moment of the run."""
        now = self._clock()
        track = self._tracks.setdefault(report.name, _Track(report, moment, now))
        track.report = report
        track.move(moment, now)
        if moment is Moment.ENDED:
            self._ended.append(report.succeeded)
            del self._tracks[report.name]
            if report.refused or not report.storage_version:  # the result at the end has the reason
                return
            if self._is_live and self._crds != 1:  # the result at the end says the same of a single CRD
                self._above(report)
        if not self._is_live:
            self._tell(track, now)

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(_FRAME_PERIOD)
            self.show()

    def show(self) -> None:
        """Show the current state: the next frame, or a line if one is due."""
        now = self._clock()
        for track in self._tracks.values():
            if track.moment is Moment.WRITING:
                track.sample(now)
        if self._is_live:
            self._draw(now)
        elif self._tracks:
            self._tell(min(self._tracks.values(), key=lambda each: each.told), now)

    def _tell(self, track: _Track, now: float) -> None:
        """Print a line, unless the previous one is too recent."""
        period = _LINE_PERIOD if now - self._begun < _LATER else _LATER_PERIOD
        if now - self._told < period:
            return
        self._told = track.told = now
        line = track.sentence(now)
        if self._crds != 1 and self._ended:
            line += f"; {self._overall()}"
        with contextlib.suppress(OSError):
            self._console.print(line, markup=False, soft_wrap=True)

    def _overall(self) -> str:
        of = f" of {self._crds}" if self._crds else ""
        ended = len(self._ended)
        text = f"{ended}{of} {'CRD' if (self._crds or ended) == 1 else 'CRDs'} done"
        unfinished = self._ended.count(False)
        return text + (f", {unfinished} of them not wholly" if unfinished else "")

    def _above(self, report: CrdReport) -> None:
        """Print a line about a finished CRD above the bars."""
        style = "" if report.succeeded else "red"
        with contextlib.suppress(OSError):
            self._live.console.print(
                Text.assemble((report.name, "bold"), " ", (_ending(report), style)), soft_wrap=True
            )

    def _draw(self, now: float) -> None:
        width, room = self._console.width, max(self._console.height - 2, 1)
        lines = [line for track in self._tracks.values() for line in _lines(track, now, width, self._console.encoding)]
        if len(lines) > room:
            lines = [*lines[: room - 1], Text("…" if _is_unicode(self._console.encoding) else "...")]
        if self._crds != 1 and (self._crds or self._ended):
            spent = _span(now - self._begun)
            lines.append(_cropped(Text(f"{self._overall()}, {spent}", style="dim"), width))
        with contextlib.suppress(OSError):
            self._clear_wrapped_rows(width)
            self._live.update(Group(*lines), refresh=True)
        self._widths = [line.cell_len for line in lines]

    def _clear_wrapped_rows(self, width: int) -> None:
        """Clear the extra rows that appear when the terminal becomes narrower and wraps the drawn lines."""
        rows = sum(max(-(-cells // width), 1) for cells in self._widths)
        for _ in range(rows - len(self._widths)):
            self._console.control(Control((ControlType.ERASE_IN_LINE, 2), (ControlType.CURSOR_UP, 1)))


def _lines(track: _Track, now: float, width: int, encoding: str) -> list[Text]:
    """Draw one CRD on one line if it fits, else on two, without the least important figures."""
    report, total = track.report, track.total
    head = Text.assemble((report.name, "bold"), "  ", track.phase(now))
    if track.moment is not Moment.WRITING:
        return [_cropped(head, width)]
    figures = list(_figures(track))
    needed = sum(figure.cell_len + 2 for _, figure in figures)
    left = width - head.cell_len - 2 - needed
    if left >= _BAR[0]:
        return [Text("  ").join([head, _bar(report.done, total, min(left, _BAR[1]), encoding), *_texts(figures)])]
    while figures and width - len(_INDENT) - _BAR[0] < sum(figure.cell_len + 2 for _, figure in figures):
        figures.remove(max(figures, key=lambda figure: figure[0]))
    room = width - len(_INDENT) - sum(figure.cell_len + 2 for _, figure in figures)
    below = Text("  ").join([_bar(report.done, total, max(min(room, _BAR[1]), 1), encoding), *_texts(figures)])
    return [_cropped(head, width), _cropped(Text(_INDENT) + below, width)]


def _texts(figures: Sequence[tuple[int, Text]]) -> list[Text]:
    return [text for _, text in figures]


def _figures(track: _Track) -> Iterator[tuple[int, Text]]:
    """Yield the figures next to a bar; those with the highest number are omitted first."""
    report, total, rate, left = track.report, track.total, track.rate, track.left
    failed, retried = report.objects.failed, report.requests.retried
    yield 1, Text(f"{report.done:,}/{total:,}" if total else f"{report.done:,}")
    yield 4, Text(_percent(report.done, total).rjust(5))
    yield 3, Text("" if rate is None else f"{rate:,.0f}/s".rjust(6))
    yield 2, Text("" if left is None else f"{_span(left)} left".rjust(9))
    if retried:
        yield 5, Text(f"{retried:,} retried", style="magenta")
    if failed:
        yield 0, Text(f"{failed:,} failed", style="red")


def _bar(done: int, total: int, cells: int, encoding: str) -> Text:
    """Draw a bar with two characters, so that it is readable without colours."""
    full, empty = ("━", "─") if _is_unicode(encoding) else ("#", "-")
    filled = min(cells * done // total, cells) if total else 0
    return Text.assemble((full * filled, "bold"), (empty * (cells - filled), "dim"))


def _is_unicode(encoding: str) -> bool:
    return encoding.lower().startswith("utf")


def _cropped(line: Text, width: int) -> Text:
    line.truncate(width, overflow="ellipsis")
    line.no_wrap = True
    return line


def _ending(report: CrdReport) -> str:
    if report.refused:
        return "refused"
    if not report.passes:
        return "not begun" if report.unfinished else "nothing was due"
    counts = report.objects
    said = [
        f"{counts.listed} {'object' if counts.listed == 1 else 'objects'} in {_span(report.duration_s)}",
        f"{counts.rewritten} rewritten",
    ]
    if counts.failed:
        said.append(f"{counts.failed} failed")
    if report.unfinished:
        said.append("not finished")
    said.append("pruned" if report.pruned else "nothing pruned")
    if report.unmarked:
        said.append("not marked")
    return ", ".join(said)


def _percent(done: int, total: int) -> str:
    return f"{100 * done // total} %" if total else ""


def _span(seconds: float) -> str:
    """Format a duration: ``12 s``, ``4:05`` minutes, ``1:04:05`` hours."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
