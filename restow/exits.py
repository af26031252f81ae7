"""The exit codes, the same for every subcommand: a Job's podFailurePolicy can tell "run again" from "never"."""

from __future__ import annotations

from enum import IntEnum

__all__ = ["Exit"]


class Exit(IntEnum):
    """What a command's exit code says."""

    DONE = 0
    FAILURES = 1
    REFUSED = 2
    DUE = 3
