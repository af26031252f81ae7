"""Where the log of a command goes: to stderr, a line for each record, from warnings on."""

from __future__ import annotations

import logging
import sys

__all__ = ["log_to_stderr"]


class _Stderr(logging.Handler):
    """Writes to what stderr is at that moment: the live view takes its place, and puts lines above its bars."""

    def emit(self, record: logging.LogRecord) -> None:
        try:
            sys.stderr.write(f"{self.format(record)}\n")
        except Exception:  # noqa: BLE001 - what logging asks of a handler
            self.handleError(record)


def log_to_stderr() -> None:
    """Set the log up, for a process that is a command of its own; a log that is set up already stays as it is."""
    logging.basicConfig(format="%(levelname)s %(name)s: %(message)s", level=logging.WARNING, handlers=[_Stderr()])
