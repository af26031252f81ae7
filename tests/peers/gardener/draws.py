"""What is asked about: in `make test` what a recording has, else what Hypothesis draws.

So a test needs no Go, and asks what Gardener answered then, whatever Hypothesis draws by now.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.peers.gardener.asking import GARDENER
from tests.peers.recordings import Mode, mode, recording

__all__ = ["NOTED", "drawn_by", "judging"]

_DRAWS: Final = 10_000 if os.environ.get("RESTOW_HYPOTHESIS_PROFILE") == "nightly" else 300
"""Each asks every function of its test."""

NOTED: Final[dict[str, list[Any]]] = {}
"""What was drawn for tests while a recording is made."""

S = TypeVar("S")


def judging(kind: type[S], draws: st.SearchStrategy[S]) -> Callable[[Callable[[S], None]], Callable[[], None]]:
    """Have a test judge some hundred scenarios of a kind."""

    def decorated(test: Callable[[S], None]) -> Callable[[], None]:
        def recorded() -> None:
            found = recording(GARDENER)
            assert found.drawn_by == drawn_by(), (
                "What draws scenarios has changed since they were recorded. Run `make peers`, which records them again."
            )
            scenarios = msgspec.json.decode(found.draws[test.__name__], type=list[kind])  # type: ignore[valid-type]
            assert len(scenarios) >= _DRAWS
            for scenario in scenarios:
                test(scenario)

        def noted(asked: S) -> None:
            NOTED.setdefault(test.__name__, []).append(msgspec.Raw(msgspec.json.encode(asked)))
            test(asked)

        if mode() is Mode.RECORDED:
            recorded.__name__, recorded.__doc__ = test.__name__, test.__doc__
            return recorded
        noted.__name__, noted.__doc__ = test.__name__, test.__doc__
        return settings(max_examples=_DRAWS)(given(draws)(noted if mode() is Mode.RECORDING else test))

    return decorated


def drawn_by() -> str:
    """Return the digest of the modules that draw."""
    modules = ("drawn.py", "drawnchanges.py")
    return hashlib.sha256(b"".join((Path(__file__).parent / name).read_bytes() for name in modules)).hexdigest()[:16]
