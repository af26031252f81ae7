"""Writes the text of a generated function: lines, indentation, fresh names, and the objects it refers to.

Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

__all__ = ["Writer"]

_ODD = re.compile(r"[^A-Za-z0-9]")


class Writer:
    """One function under construction. ``names`` become the globals of the generated code."""

    def __init__(self, names: dict[str, Any]) -> None:
        self.names = dict(names)
        self._lines: list[str] = []
        self._depth = 0
        self._count = 0

    def __call__(self, line: str) -> None:
        """Write a line at the present indentation."""
        self._lines.append("    " * self._depth + line)

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        """Write ``head`` and indent what follows; an empty block gets a ``pass``."""
        self(head)
        self._depth += 1
        size = len(self._lines)
        yield
        if len(self._lines) == size:
            self("pass")
        self._depth -= 1

    def fresh(self, stem: str, field: str = "") -> str:
        """Return a name that is not in use; with ``field``, one that reminds of it."""
        self._count += 1
        return f"{stem}_{_ODD.sub('_', field)}_{self._count}" if field else f"{stem}{self._count}"

    def constant(self, stem: str, value: Any) -> str:
        """Return the name by which generated code refers to an object."""
        for name, known in self.names.items():
            if name.startswith(stem) and (known is value or (isinstance(value, frozenset) and known == value)):
                return name
        name = self.fresh(stem)
        self.names[name] = value
        return name

    def literal(self, value: Any) -> str:
        """Return the code of a JSON value; objects and lists are made anew each time that it runs."""
        if isinstance(value, dict):
            return f"{{{', '.join(f'{name!r}: {self.literal(child)}' for name, child in value.items())}}}"
        if isinstance(value, list):
            return f"[{', '.join(map(self.literal, value))}]"
        return repr(value) if isinstance(value, str | int | None) else self.constant("constant", value)

    def position(self) -> int:
        """Return where the next line will stand, for ``insert``."""
        return len(self._lines)

    def insert(self, position: int, line: str, depth: int) -> None:
        """Write a line above what was written since ``position``."""
        self._lines.insert(position, "    " * depth + line)

    @property
    def depth(self) -> int:
        """The present indentation."""
        return self._depth

    @property
    def source(self) -> str:
        """The text so far."""
        return "\n".join(self._lines) + "\n"
