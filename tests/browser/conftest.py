"""The page of ``restow report`` in a real browser."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from restow.report import render
from tests.browser.chromium import MISSING, Page, find, new_page, running
from tests.restow.report.sample import document


@pytest.fixture(scope="session")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a browser. In CI there must be one; elsewhere these tests say what is missing."""
    found = find()
    if found is None:
        if os.environ.get("CI"):
            pytest.fail(MISSING)
        pytest.skip(MISSING)
    with running(found, tmp_path_factory.mktemp("chromium")) as address:
        yield address


@pytest.fixture(scope="session")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A page with everything in it, in a file."""
    file = tmp_path_factory.mktemp("report") / "report.html"
    file.write_text(render(document()), encoding="utf-8")
    return file


@pytest.fixture
async def page(chromium: str, report: Path) -> AsyncIterator[Page]:
    """The report, opened."""
    async with new_page(chromium) as opened:
        await opened.open(report)
        yield opened
