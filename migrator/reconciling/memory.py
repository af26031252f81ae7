"""What a reconciler remembers of each CRD between two looks: what it finished, and what it has to wait for. Pure.

Losing it costs little: marks are on the CRDs too, and who forgets to wait looks once more.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from restow.crds import Crd
from restow.kube.backoff import Backoff

__all__ = ["Memory"]

State = tuple[str, int]
"""A CRD's uid and generation."""


@dataclass(slots=True)
class _Remembered:
    proof: str = ""
    failures: int = 0
    failed: State | None = None
    until: float = 0.0


@dataclass(slots=True)
class Memory:
    """By name of the CRD; times are seconds of a monotonic clock.

    A CRD whose run failed is left alone for a while, whoever writes its status or annotations meanwhile. A change of
    its spec ends that: it may be what was missing.
    """

    backoff: Backoff
    _crds: dict[str, _Remembered] = field(default_factory=dict)

    def proof(self, name: str) -> str:
        """Return the proof of this process's own last run; empty where there is none."""
        return self._crds[name].proof if name in self._crds else ""

    def finished(self, name: str, proof: str) -> None:
        """Remember a run that finished."""
        self._crds[name] = _Remembered(proof=proof)

    def calm(self, name: str) -> None:
        """Forget failures: nothing is due, or not for a reason that is one."""
        known = self._crds.get(name)
        self._crds[name] = _Remembered(proof=known.proof if known is not None else "")

    def failed(self, crd: Crd, now: float, chance: float, at_least: float = 0.0) -> float:
        """Count a failure; return the seconds until the next try."""
        known = self._crds.setdefault(crd.name, _Remembered())
        delay = max(at_least, self._count(known, chance))
        known.failed = (crd.uid, crd.generation)
        known.until = now + delay
        return delay

    def refused(self, name: str, chance: float, at_least: float = 0.0) -> float:
        """Count a look that came to nothing but cost nothing; return the seconds until the next one."""
        return max(at_least, self._count(self._crds.setdefault(name, _Remembered()), chance))

    def failures(self, name: str) -> int:
        """How many times in a row it failed or was refused."""
        return self._crds[name].failures if name in self._crds else 0

    def wait(self, crd: Crd, now: float) -> float:
        """Return the seconds for which a CRD, as it is, is still left alone."""
        known = self._crds.get(crd.name)
        if known is None or known.failed != (crd.uid, crd.generation):
            return 0.0
        return max(0.0, known.until - now)

    def forget(self, name: str) -> bool:
        """Forget a CRD; return whether anything was known of it."""
        return self._crds.pop(name, None) is not None

    def _count(self, known: _Remembered, chance: float) -> float:
        known.failures += 1
        return self.backoff.delay(known.failures, chance)
