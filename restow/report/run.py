"""Read the JSON report of ``restow migrate``. Unknown and missing keys, from another release, are allowed. Pure."""

from __future__ import annotations

import msgspec

from restow.migrator.model.report import ObjectCounts, Requests

MOST_FAILURES = 200
"""The largest number of failed objects that a page lists for each CRD; the others are only counted."""


class RunError(ValueError):
    """The file is not a report of a migration; the message says why."""


class _Shape(msgspec.Struct, frozen=True, rename="camel"):
    pass


class RunFailure(_Shape, frozen=True):
    """One object that could not be finished."""

    name: str = ""
    namespace: str = ""
    reason: str = ""
    message: str = ""


class RunOwner(_Shape, frozen=True):
    """The entries of a manager at a version that were stripped or kept."""

    manager: str = ""
    api_version: str = ""
    entries: int = 0


class RunCrd(_Shape, frozen=True):
    """The result of a run for one CRD; see ``restow.migrator.CrdReport``."""

    name: str
    storage_version: str = ""
    stored_versions_before: tuple[str, ...] = ()
    stored_versions_after: tuple[str, ...] = ()
    pruned: bool = False
    pruned_reason: str = ""
    objects: ObjectCounts = msgspec.field(default_factory=ObjectCounts)
    requests: Requests = msgspec.field(default_factory=Requests)
    failures: tuple[RunFailure, ...] = ()
    stripped_owners: tuple[RunOwner, ...] = ()
    kept_owners: tuple[RunOwner, ...] = ()
    refused: str = ""
    unfinished: str = ""
    warnings: tuple[str, ...] = ()
    duration_seconds: float = 0.0

    @property
    def shown_failures(self) -> tuple[RunFailure, ...]:
        """The failures that a page lists."""
        return self.failures[:MOST_FAILURES]

    @property
    def more_failures(self) -> int:
        """The number of failures that a page does not list."""
        return max(self.objects.failed, len(self.failures)) - len(self.shown_failures)


class RunReport(_Shape, frozen=True):
    """The report of a run, with its result: ``Succeeded``, ``Failed``, ``WiringRefused`` or ``DryRun``."""

    result: str
    crds: tuple[RunCrd, ...]


_decoder = msgspec.json.Decoder(RunReport)


def parse_run(text: bytes) -> RunReport:
    """Return the run from a report's bytes.

    Raises:
        RunError: the bytes are not a JSON report of ``restow migrate``.
    """
    try:
        return _decoder.decode(text)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        message = f"it is no JSON report of restow migrate ({error})"
        raise RunError(message) from error
