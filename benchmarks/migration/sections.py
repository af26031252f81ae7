"""The sections: one function for each.

Contenders take turns, round by round, so that other load on the machine affects all of them equally.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from benchmarks.migration import children
from benchmarks.migration.bareloop import WriteKind
from benchmarks.migration.contenders import bare_loop, restow_command, restow_library
from benchmarks.migration.course import Course, Herd, Section, say
from benchmarks.migration.manifests import Variant
from benchmarks.migration.native import native
from benchmarks.migration.neighbour import NEIGHBOUR
from benchmarks.migration.proof import PROOF
from benchmarks.migration.results import Run, busiest, costs_table, fastest, rates_table, summary
from benchmarks.migration.scale import SCALE
from benchmarks.migration.sharding import SHARDS
from benchmarks.migration.subject import Entries
from benchmarks.migration.webhook import WEBHOOK
from benchmarks.tables import Result, Table, at_least, at_most, exactly
from restow.migrator import Options

__all__ = ["BY_DEFAULT", "SECTIONS"]

_BARE = "python -c pass"
_KEPT = 2  # concurrencies of the bare loop that are still measured after the first round
_CONCURRENCY = Options().concurrency  # of the bare loop in comparisons with restow


async def _throughput(course: Course) -> Result:
    plan = course.plan
    say(f"throughput: {plan.objects} objects, {plan.runs} rounds")
    loops = [bare_loop("combined", concurrency) for concurrency in plan.concurrencies]
    one, command, library, cluster = bare_loop("combined", 1), restow_command(), restow_library(), native()
    await course.warm_up("widgets", loops[0])
    runs: dict[str, list[Run]] = {}
    for _ in range(plan.runs):
        for contender in course.turns([*loops, one, command, library, cluster]):
            runs.setdefault(contender.name, []).append(await course.run("widgets", contender))
        loops.sort(key=lambda loop: summary(runs[loop.name]).rate, reverse=True)
        del loops[_KEPT:]
    found = {name: summary(each) for name, each in runs.items()}
    saturation = fastest(found[loop.name] for loop in loops)
    saturated = busiest(found[loop.name] for loop in loops).server_cores
    theirs, embedded, sequential, other = (found[each.name] for each in (command, library, one, cluster))
    ranked = sorted(found.values(), key=lambda each: -each.rate)
    return Result(
        f"Throughput: {plan.objects} objects, medians",
        [
            rates_table("Rates", ranked, "of saturation", saturation.rate, saturated, others=(cluster.name,)),
            costs_table("CPU, milliseconds per object", ranked),
        ],
        [
            at_least(
                "restow migrate / saturation, at equal speed of the machine", theirs.server_cores / saturated, 0.95
            ),
            at_least(
                "restow as a library / saturation, at equal speed of the machine",
                embedded.server_cores / saturated,
                0.95,
            ),
            at_least("restow migrate / native migration", theirs.rate / other.rate, 1.7),
            at_least("restow migrate / one at a time", theirs.rate / sequential.rate, 1.0),
            exactly("writes per object", theirs.writes, 1.0),
        ],
    )


@dataclass(frozen=True, slots=True)
class _Kind:
    name: str
    herd: str
    entries: Entries
    write: WriteKind
    writes: float


_KINDS = (
    _Kind("combined patch", "gadgets", Entries.OLD, "combined", 1.0),
    _Kind("identity apply", "gadgets", Entries.NEW, "identity", 1.0),
    _Kind("empty patch", "untrackeds", Entries.OLD, "empty", 1.0),
    _Kind("identity apply, then combined patch", "defaulteds", Entries.OLD, "two", 2.0),
)


_WHO = ("the bare loop", "restow")


async def _writes(course: Course) -> Result:
    plan = course.plan
    say(f"kinds of write: {plan.kind_objects} objects of each, {plan.runs} rounds")
    await course.warm_up(_KINDS[0].herd, bare_loop(_KINDS[0].write, _CONCURRENCY))
    runs: dict[tuple[_Kind, str], list[Run]] = {}
    for _ in range(plan.runs):
        for kind in _KINDS:
            for contender in course.turns([bare_loop(kind.write, _CONCURRENCY), restow_library()]):
                run = await course.run(kind.herd, contender, kind.entries)
                runs.setdefault((kind, contender.name), []).append(run)
    result = Result(f"Kinds of write: {plan.kind_objects} objects of each, medians")
    library = restow_library().name
    rows: list[tuple[str, ...]] = []
    for kind in _KINDS:
        bare, ours = (summary(runs[kind, name]) for name in (bare_loop(kind.write, _CONCURRENCY).name, library))
        ratio = ours.server_cores / bare.server_cores
        result.tables += [
            rates_table(kind.name.capitalize(), [bare, ours], "of the bare loop", bare.rate, bare.server_cores),
            costs_table(f"{kind.name.capitalize()}: CPU, milliseconds per object", [bare, ours]),
        ]
        rows.append((kind.name, f"{ratio:.3f}", f"{ours.writes:.2f}", f"{bare.server_ms:.2f}", f"{ours.server_ms:.2f}"))
        result.claims.append(at_least(f"{kind.name}: restow / bare loop, at equal machine speed", ratio, 0.95))
        result.claims.append(exactly(f"{kind.name}: writes per object", ours.writes, kind.writes))
    columns = (
        "restow / bare loop, at equal speed",
        "writes per object",
        *(f"API server for {who}, ms" for who in _WHO),
    )
    result.tables.insert(0, Table("Kinds of write", ("kind of write", *columns), tuple(rows)))
    return result


async def _memory(course: Course) -> Result:
    plan = course.plan
    say(f"memory: {plan.small} and {plan.large} objects")
    runs = {herd: [await course.run(herd, restow_command())] for herd in ("smalls", "larges")}
    runs["smalls"] += [await course.run("smalls", restow_command()) for _ in range(min(plan.runs, 3) - 1)]
    peaks = {herd: median(run.peak_kib or 0 for run in each) / 1024 for herd, each in runs.items()}
    rows = [
        (f"{each[0].objects:,}", str(len(each)), f"{peaks[herd]:.1f}", f"{summary(each).rate:.0f}")
        for herd, each in runs.items()
    ]
    return Result(
        "Memory: restow migrate, each run a process of its own",
        [Table("Peak resident memory", ("objects", "runs", "MiB", "objects/s"), tuple(rows))],
        [at_most("peak with the most objects / with the fewest", peaks["larges"] / peaks["smalls"], 1.15)],
    )


async def _startup(course: Course) -> Result:
    """Measure short commands in units of a bare interpreter; the CRD of ``plan`` and ``status`` is current."""
    await course.run("starts", restow_command())
    program = str(Path(sys.executable).with_name("restow"))
    asked = (course.subjects["starts"].name, "--kubeconfig", str(course.stage.plane.kubeconfig))
    commands = {
        _BARE: [sys.executable, "-c", "pass"],
        "restow --help": [program, "--help"],
        "restow plan --help": [program, "plan", "--help"],
        "restow plan of one CRD": [program, "plan", *asked],
        "restow status of one CRD": [program, "status", *asked],
    }
    used: dict[str, list[float]] = {name: [] for name in commands}
    for _ in range(course.plan.runs):
        for name, command in commands.items():
            used[name].append((await children.run(command))[1].cpu_seconds)
    found = {name: median(each) for name, each in used.items()}
    rows = tuple((name, f"{each:.3f}", f"{each / found[_BARE]:.1f}") for name, each in found.items())
    return Result(
        "Start-up",
        [Table("CPU of a short command", ("command", "CPU, s", f"/ {_BARE}"), rows)],
        [
            at_most(f"CPU of {name} / {_BARE}", found[name] / found[_BARE], 4 if "help" in name else 10)
            for name in commands
            if name != _BARE
        ],
    )


SECTIONS = {
    "startup": Section(lambda _plan: [Herd("starts", Variant.PLAIN, 10)], _startup),
    "writes": Section(
        lambda plan: [
            Herd("gadgets", Variant.PLAIN, plan.kind_objects),
            Herd("untrackeds", Variant.UNTRACKED, plan.kind_objects),
            Herd("defaulteds", Variant.DEFAULTED, plan.kind_objects),
        ],
        _writes,
    ),
    "memory": Section(
        lambda plan: [Herd("smalls", Variant.PLAIN, plan.small), Herd("larges", Variant.PLAIN, plan.large)], _memory
    ),
    "throughput": Section(lambda plan: [Herd("widgets", Variant.PLAIN, plan.objects)], _throughput),
    "neighbour": NEIGHBOUR,
    "webhook": WEBHOOK,
    "shards": SHARDS,
    "scale": SCALE,
    "proof": PROOF,
}
"""The sections by name, in the order in which they are measured."""

BY_DEFAULT = tuple(name for name in SECTIONS if name not in ("scale", "proof"))
"""The sections that are measured by default, which take minutes."""
