"""Rules for single fields. Each constructor's docstring is its contract.

Pure.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any

from restow.conversion.rules.model import Constant, Default, Direction, Lens, Loses, Move, Private, Rule
from restow.conversion.values import ABSENT

__all__ = ["constant", "default", "drop", "enum", "move", "rename", "stash", "unwrap", "wrap"]

_ITEMS = "[]"


def rename(spoke: str, hub: str) -> Rule:
    """Another name in the same object: ``rename("spec.ttl", "spec.timeToLive")``. The value may be a whole subtree."""
    return Move(name="rename", spoke=(spoke,), hub=(hub,))


def move(spoke: str, hub: str) -> Rule:
    """Another place: ``move("spec.image", "spec.container.image")``.

    An object that the move leaves empty goes too, unless the target's schema requires it; one that it needs is made.
    """
    return Move(name="move", spoke=(spoke,), hub=(hub,))


def enum(
    spoke: str,
    values: Mapping[Any, Any],
    *,
    hub: str | None = None,
    up: Mapping[Any, Any] | None = None,
    down: Mapping[Any, Any] | None = None,
) -> Rule:
    """Other spellings of the same values, spoke to hub: ``enum("spec.mode", {"a": "Alpha", "b": "Beta"})``.

    ``up`` and ``down`` add values that only one version knows, each with what the other one shows instead:
    ``down={"Gamma": "b"}``. They, and a table in which two values meet, lose information; the stash keeps it. Values in
    no table pass unchanged. Give ``hub`` if the field's path differs.
    """
    upward = {**values, **(up or {})}
    downward = {**{value: key for key, value in reversed([*values.items()])}, **(down or {})}
    tables: dict[Direction, Mapping[Any, Any]] = {"up": upward, "down": downward}
    return Lens(
        name="enum",
        spoke=(spoke,),
        hub=(hub or spoke,),
        up=_Table(upward),
        down=_Table(downward),
        loses=_losses(upward, downward),
        exact={"up": _exact(upward, downward), "down": _exact(downward, upward)},
        tables=tables,
    )


def wrap(spoke: str, hub: str) -> Rule:
    """A value that became a list: ``wrap("spec.image", "spec.images[]")``.

    A list of other than one item shows its first one; the stash keeps the list, and an edit of the first item
    replaces only that.
    """
    return Lens(
        name="wrap",
        spoke=(spoke,),
        hub=(hub.removesuffix(_ITEMS),),
        up=_listed,
        down=_first,
        merge=_first_replaced,
        loses="down",
        singleton="hub",
    )


def unwrap(spoke: str, hub: str) -> Rule:
    """A list that became a value: ``unwrap("spec.images[]", "spec.image")``. The mirror of ``wrap``."""
    return Lens(
        name="unwrap",
        spoke=(spoke.removesuffix(_ITEMS),),
        hub=(hub,),
        up=_first,
        down=_listed,
        merge=_first_replaced,
        loses="up",
        singleton="spoke",
    )


def constant(spoke: str | None = None, value: Any = None, *, hub: str | None = None) -> Rule:
    """A field of one version alone whose value for objects of the other is known: ``constant(hub="spec.tier",
    value=1)``.

    It is written where the object around it is present, and taken away on the way back; any other value is stashed.
    """
    return Constant(name="constant", spoke=_side(spoke), hub=_side(hub), value=value)


def default(spoke: str, value: Any, *, hub: str | None = None) -> Rule:
    """A field that the hub spells out and the spoke may leave out: ``default("spec.replicas", 1)``.

    Going up, a missing field becomes ``value`` where the object around it is present; going down, ``value`` becomes a
    missing field. Where the other spelling was meant, the stash keeps it.
    """
    return Default(name="default", spoke=(spoke,), hub=(hub or spoke,), value=value)


def stash(spoke: str | None = None, *, hub: str | None = None) -> Rule:
    """A field that the other version cannot say: kept there in the stash annotation. ``stash(hub="spec.weight")``."""
    return Private(name="stash", spoke=_side(spoke), hub=_side(hub))


def drop(spoke: str | None = None, *, hub: str | None = None, acknowledge: str) -> Rule:
    """A field that is let go on conversion; ``acknowledge`` says why nobody misses it."""
    return Private(name="drop", spoke=_side(spoke), hub=_side(hub), acknowledge=acknowledge)


def _side(path: str | None) -> tuple[str, ...]:
    return () if path is None else (path,)


class _Table:
    """A function by table; what is in no table passes unchanged."""

    __slots__ = ("values",)

    def __init__(self, values: Mapping[Any, Any]) -> None:
        self.values = values

    def __call__(self, value: Any) -> Any:
        """Return the other spelling of ``value``."""
        if not isinstance(value, Hashable):
            return value
        found = self.values.get(value, value)
        return value if isinstance(value, bool | float) and not _has_key(self.values, value) else found


def _has_key(values: Mapping[Any, Any], value: Any) -> bool:
    return any(key == value and type(key) is type(value) for key in values)


def _exact(forward: Mapping[Any, Any], back: Mapping[Any, Any]) -> dict[str, Any]:
    """Return the strings of a table that come back as they went."""
    return {key: value for key, value in forward.items() if isinstance(key, str) and _Table(back)(value) == key}


def _losses(upward: Mapping[Any, Any], downward: Mapping[Any, Any]) -> Loses:
    up = len(_exact(upward, downward)) < sum(isinstance(key, str) for key in upward)
    down = len(_exact(downward, upward)) < sum(isinstance(key, str) for key in downward)
    return "both" if up and down else "up" if up else "down" if down else "nothing"


def _listed(value: Any) -> Any:
    return value if value is None else [value]


def _first(values: Any) -> Any:
    if not isinstance(values, list):
        return values
    return values[0] if values else ABSENT


def _first_replaced(edited: Any, _shown: Any, kept: Any) -> Any:
    return [edited, *kept[1:]] if isinstance(kept, list) and edited is not None else _listed(edited)
