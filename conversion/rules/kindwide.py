"""Decisions that an author makes once for all rules of a kind: lists without keys, and the handling of failed rules.

``Keyless`` names lists of the hub by path or pattern, with one reason. A path is written as ``restow check`` writes it:
``spec.pools[].taints``, ``spec.selector{}.values``. In a pattern ``*`` stands for the rest of a name, and ``**`` for
any fields, items and values: ``spec.template.**``.

``with_on_error`` decides what happens to a value whose rule fails, if the rule itself leaves that open. Only an
author's functions and rules that apply again inside of themselves can fail. Standard rules never fail.

Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Final

from restow.conversion.model.fieldpath import parse, shown
from restow.conversion.rules.cel import CelFunction
from restow.conversion.rules.protocol import OnError, Rule, everywhere
from restow.conversion.rules.scopes import ScopedRules
from restow.crds.paths import ROOT

_WILD: Final = re.compile(r"(\*\*|\*)")
#: The rule that matches texts against the pattern of its author.
_MATCHING: Final = "template"
_REGEX: Final = {"**": ".*", "*": r"[^.\[\]{}]*"}


@dataclass(frozen=True, slots=True)
class Keyless:
    """Lists of the hub whose items need no keys; ``acknowledge`` is the reason why edits of these lists do no harm."""

    lists: tuple[str, ...]
    acknowledge: str

    def __init__(self, lists: str | Sequence[str], *, acknowledge: str) -> None:
        names = (lists,) if isinstance(lists, str) else tuple(lists)
        object.__setattr__(self, "lists", names)
        object.__setattr__(self, "acknowledge", acknowledge)

    def covering(self, path: str) -> str:
        """Return the pattern that covers a list, by its path as ``restow check`` writes it; empty if none does."""
        return next((text for text in self.lists if _pattern(text).fullmatch(path)), "")


@cache
def _pattern(text: str) -> re.Pattern[str]:
    parts = _WILD.split(text if text.startswith((".", "[")) else f".{text}")
    return re.compile("".join(_REGEX.get(part) or re.escape(part) for part in parts), re.DOTALL)


def lists_of(rules: Sequence[Rule], around: str = ROOT) -> Iterable[tuple[str, ScopedRules]]:
    """Yield the rules of lists, to any depth, each with the path of its list in the hub."""
    for rule in rules:
        inside = rule.inner_place("hub", around)
        if isinstance(rule, ScopedRules) and rule.container == "list":
            yield shown(parse(rule.hub[0]), around), rule
        yield from lists_of(rule.contained, inside)


def with_keyless(rules: Sequence[Rule], reasons: dict[str, str], around: str = ROOT) -> tuple[Rule, ...]:
    """Return the rules; those of lists get the reasons that ``reasons`` holds by the lists' paths in the hub."""

    def completed(rule: Rule) -> Rule:
        inside = rule.inner_place("hub", around)
        if isinstance(rule, ScopedRules) and rule.is_keyless and rule.acknowledge is None:
            rule = replace(rule, acknowledge=reasons.get(shown(parse(rule.hub[0]), around)))
        return rule.with_contained(with_keyless(rule.contained, reasons, inside))

    return tuple(map(completed, rules))


def with_on_error(rules: Sequence[Rule], on_error: OnError) -> tuple[Rule, ...]:
    """Return the rules with ``on_error`` filled in where they leave it open; ``keep`` only where a rule can fail."""
    return tuple(rule.decided(on_error).with_contained(with_on_error(rule.contained, on_error)) for rule in rules)


def has_limits(rule: Rule) -> bool:
    """Return whether a rule has an expression, which cannot take every value."""
    functions = (getattr(rule, name, None) for name in ("up", "down", "merge", "forget", "hide"))
    return any(isinstance(each, CelFunction) for each in functions)


def any_has_limits(rules: Sequence[Rule]) -> bool:
    """Return whether one of the rules has an expression, to any depth."""
    return any(map(has_limits, everywhere(rules)))


def may_be_costly(rules: Sequence[Rule]) -> bool:
    """Return whether the conversion of one small object may take long: by functions of an author, or by a pattern."""
    return any(rule.can_fail or rule.name == _MATCHING for rule in everywhere(rules))


def keeping(rules: Sequence[Rule]) -> Iterator[Rule]:
    """Yield the rules that keep what they cannot convert, to any depth."""
    return (rule for rule in everywhere(rules) if rule.keeps)
