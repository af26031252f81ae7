"""How a long look at many objects shows that it is getting on: a bar on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import time
from types import TracebackType
from typing import Self

from rich.progress import BarColumn, MofNCompleteColumn, TaskID, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bars

from restow.printing import console

__all__ = ["Counting"]

_LINE_PERIOD = 5.0


class Counting:
    """Counts objects of one kind after the other; on stderr."""

    def __init__(self) -> None:
        self._console = console(stderr=True)
        self._terminal = self._console.is_terminal
        self._bars = Bars(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            console=self._console,
            auto_refresh=False,
        )
        self._bar: TaskID | None = None
        self._name = ""
        self._last = time.monotonic()

    def __enter__(self) -> Self:
        if self._terminal:
            self._bars.start()
        return self

    def __exit__(
        self, _type: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        if self._terminal:
            self._bars.stop()

    def begin(self, name: str) -> None:
        """Begin with another kind."""
        self._name = name
        if self._terminal:
            self._bar = self._bars.add_task(name, total=None)

    def at(self, done: int, total: int | None) -> None:
        """Show how far it is; ``total`` as far as it is known."""
        if self._terminal and self._bar is not None:
            self._bars.update(self._bar, completed=done, total=total)
            self._bars.refresh()
        elif time.monotonic() - self._last >= _LINE_PERIOD:
            self._last = time.monotonic()
            of = f" of {total}" if total else ""
            self._console.print(f"{self._name}: {done}{of} objects", markup=False)
