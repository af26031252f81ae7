"""The protocol of a migration, searched for a way to lose an object; docs/protocol.md is about it."""

from __future__ import annotations

from dataclasses import fields, replace

import pytest

from tests.protocol.cases import ASSUMED, CASES, IMPLIED, WORLDS, counterexample, sentences, visited, without
from tests.protocol.model import EVERY_RULE, Model
from tests.protocol.page import PAGE, named, written
from tests.protocol.rules import Assumptions, Bounds, Rules
from tests.protocol.search import Label, search
from tests.protocol.state import IDLE, State

_SMALL = Bounds(servers=1, objects=1)
_STEPS = Bounds(servers=1, objects=1, natives=0, ready_in_steps=True)
_TWO_SERVERS = Bounds(edits=0, natives=0)
_RESTORES = replace(_SMALL, flips=1, natives=0, migrations=False, restores=True)
_LINGERING = replace(_SMALL, flips=2, natives=0, lingering=True)


@pytest.mark.parametrize("name", WORLDS)
def test_no_way_leads_to_a_violation(name: str) -> None:
    """A sequence of steps that anyone can take would have ``ready`` or the API server allow the loss of objects."""
    found = visited(name)
    print(f"{name}: {found.states} states")
    assert not found.violation, found.trace


@pytest.mark.parametrize("name", [*CASES, *ASSUMED])
def test_each_rule_and_assumption_is_needed(name: str) -> None:
    """A rule without which nothing breaks is not understood, or the model does not see what it is for."""
    expected = (CASES | ASSUMED)[name]
    found = counterexample(name)
    assert found.violation.startswith(expected.breaks) and found.trace
    print("\n".join(sentences(name)))


def test_every_rule_has_a_verdict() -> None:
    """A rule that was added to the model would be on for ever, and no one would know why."""
    assert {name.split()[0] for name in CASES} | set(IMPLIED) == {field.name for field in fields(Rules)}
    assert set(ASSUMED) == {field.name for field in fields(Assumptions)}


@pytest.mark.parametrize("bounds", [_SMALL, _STEPS, _TWO_SERVERS], ids=["small", "ready", "servers"])
def test_the_implied_rules_add_nothing(bounds: Bounds) -> None:
    """A rule listed as a mere precaution would be the only thing that keeps objects."""
    assert not search(Model(bounds, without(*IMPLIED))).violation


def test_the_answer_of_ready_needs_no_comparing_writes() -> None:
    """A mark states what was true in its generation: written late, or over another one, it still does."""
    late = without(*IMPLIED, "mark_compares", "minds_unfinished", "prune_compares", "puts_back")
    bounds = Bounds(runs=2, objects=1, edits=0, natives=0)
    assert not search(Model(bounds, late), only="ready").violation


def test_the_hash_sees_handlers_that_lag_behind_the_watch_cache() -> None:
    """The generation alone would pass a server that still stores at the version before."""
    apart = Assumptions(serves_what_it_shows=False)
    once = Bounds(flips=1, objects=1, edits=0, natives=0)
    assert not search(Model(once, assumptions=apart)).violation
    assert search(Model(once, without("looks_at_hash"), apart), only="ready").violation


@pytest.mark.parametrize(
    ("rules", "bounds"),
    [
        pytest.param(EVERY_RULE, replace(_SMALL, failures=True), id="every rule"),
        pytest.param(without("mark_needs_exact"), replace(_SMALL, failures=True), id="inexact marks"),
        pytest.param(EVERY_RULE, _RESTORES, id="restores"),
        pytest.param(EVERY_RULE, _LINGERING, id="held writes"),
    ],
)
def test_a_run_that_nothing_disturbs_leads_to_a_yes(rules: Rules, bounds: Bounds) -> None:
    """A protocol that never says yes is safe, and useless; so is one that a killed run can bring to a standstill."""
    model = Model(bounds, rules)
    reached = {_quiet(state) for state in model.reachable()}
    assert len(reached) > 20
    for state in reached:
        assert model.says_ready(_undisturbed(model, state)), state


def _quiet(state: State) -> State:
    """The state after all runs were killed, and every API server has reached the last generation."""
    now = len(state.history) - 1
    ended = state._replace(lingering=-1, begun=0, backup=None, guarded=True, overwritten=False)
    return ended._replace(runs=(IDLE,), servers=((now, now),) * len(state.servers))


def _undisturbed(model: Model, state: State) -> State:
    """The state after a run, and a second one where the first one only put versions back."""
    for _run in range(2):
        while steps := [after for label, after in model.successors(state) if label[0] == "run" and _ahead(label)]:
            state = steps[0]
            if state.runs == (IDLE,):
                break
    return state


def _ahead(label: Label) -> bool:
    return label[2] not in {"killed", "fails", "read ignoring"}


def test_the_page_has_what_the_searches_found() -> None:
    """The traces and numbers of docs/protocol.md would be of another protocol (python -m tests.protocol.page)."""
    text = PAGE.read_text(encoding="utf-8")
    assert text == written(text)
    assert named(text) == {*CASES, *ASSUMED} and "| world |" in text
