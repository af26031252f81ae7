"""The log of the test process, which commands that run in it set up for themselves."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["logging_restored"]


@contextmanager
def logging_restored() -> Iterator[None]:
    """Restore handlers and levels afterwards, as they were before ``restow.cli.logs.log_to_stderr``."""
    loggers = [logging.getLogger(name) for name in (None, "restow", "kubernetes_asyncio")]
    before = [(each.handlers[:], each.level) for each in loggers]
    try:
        yield
    finally:
        logging.captureWarnings(capture=False)
        for each, (handlers, level) in zip(loggers, before, strict=True):
            each.handlers[:] = handlers
            each.setLevel(level)
