"""Measure a new clone: ``python -m benchmarks.clone [--record]`` takes three quarters of an hour or more.

It clones the last commit into a temporary folder and runs make there as on a machine on which
nothing is cached: the caches of restow, pip and Go are empty folders. Chromium counts as cached where it is installed.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from benchmarks.records import Recorder, add_flag
from benchmarks.tables import Result, Table, markdown

__all__ = ["MAKES", "main", "measure", "nothing_cached", "result"]

ROOT: Final = Path(__file__).parents[1]
#: What is timed, and the targets of make.
MAKES: Final = (("make demo, nothing cached", ("demo",)), ("make demo, again", ("demo",)), ("make test", ("test",)))


def nothing_cached(folder: Path, environment: Mapping[str, str]) -> dict[str, str]:
    """Return an environment whose caches are in a folder, without what points to other caches or interpreters."""
    left_out = ("RESTOW_", "VIRTUAL_ENV", "PYTHON", "PIP_CACHE_DIR", "MAKE", "MFLAGS")
    kept = {name: value for name, value in environment.items() if not name.startswith(left_out)}
    caches = {"XDG_CACHE_HOME": "cache", "GOPATH": "go", "GOMODCACHE": "go/modules", "GOCACHE": "go/cache"}
    flags = f"{kept.get('GOFLAGS', '')} -modcacherw".strip()  # or the folder cannot be deleted afterwards
    return {**kept, "GOFLAGS": flags, **{name: str(folder / below) for name, below in caches.items()}}


def measure(checkout: Path, targets: Sequence[str], environment: Mapping[str, str], log: Path) -> float:
    """Return the seconds of ``make TARGETS`` in a checkout; its output goes to a file.

    Raises:
        SystemExit: make failed; the message has the end of its output.
    """
    begun = time.monotonic()
    with log.open("wb") as output:
        ran = subprocess.run(
            ["make", *targets], check=False, cwd=checkout, env=environment, stdout=output, stderr=output
        )
    if ran.returncode:
        end = "\n".join(log.read_text(errors="replace").splitlines()[-40:])
        raise SystemExit(f"make {' '.join(targets)} ended with {ran.returncode} in the new clone:\n{end}")
    return time.monotonic() - begun


def result(seconds: Mapping[str, float]) -> Result:
    """Return the table of what was timed."""
    rows = tuple((name, f"{took / 60:.1f}") for name, took in seconds.items())
    return Result("A new clone", [Table("A new clone", ("", "minutes"), rows)])


def main() -> None:
    """Read the command line, clone, run, print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.clone", description=__doc__)
    add_flag(parser)
    recorder = Recorder.begin(parser.parse_args().record)
    with tempfile.TemporaryDirectory(prefix="restow-clone-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        checkout = folder / "restow"
        subprocess.run(["git", "clone", "-q", str(ROOT), str(checkout)], check=True)
        environment = nothing_cached(folder, os.environ)
        seconds = {}
        for number, (what, targets) in enumerate(MAKES):
            seconds[what] = measure(checkout, targets, environment, folder / f"{number}.log")
            print(f"{what}: {seconds[what] / 60:.1f} minutes", flush=True)
    print(markdown(result(seconds).tables[0]))
    if recorder is not None:
        recorder.write("clone", "python -m benchmarks.clone", result(seconds))


if __name__ == "__main__":
    main()
