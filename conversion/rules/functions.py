"""The author's functions of a rule, the further fields that these read, and what happens where they fail.

``with_on_error`` decides what happens to a value whose rule fails, if the rule itself leaves that open. Only an
author's functions and rules that apply again inside of themselves can fail. Standard rules never fail.

Pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from restow.conversion.model.fieldpath import Path, PathError, parse
from restow.conversion.rules.cel import CelFunction
from restow.conversion.rules.protocol import Defect, OnError, Rule, Surroundings, everywhere

#: The rule that matches texts against the pattern of its author.
_MATCHING: Final = "template"

#: The start of a read from the root of the object, not of the scope.
FROM_ROOT: Final = "$."

#: The metadata that is the same at every version; the API server owns the rest, or it may change.
_CONSTANT_METADATA: Final = frozenset({"name", "namespace", "uid", "labels", "annotations"})

#: In such a read: the item with the same keys as the item that contains the rule.
_SAME_KEYS: Final = "[]"


@dataclass(frozen=True, slots=True, kw_only=True)
class FallibleRule(Rule):
    """A rule with functions of its author, which may read further fields and may raise.

    ``on_error`` is None where the author leaves it to the kind; freezing fills it in.
    """

    reads: tuple[str, ...] = ()
    on_error: OnError | None = None

    def decided(self, on_error: OnError) -> Rule:
        """Return the rule with ``on_error`` filled in, if it can fail."""
        return replace(self, on_error=(self.on_error or on_error) if self.can_fail else "fail")

    @property
    def keeps(self) -> bool:
        """Whether the stash keeps what the rule cannot convert."""
        return self.on_error == "keep"


def read_steps(text: str) -> tuple[Path, ...]:
    """Return the paths of a read from the root: the path to a list, the path inside its item, and so on.

    Raises:
        PathError: a part of the text between two ``[]`` is no path.
    """
    first, *others = text.removeprefix(FROM_ROOT).split(_SAME_KEYS)
    return (parse(first), *(parse(other) if other else () for other in others))


def is_constant_read(text: str) -> bool:
    """Return whether a read names metadata that is the same in both versions; False for a text that is no path."""
    if not text.startswith(FROM_ROOT) or _SAME_KEYS in text:
        return False
    try:
        path = parse(text.removeprefix(FROM_ROOT))
    except PathError:
        return False
    return len(path) > 1 and path[0] == "metadata" and path[1] in _CONSTANT_METADATA


def check_functions(rule: Rule, **functions: Any) -> Iterator[Defect]:
    """Yield the arguments of a rule that are no functions, and the expressions that are not valid."""
    for name, function in functions.items():
        if isinstance(function, CelFunction) and (problem := function.problem()):
            yield Defect(f"the CEL expression {name}= of {rule.label} {problem}", "Correct the expression")
        if not (function is None and name in ("merge", "hide", "forget")) and not callable(function):
            yield Defect(f"{rule.label} has a {type(function).__name__} for {name}=", "Give a function")


def check_reads(rule: Rule, reads: Sequence[str], around: Surroundings) -> Iterator[Defect]:
    """Yield the further fields that a rule cannot read from where it stands."""
    for text in reads:
        try:
            steps = read_steps(text) if text.startswith(FROM_ROOT) else (parse(text),)
        except PathError as error:
            yield Defect(f"{rule.label}: {error}", "Name the field to be read", "hub")
            continue
        if len(steps) > 1 and around.is_again:
            problem = f"{rule.label} reads {text} by keys of items, and stands in rules that apply again (recurse=)"
            yield Defect(problem, "Read a field of the scope, or one from the root", "hub")
        elif len(steps) > around.lists + 1:
            problem = f"{rule.label} reads {text}, and stands in {around.lists} lists only"
            yield Defect(problem, "Write as many [] as there are each(…) around it", "hub")


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
