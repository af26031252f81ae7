"""Executes a page as a reader would: its blocks in order, in one work folder, one shell and one Python."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from shlex import quote
from typing import Any

import yaml

from tests.docs.blocks import ROOT, Block, Command, commands
from tests.docs.replies import Child, NoAnswer
from tests.docs.shell import PATIENCE, Shell

__all__ = ["GIVEN", "Work", "executed", "named_to_install", "needs_a_cluster", "prints", "working"]

#: What a page takes for granted (a cluster with objects, a certificate): scripts for its shell, or its Python.
GIVEN = Path(__file__).parent / "given"
#: What a page sees of the checkout.
LINKS = ("docs", "crds", "deploy")
#: ``[installed](installing.md) `restow[cli]` and `kopf```, the sentence by which a page says what to install.
_TO_INSTALL = re.compile(
    r"\[installed\]\((?:[\w./]*/)?installing\.md\)\s+`restow(?:\[(?P<extras>[a-z,]+)\])?`(?P<besides>(?:\s+and\s+`[\w-]+`)?)"
)
_CLUSTER = re.compile(
    r"\bkubectl\b|\brestow (migrate|plan|ready|operator|report)\b|\bconnect\(\)|--own-ca|restow timeline .*--all"
)


def executed(blocks: Iterable[Block]) -> list[Block]:
    """Those that are run or written here, in their order."""
    return [block for block in blocks if "tested by" not in block.directives]


def givens(block: Block) -> list[Path]:
    """The scripts that a block takes for granted; a name without a script is an error."""
    names = [name.strip() for name in block.directives.get("given", "").split(",") if name.strip()]
    found = []
    for name in names:
        scripts = [GIVEN / f"{name}.sh", GIVEN / f"{name}.py"]
        there = [script for script in scripts if script.is_file()]
        assert len(there) == 1, f"{block.place}: `given: {name}` is no script in {GIVEN.relative_to(ROOT)}"
        found += there
    return found


def needs_a_cluster(blocks: Sequence[Block]) -> bool:
    """Whether anything of a page asks an API server that the page does not start itself."""
    return any(
        (block.language == "yaml" and "file" not in block.directives)
        or _CLUSTER.search(block.text)
        or any(_CLUSTER.search(script.read_text()) for script in givens(block))
        for block in executed(blocks)
    )


def prints(shown: str, printed: str) -> bool:
    """Whether this is what the page shows: ``…`` is anything in a line, and alone in a line any number of lines."""
    pattern = "".join(
        r"(?:[^\n]*\n)*" if line.strip() == "…" else r"[^\n]*".join(map(re.escape, line.split("…"))) + r"\n"
        for line in map(str.rstrip, shown.strip("\n").splitlines())
    )
    return re.fullmatch(pattern, "".join(f"{line.rstrip()}\n" for line in printed.strip("\n").splitlines())) is not None


def named_to_install(text: str) -> tuple[tuple[str, ...], tuple[str, ...]] | None:
    """The extras of restow and the other distributions that a page has its reader install; None if it names none."""
    said = _TO_INSTALL.search(text)
    if said is None:
        return None
    extras = set((said["extras"] or "").split(",")) - {""}
    return tuple(sorted(extras)), tuple(sorted(re.findall(r"`([\w-]+)`", said["besides"] or "")))


class Work:
    """A page's folder, shell and Python."""

    def __init__(self, folder: Path, notes: Path, environment: Mapping[str, str], python: Path) -> None:
        self.folder = folder
        self._notes = notes
        self._environment = environment
        self.shell = Shell(folder, notes, environment)
        self._interpreter = python
        self._python: Child | None = None

    def run(self, block: Block) -> None:
        """Run or write one block; raises AssertionError if it does not do what the page says."""
        for script in givens(block):
            if script.suffix == ".sh":
                code, printed = self.shell.run(script.read_text(), script=True)
                assert code == 0, f"{block.place}: `given: {script.stem}` failed:\n{printed}"
            else:
                self.python(script.read_text(), str(script), 1)
        if "file" in block.directives:
            self.write(block)
        elif block.language == "python":
            self.python(block.text, block.page, block.line)
        elif block.language == "yaml":
            self.dry_run(block)
        elif block.language == "sh":
            code, printed = self.shell.run(block.text, script=True, folder=_where(block))
            assert code == 0, f"{block.place}: exit code {code}\n{printed}"
        else:
            for command in commands(block):
                self.console(block, command, last=command == commands(block)[-1])

    def write(self, block: Block) -> None:
        """Write a block to its file; what quotes a file of the checkout is not written."""
        file = self.folder / block.directives["file"]
        if file.resolve().is_relative_to(ROOT):
            assert file.exists(), f"{block.place}: {block.directives['file']} is not in the checkout"
            return  # a quotation
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(block.text)

    def console(self, block: Block, command: Command, *, last: bool) -> None:
        """Run a command, and compare its exit code, and what it prints where the page shows that."""
        shown = command.printed
        until = block.directives.get("until") if last else None
        if until is None:
            code, printed = self.shell.run(command.text, folder=_where(block))
        else:

            def enough(printed: str) -> bool:
                if until == "shown":
                    return shown is not None and prints(shown, printed)
                return self.shell.run(until)[0] == 0

            code, printed = self.shell.until(command.text, enough, folder=_where(block))
            shown = None if until == "shown" else shown  # what follows is about its end
        told = f"{block.page}:{command.line}: $ {command.text}"
        assert code == command.code, f"{told}\nexit code {code}, not {command.code}:\n{printed}"
        assert shown is None or prints(shown, printed), f"{told}\nprinted\n{printed}\nand the page shows\n{shown}"

    def python(self, text: str, page: str, line: int) -> None:
        """Run Python in the page's namespace."""
        output = self._notes / "python.output"
        if self._python is None:
            command = (str(self._interpreter), str(Path(__file__).with_name("interpreter.py")), "{fd}")
            with output.open("wb") as stream:
                self._python = Child(command, self.folder, self._environment, stream)
        self._python.tell(json.dumps({"page": str(ROOT / page), "line": line, "text": text}))
        try:
            failed = json.loads(self._python.answer(PATIENCE))
        except NoAnswer as error:
            failed = str(error)
        assert not failed, f"{page}:{line}: {failed}\n{output.read_text(errors='replace')}"

    def dry_run(self, block: Block) -> None:
        """Have the API server judge manifests as if they were applied, unknown fields included."""
        documents: list[Any] = [each for each in yaml.safe_load_all(block.text) if each]
        for namespace in {each["metadata"].get("namespace") for each in documents} - {None, "default"}:
            known = f"kubectl get namespace {namespace} > /dev/null 2>&1"
            code, printed = self.shell.run(f"{known} || kubectl create namespace {namespace}")
            assert code == 0, printed
        file = self._notes / "manifests.yaml"
        file.write_text(block.text)
        apply = "kubectl apply --server-side --dry-run=server --validate=strict"
        code, printed = self.shell.run(f"{apply} -f {quote(str(file))}")
        assert code == 0, f"{block.place}: refused by the API server:\n{printed}"

    def close(self) -> None:
        """End what still runs."""
        try:
            if self._python is not None:
                self._python.close()
                try:
                    self._python.process.wait(15)
                except subprocess.TimeoutExpired:
                    self._python.process.kill()
                    self._python.process.wait()
                self._python.released()
        finally:
            self.shell.close()


