"""The constructors of rules: for single fields, for the author's functions, and for the inside of lists, maps, objects.

Each constructor's docstring is its contract.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from restow.conversion.model.values import ABSENT
from restow.conversion.rules.branches import When
from restow.conversion.rules.cel import Function, as_function
from restow.conversion.rules.model import (
    Again,
    Constant,
    Container,
    Default,
    Lens,
    Loses,
    Move,
    OnError,
    Packing,
    Private,
    Rule,
    RuleGroup,
    ScopedRules,
    Side,
    Waiver,
    declared,
)

__all__ = [
    "constant",
    "default",
    "drop",
    "each",
    "each_value",
    "functions",
    "inside",
    "move",
    "pair",
    "rename",
    "stash",
    "unwrap",
    "waive",
    "when",
    "wrap",
]


_ITEMS = "[]"

#: A value of a discriminator; in a list, null stands for one that is not there, too.
Value = str | int | float | bool
Scalar = Value | None


@declared
def rename(spoke: str, hub: str) -> Rule:
    """A field with another name in the same object: ``rename("spec.ttl", "spec.timeToLive")``.

    The value may be a whole subtree.
    """
    return Move(spoke=(spoke,), hub=(hub,))


@declared
def move(spoke: str, hub: str) -> Rule:
    """A field at another path: ``move("spec.image", "spec.container.image")``.

    An object that the move empties is removed, unless the target's schema requires it. Objects on the new path are
    created.
    """
    return Move(spoke=(spoke,), hub=(hub,))


@declared
def wrap(spoke: str, hub: str) -> Rule:
    """A value that became a list: ``wrap("spec.image", "spec.images[]")``.

    A list of other than one item shows its first one; the stash keeps the list, and an edit of the first item
    replaces only that.
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
    """A list that became a value: ``unwrap("spec.images[]", "spec.image")``. The mirror of ``wrap``."""
    return Lens(
        spoke=(spoke.removesuffix(_ITEMS),),
        hub=(hub,),
        up=_first,
        down=_listed,
        merge=_first_replaced,
        loses="up",
        singleton="spoke",
    )


@declared
def constant(spoke: str | None = None, value: Any = None, *, hub: str | None = None) -> Rule:
    """A field of one version alone, whose value for objects of the other version is known: ``constant(hub="spec.tier",
    value=1)``.

    It is written where the object around it is present, and removed on the way back. Any other value is stashed.

    An object that one version alone has, and always has, is ``constant(hub="spec.box", value={})``, next to the rules
    of what is inside of it.
    """
    return Constant(spoke=_side(spoke), hub=_side(hub), value=value)


@declared
def default(spoke: str, value: Any, *, hub: str | None = None, omitted_in: Side = "spoke", hides: bool = True) -> Rule:
    """A field that the hub always has and the spoke may omit: ``default("spec.replicas", 1)``.

    Going up, a missing field becomes ``value`` where the object around it is present; going down, ``value`` becomes a
    missing field. Where the object had the other form, the stash keeps that. With ``omitted_in="hub"`` it is the other
    way round: the hub may omit what the spoke spells out.

    With ``hides=False`` a value that is written is always shown, the default too. Then the stash keeps instead that a
    field was missing.

    Other rules may convert the field, or what is in it: ``default("spec", {})`` goes with ``rename("spec.a",
    "spec.b")``, with ``inside("spec", …)``, and with defaults inside of ``spec``; ``default("spec.mode", "Full")`` with
    an ``enum`` of the same field. ``value`` is what the side that always has the field says.
    """
    return Default(spoke=(spoke,), hub=(hub or spoke,), value=value, omitted_in=omitted_in, hides=hides)


@declared
def stash(spoke: str | Sequence[str] | None = None, *, hub: str | Sequence[str] | None = None) -> Rule:
    """A field that the other version lacks: the stash annotation keeps it there. ``stash(hub="spec.weight")``.

    Several paths are as many rules: ``stash(hub=["spec.weight", "spec.zone"])``.
    """
    return _private("stash", spoke, hub, None)


