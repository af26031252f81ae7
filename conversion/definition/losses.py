"""Reports what each rule of a kind may lose, and what becomes of it.

The stash keeps what one version does not have, so that the way back restores it. Only what is dropped or forgotten is
lost, and only what is waived is missing, each for a reason of the author's. Edits that come together can lose what
items of a list without keys keep in the stash: ``keylesslists`` has that acknowledged.

Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from restow.conversion.compile.graph import KindGraph
from restow.conversion.model.fieldpath import parse
from restow.conversion.rules.branches import When
from restow.conversion.rules.model import (
    Constant,
    Default,
    Direction,
    Lens,
    Move,
    Private,
    Rule,
    ScopedRules,
    Side,
    Waiver,
)
from restow.crds.paths import ROOT, field_path, items_path, values_path

__all__ = ["Loss", "RuleLoss", "judged", "rule_losses"]


_STEPS: Final[Mapping[str, Callable[[str], str]]] = {"list": items_path, "map": values_path, "object": str}
_BOTH: Final[tuple[Direction, Direction]] = ("up", "down")


class Loss(StrEnum):
    """What a rule does with information in one direction."""

    LOSSLESS = "lossless"
    STASHED = "stashed"
    """The stash keeps what the other version does not have."""
    DROPPED = "dropped"
    """It is let go, knowingly."""
    WAIVED = "waived"
    """Nothing is lost; the result may lack a field that its version requires, knowingly."""


@dataclass(frozen=True, slots=True)
class RuleLoss:
    """One rule between a version and the hub: ``up`` is to the hub, ``down`` from it; ``reason`` is why something is
    dropped or missing, or why a list needs no keys.

    ``paths`` are the fields in the version and in the hub, as ``restow.crds`` writes them. ``branch`` is the condition
    of a rule that holds for one branch of a union.
    """

    kind: str
    version: str
    hub: str
    rule: str
    paths: tuple[tuple[str, ...], tuple[str, ...]]
    up: Loss
    down: Loss
    reason: str = ""
    branch: str = ""

    @property
    def title(self) -> str:
        """The rule with the whole paths of its fields, and its branch."""
        sides = (", ".join(paths) for paths in self.paths if paths)
        title = f"{self.rule.partition('(')[0]}({' <-> '.join(sides)})"
        return f"{title} {self.branch}" if self.branch else title


def rule_losses(kind: KindGraph) -> list[RuleLoss]:
    """Return the losses of all rules of a kind, each followed by those of the rules inside it."""
    title = f"{kind.kind}.{kind.group}"
    return [
        found
        for version, spoke in kind.spokes.items()
        for found in _of_rules(spoke.rules, title, version, kind.hub, (ROOT, ROOT))
    ]


def _of_rules(
    rules: Sequence[Rule], kind: str, version: str, hub: str, around: tuple[str, str], branch: str = ""
) -> Iterator[RuleLoss]:
    for rule in rules:
        if isinstance(rule, When):
            yield from _of_rules(rule.rules, kind, version, hub, around, f"{branch} {rule.label}".strip())
            continue
        paths = (_places(rule, "spoke", around[0]), _places(rule, "hub", around[1]))
        up, down, reason = judged(rule)
        yield RuleLoss(kind, version, hub, rule.label, paths, up, down, reason, branch)
        if isinstance(rule, ScopedRules):
            step = _STEPS[rule.container]
            yield from _of_rules(rule.rules, kind, version, hub, (step(paths[0][0]), step(paths[1][0])), branch)


def _places(rule: Rule, side: Side, around: str) -> tuple[str, ...]:
    return tuple(_below(around, text) for text in (rule.spoke if side == "spoke" else rule.hub))


def _below(around: str, text: str) -> str:
    for name in parse(text):
        around = field_path(around, name)
    return around


def judged(rule: Rule) -> tuple[Loss, Loss, str]:
    """Return what one rule does with information going up and going down, and the author's reason if it has one."""
    match rule:
        case Private():
            loss = Loss.STASHED if rule.acknowledge is None else Loss.DROPPED
            up, down = (loss, Loss.LOSSLESS) if rule.spoke else (Loss.LOSSLESS, loss)
            return up, down, rule.acknowledge or ""
        case Constant():
            loses: tuple[Direction, ...] = ("up",) if rule.spoke else ("down",)
        case Default():
            loses = ("up", "down")
        case Waiver():
            up, down = (Loss.LOSSLESS, Loss.WAIVED) if rule.spoke else (Loss.WAIVED, Loss.LOSSLESS)
            return up, down, rule.acknowledge
        case Lens() if rule.forget is not None:
            return Loss.DROPPED, _verdict(rule.may_lose("down")), rule.acknowledge or ""
        case Lens():
            loses = tuple(each for each in _BOTH if rule.may_lose(each))
        case ScopedRules() if rule.hide is not None:
            loses = ("down",)
        case Move() | _:
            loses = ()
    reason = rule.acknowledge if isinstance(rule, ScopedRules) else None
    return _verdict("up" in loses), _verdict("down" in loses), reason or ""


def _verdict(loses: bool) -> Loss:
    return Loss.STASHED if loses else Loss.LOSSLESS
