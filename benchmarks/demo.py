"""Measure the demo: the duration of each step, and the checks that pass: ``python -m benchmarks.demo [--record]``.

It runs ``python -m demo -o json`` as a user would, with the binaries of the control plane in the cache.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

from benchmarks.records import Recorder, add_flag
from benchmarks.tables import Result, Table, markdown

__all__ = ["main", "tables"]

ROOT: Final = Path(__file__).parents[1]


def tables(document: dict[str, Any]) -> list[Table]:
    """Return the results of a run of the demo, from its JSON.

    Raises:
        ValueError: a check failed.
    """
    if failed := [check["check"] for check in document["checks"] if not check["passed"]]:
        raise ValueError(f"the demo failed: {', '.join(failed)}")
    whole = (
        ("databases", f"{document['objects']:,}"),
        ("checks that passed", f"{len(document['checks'])}"),
        ("whole run", f"{document['durationSeconds']:.0f} s"),
    )
    steps = tuple((each["step"], f"{each['durationSeconds']:.1f}") for each in document["steps"])
    return [Table("Demo", ("", "each"), whole), Table("Steps", ("step", "s"), steps)]


def main() -> None:
    """Read the command line, run the demo, print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.demo", description=__doc__)
    add_flag(parser)
    recorder = Recorder.begin(parser.parse_args().record)
    ran = subprocess.run([sys.executable, "-m", "demo", "-o", "json"], cwd=ROOT, stdout=subprocess.PIPE, check=True)
    document = json.loads(ran.stdout)
    found = tables(document)
    print("\n\n".join(map(markdown, found)))
    if recorder is not None:
        kubernetes = document["kubernetes"].rpartition(" ")[2]
        recorder.write("demo", "python -m benchmarks.demo", Result("Demo", found), kubernetes=kubernetes)


if __name__ == "__main__":
    main()
