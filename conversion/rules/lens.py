"""Values computed from values by two functions: the author's, or restow's own.

Pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal, get_args

from restow.conversion.model.fieldpath import Path, dig, parse
from restow.conversion.model.values import ABSENT, same
from restow.conversion.rules.cel import FunctionOrExpression, as_function
from restow.conversion.rules.functions import FallibleRule, check_functions, check_reads, is_constant_read, read_steps
from restow.conversion.rules.known import Ends, Function, Misfit, Names, Standard
from restow.conversion.rules.protocol import (
    ANY_NODE,
    Counterpart,
    Defect,
    Lift,
    Loss,
    Node,
    OnError,
    Rule,
    SchemaQuestions,
    Surroundings,
    declared,
    paths_of,
)
from restow.conversion.rules.sides import Direction, Side, opposite
from restow.crds import Schema
from restow.crds.schema import schema_at

_ITEMS: Final = "[]"

#: In which directions a lens may lose something, which the stash then has to keep.
Loses = Literal["nothing", "up", "down", "both"]

#: The form in which functions get the values of a side: one value, a dict by leaf path, or an object tree with these
#: leaves only.
Packing = Literal["value", "leaves", "tree"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Lens(FallibleRule):
    """Values computed from values, both ways. See ``rules.pair`` for the contract of the functions.

    ``nulls``: the functions are also called with null; otherwise null stays null.

    ``exact`` holds, per direction, the values known to come back unchanged (an enum's table); ``singleton`` is the side
    that holds a list of one. Both only let the compiler leave out a check. ``admitted`` has the enum of a side that
    shows no other values: the other side may have values that are in neither the table nor this enum. ``standard``
    holds further knowledge about a rule with restow's own functions. ``defects`` are arguments that are wrong by
    themselves, each with the remedy.
    """

    up: Function
    down: Function
    spoke_packing: Packing = "value"
    hub_packing: Packing = "value"
    loses: Loses = "nothing"
    merge: Function | None = None
    forget: Function | None = None
    acknowledge: str | None = None
    nulls: bool = False
    exact: Mapping[Direction, Mapping[str, Any]] | None = None
    tables: Mapping[Direction, Names] | None = None
    admitted: Mapping[Side, Sequence[Any]] = field(default_factory=dict)
    singleton: Side | None = None
    standard: Standard | None = None
    defects: tuple[tuple[str, str], ...] = ()

    def image(self, index: int, sources: Sequence[Node | None], lift: Lift) -> Node:  # noqa: ARG002
        """Return the node that restow's own functions make; an author's may return anything."""
        if self.standard is not None:
            images = self.standard.shapes["hub"] if self.standard.image is None else self.standard.image(sources)
            return dict(images[index]) or dict(ANY_NODE)
        source = sources[index] if index < len(sources) else None
        if source is None:
            return dict(ANY_NODE)
        if self.tables is not None:
            return _table_image([*self.tables["up"].values(), *self.tables["down"]], source)
        if self.singleton == "hub":
            return {"type": "array", "items": source}
        return dict((source.get("items") if self.singleton else None) or ANY_NODE)

    @property
    def may_forget(self) -> bool:
        """Whether the author says which values need not be restored."""
        return self.forget is not None

    def forgets(self, source: Any, root: Any) -> bool:
        """Return whether the author's function says so, and the value would not come back."""
        if self.forget is None:
            return False
        value = self._packed(source)
        reads = [dig(root, read_steps(text)[0]) for text in self.constant_reads]
        if value is ABSENT or not self.forget(value, *reads):
            return False
        target = self.up(value, *reads)
        back = ABSENT if target is ABSENT or target == {} else self.inverse_of_up(target, *reads)
        return not same(ABSENT if self.spoke_packing != "value" and back == {} else back, value)

    def _packed(self, source: Any) -> Any:
        """Return the argument of ``forget``, which is a value or a group: ``rules.functions`` takes none."""
        values = [dig(source, parse(text)) for text in self.spoke]
        if self.spoke_packing == "value":
            return values[0]
        present = zip(self.spoke, values, strict=True)
        return {text: value for text, value in present if value is not ABSENT} or ABSENT

    @property
    def inverse_of_up(self) -> Function:
        """The function going down with the reads of going up, for an object without anything else to read."""
        return self._down_with_nothing if self.reads_hub else self.down

    def _down_with_nothing(self, value: Any, *metadata: Any) -> Any:
        known = dict(zip(self.constant_reads, metadata, strict=True))
        return self.down(value, *(known.get(text, ABSENT) for text in self.reads))

    def reads_going(self, direction: Direction) -> tuple[str, ...]:
        """Return the reads; going up only those of metadata."""
        return self.reads if direction == "down" else self.constant_reads

    @property
    def is_opaque(self) -> bool:
        """Whether functions make the value: always."""
        return True

    @property
    def is_made(self) -> bool:
        """Whether the functions do more than to look up a table, or to make a list of one."""
        return self.tables is None and self.singleton is None

    def may_be_empty(self, values: Sequence[Any], side: Side) -> Sequence[Any]:
        """Return the empty values that restow's own functions made, such as of a text, and all further copies."""
        if self.standard is None:
            return ()
        if self.standard.repeats == side:
            return [each for each in values[1:] if each is not ABSENT]
        return [each for each in values if each in ({}, [])]

    def packing(self, side: Side) -> Packing:
        """Return the form in which the functions take and return the values of that side."""
        return self.spoke_packing if side == "spoke" else self.hub_packing

    @property
    def constant_reads(self) -> tuple[str, ...]:
        """The reads that all functions get: fields of metadata that are the same in both versions."""
        return tuple(text for text in self.reads if is_constant_read(text))

    def check(self, around: Surroundings) -> Iterator[Defect]:
        """Yield the defects of the functions, the paths, the declared losses and the reads."""
        yield from check_functions(self, up=self.up, down=self.down, merge=self.merge, forget=self.forget)
        if self.loses not in get_args(Loses):
            fix = f"Say one of {', '.join(map(repr, get_args(Loses)))}"
            yield Defect(f"{self.label} has loses={self.loses!r}", fix)
        for problem, fix in self.defects:
            yield Defect(f"{self.label} {problem}", fix, is_fatal=True)
        if self.defects:
            return
        if not self.spoke or not self.hub:
            fix = "Use rules.stash or rules.drop"
            yield Defect(f"{self.label} claims nothing on one side", fix, is_fatal=True)
            return
        if self.reads_hub and self.loses not in ("down", "both"):
            problem = f"{self.label} reads other fields, so its inverse cannot check it going up"
            yield Defect(problem, 'Say loses="down"')
        yield from check_reads(self, self.reads, around)
        yield from self._check_forget(around.spoke)

    def _check_forget(self, spoke: str) -> Iterator[Defect]:
        if self.forget is None:
            if self.acknowledge is not None:
                fix = "Remove acknowledge=, or give the function as forget="
                yield Defect(f"{self.label} acknowledges a loss, but has no forget=", fix)
        elif self.acknowledge is None or not self.acknowledge.strip():
            problem = f"{self.label} forgets values of {spoke}, and does not say why that is no loss"
            yield Defect(problem, 'Add acknowledge="why"')
        elif self.loses == "down":
            problem = f'{self.label} forgets nothing: with loses="down" nothing is kept going up'
            yield Defect(problem, 'Say loses="both", or remove forget= and acknowledge=')

    @property
    def reads_hub(self) -> bool:
        """Whether ``down`` reads fields of the hub, which ``up`` cannot read."""
        return len(self.constant_reads) < len(self.reads)

    def may_lose(self, direction: Direction) -> bool:
        """Return whether a loss in that direction was declared, or follows from an enum."""
        return self.loses in ("both", direction) or ("hub" if direction == "up" else "spoke") in self.admitted

    def fitted(self, spoke: Schema | None, hub: Schema | None) -> Rule:
        """Return the rule with the enums that its table does not cover, or with functions that know a schema."""
        if self.standard is not None and self.standard.by_schema is not None:
            is_hub = self.standard.must_fit == "hub"
            schema = schema_at(hub if is_hub else spoke, parse((self.hub if is_hub else self.spoke)[0]))
            if schema is None:
                return self
            up, down, merge = self.standard.by_schema(schema)
            return replace(self, up=up, down=down, standard=replace(self.standard, merge=merge))
        if self.tables is None:
            return self
        ours, theirs = schema_at(spoke, parse(self.spoke[0])), schema_at(hub, parse(self.hub[0]))
        if ours is None or theirs is None:
            return self
        found: dict[Side, Sequence[Any]] = {}
        if self.tables["up"].beyond(ours, theirs):
            found["hub"] = theirs.node["enum"]
        if self.tables["down"].beyond(theirs, ours):
            found["spoke"] = ours.node["enum"]
        return replace(self, admitted=found) if found else self

    @property
    def is_known(self) -> bool:
        """Whether the functions are restow's own."""
        return self.tables is not None or self.singleton is not None or self.standard is not None

    @property
    def reason(self) -> str:
        """The author's reason why values are forgotten; other losses need none."""
        return self.acknowledge or "" if self.forget is not None else ""

    @property
    def functions(self) -> Mapping[str, Function]:
        """The functions, if they are the author's: restow's own never fail."""
        given = {"up": self.up, "down": self.down, "merge": self.merge, "forget": self.forget}
        return {} if self.is_known else {name: each for name, each in given.items() if each is not None}

    @property
    def always_gives(self) -> bool:
        """Whether the hub gets a value: from a table, and where the hub has a list of one."""
        return self.tables is not None or self.singleton == "hub"

    @property
    def ties(self) -> bool:
        """Whether the functions get several values or return several."""
        return len(self.spoke) > 1 or len(self.hub) > 1 or bool(self.reads)

    def table(self, direction: Direction) -> Names | None:
        """Return the table of an enum."""
        return None if self.tables is None else self.tables[direction]

    def counterpart(self, path: Path, side: Side) -> Counterpart | None:
        """Return the other end of an enum."""
        if self.tables is None or path != parse(self.named(side)[0]):
            return None
        return Counterpart(parse(self.named(opposite(side))[0]), (self,))

    def misfits(self, ends: Ends) -> Iterator[Misfit]:
        """Yield the misfits of a standard rule."""
        if self.standard is not None and self.standard.check is not None:
            yield from self.standard.check(ends)

    def loss(self, direction: Direction) -> Loss:
        """Return the declared loss; forgotten values are dropped going up."""
        if direction == "up" and self.forget is not None:
            return Loss.DROPPED
        return Loss.STASHED if self.may_lose(direction) else Loss.LOSSLESS

    def ask(self, schemas: SchemaQuestions) -> None:
        """Ask for the types and enums, and whether a required field may be missing."""
        if self.tables is not None:
            schemas.named(self, self.tables)
        elif self.singleton is not None:
            schemas.wrapped(self, self.singleton)
        elif self.standard is not None:
            schemas.suited(self, self.standard)
        if self.spoke_packing == self.hub_packing == "value":
            schemas.guaranteed(self)
        elif self.standard is None:
            schemas.given(self)
        schemas.shown(self)

    def shows_what_fits(self, side: Side) -> bool:
        """Return whether that side shows only values that its schema can hold."""
        return side in self.admitted or (self.standard is not None and self.standard.must_fit == side)

    def is_checked(self, direction: Direction) -> bool:
        """Return whether the inverse verifies a conversion in that direction.

        An author's lens that declares a loss in the other direction only is not verified in this one: its reverse
        function may depend on more than its argument (``reads``).
        """
        return self.is_known or self.loses in ("nothing", "both", direction)


_JSON_TYPES: Final = {str: "string", int: "integer", float: "number", bool: "boolean"}


def _table_image(values: Sequence[Any], source: Node) -> Node:
    """Return the node of a field with the values of a table."""
    types = {_JSON_TYPES.get(type(value)) for value in values}
    kind, enum = types.pop() if len(types) == 1 else None, list(dict.fromkeys(values))
    if source.get("type") != kind:
        return dict(ANY_NODE) if kind is None else {"type": kind, "enum": enum}
    return source if source.get("enum") is None else {**source, "enum": enum}


@declared
def pair(
    spoke: str | tuple[str, ...],
    hub: str | tuple[str, ...],
    *,
    up: FunctionOrExpression,
    down: FunctionOrExpression,
    loses: Loses = "nothing",
    merge: FunctionOrExpression | None = None,
    forget: FunctionOrExpression | None = None,
    acknowledge: str | None = None,
    reads: str | Sequence[str] = (),
    nulls: bool = False,
    on_error: OnError | None = None,
) -> Rule:
    """Convert a group of leaves by two functions.

    A side can be one path or a tuple of paths. For one path, the side's function takes that value, and the opposite
    function returns it (or ``ABSENT``). For a tuple, both use a dict of the present values by path. A function is
    called only if some value of its side is present. Null (``field:`` in YAML) stays null. If both sides are single
    paths, the functions get null only with ``nulls``; in a dict by path, null is a value like any other. A text instead
    of a function is a CEL expression over ``self``, or for ``merge`` over ``edited``, ``shown`` and ``kept``
    (``restow.conversion.rules.cel``).

    ``loses`` declares the directions in which the inverse may not restore the original value. The inverse verifies
    every conversion (except in a direction that a one-way ``loses`` leaves out), and a value that would be lost goes to
    the stash. The laws of ``restow.conversion.testing`` fail if that happens in an undeclared direction.

    ``merge(edited, shown, kept)`` decides the result of an edit of the lossy side. ``shown`` is the value that the
    client saw, ``edited`` the value that it sent instead (``{}`` for a group that it removed), ``kept`` the stashed
    value of the richer side. Without ``merge`` the edit is converted as it is, and the stashed value is discarded.

    ``forget(value)`` returns whether a value of the spoke need not be restored, because ``up`` keeps its whole meaning:
    another spelling (``300s`` for ``5m``), or a form that the spoke's schema refuses and that offline conversion
    corrects. Such a value is lost permanently, so ``acknowledge`` must say why this is no loss. The laws check that the
    restored value means the same to ``up``. If ``up`` gives ABSENT for it, an object that has nothing else is lost with
    it.

    ``reads`` names further hub fields (relative to the scope; ``$.status.x`` from the root of the object). ``down``
    gets their values as further arguments, ABSENT where missing. Inside ``each``, ``$.status.items[].x`` is that list's
    field of the item with the same keys (each ``[]`` stands for one ``each``, outermost first). ``up`` gets no such
    arguments. ``loses`` is therefore "down", or "both" if ``down`` undoes ``up`` for an object without any of these
    fields (up is then checked by such a ``down``). ``merge`` handles edits of the spoke only.

    The object's own ``$.metadata.name``, ``.namespace``, ``.uid``, ``.labels`` and ``.annotations`` are the same in
    both versions. So ``up``, ``down``, ``merge`` and ``forget`` all get their values as further arguments, in the order
    of ``reads``, each direction is checked by the other with the same values, and ``loses`` may be "nothing".

    ``on_error`` decides what happens to a value for which a function raises. "fail" fails the object, and with it every
    LIST and watch of its kind. With "keep" the stash keeps the value as it is, and the other version shows the default
    of its schema, or nothing: the object converts, the way back restores the value, and an edit takes precedence over
    it. Without ``on_error`` the kind decides.
    """
    return Lens(
        spoke=paths_of(spoke),
        hub=paths_of(hub),
        up=as_function(up),
        down=as_function(down),
        spoke_packing=_packing(spoke),
        hub_packing=_packing(hub),
        loses=loses,
        merge=as_function(merge, ("edited", "shown", "kept")),
        forget=as_function(forget),
        acknowledge=acknowledge,
        reads=paths_of(reads),
        nulls=nulls,
        on_error=on_error,
    )


@declared
def functions(
    *,
    spoke: str | Sequence[str],
    hub: str | Sequence[str],
    up: FunctionOrExpression,
    down: FunctionOrExpression,
    loses: Loses = "nothing",
    on_error: OnError | None = None,
) -> Rule:
    """Convert by plain functions over dicts: each gets an object with the claimed fields only, and returns one.

    ``spoke`` and ``hub`` are the claims: the paths that are read from one side and written to the other. A function
    that returns a field that it did not claim fails the conversion of that object.

    ``on_error`` is as in ``pair``.
    """
    return Lens(
        spoke=paths_of(spoke),
        hub=paths_of(hub),
        up=as_function(up),
        down=as_function(down),
        spoke_packing="tree",
        hub_packing="tree",
        loses=loses,
        on_error=on_error,
    )


def _packing(side: str | tuple[str, ...]) -> Packing:
    return "value" if isinstance(side, str) else "leaves"


@declared
def wrap(spoke: str, hub: str) -> Rule:
    """A value that became a list: ``wrap("spec.image", "spec.images[]")``.

    If the list does not have exactly one item, the other side shows the first item, and the stash keeps the list. An
    edit then replaces only the first item.
    """
    return Lens(
        spoke=(spoke,),
        hub=(hub.removesuffix(_ITEMS),),
        up=_listed,
        down=_first,
        merge=_first_replaced,
        loses="down",
        singleton="hub",
    )


@declared
def unwrap(spoke: str, hub: str) -> Rule:
    """A list that became a value: ``unwrap("spec.images[]", "spec.image")``. The inverse of ``wrap``."""
    return Lens(
        spoke=(spoke.removesuffix(_ITEMS),),
        hub=(hub,),
        up=_first,
        down=_listed,
        merge=_first_replaced,
        loses="up",
        singleton="spoke",
    )


def _listed(value: Any) -> Any:
    return value if value is None else [value]


def _first(values: Any) -> Any:
    if not isinstance(values, list):
        return values
    return values[0] if values else ABSENT


def _first_replaced(edited: Any, _shown: Any, kept: Any) -> Any:
    return [edited, *kept[1:]] if isinstance(kept, list) and edited is not None else _listed(edited)
