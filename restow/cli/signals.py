"""Signal handlers of an event loop on every platform.

The event loop of Windows has no ``add_signal_handler``, and Windows has no SIGHUP. On Windows ``signal.signal`` catches
the signal between two instructions of the main thread and wakes the loop, which calls the handler.
"""

from __future__ import annotations

import contextlib
import signal
import sys
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import asyncio


def ignore_hangup() -> None:
    """Keep SIGHUP from ending a process that starts: it reads its certificate later, so it misses nothing.

    A handler, unlike SIG_IGN, is not inherited by credential plugins.
    """
    if sys.platform != "win32" and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGHUP, lambda _number, _frame: None)


def on(loop: asyncio.AbstractEventLoop, number: signal.Signals, handler: Callable[[], None]) -> None:
    """Call the handler in the loop when the signal arrives."""
    try:
        loop.add_signal_handler(number, handler)
    except NotImplementedError:
        signal.signal(number, lambda _number, _frame: loop.call_soon_threadsafe(handler))


def on_hangup(loop: asyncio.AbstractEventLoop, handler: Callable[[], None]) -> None:
    """Call the handler in the loop on SIGHUP, where the platform has it."""
    if sys.platform != "win32":
        on(loop, signal.SIGHUP, handler)


def off(loop: asyncio.AbstractEventLoop, number: signal.Signals) -> None:
    """Restore the default handler, so that the signal ends the process."""
    with contextlib.suppress(NotImplementedError):
        loop.remove_signal_handler(number)
    signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
