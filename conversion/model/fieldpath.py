"""The path of a field inside an object: its syntax, its display, and the value there.

Authors write ``spec.timeToLive``, ``metadata.annotations["example.dev/x"]``; a leading dot is allowed. A path never
goes through a list; use ``rules.each`` for lists. Places are shown as ``restow.crds`` shows them, with a leading dot,
and in errors about one object as JSON pointers (RFC 6901). The steps of a pointer also go through lists.

Pure.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any

from restow.conversion.model.values import ABSENT
from restow.crds.paths import ROOT, field_path

#: The names of the fields, starting at the root of the scope (the object, or a list item).
Path = tuple[str, ...]

#: The way to a value: names, and the positions of list items.
Steps = tuple[str | int, ...]

_STEP = re.compile(r'\.?([A-Za-z0-9_$-]+)|\[("(?:[^"\\]|\\.)*")\]')


class PathError(ValueError):
    """The text is no path; the message says why."""


def parse(text: str) -> Path:
    """Parse the text of a path.

    Raises:
        PathError: the text does not follow the syntax above.
    """
    if not isinstance(text, str):
        message = f"a path is a text such as 'spec.timeToLive', not a {type(text).__name__}"
        raise PathError(message)
    names: list[str] = []
    position = 0
    while position < len(text):
        step = _STEP.match(text, position)
        if step is None or (step[1] and names and text[position] != "."):
            message = f'{text!r} is no path: it should read like spec.timeToLive or metadata.labels["a.b/c"]'
            raise PathError(_through(text) or message)
        names.append(step[1] or json.loads(step[2]))
        position = step.end()
    if not names:
        message = "the path is empty"
        raise PathError(message)
    return tuple(names)


def _through(text: str) -> str:
    """Return the rule that replaces a path through a list or a map, as text for a diagnostic."""
    for step, what, rule in (("[]", "list", "each"), ("{}", "map", "each_value")):
        around, found, inside = text.partition(step)
        if found:
            field, rest = around.lstrip("."), inside.lstrip(".") or "…"
            return f'{text!r} goes through a {what}: write rules.{rule}("{field}", [… "{rest}" …])'
    return ""


def shown(path: Path, parent: str = ROOT) -> str:
    """Return the path as diagnostics and stashes write it: ``.spec.timeToLive``."""
    for name in path:
        parent = field_path(parent, name)
    return parent


def argument(path: Path) -> str:
    """Return a path as an argument of a rule, with quotes."""
    return json.dumps(shown(path).removeprefix("."), ensure_ascii=False)


def pointer(steps: Iterable[str | int]) -> str:
    """Return the JSON pointer of the steps: ``/spec/versions/3``."""
    return "".join("/" + str(step).replace("~", "~0").replace("/", "~1") for step in steps)


def pointed(text: str) -> tuple[str, ...]:
    """Return the names in a JSON pointer, with positions of list items as texts."""
    return tuple(step.replace("~1", "/").replace("~0", "~") for step in text.removeprefix("/").split("/"))


def steps_of(value: Any, text: str) -> Steps:
    """Return the steps of a JSON pointer into a value, with the positions of list items as numbers."""
    steps: list[str | int] = []
    for name in pointed(text) if text else ():
        step: str | int = int(name) if isinstance(value, list) and name.isdecimal() else name
        steps.append(step)
        value = value_at(value, (step,))
    return tuple(steps)


def value_at(value: Any, steps: Steps) -> Any:
    """Return the value at the end of the steps; ABSENT if there is none."""
    for step in steps:
        if isinstance(step, str):
            value = value.get(step, ABSENT) if isinstance(value, dict) else ABSENT
        else:
            value = value[step] if isinstance(value, list) and step < len(value) else ABSENT
    return value


def dig(value: Any, path: Path) -> Any:
    """Return the value at ``path``, ABSENT if there is none; a path leads into no list."""
    for name in path:
        if not isinstance(value, dict):
            return ABSENT
        value = value.get(name, ABSENT)
    return value


def starts_with(path: Path, prefix: Path) -> bool:
    """Return whether ``path`` is at or below ``prefix``."""
    return path[: len(prefix)] == prefix
