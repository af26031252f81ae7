"""The protocol of a migration, searched for a way to lose an object; docs/protocol.md is about it."""

from __future__ import annotations

from dataclasses import fields, replace

import pytest

from tests.protocol.cases import ASSUMED, CASES, IMPLIED, WORLDS, counterexample, sentences, visited, without
from tests.protocol.model import Model
from tests.protocol.page import PAGE, named, written
from tests.protocol.rules import Assumptions, Bounds, Rules
from tests.protocol.search import search

_SMALL = Bounds(servers=1, objects=1)
_STEPS = Bounds(servers=1, objects=1, natives=0, ready_in_steps=True)
_TWO_SERVERS = Bounds(edits=0, natives=0)


@pytest.mark.parametrize("name", WORLDS)
def test_no_way_leads_to_a_violation(name: str) -> None:
    """A sequence of steps that anyone can take would have `ready` or the API server allow the loss of objects."""
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
    """A rule that was added to the model would be on for ever, and nobody would know why."""
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
    once = Bounds(flips=1, objects=1, edits=1, natives=0)
    assert not search(Model(once, assumptions=apart)).violation
    assert search(Model(once, without("looks_at_hash"), apart), only="ready").violation


def test_a_run_can_reach_its_end() -> None:
    """A model in which no run ever proves anything breaks no invariant."""
    model = Model(replace(_SMALL, flips=1))
    found, seen = [model.initial()], {model.initial()}
    while found:
        state = found.pop()
        if state.history[-1] == 1 and model.says_ready(state):
            return
        new = {after for _label, after in model.successors(state)} - seen
        seen |= new
        found += new
    pytest.fail("`ready --drop v1` never says yes")


def test_the_page_has_what_the_searches_found() -> None:
    """The traces and numbers of docs/protocol.md would be of another protocol (python -m tests.protocol.page)."""
    text = PAGE.read_text(encoding="utf-8")
    assert text == written(text)
    assert named(text) == {*CASES, *ASSUMED} and "| world |" in text
