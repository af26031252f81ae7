"""The menu of the site, and how much there is to read behind it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Final

from markdown_it import MarkdownIt
from markdown_it.token import Token

DOCS: Final = Path(__file__).parents[2] / "docs"
#: The page whose menu is for people who change restow: how it is built, tested and measured.
CONTRIBUTORS: Final = "contributing"
MOST_ENTRIES: Final = 25
MOST_PAGES: Final = 35
MOST_WORDS: Final = 40_000
#: Pages in which a reader looks one word up; a test holds each of them against the product.
LOOKED_UP: Final = ("rules", "glossary", "reference/api", "reference/cli", "changelog")


def tokens(page: str) -> list[Token]:
    """A page as CommonMark."""
    return MarkdownIt("commonmark").enable("table").parse((DOCS / f"{page}.md").read_text(encoding="utf-8"))


def entries(page: str) -> list[str]:
    """The pages of a page's menus, as paths below docs/."""
    menus = (token.content for token in tokens(page) if token.type == "fence" and token.info == "{toctree}")
    lines = (line for menu in menus for line in menu.splitlines() if line and not line.startswith(":"))
    return [PurePosixPath(page).parent.joinpath(line).as_posix() for line in lines]


def below(page: str, without: str = "") -> Iterator[str]:
    """A page, and all pages that its menus lead to."""
    yield page
    for entry in entries(page):
        if entry != without:
            yield from below(entry, without)


def words(page: str) -> int:
    """The words of a page that a reader sees; code that stands alone is not read word by word."""
    shown = (child for token in tokens(page) if token.type == "inline" for child in token.children or ())
    texts = " ".join(child.content for child in shown if child.type in ("text", "code_inline"))
    return len([word for word in texts.split() if re.search(r"\w", word)])


def test_every_page_is_in_the_menu_once() -> None:
    """A page would be found by its address only, or stand at two places of the menu."""
    pages = [page.relative_to(DOCS).with_suffix("").as_posix() for page in DOCS.rglob("*.md")]
    assert sorted(below("index")) == sorted(pages)


def test_the_menu_fits_on_a_screen() -> None:
    """A reader looks for the right one among fifty entries, and takes the search instead."""
    assert len(entries("index")) <= MOST_ENTRIES


def test_there_is_no_more_than_one_can_read() -> None:
    """Pages only grow: what is said twice, and what contributors alone need, makes the rest hard to find."""
    read = [page for page in below("index", without=CONTRIBUTORS) if page not in LOOKED_UP]
    counts = {page: words(page) for page in read}
    assert len(read) <= MOST_PAGES
    assert sum(counts.values()) <= MOST_WORDS, sorted(counts.items(), key=lambda each: -each[1])
