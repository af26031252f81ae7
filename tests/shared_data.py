"""Real input of other projects for tests: it lies outside the repository and is never copied into it.

The folder is ``RESTOW_SHARED_DATA``, else ``../shared/data`` beside the checkout. Tests that want some of it are
skipped, with the reason, where it is not there.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

__all__ = ["shared_data"]

_BESIDE = Path(__file__).resolve().parents[2] / "shared" / "data"


def shared_data(*parts: str) -> Path:
    """Return the path of a file or folder of the shared data, or skip the test (or module) that asks for it."""
    path = Path(os.environ.get("RESTOW_SHARED_DATA") or _BESIDE).joinpath(*parts)
    if not path.exists():
        pytest.skip(
            f"{path} is not there: set RESTOW_SHARED_DATA to the folder with {parts[0]}", allow_module_level=True
        )
    return path
