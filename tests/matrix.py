"""Run the tests on the API server once for each Kubernetes minor: ``python -m tests.matrix [--record] [-- ARGUMENTS]``.

``ARGUMENTS`` are pytest's. Each minor runs to its end, whatever the others came to; the exit code is 1 if a test failed
on any of them. ``--record`` writes the counts for the documentation, unless a test failed.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self
from xml.etree import ElementTree as ET

from benchmarks.records import RESULTS, Recorder, add_flag
from benchmarks.tables import Result, Table, markdown
from restow.controlplane.binaries import BinarySearch, find_binaries
from restow.controlplane.binaries.search import minors, pinned_version

ROOT: Final = Path(__file__).parents[1]
_BINARIES: Final = ("etcd", "kube-apiserver", "kube-controller-manager", "kubectl")


@dataclass(frozen=True, slots=True)
class Counts:
    """The tests of one minor, by how they ended; a test that broke before or after its end counts as failed."""

    passed: int
    skipped: int
    failed: int
    minutes: float

    @classmethod
    def of_junit(cls, text: str) -> Self:
        """Count the tests of a JUnit report.

        Raises:
            ValueError: the text is not one.
        """
        try:
            suites = list(ET.fromstring(text).iter("testsuite"))
        except ET.ParseError as error:
            raise ValueError(f"pytest wrote no JUnit report: {error}") from error

        def total(name: str) -> float:
            return sum(float(suite.get(name, 0)) for suite in suites)

        skipped, failed = int(total("skipped")), int(total("failures") + total("errors"))
        return cls(int(total("tests")) - skipped - failed, skipped, failed, total("time") / 60)

    @property
    def good(self) -> bool:
        """Whether tests ran, and none failed."""
        return self.passed > 0 and not self.failed


def run(minor: str, arguments: Sequence[str]) -> Counts:
    """Run ``tests/apiserver`` on a minor, with these further arguments for pytest.

    Raises:
        ValueError: pytest ended without a report.
        ControlPlaneError: the minor's binaries cannot be had.
    """
    asyncio.run(find_binaries(_BINARIES, BinarySearch.from_environment(kubernetes=minor)))
    with tempfile.TemporaryDirectory(prefix="restow-matrix-") as folder:
        report = Path(folder, "junit.xml")
        subprocess.run(
            [sys.executable, "-m", "pytest", "tests/apiserver", f"--junitxml={report}", *arguments],
            cwd=ROOT,
            env=os.environ | {"RESTOW_KUBERNETES": minor},
            check=False,  # the report says what failed
        )
        return Counts.of_junit(report.read_text(encoding="utf-8") if report.exists() else "")


def table(found: Mapping[str, Counts]) -> Table:
    """Return the counts of each minor as a table."""
    rows = (
        (minor, pinned_version(minor), f"{each.passed:,}", str(each.skipped), str(each.failed), f"{each.minutes:.0f}")
        for minor, each in found.items()
    )
    return Table("Tests", ("Kubernetes", "release", "passed", "skipped", "failed", "minutes"), tuple(rows))


def main() -> int:
    """Read the command line, run the tests on each minor, print the counts; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.matrix", description=__doc__)
    parser.add_argument("--minor", action="append", choices=minors(), help="only this minor; may be repeated")
    parser.add_argument("arguments", nargs="*", metavar="ARGUMENTS", help="of pytest, after --")
    add_flag(parser)
    flags = parser.parse_args()
    chosen = {"-k", "-m", "--deselect"} & {each.partition("=")[0] for each in flags.arguments}
    if flags.record == RESULTS and (flags.minor or chosen):
        parser.error("the documentation has all tests of all minors: name a FOLDER to --record into, or choose none")
    recorder = Recorder.begin(flags.record)
    found: dict[str, Counts] = {}
    for minor in flags.minor or minors():
        print(f"Kubernetes {minor}", flush=True)
        found[minor] = run(minor, flags.arguments)
    counts = table(found)
    print(markdown(counts))
    if not all(each.good for each in found.values()):
        return 1
    if recorder is not None:
        recorder.write("matrix", "python -m tests.matrix", Result("Kubernetes minors", [counts]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
