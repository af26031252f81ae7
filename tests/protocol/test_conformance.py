"""The model judges like restow: what it reaches is shown to restow's own functions, and the verdicts are compared."""

from __future__ import annotations

from functools import cache
from itertools import product

import pytest

from restow.crds import Crd
from restow.migrator.decide.proof import ANNOTATION, UNFINISHED, proof_of_run, what_is_proved
from restow.migrator.decide.prune import Generations, may_prune
from restow.migrator.model.options import Options
from restow.migrator.requests.apiservers import View, storage_version_hash
from tests.migrator.builders import crd
from tests.protocol import state as modelled
from tests.protocol.cases import without
from tests.protocol.model import EVERY_RULE, Model
from tests.protocol.rules import Bounds
from tests.protocol.state import State, bit, fit, proven, unbroken

_OURS = {
    "manager": "restow-migrator",
    "operation": "Update",
    "fieldsType": "FieldsV1",
    "fieldsV1": {"f:metadata": {"f:annotations": {f"f:{ANNOTATION}": {}}}},
}
_NAMES = ("v1", "v2")


@cache
def reached() -> frozenset[State]:
    """Every state of a run among changes of all kinds, reduced to what is written on the CRD."""
    model = Model(Bounds(flips=3, edits=2, natives=1, servers=1, objects=1, failures=True, migrations=False))
    first = model.initial()
    keeps = (first.objects, first.servers, first.runs)
    return frozenset(
        State(each.history, each.stored, each.mark, each.failures, *keeps, first.asked) for each in model.reachable()
    )


@cache
def shown(history: tuple[int, ...], stored: int, failures: int, annotation: str = "") -> Crd:
    """The CRD of a state as an API server shows it, with the annotation as restow writes it."""
    document = crd(
        _NAMES,
        storage=_NAMES[history[-1]],
        stored=[name for version, name in enumerate(_NAMES) if stored & bit(version)],
        generation=len(history),
        annotations={ANNOTATION: annotation} if annotation else {},
        managed_fields=[_OURS] if annotation else [],
    ).document
    ended = {"type": "StorageMigrating", "status": "False", "reason": "MigrationFailed"}
    conditions = [ended | {"lastTransitionTime": f"2026-02-0{failures}T00:00:00Z"}] if failures else []
    status = document["status"] | {"conditions": [*document["status"].get("conditions", []), *conditions]}
    return Crd.from_document({**document, "status": status})


@cache
def left(history: tuple[int, ...], failures: int) -> str:
    """The mark that restow leaves on the CRD as it was in the last of these generations."""
    then = shown(history, bit(history[-1]), failures)
    found = proof_of_run(then, then, Options())
    assert found is not None
    return found.encode()


def real(state: State) -> bool:
    """Whether restow takes a state's CRD for proven."""
    annotation = ""
    if state.mark == modelled.UNFINISHED:
        annotation = UNFINISHED
    elif state.mark is not None:
        annotation = left(state.history[: state.mark.generation + 1], state.mark.failure)
    return not what_is_proved(shown(state.history, state.stored, state.failures, annotation)).doubt


def test_a_mark_is_valid_for_restow_as_for_the_model() -> None:
    """The search would be about another protocol than the one that ``restow ready`` follows."""
    verdicts = set[bool]()
    for state in reached():
        verdict = real(state)
        verdicts.add(verdict)
        assert verdict == proven(state, without("mark_needs_exact"), evidence=False), state
    assert verdicts == {True, False}


@pytest.mark.parametrize("seen", [True, False], ids=["watched", "unwatched"])
def test_a_run_concludes_for_restow_as_for_the_model(seen: bool) -> None:
    """The search would be about runs that conclude over other generations than restow's."""
    histories = {state.history for state in reached()}
    for history, (before, after) in product(histories, product((0b01, 0b10, 0b11), repeat=2)):
        for start in range(len(history)):
            then, now = shown(history[: start + 1], before | bit(history[start]), 0), shown(history, after, 0)
            watched = Generations()
            for number in range(start, len(history)):
                if seen or number in {start, len(history) - 1}:
                    watched.add(shown(history[: number + 1], 0b11, 0))
            known = unbroken(history, start, history[start], seen=seen)
            joined = after & ~(before | bit(history[start]))
            assert may_prune(then, now, watched).prune == (known and not joined), (history, start, before, after)


def test_an_api_server_is_relied_on_by_restow_as_by_the_model() -> None:
    """The search would be about a look that asks an API server for something else than restow does."""
    then = shown((0, 1, 1), 0b11, 0)
    for reached, stores in product(range(5), (True, False)):
        name = _NAMES[1] if stores else _NAMES[0]
        view = View("server", reached + 1, storage_version_hash(then.group, name, then.kind))
        assert (not view.behind(then)) == fit(reached, 2, stores, EVERY_RULE), (reached, stores)
