"""The measurement of a new clone: what it counts as cached, and what it does with a failure."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.clone import MAKES, measure, nothing_cached, result
from benchmarks.records import recorded_tables


def test_no_cache_of_the_user_is_used(tmp_path: Path) -> None:
    """The figure would be that of a machine that has built everything before."""
    mine = {"HOME": "/h", "PATH": "/bin", "GOCACHE": "/g", "RESTOW_CONTROLPLANE_DIR": "/b", "VIRTUAL_ENV": "/v"}
    found = nothing_cached(tmp_path, mine)
    assert found["PATH"] == "/bin" and found["HOME"] == "/h"
    assert "RESTOW_CONTROLPLANE_DIR" not in found and "VIRTUAL_ENV" not in found
    below = {name for name, value in found.items() if Path(value).is_relative_to(tmp_path)}
    assert below == {"XDG_CACHE_HOME", "GOPATH", "GOMODCACHE", "GOCACHE"}


def test_a_failure_is_no_figure(tmp_path: Path) -> None:
    """A test suite that ends after a minute with a failure would be recorded as a quick one."""
    (tmp_path / "Makefile").write_text("good:\n\t@true\nbad:\n\t@echo what went wrong; false\n")
    environment = {"PATH": "/usr/local/bin:/usr/bin:/bin"}
    assert measure(tmp_path, ["good"], environment, tmp_path / "log") >= 0
    with pytest.raises(SystemExit, match="what went wrong"):
        measure(tmp_path, ["bad"], environment, tmp_path / "log")


def test_the_record_is_of_what_is_measured() -> None:
    """A page quotes minutes by these names."""
    (table,) = recorded_tables(result({what: 90.0 for what, _ in MAKES}))
    figures = {cell.name: cell.shown for row in table.rows for cell in row[1:] if not isinstance(cell, str)}
    assert figures == {f"A new clone > {what} > minutes": "1.5" for what, _ in MAKES}