@declared
def drop(spoke: str | Sequence[str] | None = None, *, hub: str | Sequence[str] | None = None, acknowledge: str) -> Rule:
    """A field that is dropped on conversion; ``acknowledge`` is the reason why that is no loss.

    Several paths are as many rules, with one reason.
    """
    return _private("drop", spoke, hub, acknowledge)


def _private(
    name: str, spoke: str | Sequence[str] | None, hub: str | Sequence[str] | None, acknowledge: str | None
) -> Rule:
    """Return the rule of one field, or of the one that is named on each side; or the rules of a list of fields."""
    if not isinstance(spoke, str | None) or not isinstance(hub, str | None):
        ours, theirs = (() if each is None else _all(each) for each in (spoke, hub))
        each_of = (*((path, None) for path in ours), *((None, path) for path in theirs))
        rules = (Private(name=name, spoke=_side(a), hub=_side(b), acknowledge=acknowledge) for a, b in each_of)
        return RuleGroup(spoke=ours, hub=theirs, rules=tuple(rules))
    return Private(spoke=_side(spoke), hub=_side(hub), acknowledge=acknowledge)


@declared
def waive(spoke: str | None = None, *, hub: str | None = None, acknowledge: str) -> Rule:
    """A field that one version requires and objects of the other may lack: ``waive(hub="spec", acknowledge="why")``.

    Name the side that requires it. Nothing is filled in: the converted object lacks the field, and an API server
    refuses the next write of it at that version. ``acknowledge`` says why that is right.
    """
    return Waiver(spoke=_side(spoke), hub=_side(hub), acknowledge=acknowledge)


def _side(path: str | None) -> tuple[str, ...]:
    return () if path is None else (path,)


def _listed(value: Any) -> Any:
    return value if value is None else [value]


def _first(values: Any) -> Any:
    if not isinstance(values, list):
        return values
    return values[0] if values else ABSENT


def _first_replaced(edited: Any, _shown: Any, kept: Any) -> Any:
    return [edited, *kept[1:]] if isinstance(kept, list) and edited is not None else _listed(edited)


@declared
def pair(
    spoke: str | tuple[str, ...],
    hub: str | tuple[str, ...],
    *,
    up: Function,
    down: Function,
    loses: Loses = "nothing",
    merge: Function | None = None,
    forget: Function | None = None,
    acknowledge: str | None = None,
    reads: str | Sequence[str] = (),
    nulls: bool = False,
    on_error: OnError | None = None,
) -> Rule:
    """Convert a group of leaves by two functions.

    A side named by one path: its function gets that value and the other returns one (or ``ABSENT``). A side named by a
    tuple of paths: a dict by path of those that are present, and a dict is returned. A function is called only if
    something of its side is present. Null (``field:`` in YAML) stays null, and reaches the functions of two single
    paths only with ``nulls``; in a dict by path it is a value like any other. A text in the place of a function is a
    CEL expression over ``self``, in ``merge`` over ``edited``, ``shown`` and ``kept``
    (``restow.conversion.rules.cel``).

    ``loses`` declares the directions in which the inverse may not restore the original value. The inverse verifies
    every conversion (except in a direction that a one-way ``loses`` leaves out), and a value that would be lost goes to
    the stash. The laws of ``restow.conversion.testing`` fail where that happens undeclared.

    ``merge(edited, shown, kept)`` decides what an edit of the lossy side means. ``shown`` is the value that its client
    was shown, ``edited`` the value that it sent instead (``{}`` for a group that it removed), ``kept`` the stashed
    value of the richer side. Without ``merge`` the edit is converted as it is, and the stashed value is discarded.

    ``forget(value)`` returns whether a value of the spoke need not be restored, because ``up`` keeps its whole meaning:
    another spelling (``300s`` for ``5m``), or a form that the spoke's schema refuses, and that offline conversion
    corrects. Such a value is lost for good, so ``acknowledge`` has to say why that is no loss. The laws check that what
    comes back instead means the same to ``up``.

    ``reads`` names further hub fields (relative to the scope; ``$.status.x`` from the root of the object). ``down``
    gets their values as further arguments, ABSENT where missing. Inside ``each``, ``$.status.items[].x`` is that list's
    field of the item with the same keys (each ``[]`` stands for one ``each``, outermost first). ``up`` gets no such
    arguments. ``loses`` is therefore "down", or "both" if ``down`` undoes ``up`` for an object without any of these
    fields (up is then checked by such a ``down``). ``merge`` judges edits of the spoke only.

    The object's own ``$.metadata.name``, ``.namespace``, ``.uid``, ``.labels`` and ``.annotations`` are the same in
    both versions. So ``up``, ``down``, ``merge`` and ``forget`` all get their values as further arguments, in the order
    of ``reads``, each direction is checked by the other with the same values, and ``loses`` may be "nothing".

    ``on_error`` is what becomes of a value for which a function raises. "fail" fails the object, and with it every LIST
    and watch of its kind. With "keep" the stash keeps the value as it is, and the other version shows the default of
    its schema, or nothing: the object converts, the way back brings the value, and an edit wins over it. Without
    ``on_error`` the kind decides.
    """
    return Lens(
        spoke=_all(spoke),
        hub=_all(hub),
        up=as_function(up),
        down=as_function(down),
        spoke_packing=_packing(spoke),
        hub_packing=_packing(hub),
        loses=loses,
        merge=as_function(merge, ("edited", "shown", "kept")),
        forget=as_function(forget),
        acknowledge=acknowledge,
        reads=_all(reads),
        nulls=nulls,
        on_error=on_error,
    )


