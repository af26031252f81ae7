"""Builds the text of a generated function: source lines, the tree of claimed paths, and the scopes of rules.

- `SourceWriter` writes lines, indentation and fresh names, and holds the objects that the code refers to;
- `PathNode` is a field in the tree of all claimed paths of both versions. Unclaimed fields keep their place, so both
  versions share one tree of paths; a node may be a field of one version and an object of the other;
- `LegBuilder` is one direction between a spoke and its hub, shared by all its scopes;
- `ScopeBuilder` is one object, list item or map value under construction.

Pure: writes text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from restow.conversion.model.fieldpath import Path, parse, pointer, shown
from restow.conversion.rules.functions import FROM_ROOT, is_constant_read, read_steps
from restow.conversion.rules.protocol import Rule, claimed_paths
from restow.conversion.rules.sides import Direction, Side
from restow.crds import Schema
from restow.crds.schema import schema_at

_ODD = re.compile(r"[^A-Za-z0-9]")


class SourceWriter:
    """One function under construction. ``names`` become the globals of the generated code."""

    def __init__(self, names: dict[str, Any]) -> None:
        self.names = dict(names)
        self._lines: list[str] = []
        self._depth = 0
        self._count = 0

    def __call__(self, line: str) -> None:
        """Write a line at the current indentation."""
        self._lines.append("    " * self._depth + line)

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        """Write ``head`` and indent the following lines; an empty block gets a ``pass``."""
        self(head)
        self._depth += 1
        size = len(self._lines)
        yield
        if len(self._lines) == size:
            self("pass")
        self._depth -= 1

    def fresh(self, stem: str, field: str = "") -> str:
        """Return an unused name; with ``field``, the name resembles the field's."""
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
        """Return the code of a JSON value; each run of the code makes new objects and lists."""
        if isinstance(value, dict):
            return f"{{{', '.join(f'{name!r}: {self.literal(child)}' for name, child in value.items())}}}"
        if isinstance(value, list):
            return f"[{', '.join(map(self.literal, value))}]"
        return repr(value) if isinstance(value, str | int | None) else self.constant("constant", value)

    def position(self) -> int:
        """Return the position of the next line, for ``insert``."""
        return len(self._lines)

    def insert(self, position: int, line: str, depth: int) -> None:
        """Insert a line before the lines written since ``position``."""
        self._lines.insert(position, "    " * depth + line)

    @property
    def depth(self) -> int:
        """The current indentation."""
        return self._depth

    @property
    def source(self) -> str:
        """The text so far."""
        return "\n".join(self._lines) + "\n"


#: A rule (by identity) and the index of one of its paths.
Claim = tuple[Rule, int]


@dataclass(slots=True, eq=False)
class PathNode:
    """A field. ``value`` is the generated variable of its taken value.

    For an object, ``old`` is the variable of the source's own object, and ``new`` that of the copy that becomes the
    target's object (None if there is none).
    """

    path: Path
    children: dict[str, PathNode] = field(default_factory=dict)
    take: Claim | None = None
    put: Claim | None = None
    value: str = ""
    new: str = ""
    old: str = ""

    @property
    def name(self) -> str:
        """The field's name in its object."""
        return self.path[-1]

    @property
    def address(self) -> str:
        """The field's path as the stash and messages write it."""
        return shown(self.path)

    @property
    def objects(self) -> list[PathNode]:
        """The objects directly inside this one that contain taken or put fields."""
        return [child for child in self.children.values() if child.children]

    @property
    def in_place(self) -> bool:
        """Whether one rule reads and writes the field at the same place."""
        if self.take is None or self.put is None or self.take[0] is not self.put[0]:
            return False
        return self.take[0].filled_in is None

    def reach(self, path: Path) -> PathNode:
        """Return the node of a path below this one, and make it if needed."""
        node = self
        for name in path:
            node = node.children.setdefault(name, PathNode((*node.path, name)))
        return node

    def walk(self) -> Iterator[PathNode]:
        """Yield this node and all nodes below it."""
        yield self
        for child in self.children.values():
            yield from child.walk()


#: The variable of a list item, and its key fields.
Item = tuple[str, tuple[str, ...]]


