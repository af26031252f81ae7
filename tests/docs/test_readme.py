"""The README as a reader has it: its blocks, as printed and in their order, in a new clone and one terminal.

``make readme`` writes what the commands print into it. Only stdout is shown; ``…`` stands for remarks on stderr.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.blocks import ROOT, Block, commands, parse
from tests.docs.running import working

README = ROOT / "README.md"
RENEWED = "RESTOW_RENEW_README"
DUE = "restow plan "  # it ends with 3 while anything is due, as the README says


def test_the_readme_is_short() -> None:
    """A reader with one minute would leave before the first command."""
    assert len(README.read_text(encoding="utf-8").split()) <= 500


def test_the_readme_hides_nothing() -> None:
    """A file or a cluster that only the test is given would be missing for every reader."""
    assert "<!--" not in README.read_text(encoding="utf-8")


def test_the_demo_and_the_readme_name_the_same_commands() -> None:
    """The demo would send its reader to other objects than the README."""
    from demo.leftover import CRD

    text = README.read_text(encoding="utf-8")
    for command in (f"restow plan {CRD}", f"restow migrate {CRD}", f"restow ready {CRD} --drop v1alpha1"):
        assert f"$ {command}\n" in text


def alike(text: str) -> list[str]:
    """What is compared: numbers, such as times, differ from run to run, and with them the widths of columns."""
    lines = [re.sub(r"\d+(\.\d+)?", "0", " ".join(line.split())) for line in text.splitlines()]
    return [line for line in lines if line]


@pytest.mark.parametrize(
    ("shown", "same"),
    [
        ("$ echo took 3.5s\ntook 12s\n", True),
        ("$ echo a; echo remark >&2\na\n…\n", True),
        ("$ echo a; echo remark >&2\na\n", False),
        ("$ echo a\nb\n", False),
        ("$ echo a\n", False),
        ("$ false\n", False),
    ],
)
def test_what_is_shown_is_compared(shown: str, same: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A README that shows what no command prints would pass."""
    monkeypatch.delenv(RENEWED, raising=False)
    (block,) = parse("page.md", f"```console\n{shown}```\n")
    with working(tmp_path, None) as work:
        if same:
            run(work.shell.run, block, tmp_path / "stderr")
        else:
            with pytest.raises(AssertionError):
                run(work.shell.run, block, tmp_path / "stderr")


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """The files of the checkout, as a clone of the next commit would have them."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    folder = tmp_path / "clone"
    for name in filter(None, listed.split("\0")):
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)
    return folder


@pytest.mark.apiserver
@pytest.mark.timeout(3600)
def test_the_readme_does_what_it_says(clone: Path, tmp_path: Path) -> None:
    """The first command that does not work as printed is the last one that a reader tries."""
    programs = tmp_path / "programs"  # what a reader may have: both installers, and nothing else of the developers'
    programs.mkdir()
    (programs / "python").symlink_to(sys.executable)
    for name in ("uv", "pipx"):
        (programs / name).symlink_to(Path(sys.executable).with_name(name))
    blocks = parse("README.md", README.read_text(encoding="utf-8"))
    kept = clone / ".cache" / "demo" / "pid"
    renewed: list[str] = []
    try:
        with working(tmp_path, None, programs) as work:
            code, _ = work.shell.run(f"cd {clone}; unset KUBECONFIG COLUMNS")
            assert code == 0
            renewed += [run(work.shell.run, block, tmp_path / "stderr") for block in blocks]
    finally:
        if kept.exists() and (pid := kept.read_text().strip()):
            end(int(pid))
    if os.environ.get(RENEWED):
        text = README.read_text(encoding="utf-8")
        for block, new in zip(blocks, renewed, strict=True):
            text = text.replace(block.text, new)
        README.write_text(text, encoding="utf-8")


def run(shell, block: Block, remarks: Path) -> str:
    """Run a block; return it with what is printed now."""
    if block.language == "sh":
        code, printed = shell(block.text, script=True)
        assert code == 0, f"{block.place}: exit code {code}\n{printed}"
        return block.text
    lines = []
    for command in commands(block):
        told = f"{block.page}:{command.line}: $ {command.text}"
        code, printed = shell(f"{{ {command.text}\n}} 2> {remarks}")
        said = remarks.read_text(encoding="utf-8")
        assert code == (3 if command.text.startswith(DUE) else 0), f"{told}\nexit code {code}\n{printed}{said}"
        shown = "".join(f"{line}\n" for line in [*printed.splitlines(), *(["…"] if said else [])])
        assert os.environ.get(RENEWED) or alike(command.printed or "") == alike(shown), (
            f"{told}\nprinted\n{shown}{said}"
        )
        lines.append(f"$ {command.text}\n{shown}")
    return "".join(lines)


def end(pid: int) -> None:
    """End what the demo left, if the README has not."""
    try:
        os.kill(pid, signal.SIGTERM)
    except ProcessLookupError:
        return