@declared
def functions(
    *,
    spoke: str | Sequence[str],
    hub: str | Sequence[str],
    up: Function,
    down: Function,
    loses: Loses = "nothing",
    on_error: OnError | None = None,
) -> Rule:
    """Convert by plain functions over dicts: each gets an object with the claimed fields only, and returns one.

    ``spoke`` and ``hub`` are the claims: the paths that are read from one side and written to the other. A function
    that returns a field that it did not claim fails the conversion of that object.

    ``on_error`` is as in ``pair``.
    """
    return Lens(
        spoke=_all(spoke),
        hub=_all(hub),
        up=as_function(up),
        down=as_function(down),
        spoke_packing="tree",
        hub_packing="tree",
        loses=loses,
        on_error=on_error,
    )


def _all(texts: str | Sequence[str]) -> tuple[str, ...]:
    return (texts,) if isinstance(texts, str) else tuple(texts)


def _packing(side: str | tuple[str, ...]) -> Packing:
    return "value" if isinstance(side, str) else "leaves"


@declared
def each(
    spoke: str,
    rules: Sequence[Rule],
    *,
    hub: str | None = None,
    key: str | Sequence[str] | None = None,
    hide: Function | None = None,
    merge: Function | None = None,
    reads: str | Sequence[str] = (),
    acknowledge: str | None = None,
    recurse: Sequence[str] | Mapping[str, str] = (),
    on_error: OnError | None = None,
) -> Rule:
    """Apply rules to every item of a list of objects; paths of ``rules`` start at the item.

    ``key`` names the hub's fields that identify an item (a list-map's keys; taken from the CRD if omitted). The stash
    finds an item by them, never by position.

    In a list without keys, and for an item without all of them, the stash finds an item by the fields that were shown,
    and an edited one by its neighbours: as many items as before between the same two are the same. Where items are
    edited and inserted or removed next to each other, that is ambiguous, and what they hide is lost, and counted. So
    ``freeze`` with a CRD asks for a key where ``rules`` keep something in the stash; ``acknowledge`` is the reason why
    a list needs none.

    ``hide(item)`` returns whether the spoke does not show a hub item; the stash keeps it and its position. It gets the
    values of ``reads`` as further arguments, as in ``pair``. A hidden item survives the removal of the list itself: to
    a client that was shown none of the items, an empty list and no list are the same.

    ``merge(item, hidden)`` decides what becomes of an item, already converted to the hub, that an edit of the spoke
    gave the key of a hidden one. Without it the edit wins, and the hidden item is discarded.

    ``recurse`` names fields of an item in which the same rules apply again, to any depth: ``each("spec.routes", […],
    recurse=["routes"])`` for a tree of routes. ``"routes[]"`` is a list of such objects, ``"routes{}"`` a map of them,
    ``"routes."`` one such object, and ``"routes"`` whatever the rule itself is for. Give a mapping from the spoke's
    paths to the hub's if these differ. An object with more than 100 such levels fails, by its name.

    ``on_error`` is about the functions of this rule, not about ``rules``. With "keep" an item for which ``hide`` raises
    is hidden, an edit wins where ``merge`` raises, and what is deeper than 100 levels passes as it is.
    """
    keys = (key,) if isinstance(key, str) else None if key is None else tuple(key)
    return ScopedRules(
        container="list",
        spoke=(spoke,),
        hub=(hub or spoke,),
        rules=tuple(rules),
        keys=keys,
        hide=as_function(hide),
        merge=as_function(merge, ("item", "hidden")),
        reads=(reads,) if isinstance(reads, str) else tuple(reads),
        acknowledge=acknowledge,
        recurse=_again(recurse, "list"),
        on_error=on_error,
    )


