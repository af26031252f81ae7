"""Generated code, messages and explanations are what they were: a change of the rules' structure changes no byte.

``texts/`` has a compressed file for each subject, and ``sums.txt`` a hash of each text, which shows in a diff what a
change has changed. ``make golden`` renews both, for a change that is meant.
"""

from __future__ import annotations

import difflib
import json
import lzma
import os
from hashlib import sha256
from pathlib import Path
from typing import Final

import pytest

from restow.conversion import rules
from tests.conversion.golden.frozen import texts
from tests.conversion.golden.subjects import SUBJECTS

HERE: Final = Path(__file__).parent
SUMS: Final = HERE / "sums"
RENEW: Final = bool(os.environ.get("RESTOW_RENEW_GOLDEN"))
MOST_LINES: Final = 60

pytestmark = pytest.mark.timeout(1800)  # the first time, the programs of the ports are built


def recorded(name: str) -> dict[str, str]:
    """Return the recorded texts of a subject."""
    path = HERE / "texts" / f"{name}.xz"
    found: dict[str, str] = json.loads(lzma.decompress(path.read_bytes())) if path.exists() else {}
    return found


def renew(name: str, found: dict[str, str]) -> None:
    """Record the texts of a subject, unless they are recorded already."""
    if found != recorded(name):
        packed = json.dumps(found, ensure_ascii=False).encode()
        (HERE / "texts" / f"{name}.xz").write_bytes(lzma.compress(packed, preset=9 | lzma.PRESET_EXTREME))
    (SUMS / f"{name}.txt").write_text(summed(found), encoding="utf-8")


def summed(found: dict[str, str]) -> str:
    """Return a line with a hash for each text."""
    return "".join(f"{sha256(text.encode()).hexdigest()[:12]}  {title}\n" for title, text in found.items())


def changes(before: dict[str, str], now: dict[str, str]) -> list[str]:
    """Return the differing lines of the texts."""
    found: list[str] = []
    for title in {**before, **now}:
        ours, theirs = (each.get(title, "").splitlines() for each in (before, now))
        found += difflib.unified_diff(ours, theirs, f"before: {title}", f"now: {title}", n=2, lineterm="")
    return found


@pytest.mark.parametrize("name", SUBJECTS)
def test_nothing_changed(name: str) -> None:
    """A change of the code's structure would convert, report or explain something in another way without notice."""
    found = {title: text for make in SUBJECTS[name] for title, text in texts(make()).items()}
    if RENEW:
        renew(name, found)
    differing = changes(recorded(name), found)
    assert not differing, "\n".join(differing[:MOST_LINES])
    assert (SUMS / f"{name}.txt").read_text(encoding="utf-8") == summed(found)


def test_every_constructor_is_frozen() -> None:
    """A rule that no subject uses could change its code without notice."""
    code = "".join(text for name in SUBJECTS for text in recorded(name).values())
    missing = [name for name in rules.__all__ if name != "Rule" and f"{name}(" not in code]
    assert not missing
