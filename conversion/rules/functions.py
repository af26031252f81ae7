"""Escape hatches: groups of leaves converted by functions of the author.

The functions must be pure (no clock, no cluster, no randomness) and must not change what they are given: they
get the live values of the input, not copies. ``restow.conversion.testing`` catches those that break this.

Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from restow.conversion.rules.model import Lens, Loses, Packing, Rule

__all__ = ["functions", "pair"]


def pair(
    spoke: str | tuple[str, ...],
    hub: str | tuple[str, ...],
    *,
    up: Callable[..., Any],
    down: Callable[..., Any],
    loses: Loses = "nothing",
    merge: Callable[[Any, Any, Any], Any] | None = None,
    forget: Callable[[Any], bool] | None = None,
    reads: str | Sequence[str] = (),
) -> Rule:
    """Convert a group of leaves by two functions.

    A side named by one path: its function gets that value and the other returns one (or ``ABSENT``). A side named by a
    tuple of paths: a dict by path of those that are present, and a dict is returned. A function is called only if
    something of its side is present.

    ``loses`` says in which directions the inverse may not give back what was there. Every conversion is verified by
    the inverse (except in a direction that a one-way ``loses`` leaves out) and what would be lost goes to the stash;
    the laws of ``restow.conversion.testing`` fail where that happens undeclared.

    ``merge(edited, shown, kept)`` decides what an edit of the lossy side means: ``shown`` is what its client was shown,
    ``edited`` what it sent instead (of a group that it took away, ``{}``), ``kept`` the stashed value of the richer
    side. Without it the edit is converted plainly and the stashed value forgotten.

    ``forget(value)`` says which values of the spoke need not come back as they were, for ``up`` said all that they
    mean: a spelling that the spoke's schema refuses, for instance, and that offline conversion is to put right.

    ``reads`` names further hub fields (relative to the scope; ``$.status.x`` from the root of the object) whose values
    ``down`` gets as further arguments, ABSENT where missing. ``$.status.items[].x``, inside of ``each``, is what that
    list says of the item with the same keys (each ``[]`` stands for one ``each``, outermost first). Up-conversion has
    no such thing: ``loses`` is "down", or "both" if ``down`` undoes ``up`` for an object in which nothing of that is
    found (up is then checked by such a ``down``); ``merge`` judges edits of the spoke only.
    """
    return Lens(
        name="pair",
        spoke=_all(spoke),
        hub=_all(hub),
        up=up,
        down=down,
        spoke_packing=_packing(spoke),
        hub_packing=_packing(hub),
        loses=loses,
        merge=merge,
        forget=forget,
        reads=_all(reads),
    )


def functions(
    *,
    spoke: str | Sequence[str],
    hub: str | Sequence[str],
    up: Callable[[dict[str, Any]], dict[str, Any]],
    down: Callable[[dict[str, Any]], dict[str, Any]],
    loses: Loses = "nothing",
) -> Rule:
    """Convert by plain functions over dicts: each gets an object with the claimed fields only and returns one.

    ``spoke`` and ``hub`` are the claims: the paths that are read from one side and written to the other. A function
        that
    returns a field it did not claim fails the conversion of that object.
    """
    return Lens(
        name="functions",
        spoke=_all(spoke),
        hub=_all(hub),
        up=up,
        down=down,
        spoke_packing="tree",
        hub_packing="tree",
        loses=loses,
    )


def _all(texts: str | Sequence[str]) -> tuple[str, ...]:
    return (texts,) if isinstance(texts, str) else tuple(texts)


def _packing(side: str | tuple[str, ...]) -> Packing:
    return "value" if isinstance(side, str) else "leaves"
