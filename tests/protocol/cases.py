"""What each rule and each assumption is for: the smallest world in which the protocol breaks without it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache

from tests.protocol.model import EVERY_ASSUMPTION, EVERY_RULE, Model
from tests.protocol.rules import Assumptions, Bounds, Rules
from tests.protocol.search import Found, search
from tests.protocol.words import told

__all__ = ["ASSUMED", "CASES", "IMPLIED", "WORLDS", "Case", "counterexample", "sentences", "visited", "without"]

_ONE = Bounds(servers=1, objects=1, edits=0, natives=0, migrations=False, flipped=True)
_UNTRIMMED = replace(_ONE, trims=False)
_TWO_SERVERS = replace(_UNTRIMMED, servers=2)
_TWO_OBJECTS = replace(_ONE, objects=2)
_STEPS = replace(_UNTRIMMED, ready_in_steps=True)
_FAILURES = replace(_UNTRIMMED, failures=True)
_TWO_RUNS = replace(_FAILURES, flips=1, runs=2)
_FAILED_MIGRATION = replace(_UNTRIMMED, natives=1)


@dataclass(frozen=True, slots=True)
class Case:
    """A protocol without one of its parts, what that breaks (``Model.violation``), and a world where it does."""

    breaks: str
    bounds: Bounds
    rules: Rules = EVERY_RULE
    assumptions: Assumptions = EVERY_ASSUMPTION

    @property
    def model(self) -> Model:
        """The transition system."""
        return Model(self.bounds, self.rules, self.assumptions)


CASES = {
    "proof_is_a_mark": Case("ready", _ONE, Rules(proof_is_a_mark=False)),
    "proof_is_a_mark after a failed migration": Case("ready", _FAILED_MIGRATION, Rules(proof_is_a_mark=False)),
    "mark_has_generation": Case("ready", _ONE, Rules(mark_has_generation=False)),
    "one_change_unseen": Case("ready", _ONE, Rules(one_change_unseen=False)),
    "mark_has_storage": Case("ready", _ONE, Rules(mark_has_storage=False)),
    "writes_every_object": Case("ready", _ONE, Rules(writes_every_object=False)),
    "failures_block": Case("ready", _FAILURES, Rules(failures_block=False)),
    "looks": Case("ready", _TWO_SERVERS, Rules(looks=False)),
    "looks_at_generation": Case("ready", _TWO_SERVERS, Rules(looks_at_generation=False)),
    "generations_unbroken": Case("ready", _ONE, Rules(generations_unbroken=False)),
    "ready_reads_twice": Case("ready", _STEPS, Rules(ready_reads_twice=False)),
    "prune_compares": Case("guard", _ONE, Rules(prune_compares=False)),
    "puts_back": Case("guard", _TWO_OBJECTS, Rules(puts_back=False)),
    "mark_compares": Case("overwritten", _TWO_RUNS, Rules(mark_compares=False)),
    "minds_unfinished": Case("overwritten", _TWO_RUNS, Rules(minds_unfinished=False)),
}
"""A rule off, by its name; a second case of the same rule has a name with more words."""

ASSUMED = {
    "all_servers_seen": Case("ready", _TWO_SERVERS, assumptions=Assumptions(all_servers_seen=False)),
    "serves_what_it_shows": Case("ready", _UNTRIMMED, assumptions=Assumptions(serves_what_it_shows=False)),
    "writes_do_not_linger": Case("ready", _UNTRIMMED, assumptions=Assumptions(writes_do_not_linger=False)),
    "evidence_is_true": Case("ready", _ONE, assumptions=Assumptions(evidence_is_true=False)),
    "unfinished_is_distinct": Case("overwritten", _TWO_RUNS, assumptions=Assumptions(unfinished_is_distinct=False)),
}
"""An assumption off, by its name."""

IMPLIED = ("mark_has_failure", "mark_needs_exact", "looks_again", "looks_at_hash", "ready_looks")
"""The rules that the invariants hold without, one by one and all together."""

WORLDS = {
    "one run": Bounds(migrations=False),
    "two runs, two servers": Bounds(runs=2, objects=1, edits=0, natives=0),
    "two runs, two objects": Bounds(runs=2, servers=1, flips=2, edits=0),
    "two runs, objects that fail": Bounds(
        runs=2, servers=1, flips=2, edits=0, natives=0, migrations=False, failures=True
    ),
    "one run, two edits": Bounds(servers=1, objects=1, edits=2),
    "`ready` request by request": Bounds(objects=1, edits=0, ready_in_steps=True),
}
"""What is searched to its end with all rules and assumptions on; together they have everything."""


@cache
def visited(name: str) -> Found:
    """Search a world to its end."""
    return search(Model(WORLDS[name]))


def without(*names: str) -> Rules:
    """Return the rules with these off."""
    return replace(EVERY_RULE, **dict.fromkeys(names, False))


@cache
def counterexample(name: str) -> Found:
    """Search the world of a case."""
    case = _case(name)
    return search(case.model, only=case.breaks)


def sentences(name: str) -> list[str]:
    """The shortest counterexample of a case, in words."""
    return told(_case(name).model, counterexample(name))


def _case(name: str) -> Case:
    return (CASES | ASSUMED)[name]
