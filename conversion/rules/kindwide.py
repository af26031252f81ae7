"""Decisions that an author makes once for all rules of a kind: the handling of failed rules.

``with_on_error`` decides what happens to a value whose rule fails, if the rule itself leaves that open. Only an
author's functions and rules that apply again inside of themselves can fail. Standard rules never fail.

Pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from restow.conversion.rules.cel import CelFunction
from restow.conversion.rules.protocol import OnError, Rule, everywhere

#: The rule that matches texts against the pattern of its author.
_MATCHING: Final = "template"


def with_on_error(rules: Sequence[Rule], on_error: OnError) -> tuple[Rule, ...]:
    """Return the rules with ``on_error`` filled in where they leave it open; ``keep`` only where a rule can fail."""
    return tuple(rule.decided(on_error).with_contained(with_on_error(rule.contained, on_error)) for rule in rules)


def has_limits(rule: Rule) -> bool:
    """Return whether a rule has an expression, which cannot take every value."""
    return any(isinstance(each, CelFunction) for each in rule.functions.values())


def any_has_limits(rules: Sequence[Rule]) -> bool:
    """Return whether one of the rules has an expression, to any depth."""
    return any(map(has_limits, everywhere(rules)))


def may_be_costly(rules: Sequence[Rule]) -> bool:
    """Return whether the conversion of one small object may take long: by functions of an author, or by a pattern."""
    return any(rule.can_fail or rule.name == _MATCHING for rule in everywhere(rules))


def keeping(rules: Sequence[Rule]) -> Iterator[Rule]:
    """Yield the rules that keep what they cannot convert, to any depth."""
    return (rule for rule in everywhere(rules) if rule.keeps)
