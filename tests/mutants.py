"""Mutation testing of the modules that decide: ``make mutants`` (all), ``make mutants TARGETS=overrides``.

Every function of a module is changed in one place at a time (an operator, a constant, an argument), and the tests
named for it run against each change. A change that no test notices survives; ``tests/mutants.md`` says which do and why
that is right. mutmut works on a copy of the checkout below ``.cache/mutants/tree``, in which the rooms stand below
``src/restow``, as they are imported. ``MUTANTS_LIMIT`` are the seconds after which a target ends, and
``MUTANTS_PROCESSES`` the processes at a time, one unless said otherwise.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent
TREE = ROOT / ".cache" / "mutants" / "tree"
ROOMS = ("cloudprofile", "controlplane", "conversion", "crds", "kube", "migrator")
COPIED = ("benchmarks", "deploy", "docs", "hack", "tests")


@dataclass(frozen=True)
class Target:
    """Modules that are mutated together, as glob patterns below ``restow/``, and the tests that have to notice."""

    modules: Sequence[str]
    tests: Sequence[str]


TARGETS = {
    "overrides": Target(
        ["cloudprofile/profiles/rendering.py", "cloudprofile/versions/lifecycle.py"],
        [
            "tests/cloudprofile/profiles/test_rendering.py",
            "tests/cloudprofile/profiles/test_rendering_cases.py",
            "tests/cloudprofile/profiles/test_rendering_overrides.py",
            "tests/cloudprofile/versions/test_lifecycle.py",
            "tests/cloudprofile/versions/test_lifecycle_cases.py",
        ],
    ),
    "prune": Target(
        ["migrator/run/end.py", "migrator/decide/proof.py", "migrator/decide/prune.py"],
        [
            "tests/migrator/run",
            "tests/migrator/decide/test_proof.py",
            "tests/migrator/decide/test_prune.py",
            "tests/migrator/planning/test_ready.py",
        ],
    ),
    "errors": Target(
        ["migrator/decide/errortable.py"],
        [
            "tests/migrator/decide/test_attempts.py",
            "tests/migrator/decide/test_errortable.py",
            "tests/migrator/requests/test_webhook_reviewer.py",
        ],
    ),
    "decide": Target(
        ["migrator/decide/decision.py"],
        ["tests/migrator/decide/test_decision.py", "tests/migrator/decide/test_decision_usual.py"],
    ),
    "entries": Target(
        ["migrator/ownership/entries.py", "migrator/ownership/policy.py"],
        [
            "tests/migrator/ownership",
            "tests/migrator/decide/test_decision.py",
            "tests/migrator/decide/test_policies.py",
            "tests/migrator/model/test_watermark.py",
        ],
    ),
    "translation": Target(
        ["migrator/ownership/translation.py", "migrator/ownership/reconcile.py"],
        ["tests/migrator/ownership", "tests/migrator/decide/test_decision.py"],
    ),
    "partial-objects": Target(
        ["migrator/ownership/conversion.py", "migrator/ownership/projection.py"],
        ["tests/migrator/ownership", "tests/migrator/decide/test_decision.py"],
    ),
    "stash": Target(
        ["conversion/stash/annotation.py", "conversion/compile/lens.py"],
        [
            "tests/conversion/test_stash.py",
            "tests/conversion/test_stash_budget.py",
            "tests/conversion/test_stash_items.py",
            "tests/conversion/rules",
            "tests/conversion/compile",
        ],
    ),
}
"""By the name that the command line takes; the quickest ones first."""


def prepare(target: Target) -> None:
    """Copy the checkout, and say in a pyproject.toml of the copy what is mutated and tested.

    Raises:
        FileNotFoundError: a module or a test of the target is not where the table says.
    """
    for pattern in (*target.modules, *target.tests):
        if not any(ROOT.glob(pattern)):
            msg = f"tests/mutants.py names {pattern}, which does not exist"
            raise FileNotFoundError(msg)
    source = TREE / "src" / "restow"
    shutil.rmtree(TREE, ignore_errors=True)
    ignore = shutil.ignore_patterns("__pycache__", ".*")
    shutil.copytree(ROOT / "restow", source, ignore=ignore)
    for room in ROOMS:
        shutil.copytree(ROOT / room, source / room, ignore=ignore)
    for name in COPIED:
        shutil.copytree(ROOT / name, TREE / name, ignore=ignore)
    mutmut = {
        "source_paths": ["src/"],
        "only_mutate": [f"src/restow/{module}" for module in target.modules],
        "also_copy": list(COPIED),
        "pytest_add_cli_args_test_selection": list(target.tests),
        "pytest_add_cli_args": ["-p", "no:xdist", "-p", "no:randomly"],
    }
    lines = ["[tool.mutmut]", *(f"{key} = {json.dumps(value)}" for key, value in mutmut.items())]
    (TREE / "pyproject.toml").write_text("\n".join([*lines, *_pytest_options(), ""]))


def _pytest_options() -> Iterable[str]:
    """The checkout's own options of pytest, with the copy's sources on the path."""
    text = (ROOT / "pyproject.toml").read_text()
    section = text[text.index("[tool.pytest.ini_options]") :]
    section = section.partition("\n[")[0]
    for line in section.splitlines():
        yield 'pythonpath = [".", "src"]' if line.startswith("pythonpath") else line


def survivors(name: str) -> list[str]:
    """Mutate one target; return the names of the mutants that no test noticed."""
    prepare(TARGETS[name])
    mutmut = Path(sys.executable).with_name("mutmut")
    sources = TREE / "mutants" / "src"
    sources.mkdir(parents=True)  # an interpreter that starts with a missing folder on its path never looks there again
    limit = float(os.environ.get("MUTANTS_LIMIT", "0")) or None
    processes = os.environ.get("MUTANTS_PROCESSES", "1")
    try:
        ran = subprocess.run(
            [mutmut, "run", "--max-children", processes],
            cwd=TREE,
            env=os.environ | {"PYTHONPATH": str(sources)},  # for the processes that tests start
            check=False,
            timeout=limit,
        )
    except subprocess.TimeoutExpired:
        print(f"\n{name}: the time limit of {limit:.0f} s is over; the others were not run")
    else:
        if ran.returncode:  # its tests do not pass without a change, for example; survivors are no failure
            raise SystemExit(f"{name}: mutmut ended with {ran.returncode}; what it printed above says why")
    told = subprocess.run([mutmut, "results"], cwd=TREE, check=True, capture_output=True, text=True)
    lines = (line.strip() for line in told.stdout.splitlines())
    return [line for line in lines if line and not line.endswith(": not checked")]


def main(names: Sequence[str]) -> None:
    """Mutate the targets of these names, or all of them; show each survivor with its change."""
    for name in names or list(TARGETS):
        found = survivors(name)
        print(f"\n{name}: {len(found)} mutants that no test noticed")
        for line in found:
            mutant = line.partition(":")[0]
            shown = subprocess.run(
                [Path(sys.executable).with_name("mutmut"), "show", mutant],
                cwd=TREE,
                check=False,
                capture_output=True,
                text=True,
            )
            print(line, shown.stdout, sep="\n")


if __name__ == "__main__":
    main(sys.argv[1:])
