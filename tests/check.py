"""Check what a change touches: ``python -m tests.check [--since COMMIT]`` lints it, and runs its tests.

The tests of a module import it or mirror it: those of ``migrator/decide/prune.py`` are
``tests/migrator/decide/test_prune*.py``, or all of the folder if no name fits. Tests that start an API server or many
processes are left to ``make test``.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parent.parent
BIN: Final = Path(sys.executable).parent
ROOMS: Final = ("cloudprofile", "controlplane", "conversion", "crds", "kube", "migrator", "restow")
QUICK: Final = ("cloudprofile", "conversion", "crds", "kube", "memory", "migrator", "peers", "restow")
"""Folders of tests that mostly decide, and start little."""


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.check", description=__doc__)
    parser.add_argument("--since", default="main", help="what the change began at (default: %(default)s)")
    files = changed(parser.parse_args().since)
    python = [name for name in files if name.endswith(".py") and _is_there(name)]
    if not python:
        print("No Python file has changed.")
        return
    tests = chosen(files)
    commands: list[list[str | Path]] = [
        [BIN / "ruff", "check", *python],
        [BIN / "ruff", "format", "--check", *python],
        [BIN / "mypy", "--config-file", "pyproject.toml", "-p", "restow", "-p", "demo", "-p", "hack"],
    ]
    if tests:
        print("tests:", *tests)
        share = ["--numprocesses", "2", "--dist", "load"] if len(tests) > 1 else []
        commands.append([BIN / "pytest", "-q", "-m", "not apiserver", *share, *tests])
    codes = [subprocess.run(command, cwd=ROOT, check=False).returncode for command in commands]
    failed = [Path(command[0]).name for command, code in zip(commands, codes, strict=True) if code]
    sys.exit(f"These found something: {', '.join(failed)}." if failed else 0)


def changed(since: str) -> list[str]:
    """Return the files that differ from where the branch left a commit, and those that Git does not know yet."""
    base = _git("merge-base", "HEAD", since)[0]
    return sorted({*_git("diff", "--name-only", base), *_git("ls-files", "--others", "--exclude-standard")})


def _is_there(name: str) -> bool:
    return (ROOT / name).exists()


def _git(*command: str) -> list[str]:
    return subprocess.run(["git", *command], cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()


def chosen(files: Sequence[str]) -> list[str]:
    """Return the tests of changed files: themselves, mirrors, and quick ones that import a changed module."""
    found = dict.fromkeys(name for name in files if re.fullmatch(r"tests/.*/test_\w+\.py", name) and _is_there(name))
    quick = {
        file.relative_to(ROOT).as_posix(): file.read_text(encoding="utf-8")
        for folder in QUICK
        for file in sorted((ROOT / "tests" / folder).rglob("test_*.py"))
    }
    for name in files:
        path = Path(name)
        if path.suffix == ".py" and path.parts[0] in (*ROOMS, "tests"):
            found.update(dict.fromkeys(mirrors(path, quick)))
            imported = re.compile(rf"^(?:from|import) {re.escape(module(path))}\b(?!\.)", re.MULTILINE)
            found.update(dict.fromkeys(test for test, text in quick.items() if imported.search(text)))
    return [*found]


def mirrors(path: Path, tests: Iterable[str]) -> Sequence[str]:
    """Return the tests that mirror a module, or all of its folder's if none has its name.

    Where the folder has no tests, those that mirror the folder stand for it.
    """
    while path.parts[0] != "tests" and path.parent.parts:
        here = [test for test in tests if Path(test).parent == "tests" / path.parent]
        named = [test for test in here if Path(test).stem.startswith(f"test_{path.stem}")]
        if here:
            return named or here
        path = path.parent
    return ()


def module(path: Path) -> str:
    """Return the name by which a module is imported."""
    parts = path.with_suffix("").parts
    name = ".".join(parts if parts[0] in ("restow", "tests") else ("restow", *parts))
    return name.removesuffix(".__init__")


if __name__ == "__main__":
    main()
