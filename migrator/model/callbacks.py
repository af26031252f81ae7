"""Call an embedder's code during a run (an ``Observer``, converters), and keep its errors.

An error of that code ends the run like a request to stop: the run finishes writes in flight, reports what remains, and
does not prune. Then it raises one ``CallbackFailed`` with the reports so far.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import Any, Protocol

from restow.crds import Crd
from restow.migrator.model.converter import Answer, Converter, ConverterDown, Json, Unconverted
from restow.migrator.model.report import CrdReport


class Moment(StrEnum):
    """A moment in the migration of a CRD.

    - ``settling``: the run waits until requests have ended that began before the API servers followed the CRD
      (``report.settle_s``).
    - ``lagging``: the run waits for an API server that has not seen this change; ``report.lagging`` names it.
    - ``native``: the run waits for the cluster's own migration.
    - ``writing``: a pass starts; its counts grow in the report.
    - ``pruning``: all objects are done.
    - ``ended``: the run is done with this CRD.
    """

    SETTLING = "settling"
    LAGGING = "lagging"
    NATIVE = "native"
    WRITING = "writing"
    PRUNING = "pruning"
    ENDED = "ended"


class Observer(Protocol):
    """Receives every moment of a run, in the run's event loop; must not block, and must not change the report."""

    def at(self, moment: Moment, report: CrdReport) -> None:
        """Receive a moment."""
        ...


class Silent:
    """Observes nothing."""

    def at(self, moment: Moment, report: CrdReport) -> None:
        """Do nothing."""


class CallbackFailed(Exception):
    """The embedder's code raised an error, which is the cause of this one; the message names its type, not its text.

    Attributes:
        reports: the reports of the CRDs that were done or started; ``unfinished`` of the last one says what is left,
            unless it was done already.
    """

    def __init__(self, message: str, reports: tuple[CrdReport, ...] = ()) -> None:
        super().__init__(message)
        self.reports = reports


class Callbacks:
    """Calls the embedder's observer and converters; keeps the first error and then stops calling the observer.

    Attributes:
        failure: the first error.

    Args:
        observer: receives the moments.
        converters: returns the converter for a CRD, or None for its own webhook.
        end: ends the run in an orderly way, for this reason.
    """

    def __init__(
        self, observer: Observer, converters: Callable[[Crd], Converter | None], end: Callable[[str], None]
    ) -> None:
        self._observer = observer
        self._converters = converters
        self._end = end
        self.failure: CallbackFailed | None = None

    def at(self, moment: Moment, report: CrdReport) -> None:
        """Pass a moment on to the observer."""
        if self.failure is not None:
            return
        try:
            self._observer.at(moment, report)
        except Exception as error:  # noqa: BLE001 - foreign code
            self._end(self.fail(self._observer, "at", error))

    def converter(self, crd: Crd) -> Converter | None:
        """Return the converter for a CRD.

        Raises:
            MigrationRefused: the embedder's function refuses the CRD, or raises.
        """
        try:
            chosen = self._converters(crd)
        except MigrationRefused:
            raise
        except Exception as error:
            raise MigrationRefused(self.fail(self._converters, "", error)) from error
        return None if chosen is None else _CheckedConverter(chosen, self)

    def fail(self, giver: object, method: str, error: Exception) -> str:
        """Keep an error if it is the first one; return the message of the kept one."""
        if self.failure is None:
            # The text of a foreign exception may contain values of objects; it is in the cause.
            self.failure = CallbackFailed(f"{_name(giver, method)} raised {type(error).__name__}")
            self.failure.__cause__ = error
        return str(self.failure)

    def check(self, *reports: CrdReport) -> None:
        """Raise the error, with these reports, if there is one."""
        if self.failure is not None:
            failure, self.failure = self.failure, None
            failure.reports = reports
            raise failure from failure.__cause__


class _CheckedConverter:
    """A converter whose errors and invalid answers stop the run, as an unreachable converter does."""

    def __init__(self, converter: Converter, callbacks: Callbacks) -> None:
        self._converter = converter
        self._callbacks = callbacks

    async def convert(self, objects: Sequence[Json], api_version: str) -> Sequence[Answer]:
        try:
            answers = await self._converter.convert(objects, api_version)
            _check(objects, answers)
        except ConverterDown:
            raise
        except Exception as error:
            raise ConverterDown(self._callbacks.fail(self._converter, "convert", error)) from error
        return answers


def _check(objects: Sequence[Json], answers: Any) -> None:
    if not isinstance(answers, Sequence) or len(answers) != len(objects):
        raise TypeError(f"{len(objects)} objects were given, and as many answers have to come back in a sequence")
    for answer in answers:
        if not isinstance(answer, dict | Unconverted):
            raise TypeError(f"an answer is an object or Unconverted, not {type(answer).__name__}")


def _name(giver: object, method: str) -> str:
    owner = giver if hasattr(giver, "__qualname__") else type(giver)
    name = f"{owner.__module__}.{getattr(owner, '__qualname__', '')}"
    return f"{name}.{method}" if method else name


class MigrationRefused(Exception):
    """A migration was not started; the message says why and what to do."""
