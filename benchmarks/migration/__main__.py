"""The command: ``python -m benchmarks.migration [--quick] [--sections throughput,memory] [--record] …``."""

from __future__ import annotations

import argparse
import asyncio
import os
import platform
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from benchmarks.migration.admin import Admin
from benchmarks.migration.contenders import Stage
from benchmarks.migration.course import Course, Plan
from benchmarks.migration.native import control_plane
from benchmarks.migration.sections import BY_DEFAULT, SECTIONS
from benchmarks.migration.subject import Subject
from benchmarks.migration.webhook import serving
from benchmarks.records import Recorder, add_flag, check_flag
from benchmarks.tables import Result, report

FULL = Plan(
    runs=5,
    objects=3000,
    kind_objects=1500,
    concurrencies=(8, 16, 24, 32, 48),
    small=2000,
    large=20_000,
    repeats=1,
    patience=10.0,
    watched=True,
    scale=((1_000, 5), (10_000, 3), (100_000, 1)),
)
QUICK = Plan(
    runs=1,
    objects=100,
    kind_objects=60,
    concurrencies=(8, 16),
    small=50,
    large=200,
    repeats=0,
    patience=0.0,
    watched=False,
    scale=((30, 1), (60, 1), (120, 1)),
)


async def measure(plan: Plan, names: list[str]) -> tuple[dict[str, Any], dict[str, Result]]:
    """Measure these sections; return all results for JSON, and the result of each section."""
    herds = [herd for name in names for herd in SECTIONS[name].herds(plan)]
    async with serving(herds) as served, control_plane() as plane, Admin.of(plane.admin) as admin:
        environment = await _environment(admin)
        converted_by, webhook = served or (None, None)
        subjects = {herd.plural: Subject(plane, admin, herd, converted_by) for herd in herds}
        course = Course(Stage(plane, admin, webhook), plan, subjects)
        results: dict[str, Result] = {}
        for name in names:
            results[name] = await SECTIONS[name].measure(course)
    environment["loadAtEnd"] = os.getloadavg()
    found = {
        "environment": environment,
        "plan": asdict(plan),
        "sections": {name: asdict(result) for name, result in results.items()},
        "runs": [asdict(run) for run in course.runs],
        "text": _text(environment, list(results.values())),
    }
    return found, results


async def _environment(admin: Admin) -> dict[str, Any]:
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "cores": len(os.sched_getaffinity(0)),
        "python": platform.python_version(),
        "kubernetes": (await admin.call("GET", "/version"))["gitVersion"],
        "loadAtStart": os.getloadavg(),
    }


def _text(environment: dict[str, Any], results: list[Result]) -> str:
    start, end = environment["loadAtStart"][0], environment["loadAtEnd"][0]
    head = (
        f"{environment['date']}: {environment['cores']} cores, Kubernetes {environment['kubernetes']}, Python "
        f"{environment['python']}; load average {start:.1f} at the start, {end:.1f} at the end."
    )
    return report(head, results)


def main() -> None:
    """Read the command line, measure, print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.migration", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a smoke run: everything once, on few objects")
    parser.add_argument("--runs", type=int, help="rounds of each comparison")
    parser.add_argument("--objects", type=int, help="objects of the main comparison")
    parser.add_argument("--repeats", type=int, help="how often a run that others on this machine disturbed is repeated")
    parser.add_argument("--sections", default=",".join(BY_DEFAULT), help="some of: %(default)s,scale,proof")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every run and all results here too")
    add_flag(parser)
    flags = parser.parse_args()
    check_flag(parser, flags)
    names = flags.sections.split(",")
    if unknown := set(names) - set(SECTIONS):
        parser.error(f"there is no section {', '.join(sorted(unknown))}")
    plan = asdict(QUICK if flags.quick else FULL)
    given = {key: getattr(flags, key) for key in ("runs", "objects", "repeats") if getattr(flags, key) is not None}
    recorder = Recorder.begin(flags.record)
    found, results = asyncio.run(measure(Plan(**(plan | given)), [name for name in SECTIONS if name in names]))
    print(found["text"])
    if flags.quick:
        print("\nThis was a smoke run: rates and CPU times of so few objects, measured once, mean nothing.")
    if recorder is not None:
        words = "".join(f" --{key} {value}" for key, value in given.items())
        for name, result in results.items():
            command = f"python -m benchmarks.migration --sections {name}{words}"
            recorder.write(f"migration.{name}", command, result, kubernetes=found["environment"]["kubernetes"])
    if flags.json is not None:
        flags.json.write_bytes(msgspec.json.format(msgspec.json.encode(found), indent=2) + b"\n")


if __name__ == "__main__":
    main()
