"""The guide for authors runs as it stands."""

from __future__ import annotations

import re
from pathlib import Path

from restow.conversion import Graph

GUIDE = Path(__file__).parent.parent.parent / "docs" / "conversion.md"
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def test_the_guide_runs() -> None:
    """Every Python block of docs/conversion.md runs, in order; else authors learn what is not true."""
    text = GUIDE.read_text()
    namespace: dict[str, object] = {"__name__": "guide"}
    blocks = [*BLOCK.finditer(text)]
    assert len(blocks) == text.count("```python")
    for block in blocks:
        lines = "\n" * text.count("\n", 0, block.start(1))
        exec(compile(lines + block[1], str(GUIDE), "exec"), namespace)
    assert isinstance(namespace["graph"], Graph)