@dataclass(slots=True)
class LegBuilder:
    """The code of one direction under construction; ``root`` is the variable of the whole source object.

    ``items`` are the list items around the current code, outermost first; ``around`` is the code of the places of the
    objects around it. ``functions`` has the names of the functions of scopes that apply again inside of themselves;
    ``level`` is the code of the number of repetitions around the current code.
    """

    writer: SourceWriter
    direction: Direction
    root: str
    items: list[Item] = field(default_factory=list)
    around: list[str] = field(default_factory=list)
    level: str = "0"
    functions: dict[Any, str] = field(default_factory=dict)
    pending: list[Callable[[], None]] = field(default_factory=list)
    _start: int = 0
    _depth: int = 0
    _reads: dict[Any, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._start, self._depth = self.writer.position(), self.writer.depth

    @property
    def source_side(self) -> Side:
        """The side that is read."""
        return "spoke" if self.direction == "up" else "hub"

    @property
    def target_side(self) -> Side:
        """The side that is written."""
        return "hub" if self.direction == "up" else "spoke"

    def function(self, key: Any, write: Callable[[str], None]) -> str:
        """Return the name of the function for a key; ``write`` writes this function once, after all other code."""
        if key not in self.functions:
            name = self.functions[key] = self.writer.fresh("scope")
            self.pending.append(partial(write, name))
        return self.functions[key]

    def write_functions(self) -> None:
        """Write the requested functions, and those that they request."""
        while self.pending:
            self.pending.pop()()

    def inside_function(self, place: str) -> LegBuilder:
        """Return a builder for code in a function of its own, which gets the source object and its level.

        The code knows only the place where rules begin to apply again.
        """
        return LegBuilder(
            self.writer,
            self.direction,
            "obj",
            around=[repr(f"{place}/…")],
            level="level",
            functions=self.functions,
            pending=self.pending,
        )

    def place(self, path: Path) -> str:
        """Return the code of the pointer to a field of the scope, starting at the root of the object."""
        return " + ".join([*self.around, repr(pointer(path))])

    def reads(self, texts: Sequence[str], scope: str) -> str:
        """Return the code of the further arguments of an author's function; reads from the root are evaluated once.

        Conversion up can read no hub, only the metadata that both versions have.
        """
        arguments = []
        for text in texts:
            if self.direction == "up" and not is_constant_read(text):
                continue
            if not text.startswith(FROM_ROOT):
                arguments.append(f"DIG({scope}, {parse(text)!r})")
                continue
            steps = read_steps(text)
            items = self.items[: len(steps) - 1]
            name = self._read_once(steps, tuple(keys for _, keys in items))
            found = "".join(f"({item}, {keys!r}), " for item, keys in items)
            arguments.append(f"FOUND({name}, ({found}))" if items else name)
        return "".join(f", {argument}" for argument in arguments)

    def _read_once(self, steps: tuple[Path, ...], keys: tuple[tuple[str, ...], ...]) -> str:
        if (steps, keys) not in self._reads:
            name = self._reads[steps, keys] = self.writer.fresh("read")
            read = f"INDEXED({self.root}, {steps!r}, {keys!r})" if keys else f"DIG({self.root}, {steps[0]!r})"
            self.writer.insert(self._start, f"{name} = {read}", self._depth)
        return self._reads[steps, keys]


#: The variable of the stash's content in code for objects without a stash.
NOTHING_KEPT: Final = "None"


@dataclass(slots=True, kw_only=True)
class ScopeBuilder:
    """One scope: its tree of fields, its schemas, and the variables of its stash and of its losses.

    ``read`` is the variable of the object as it is in its version; functions read further fields of it. ``carried``
    has, by path, the condition under which the way back restores that field of the source without any implied value.
    ``later`` writes to the stash; it is called when the objects of the target are known.
    """

    stage: LegBuilder
    root: PathNode
    read: str
    kept: str
    lost: str
    source_schema: Schema | None
    target_schema: Schema | None
    carried: dict[Path, str] = field(default_factory=dict)
    later: list[Callable[[], None]] = field(default_factory=list)

    @property
    def writer(self) -> SourceWriter:
        """The writer of the code."""
        return self.stage.writer

    @property
    def has_kept(self) -> bool:
        """Whether the code is for objects that may have a stash."""
        return self.kept != NOTHING_KEPT

    def takes(self, rule: Rule) -> list[PathNode]:
        """Return the fields of the source that a rule claims."""
        return [self.root.reach(path) for path in claimed_paths(rule, self.stage.source_side)]

    def puts(self, rule: Rule) -> list[PathNode]:
        """Return the fields of the target that a rule claims."""
        return [self.root.reach(path) for path in claimed_paths(rule, self.stage.target_side)]

    def parent(self, node: PathNode) -> PathNode:
        """Return the object around a field."""
        return self.root.reach(node.path[:-1])

    def lose(self, address: str, entry: str) -> None:
        """Write code that adds an entry to the stash."""
        with self.writer.block(f"if {self.lost} is None:"):
            self.writer(f"{self.lost} = {{}}")
        self.writer(f"{self.lost}[{address!r}] = {entry}")

    def lose_later(self, node: PathNode, value: str, around: str) -> None:
        """Write code that at the end stashes a value of the source, if there is one.

        ``around`` is the code of a tuple: are the objects around it in the target? (``ObjectPresence.shown_after``)
        """
        self.later.append(partial(self._lose_present, node.address, value, around))

    def _lose_present(self, address: str, value: str, around: str) -> None:
        with self.writer.block(f"if {value} is not A:"):
            self.lose(address, f"LEAF({value}, {around})")

    def put(self, node: PathNode, value: str) -> None:
        """Write code that puts a value into the target, and makes the object around it if needed."""
        parent = self.parent(node)
        self.ensure(parent)
        self.writer(f"{parent.new}[{node.name!r}] = {value}")

    def put_present(self, node: PathNode, value: str) -> None:
        """Write code that puts a value into its place if there is one, and otherwise leaves the place empty."""
        with self.writer.block(f"if {value} is not A:"):
            self.put(node, value)
        if node.in_place and value != node.value:
            with self.writer.block(f"elif {node.value} is not A:"):
                self.writer(f"del {self.parent(node).new}[{node.name!r}]")

    def ensure(self, node: PathNode) -> None:
        """Write code that makes an object of the target unless it exists."""
        if node is not self.root:
            with self.writer.block(f"if {node.new} is None:"):
                self.writer(f"{node.new} = {{}}")

    def schema_of(self, node: PathNode) -> str:
        """Return the name of the target's schema of a field."""
        return self.writer.constant("schema", schema_at(self.target_schema, node.path))

    @staticmethod
    def is_required(schema: Schema | None, node: PathNode) -> bool:
        """Return whether the schema requires the field at the node in the object around it."""
        around = schema_at(schema, node.path[:-1])
        return around is not None and node.name in around.required

    def is_one_sided(self, node: PathNode) -> bool:
        """Return whether only one of the versions declares the field at the node; False if a schema is unknown."""
        if self.source_schema is None or self.target_schema is None:
            return False
        return (schema_at(self.source_schema, node.path) is None) != (schema_at(self.target_schema, node.path) is None)
