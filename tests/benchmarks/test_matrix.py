"""The counts of ``make test-matrix``, as the documentation quotes them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.records import load, recorded_tables
from benchmarks.tables import Result
from restow.controlplane.binaries.search import DEFAULT_MINOR, minors, pinned_version
from tests import matrix
from tests.matrix import Counts, table

SAMPLE = """
import pytest

def test_passes():
    pass

def test_fails():
    assert False

@pytest.mark.skip(reason="it does not hold here")
def test_is_skipped():
    pass

@pytest.fixture
def broken():
    yield
    raise OSError

def test_breaks_at_its_end(broken):
    pass
"""


def test_the_counts_of_a_report_of_pytest(tmp_path: Path) -> None:
    """A page would count a test that failed, or that never ran, among those that passed."""
    Path(tmp_path, "test_sample.py").write_text(SAMPLE)
    Path(tmp_path, "pytest.ini").write_text("[pytest]\n")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--junitxml=found.xml"]
    subprocess.run(command, cwd=tmp_path, check=False, capture_output=True)
    found = Counts.of_junit(Path(tmp_path, "found.xml").read_text())
    assert (found.passed, found.skipped, found.failed) == (1, 1, 2)
    assert not found.good


@pytest.mark.parametrize("text", ["", "<testsuites>"])
def test_a_run_without_a_report_is_an_error(text: str) -> None:
    """A pytest that was killed would count as a minor without failures."""
    with pytest.raises(ValueError, match="JUnit"):
        Counts.of_junit(text)


def test_a_minor_without_tests_is_not_good() -> None:
    """A selection that no test fits would be recorded as passed."""
    assert not Counts.of_junit('<testsuites><testsuite tests="0" time="1.0"/></testsuites>').good


def test_the_figures_of_a_minor_have_its_name() -> None:
    """The documentation would quote the counts of another minor."""
    found = Result("", [table({DEFAULT_MINOR: Counts(937, 5, 0, 9.6)})])
    [recorded] = recorded_tables(found)
    assert recorded.rows[0][:2] == [DEFAULT_MINOR, pinned_version(DEFAULT_MINOR)]
    figures = {cell.name: cell.shown for row in recorded.rows for cell in row[2:]}  # type: ignore[union-attr]
    assert figures == {
        f"Tests > {DEFAULT_MINOR} > passed": "937",
        f"Tests > {DEFAULT_MINOR} > skipped": "5",
        f"Tests > {DEFAULT_MINOR} > failed": "0",
        f"Tests > {DEFAULT_MINOR} > minutes": "10",
    }


def test_a_part_of_the_matrix_is_not_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    """The page's table would lose the minors that were not run."""
    monkeypatch.setattr(sys, "argv", ["matrix", "--record", "--minor", DEFAULT_MINOR])
    monkeypatch.setattr(matrix, "run", None)
    with pytest.raises(SystemExit):
        matrix.main()


def test_the_record_has_every_minor_at_its_release() -> None:
    """A minor that was added, or whose release changed, would be documented as tested."""
    recorded = load()["matrix"].table("Tests")
    assert [row[:2] for row in recorded.rows] == [[minor, pinned_version(minor)] for minor in minors()]
