"""Takes fields out of an object before a conversion, and puts them back behind it, at the places where they were.

Pure.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from restow.conversion.explain import Steps
from restow.conversion.explain.model import value_at
from restow.conversion.model.errors import ObjectError
from restow.conversion.model.fieldpath import pointed, pointer
from restow.conversion.model.values import ABSENT, Json

__all__ = ["stepped", "with_spared", "without"]


def stepped(obj: Json, text: str) -> Steps:
    """Return the steps of a JSON pointer into an object, with the positions of list items as numbers."""
    steps: list[str | int] = []
    value: Any = obj
    for name in pointed(text) if text else ():
        step: str | int = int(name) if isinstance(value, list) and name.isdecimal() else name
        steps.append(step)
        value = value_at(value, (step,))
    return tuple(steps)


def without(obj: Json, places: Iterable[Steps]) -> Json:
    """Return an object without the fields at these places; what is around them stays."""
    for place in places:
        obj = _changed(obj, place, ABSENT)
    return obj


def with_spared(result: Json, source: Json, places: Iterable[Steps]) -> Json:
    """Return a converted object with the fields of its source at these places.

    Raises:
        ObjectError: what was around such a field is not where it was, so that there is no place for it.
    """
    for place in places:
        in_list = any(isinstance(step, int) for step in place)
        if in_list and value_at(result, place[:-1]).__class__ is not value_at(source, place[:-1]).__class__:
            reason = "the field has a template expression, from which a rule would compute; convert the object by hand"
            raise ObjectError(reason, pointer=pointer(place))
        if value_at(result, place) is ABSENT:
            result = _changed(result, place, value_at(source, place))
    return result


def _changed(value: Any, place: Steps, new: Any) -> Any:
    step, rest = place[0], place[1:]
    if isinstance(value, list) and isinstance(step, int):
        child = _changed(value[step], rest, new) if rest else new
        return [*value[:step], *([] if child is ABSENT else [child]), *value[step + 1 :]]
    if not isinstance(value, dict):
        return value
    child = _changed(value.get(str(step), {}), rest, new) if rest else new
    if child is ABSENT:
        return {name: each for name, each in value.items() if name != step}
    return {**value, str(step): child}
