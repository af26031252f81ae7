"""The page on embedding quotes the examples that the tests run."""

from __future__ import annotations

from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
EXAMPLES = sorted((DOCS / "examples" / "embedding").glob("*.py"))


@pytest.mark.parametrize("example", EXAMPLES, ids=[example.name for example in EXAMPLES])
def test_the_page_quotes_the_example_as_it_is(example: Path) -> None:
    """What people copy is what was tested."""
    assert f"```python\n{example.read_text()}```\n" in (DOCS / "embedding.md").read_text()


def test_both_hosts_are_shown() -> None:
    """Were the folder moved, the test above would pass with nothing in it."""
    assert [example.name for example in EXAMPLES] == ["asyncio_operator.py", "kopf_operator.py"]
