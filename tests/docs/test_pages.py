"""Every command and every piece of code of the documentation, executed as a reader would."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from restow.controlplane.etcd import Etcd
from restow.controlplane.plane import ControlPlane
from tests.docs.blocks import ROOT, Block, PageError, pages, parse
from tests.docs.emptying import empty, keys
from tests.docs.running import GIVEN, executed, givens, named_to_install, needs_a_cluster, working
from tests.packaging.conftest import Installed


def blocks(page: str) -> list[Block]:
    """A page's blocks; of a page that cannot be parsed none, which ``test_a_page_can_be_read`` tells."""
    try:
        return parse(page, (ROOT / page).read_text(encoding="utf-8"))
    except PageError:
        return []


PAGES = {page: blocks(page) for page in pages()}


def parameters() -> list[object]:
    """The pages with something to execute, but the README (``test_readme``); if they need a cluster, marked."""
    marks = {True: [pytest.mark.apiserver], False: []}
    found = {page: executed(of_it) for page, of_it in PAGES.items() if page != "README.md"}
    return [pytest.param(page, id=page, marks=marks[needs_a_cluster(todo)]) for page, todo in found.items() if todo]


@pytest.fixture(scope="module")
def baseline(etcd: Etcd) -> frozenset[str]:
    """What a new control plane has by itself."""
    return asyncio.run(keys(etcd))


@pytest.mark.parametrize("page", pages())
def test_a_page_can_be_read(page: str) -> None:
    """Code that nothing executes grows stale; it has to say at least which test looks after it."""
    for block in parse(page, (ROOT / page).read_text(encoding="utf-8")):
        quoted = ROOT / block.directives.get("file", "nothing")
        assert not quoted.is_file() or quoted.read_text(encoding="utf-8") == block.text, f"{block.place}: misquoted"
        if tester := block.directives.get("tested by"):
            assert looks_after((ROOT / tester).read_text(encoding="utf-8"), block), f"{block.place}: {tester} does not"


def looks_after(test: str, block: Block) -> bool:
    """Whether a test names the page or the quoted file, or has the very commands of the block."""
    lines = [line.split("  #")[0].strip() for line in block.text.splitlines()]
    names = {Path(block.page).name, Path(block.directives.get("file", block.page)).name}
    return any(name in test for name in names) or all(line in test.splitlines() for line in lines)


@pytest.mark.parametrize("page", pages())
def test_what_a_page_writes_it_uses(page: str) -> None:
    """A file that no later block has to do with has not been tried."""
    later = PAGES[page]
    while later:
        written, *later = later
        if "file" in written.directives and "tested by" not in written.directives:
            assert any(speaks_of(block.text, written.directives["file"]) for block in later), written.place


def speaks_of(text: str, file: str) -> bool:
    """Whether a text has to do with a file: by its name, as a module, by its folder, or by running pytest."""
    path = Path(file)
    words = [path.name, f"{path.stem}:" if path.suffix == ".py" else path.name]
    words += [f"{path.parent}/"] if path.parent != Path() else []
    return any(word in text for word in words) or (path.name == "conftest.py" and "pytest" in text)


def test_every_given_is_used() -> None:
    """What no page takes for granted any more is to go."""
    used = {script for of_page in PAGES.values() for block in of_page for script in givens(block)}
    assert used == {script for script in GIVEN.iterdir() if script.suffix in (".sh", ".py")}


def test_pages_that_a_reader_starts_with_say_what_to_install() -> None:
    """A page that says nothing is run with everything that developers have, and a reader lacks a library."""
    starts = {page for page in PAGES if page == "docs/tutorial.md" or page.startswith("docs/howto/")}
    silent = {page for page in starts if executed(PAGES[page]) and not named_to_install((ROOT / page).read_text())}
    assert silent == set()


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("page", parameters())
def test_a_page_does_what_it_says(page: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    """Documentation that promises what is not so, or leaves out what to install, costs its readers more than none."""
    todo = executed(PAGES[page])
    programs = None
    if to_install := named_to_install((ROOT / page).read_text(encoding="utf-8")):
        installed: Installed = request.getfixturevalue("installed")
        extras, besides = to_install
        programs = installed(*extras, besides=besides)
    if not needs_a_cluster(todo):
        with working(tmp_path, None, programs) as work:
            for block in todo:
                work.run(block)
        return
    plane: ControlPlane = request.getfixturevalue("control_plane")
    before: frozenset[str] = request.getfixturevalue("baseline")
    try:
        with working(tmp_path, plane.kubeconfig, programs) as work:
            for block in todo:
                work.run(block)
    finally:
        asyncio.run(empty(plane.etcd, plane.kubeconfig, before))
