"""The command: ``python -m benchmarks.migration [--quick] [--sections throughput,memory] [--json FILE] …``."""

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

from benchmarks.claims import Claim
from benchmarks.migration.admin import Admin
from benchmarks.migration.contenders import Stage
from benchmarks.migration.course import Course, Plan, say
from benchmarks.migration.native import control_plane
from benchmarks.migration.sections import SECTIONS, Result
from benchmarks.migration.subject import Subject
from benchmarks.tables import claims_table, markdown

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
)


async def measure(plan: Plan, names: list[str]) -> dict[str, Any]:
    """Measure these sections, and return all that was found, for JSON."""
    async with control_plane() as plane, Admin.of(plane.admin) as admin:
        environment = await _environment(admin)
        herds = [herd for name in names for herd in SECTIONS[name].herds(plan)]
        subjects = {each.plural: Subject(plane, admin, each.plural, each.variant, each.count) for each in herds}
        say("making the objects")
        for subject in subjects.values():
            await subject.create()
        course = Course(Stage(plane, admin), plan, subjects)
        results: dict[str, Result] = {}
        for name in names:
            results[name] = await SECTIONS[name].measure(course)
    environment["loadAtEnd"] = os.getloadavg()
    return {
        "environment": environment,
        "plan": asdict(plan),
        "sections": {name: asdict(result) for name, result in results.items()},
        "runs": [asdict(run) for run in course.runs],
        "text": _text(environment, list(results.values())),
    }


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
    parts = [head]
    claims: list[Claim] = []
    for result in results:
        parts += [f"## {result.title}", *(markdown(table) for table in result.tables)]
        claims += result.claims
    return "\n\n".join([*parts, "## Claims", markdown(claims_table(claims))])


def main() -> None:
    """Read the command line, measure, print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.migration", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a smoke run: everything once, on few objects")
    parser.add_argument("--runs", type=int, help="rounds of each comparison")
    parser.add_argument("--objects", type=int, help="objects of the main comparison")
    parser.add_argument("--repeats", type=int, help="how often a run that others on this machine disturbed is repeated")
    parser.add_argument("--sections", default=",".join(SECTIONS), help="some of: %(default)s")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every run and all results here too")
    flags = parser.parse_args()
    names = flags.sections.split(",")
    if unknown := set(names) - set(SECTIONS):
        parser.error(f"there is no section {', '.join(sorted(unknown))}")
    plan = asdict(QUICK if flags.quick else FULL)
    plan |= {key: getattr(flags, key) for key in ("runs", "objects", "repeats") if getattr(flags, key) is not None}
    found = asyncio.run(measure(Plan(**plan), [name for name in SECTIONS if name in names]))
    print(found["text"])
    if flags.quick:
        print("\nThis was a smoke run: rates and CPU times of so few objects, measured once, mean nothing.")
    if flags.json is not None:
        flags.json.write_bytes(msgspec.json.format(msgspec.json.encode(found), indent=2) + b"\n")


if __name__ == "__main__":
    main()
