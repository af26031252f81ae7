"""Guards behind a yes, broken one at a time: a judge that lets any of them pass proves nothing.

Each replaces one function of the migrator by what a simpler tool would do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import msgspec

from restow.crds import Crd
from restow.migrator.decide import premise, proof
from restow.migrator.planning import ready as readiness
from restow.migrator.requests import apiservers
from restow.migrator.run import end
from tests.histories import running

Guard = Callable[[], AbstractContextManager[object]]


@contextmanager
def believe_stored_versions() -> Iterator[None]:
    """Say yes unless status.storedVersions names the version, as the API server itself does."""
    real = proof.what_is_proved

    def careless(crd: Crd, *more: Any) -> proof.Proven:
        return replace(real(crd, *more), doubt="")

    with patch.object(readiness, "what_is_proved", careless):
        yield


@contextmanager
def ignore_generation() -> Iterator[None]:
    """Believe a proof as long as the storage version is the one that it names."""
    real = proof._holding

    def careless(crd: Crd, value: str) -> Any:
        found, doubt = real(crd, value)
        try:
            told = proof._decoder.decode(value)
        except msgspec.MsgspecError:
            return found, doubt
        same = (told.uid, told.storage) == (crd.uid, crd.storage.name)
        return (told, "") if same else (found, doubt)

    with patch.object(proof, "_holding", careless):
        yield


@contextmanager
def ignore_lag() -> Iterator[None]:
    """Ask no API server what it encodes objects with."""
    with patch.object(apiservers.View, "behind", lambda *_: ""):
        yield


@contextmanager
def prove_by_a_part() -> Iterator[None]:
    """Leave a proof after a run over some of the objects."""
    real = end.Pruner._nothing_proved

    def careless(self: Any) -> str | None:
        why = real(self)
        return None if self._options.partial or self._options.dry_run else why

    with patch.object(end.Pruner, "_nothing_proved", careless):
        yield


@contextmanager
def ignore_restores() -> Iterator[None]:
    """Take etcd for the one of the run's start."""
    with patch.object(premise.Premise, "lost", lambda *_: ""):
        yield


@contextmanager
def ignore_changes() -> Iterator[None]:
    """Go by the schemas and the strategy of the start."""
    with patch.object(premise.Premise, "outdated", lambda *_: ""):
        yield


@contextmanager
def ignore_requests() -> Iterator[None]:
    """Wait for no request that began before every API server followed the CRD."""
    with patch.object(premise.Followers, "remaining", lambda *_, **__: 0.0):
        yield


@contextmanager
def unwire_by_stored_versions() -> Iterator[None]:
    """Take the webhook away where status.storedVersions names no version that needs it."""
    with patch.object(running, "may_be_stored", lambda crd: crd.stored_versions):
        yield


GUARDS: dict[str, Guard] = {
    "believe-stored-versions": believe_stored_versions,
    "ignore-generation": ignore_generation,
    "ignore-lag": ignore_lag,
    "ignore-restores": ignore_restores,
    "ignore-changes": ignore_changes,
    "ignore-requests": ignore_requests,
    "prove-by-a-part": prove_by_a_part,
    "unwire-by-stored-versions": unwire_by_stored_versions,
}
