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

_ITEMS = "[]"

#: A value of a discriminator; in a list, null also stands for an absent discriminator.
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


@declared
def constant(spoke: str | None = None, value: Any = None, *, hub: str | None = None) -> Rule:
    """A field that only one version has, with a known value for objects of the other: ``constant(hub="spec.tier",
    value=1)``.

    The field is written if its parent object is present, and removed on the way back. Any other value is stashed.

    For an object that only one version has, and always has, use ``constant(hub="spec.box", value={})`` and separate
    rules for the fields inside the object.
    """
    return Constant(spoke=_side(spoke), hub=_side(hub), value=value)


@declared
def default(spoke: str, value: Any, *, hub: str | None = None, omitted_in: Side = "spoke", hides: bool = True) -> Rule:
    """A field that the hub always has and the spoke may omit: ``default("spec.replicas", 1)``.

    Going up, a missing field becomes ``value`` if its parent object is present; going down, ``value`` becomes a missing
    field. If an object had the other form, the stash keeps that form. ``omitted_in="hub"`` swaps the sides: the hub may
    omit a field that the spoke always has.

    With ``hides=False`` the default value is always shown when it is written. The stash then keeps the fact that a
    field was missing.

    Other rules may convert the field or its content: ``default("spec", {})`` works with ``rename("spec.a",
    "spec.b")``, with ``inside("spec", …)``, and with defaults inside of ``spec``; ``default("spec.mode", "Full")``
    works with an ``enum`` of the same field. ``value`` is the value in the version that always has the field.
    """
    return Default(spoke=(spoke,), hub=(hub or spoke,), value=value, omitted_in=omitted_in, hides=hides)


@declared
def stash(spoke: str | Sequence[str] | None = None, *, hub: str | Sequence[str] | None = None) -> Rule:
    """A field that the other version lacks; objects of that version keep it in the stash annotation.
    ``stash(hub="spec.weight")``.

    A list of paths declares one rule for each path: ``stash(hub=["spec.weight", "spec.zone"])``.
    """
    return _private("stash", spoke, hub, None)


@declared
def drop(spoke: str | Sequence[str] | None = None, *, hub: str | Sequence[str] | None = None, acknowledge: str) -> Rule:
    """A field that conversion drops; ``acknowledge`` is the reason why this loses nothing.

    A list of paths declares one rule for each path, all with the same reason.
    """
    return _private("drop", spoke, hub, acknowledge)


def _private(
    name: str, spoke: str | Sequence[str] | None, hub: str | Sequence[str] | None, acknowledge: str | None
) -> Rule:
    """Return the rule of one field, or of one field on each side; or the rules of a list of fields."""
    if not isinstance(spoke, str | None) or not isinstance(hub, str | None):
        ours, theirs = (() if each is None else _all(each) for each in (spoke, hub))
        each_of = (*((path, None) for path in ours), *((None, path) for path in theirs))
        rules = (Private(name=name, spoke=_side(a), hub=_side(b), acknowledge=acknowledge) for a, b in each_of)
        return RuleGroup(spoke=ours, hub=theirs, rules=tuple(rules))
    return Private(spoke=_side(spoke), hub=_side(hub), acknowledge=acknowledge)


@declared
def waive(spoke: str | None = None, *, hub: str | None = None, acknowledge: str) -> Rule:
    """A field that one version requires and objects of the other may lack: ``waive(hub="spec", acknowledge="why")``.

    Name the side that requires the field. Nothing is filled in: the converted object lacks the field, and an API server
    refuses the next write of this object at that version. ``acknowledge`` says why this is correct.
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
    finds an item by these fields, never by position.

    In a list without keys, and for an item that has none of them, the stash finds an unchanged item by its visible
    fields, and an edited item by its neighbours: if the number of items between two known items is unchanged, they
    count as the same items. Where items are edited and inserted or removed next to each other, the match is ambiguous,
    and their hidden fields are lost and counted. ``freeze`` with a CRD therefore requires a key if ``rules`` keep
    something in the stash; ``acknowledge`` is the reason why a list needs none.

    ``hide(item)`` returns whether the spoke does not show a hub item; the stash keeps the item and its position. The
    function gets the values of ``reads`` as further arguments, as in ``pair``. A hidden item survives the removal of
    the list itself: a client that saw none of the items cannot tell an empty list from no list.

    ``merge(item, hidden)`` is called if an edit of the spoke gives an item the key of a hidden one. It gets the edited
    item, already converted to the hub, and returns the result. Without it the edit replaces the hidden item.

    ``recurse`` names fields of an item in which the same rules apply again, to any depth: ``each("spec.routes", […],
    recurse=["routes"])`` for a tree of routes. ``"routes[]"`` is a list of such objects, ``"routes{}"`` a map of them,
    ``"routes."`` one such object, and ``"routes"`` the same container as that of the rule. Give a mapping from the
    spoke's paths to the hub's if these differ. An object with more than 100 such levels fails, and the error names it.

    ``on_error`` applies to the functions of this rule, not to ``rules``. With "keep" an item for which ``hide`` raises
    is hidden, an edit takes precedence if ``merge`` raises, and everything deeper than 100 levels passes unchanged.
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
    stands for an absent discriminator. ``has="spec.s3"`` decides by presence instead: it selects the objects with a
    value other than null there. Give ``hub`` if the path differs there.

    The paths of ``rules`` start at the scope of ``when``: the object, or the item inside of ``each``. Branches exclude
    each other if they name the same discriminator; branches by presence exclude each other if they claim some field in
    common, and the first one counts. Both directions decide alike. The other rules of the scope convert an object of no
    branch or of another branch. The stash keeps a field that only other branches convert and that the target version
    does not have. A value that one branch lost never returns in another branch.
    """
    texts = tuple(equals) if isinstance(equals, Sequence) and not isinstance(equals, str) else (equals,)
    place = field or has or ""
    return When(
        place={"spoke": place, "hub": hub or place},
        values={"spoke": texts, "hub": texts} if field is not None else None,
        rules=tuple(rules),
        has_both=field is not None and has is not None,
    )
