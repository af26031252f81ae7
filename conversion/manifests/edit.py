"""Writes a document with other data, by changing no more of its text than has to change.

What stays the same is copied as it stands; a field that stands for another one keeps its comments, its place, and
the way its value is written; what is new is written in the document's style. Moved lines are indented anew.

Pure.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from restow.conversion.manifests import emit
from restow.conversion.manifests.block import Block
from restow.conversion.manifests.draft import Draft
from restow.conversion.manifests.inline import inline
from restow.conversion.manifests.layout import Layout
from restow.conversion.manifests.match import Tracing, match, places
from restow.conversion.manifests.nodes import Alias, Node, data, is_block
from restow.conversion.manifests.style import Style, style_of

__all__ = ["Edit", "edit", "rewrite", "write_yaml"]


@dataclass(frozen=True, slots=True)
class Edit:
    """A part of a text, by its offsets, and what is to stand there instead."""

    start: int
    end: int
    text: str


def edit(text: str, root: Node, new: Any, links: Tracing) -> Edit:
    """Return the edit of ``text`` that makes its document at ``root`` say ``new``."""
    whole = text if text.endswith("\n") else text + "\n"
    nodes, old = dict(places(root)), data(root)
    draft = Draft(
        text=whole,
        style=style_of(text, root),
        layout=Layout(whole),
        matches=match(nodes, old, new, links),
        has_aliases=any(isinstance(node, Alias) or node.anchor is not None for node in nodes.values()),
    )
    if is_block(root) and draft.fits(root, new):
        start, end, written = Block(draft).document(root, old, new)
    else:
        start, end, written = root.start, root.end, inline(draft, root, old, new, (), flow=False)
    if end > len(text):
        return Edit(start, len(text), written.removesuffix("\n").removesuffix("\r"))
    return Edit(start, end, written)


def rewrite(text: str, root: Node, new: Any) -> Edit:
    """Return the edit that writes the whole document anew. Its comments are gone."""
    style = style_of(text, root)
    begins_line = root.start == text.rfind("\n", 0, root.start) + 1
    if style.json or not begins_line or not isinstance(new, dict | list) or not new:
        return Edit(root.start, root.end, emit.flow(new, style, indent="" if "\n" in text.rstrip() else None))
    end = text.find("\n", root.end)
    lines = emit.lines(new, 0, style).replace("\n", style.newline)
    if end < 0:
        return Edit(root.start, len(text), lines.removesuffix(style.newline))
    return Edit(root.start, end + 1, lines)


def write_yaml(value: Any) -> str:
    """Return a value as a YAML document of its own, quoted so that kubectl reads just that."""
    style = Style()
    return emit.lines(value, 0, style) if isinstance(value, dict | list) and value else emit.flow(value, style) + "\n"
