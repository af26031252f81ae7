"""Tests the functions of authors: ``impure_calls`` finds impure ones, ``failing`` makes a kind whose functions raise.

A profiler shows what a function uses except its arguments: a clock, a random number, a file. The promise of
``on_error="keep"`` must hold for every value for which a function raises. The values and a seed determine which calls
raise, so that a failure can be reproduced.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from types import FrameType
from typing import Any, Final
from zlib import crc32

from restow.conversion.compile.graph import KindGraph
from restow.conversion.model.values import ABSENT, canonical, plain
from restow.conversion.rules.protocol import Rule
from restow.conversion.rules.sides import Direction

_MODULES: Final = frozenset({"time", "_random", "random", "_socket", "posix", "nt", "secrets", "_uuid"})
_CLOCKS: Final = frozenset({"now", "today", "utcnow"})
_OPENERS: Final = frozenset({"open", "input", "print"})
_PURE_TIME: Final = frozenset({"strptime", "gmtime", "mktime", "strftime", "fspath", "fsencode"})


def impure_calls(function: Callable[[], Any]) -> set[str]:
    """Call the function, and return the names of functions it called that depend on more than their arguments."""
    seen: set[str] = set()

    def watch(_frame: FrameType, event: str, called: Any) -> None:
        if event == "c_call":
            name = _impure(called)
            if name:
                seen.add(name)

    before, collects = sys.getprofile(), gc.isenabled()
    gc.disable()  # calls by finalizers and callbacks of the collector do not belong to the function
    sys.setprofile(watch)
    try:
        function()
    finally:
        sys.setprofile(before)
        if collects:
            gc.enable()
    return seen


def _impure(called: Any) -> str | None:
    name = getattr(called, "__name__", "")
    module = getattr(called, "__module__", None) or ""
    owner = getattr(called, "__self__", None)
    if module in _MODULES and name not in _PURE_TIME:
        return f"{module}.{name}"
    if isinstance(owner, type) and owner.__module__ == "datetime" and name in _CLOCKS:
        return f"datetime.{name}"
    if type(owner).__module__ in ("_random", "random"):
        return f"random.{name}"
    return name if module in ("io", "_io", "builtins") and name in _OPENERS else None


#: A function raises for one in this many values; for the seed 0, it raises for every value.
_ONE_OF: Final = 3


class FunctionFails(Exception):
    """The error that the functions raise."""


def failing(kind: KindGraph, seed: int, *, everywhere: bool = False) -> KindGraph:
    """Return a kind in which the functions of rules with ``on_error="keep"`` raise for some values, or for every value.

    Functions that nothing checks do not raise, so that a round trip is still the identity; with ``everywhere`` they do.
    """
    spokes = {
        name: replace(spoke, rules=tuple(_failing(spoke.rules, seed, everywhere=everywhere)))
        for name, spoke in kind.spokes.items()
    }
    return KindGraph.of(
        kind.group,
        kind.kind,
        hub=kind.hub,
        hub_schema=kind.hub_schema,
        is_internal=kind.is_internal,
        spokes=spokes,
        stash_key=kind.stash_key,
        stash_budget=kind.stash_budget,
        adopts=kind.adopts,
        leaves=kind.leaves,
    )


def _failing(rules: Sequence[Rule], seed: int, *, everywhere: bool) -> Iterator[Rule]:
    for rule in rules:
        names = [name for name in rule.functions if rule.keeps and _raises(rule, name, everywhere=everywhere)]
        failing: dict[str, Any] = {name: _raising(rule.functions[name], seed) for name in names}
        inner = tuple(_failing(rule.contained, seed, everywhere=everywhere))
        yield replace(rule.with_contained(inner), **failing)


def _raises(rule: Rule, name: str, *, everywhere: bool) -> bool:
    """Return whether a function raises; the one that undoes a checked direction does, too, and its ``merge``."""
    back: dict[str, Direction] = {"up": "down", "down": "up"}
    if name == "forget":
        return False
    if everywhere or name not in back:
        return everywhere or rule.container is None
    loses: dict[str, bool] = {"up": rule.may_lose("up"), "down": rule.may_lose("down")}
    return loses[back[name]] or not loses[name]


def _raising(function: Callable[..., Any], seed: int) -> Callable[..., Any]:
    def raises(*arguments: Any) -> Any:
        said = canonical(plain(["absent" if each is ABSENT else each for each in arguments]))
        if not seed or not crc32(said, seed) % _ONE_OF:
            raise FunctionFails
        return function(*arguments)

    return raises
