"""Finds out whether a function depends on more than its arguments: a profiler watches what it calls."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any, Final

__all__ = ["impure_calls"]

_MODULES: Final = frozenset({"time", "_random", "random", "_socket", "posix", "nt", "secrets", "_uuid"})
_CLOCKS: Final = frozenset({"now", "today", "utcnow"})
_OPENERS: Final = frozenset({"open", "input", "print"})
_PURE_TIME: Final = frozenset({"strptime", "gmtime", "mktime", "strftime", "fspath", "fsencode"})


def impure_calls(function: Callable[[], Any]) -> set[str]:
    """Call the function and return the names of what it called that depends on more than its arguments."""
    seen: set[str] = set()

    def watch(_frame: FrameType, event: str, called: Any) -> None:
        if event == "c_call":
            name = _impure(called)
            if name:
                seen.add(name)

    before, collects = sys.getprofile(), gc.isenabled()
    gc.disable()  # what finalizers and callbacks of the collector call is not the function's doing
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
