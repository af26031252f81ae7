"""What each rule and each assumption is for: the smallest world in which the protocol breaks without it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache

from tests.protocol.model import EVERY_ASSUMPTION, EVERY_RULE, Model
from tests.protocol.rules import Assumptions, Bounds, Rules, StrategyBounds
from tests.protocol.search import Found, search
from tests.protocol.state import State
from tests.protocol.strategies import OwnersState, StrategyModel
from tests.protocol.words import told, told_of_owners

__all__ = ["ASSUMED", "CASES", "IMPLIED", "WORLDS", "Case", "counterexample", "sentences", "visited", "without"]

_ONE = Bounds(servers=1, objects=1, edits=0, natives=0, migrations=False, flipped=True)
_UNTRIMMED = replace(_ONE, trims=False)
_TWO_SERVERS = replace(_UNTRIMMED, servers=2)
_TWO_OBJECTS = replace(_ONE, objects=2)
_STEPS = replace(_UNTRIMMED, ready_in_steps=True)
_FAILURES = replace(_UNTRIMMED, failures=True)
_TWO_RUNS = replace(_FAILURES, flips=1, runs=2)
_FAILED_MIGRATION = replace(_UNTRIMMED, natives=1)
_RESTORED = replace(_UNTRIMMED, restores=True)
_LINGERING = replace(_UNTRIMMED, lingering=True)
_TRANSLATED = StrategyBounds(changes=2, edits=0, servers=1, objects=1)
_WIRED = replace(_ONE, unwires=True)


@dataclass(frozen=True, slots=True)
class Case:
    """A protocol without one of its parts, what that breaks (``Model.violation``), and a world where it does."""

    breaks: str
    bounds: Bounds | StrategyBounds
    rules: Rules = EVERY_RULE
    assumptions: Assumptions = EVERY_ASSUMPTION

    @property
    def model(self) -> Model | StrategyModel:
        """The transition system."""
        if isinstance(self.bounds, Bounds):
            return Model(self.bounds, self.rules, self.assumptions)
        return StrategyModel(self.bounds, self.rules, self.assumptions)

    def search(self) -> Found[State] | Found[OwnersState]:
        """Search the world."""
        match self.model:
            case Model() as model:
                return search(model, only=self.breaks)
            case StrategyModel() as model_of_owners:
                return search(model_of_owners, only=self.breaks)


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
    "epoch_is_compared": Case("ready", _RESTORED, Rules(epoch_is_compared=False)),
    "token_before_the_look": Case("ready", _RESTORED, Rules(token_before_the_look=False)),
    "settles_after_the_look": Case("ready", _LINGERING, Rules(settles_after_the_look=False)),
    "strategy_is_compared": Case("owner", _TRANSLATED, Rules(strategy_is_compared=False)),
    "strategies_unbroken": Case("owner", _TRANSLATED, Rules(strategies_unbroken=False)),
    "what_is_unclear_fails": Case("owner", _TRANSLATED, Rules(what_is_unclear_fails=False)),
    "unwire_asks_for_the_proof": Case("unwire", _WIRED, Rules(unwire_asks_for_the_proof=False)),
    "unwire_compares": Case("unwire", _WIRED, Rules(unwire_compares=False)),
}
"""A rule off, by its name; a second case of the same rule has a name with more words."""

ASSUMED = {
    "all_servers_seen": Case("ready", _TWO_SERVERS, assumptions=Assumptions(all_servers_seen=False)),
    "serves_what_it_shows": Case("ready", _UNTRIMMED, assumptions=Assumptions(serves_what_it_shows=False)),
    "requests_end_in_time": Case("ready", _LINGERING, assumptions=Assumptions(requests_end_in_time=False)),
    "evidence_is_true": Case("ready", _ONE, assumptions=Assumptions(evidence_is_true=False)),
    "unfinished_is_distinct": Case("overwritten", _TWO_RUNS, assumptions=Assumptions(unfinished_is_distinct=False)),
    "revisions_go_back": Case("ready", _RESTORED, assumptions=Assumptions(revisions_go_back=False)),
    "lives_to_confirm": Case("owner", _TRANSLATED, assumptions=Assumptions(lives_to_confirm=False)),
}
"""An assumption off, by its name."""

IMPLIED = ("mark_has_failure", "mark_needs_exact", "looks_again", "looks_at_hash", "ready_looks")
"""The rules that the invariants hold without, one by one and all together."""

WORLDS: dict[str, Bounds | StrategyBounds] = {
    "one run": Bounds(migrations=False),
    "two runs, two servers": Bounds(runs=2, objects=1, edits=0, natives=0),
    "two runs, two objects": Bounds(runs=2, servers=1, flips=2, edits=0),
    "two runs, objects that fail": Bounds(
        runs=2, servers=1, flips=2, edits=0, natives=0, migrations=False, failures=True
    ),
    "one run, two edits": Bounds(servers=1, objects=1, edits=2),
    "`ready` request by request": Bounds(objects=1, edits=0, ready_in_steps=True),
    "restores of etcd": Bounds(servers=1, objects=1, flips=2, edits=0, natives=0, migrations=False, restores=True),
    "restores of etcd, two runs": Bounds(
        runs=2, servers=1, objects=1, flips=1, edits=0, natives=0, trims=False, migrations=False, restores=True
    ),
    "requests that linger": Bounds(objects=1, edits=0, natives=0, migrations=False, lingering=True),
    "`unwire`": Bounds(objects=1, edits=0, unwires=True),
    "owners": StrategyBounds(),
}
"""What is searched to its end with all rules and assumptions on; together they have everything."""


@cache
def visited(name: str) -> Found[State] | Found[OwnersState]:
    """Search a world to its end."""
    return Case("", WORLDS[name]).search()


def without(*names: str) -> Rules:
    """Return the rules with these off."""
    return replace(EVERY_RULE, **dict.fromkeys(names, False))


@cache
def counterexample(name: str) -> Found[State] | Found[OwnersState]:
    """Search the world of a case."""
    return _case(name).search()


def sentences(name: str) -> list[str]:
    """The shortest counterexample of a case, in words."""
    model = _case(name).model
    return told(model, counterexample(name)) if isinstance(model, Model) else told_of_owners(counterexample(name))


def _case(name: str) -> Case:
    return (CASES | ASSUMED)[name]