@contextmanager
def working(folder: Path, kubeconfig: Path | None, programs: Path | None = None) -> Iterator[Work]:
    """A work folder below this one, with the links, and a home of its own.

    ``programs`` is the folder of an environment with only what the page says to install, else the developers' own.
    """
    programs = programs or Path(sys.executable).parent
    parts = {name: folder / name for name in ("work", "notes", "home", "bin")}
    for part in parts.values():
        part.mkdir()
    for name in LINKS:
        (parts["work"] / name).symlink_to(ROOT / name)
    environment = _environment(parts["home"], parts["bin"], kubeconfig, programs)
    work = Work(parts["work"], parts["notes"], environment, programs / "python")
    try:
        yield work
    finally:
        work.close()


def _where(block: Block) -> Path | None:
    return ROOT if "in" in block.directives else None


@cache
def _kubectl() -> str:
    """Where the control plane's kubectl is."""
    command = (sys.executable, "-m", "restow.controlplane", "binaries", "--with", "kubectl")
    found = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return str(json.loads(found)["kubectl"])


def _environment(home: Path, binaries: Path, kubeconfig: Path | None, programs: Path) -> dict[str, str]:
    """A terminal of a reader: nothing of this machine's clusters, and the cache of binaries."""
    if kubeconfig is not None:
        (binaries / "kubectl").symlink_to(_kubectl())
    developers = str(Path(sys.executable).parent)
    others = [each for each in os.environ["PATH"].split(os.pathsep) if each != developers]
    path = os.pathsep.join([str(binaries), str(programs), *others])
    left_out = ("FORCE_COLOR", "PYTHONPATH", "PYTEST_ADDOPTS", "PYTEST_CURRENT_TEST", "MAKEFLAGS", "MAKELEVEL")
    kept = {name: value for name, value in os.environ.items() if name not in left_out and "XDIST" not in name}
    return kept | {
        "PATH": path,
        "HOME": str(home),
        "XDG_CACHE_HOME": os.environ.get("XDG_CACHE_HOME", str(Path.home() / ".cache")),
        "KUBECONFIG": str(kubeconfig or home / "there-is-no-kubeconfig"),
        "COLUMNS": "200",
        "TERM": "dumb",
    }
