"""How many tries a piece of work has had, as the tables of ``outcome`` count them. Pure.

A table bounds tries, so that one object that fails for ever is given up and the others are not kept. An outage is
another matter: while the server answers nobody, tries say nothing about the object, and patience is counted in time.
So each kind of error is counted by itself, and errors that may pass are counted only where the server answered others
in between.
"""

from __future__ import annotations

from restow.kube.errors import ConfigError, Conflict, Forbidden, KubeError, ServerError, TooManyRequests, Unauthorized
from restow.migrator.outcome import ATTEMPTS

__all__ = ["Tries", "of_everybody", "passes"]

_OF_EVERYBODY = ("failed calling webhook", "etcdserver: ", "no leader")


def of_everybody(error: KubeError) -> bool:
    """Whether an error speaks of the way to what is stored, on which every write goes, rather than of one object."""
    if isinstance(error, ServerError):
        return error.status != 500 or any(text in error.message for text in _OF_EVERYBODY)
    return isinstance(error, TooManyRequests)


class Tries:
    """The tries of one object, or of one page.

    Args:
        patience_s: how long errors that may pass are waited for while nothing is answered.
    """

    def __init__(self, patience_s: float) -> None:
        self._patience_s = patience_s
        self._counts: dict[type, int] = {}
        self._since = self._last = 0.0
        self._in_a_row = self._strikes = 0

    def failed(self, error: KubeError, now: float, answered: float) -> int:
        """Count a failure; return its number in the table of its kind, from 1.

        Args:
            error: what the request raised.
            now: by the monotonic clock.
            answered: when something else was answered last.
        """
        if not passes(error):
            kind = next((each for each in (Conflict, Forbidden) if isinstance(error, each)), type(error))
            self._counts[kind] = self._counts.get(kind, 0) + 1
            return self._counts[kind]
        if not self._in_a_row or answered > self._last:
            self._strikes += 1
            self._since = now
        self._in_a_row += 1
        self._last = now
        over = self._strikes >= ATTEMPTS or now - self._since >= self._patience_s
        return self._in_a_row if over else min(self._in_a_row, ATTEMPTS - 1)


def passes(error: KubeError) -> bool:
    """Whether an error in mid-run may pass: credentials were accepted when it began."""
    if isinstance(error, TooManyRequests) and error.initializing:
        return False
    return error.may_pass or isinstance(error, (Unauthorized, ConfigError))