@declared
def each_value(
    spoke: str,
    rules: Sequence[Rule],
    *,
    hub: str | None = None,
    recurse: Sequence[str] | Mapping[str, str] = (),
) -> Rule:
    """Apply rules to every value of a map (additionalProperties); paths of ``rules`` start at the value.

    ``recurse`` is as in ``each``.
    """
    return ScopedRules(
        container="map", spoke=(spoke,), hub=(hub or spoke,), rules=tuple(rules), recurse=_again(recurse, "map")
    )


@declared
def inside(
    spoke: str,
    rules: Sequence[Rule],
    *,
    hub: str | None = None,
    recurse: Sequence[str] | Mapping[str, str] = (),
) -> Rule:
    """Apply rules inside of one object, which may move as a whole; paths of ``rules`` start there.

    ``recurse`` is as in ``each``: ``inside("spec.route", […], recurse=["routes[]"])`` for a route that has routes.
    """
    return ScopedRules(
        container="object", spoke=(spoke,), hub=(hub or spoke,), rules=tuple(rules), recurse=_again(recurse, "object")
    )


_MARKS: Final[Mapping[str, Container]] = {_ITEMS: "list", "{}": "map", ".": "object"}


def _again(recurse: Sequence[str] | Mapping[str, str], container: Container) -> tuple[Again, ...]:
    pairs = recurse if isinstance(recurse, Mapping) else {text: text for text in _all(recurse)}
    return tuple(_place(spoke, hub, container) for spoke, hub in pairs.items())


def _place(spoke: str, hub: str, container: Container) -> Again:
    mark = next((mark for mark in _MARKS if spoke.endswith(mark)), "")
    return Again(spoke=spoke.removesuffix(mark), hub=hub.removesuffix(mark), container=_MARKS.get(mark, container))


@declared
def when(
    rules: Sequence[Rule],
    *,
    field: str | None = None,
    equals: Value | Sequence[Scalar] = (),
    has: str | None = None,
    hub: str | None = None,
) -> Rule:
    """Apply rules to the objects of one branch of a union: ``when([…], field="spec.type", equals="S3")``.

    ``field`` is the discriminator, ``equals`` its value or values in this branch, as the spoke spells them. The hub's
    values follow from the ``enum`` or ``default`` that converts the discriminator. A null in a list of values also
    stands for a discriminator that is not there. ``has="spec.s3"`` decides by presence instead: the branch of the
    objects that have a value there, other than null. Give ``hub`` if the path differs there.

    The paths of ``rules`` start at the scope that ``when`` stands in: the object, or inside of ``each`` the item.
    Branches exclude each other if they name the same discriminator; branches by presence do if they claim some field
    in common, and the first one counts. Both directions decide alike. An object in no branch, or in another one, is
    converted by the other rules of the scope; the stash keeps a field that only other branches convert and that the
    target version does not have. What one branch lost never comes back in another one.
    """
    texts = tuple(equals) if isinstance(equals, Sequence) and not isinstance(equals, str) else (equals,)
    place = field or has or ""
    return When(
        place={"spoke": place, "hub": hub or place},
        values={"spoke": texts, "hub": texts} if field is not None else None,
        rules=tuple(rules),
        has_both=field is not None and has is not None,
    )
