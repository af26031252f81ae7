"""Counterexamples in words: each step of a trace as a sentence, and what is wrong at its end."""

from __future__ import annotations

from typing import Any

from tests.protocol.model import Model
from tests.protocol.search import Found, Label
from tests.protocol.state import State, bit
from tests.protocol.strategies import OwnersState

__all__ = ["told", "told_of_owners"]


def told(model: Model, found: Found[Any]) -> list[str]:
    """Return the sentences of a counterexample."""
    sentences = [_step(model, label, after) for label, after in found.trace if not _unsaid(model, label)]
    return [*sentences, _end(model, found)]


def _unsaid(model: Model, label: Label) -> bool:
    """Whether a step goes without saying: the answer, which is the end, and all looks but the last of a round."""
    look = label[2] if label[0] == "run" else label[0]
    return label[0] == "ready answers" or (
        look in {"look", "look again", "ready looks"} and label[-1] != model.bounds.servers - 1
    )


def _version(version: object) -> str:
    return f"v{int(str(version)) + 1}"


def _versions(versions: int) -> str:
    return f"[{', '.join(_version(each) for each in (0, 1) if versions & bit(each))}]"


def _server(model: Model, index: object) -> str:
    return "the API server" if model.bounds.servers == 1 else f"API server {'AB'[int(str(index))]}"


def _object(model: Model, number: object) -> str:
    return "the object" if model.bounds.objects == 1 else f"object {int(str(number)) + 1}"


def _step(model: Model, label: Label, after: State) -> str:
    what, *rest = label
    now = f"generation {len(after.history)}"
    if what == "run":
        who = "The run" if model.bounds.runs == 1 else f"Run {int(rest[0]) + 1}"
        return f"{who} {_run(model, rest[1:], after)}."
    if what == "flip":
        return f"Someone makes {_version(after.history[-1])} the storage version ({now})."
    if what == "edit":
        return f"Someone changes something else in the CRD ({now})."
    if what == "trim":
        return f"Someone trims `storedVersions` to {_versions(after.stored)}."
    if what == "native failed":
        return (
            f"The cluster's own migration fails, and trims `storedVersions` to {_versions(after.stored)} all the same."
        )
    if what == "native":
        told = f"writes every object through {_server(model, rest[0])}, which stores at {_version(rest[1])}"
        return f"The cluster's own migration {told}, and trims `storedVersions` to {_versions(after.stored)}."
    if what == "server":
        part = "" if model.assumptions.serves_what_it_shows else "the watch cache of "
        return _capital(f"{part}{_server(model, rest[0])} reaches generation {int(rest[1]) + 1}.")
    if what == "backup":
        return "Someone makes a backup of etcd."
    if what == "restore":
        starts = "the API server starts" if model.bounds.servers == 1 else "the API servers start"
        return f"etcd is restored from the backup ({now}), and {starts} again."
    if what == "handlers":
        return f"The handlers of {_server(model, rest[0])} reach generation {int(rest[1]) + 1}."
    return _request(model, label)


def _request(model: Model, label: Label) -> str:
    """What clients and ``ready`` do."""
    what, *rest = label
    if what == "client":
        stored = f"which stores it at {_version(rest[2])}"
        return f"A client writes {_object(model, rest[1])} through {_server(model, rest[0])}, {stored}."
    if what == "begin":
        return f"A client's write begins on {_server(model, rest[0])}, which stores at {_version(rest[1])}."
    if what == "end":
        return f"That write ends: {_object(model, rest[0])} is stored at {_version(rest[1])}."
    if what == "ready asked":
        return "`ready` reads the CRD, and finds a valid mark."
    if what == "ready looks":
        return f"`ready` {_looks(model, '')}."
    if what == "unwire judges":
        finds = (
            "finds a valid mark" if model.rules.unwire_asks_for_the_proof else "finds one version in `storedVersions`"
        )
        return f"`unwire` reads the CRD, and {finds}."
    if what == "unwire writes":
        return "`unwire` sets strategy None."
    raise AssertionError(label)


def _run(model: Model, label: list[str | int], after: State) -> str:
    what, *rest = label
    if what in {"look", "look again"}:
        return _looks(model, " again" if what == "look again" else "")
    if what == "write":
        stored = f"which stores it at {_version(rest[2])}"
        return f"writes {_object(model, rest[0])} through {_server(model, rest[1])}, {stored}"
    if what == "conclude":
        storage = _version(after.history[int(rest[0])])
        return f"reads generation {int(rest[0]) + 1}, and concludes that every object is stored at {storage}"
    if what == "prune":
        return f"prunes `storedVersions` to {_versions(int(rest[0]))}"
    if what == "mark":
        return f"leaves its mark for generation {int(rest[0]) + 1}"
    if what == "renew":
        return f"renews the mark for generation {int(rest[0]) + 1}"
    if what in {"read proven", "read unproven"}:
        return f"reads generation {int(rest[0]) + 1}, and finds {'a' if what == 'read proven' else 'no'} valid mark"
    if what == "read ignoring":
        return f"reads generation {int(rest[0]) + 1}, and ignores the mark"
    if what == "fails":
        return f"fails to write {_object(model, rest[0])}"
    return {
        "token": "leaves its token on the CRD",
        "settle": _settles(model),
        "killed": "is killed",
        "put back": "puts both versions into `storedVersions`",
        "void": 'ends, and leaves "unfinished"',
    }[str(what)]


def _settles(model: Model) -> str:
    if not model.rules.settles_after_the_look:
        return "does not wait, since it is long ago that the CRD was changed"
    if not model.assumptions.requests_end_in_time:
        return "waits for the settle time"
    return "waits until every request has ended that began before"


def _looks(model: Model, again: str) -> str:
    if not model.assumptions.all_servers_seen:
        return f"looks at API server A{again}, finds it up to date, and does not know of API server B"
    if model.bounds.servers == 1:
        return f"looks at the API server{again}, and finds it up to date"
    return f"looks at both API servers{again}, and finds them up to date"


def _end(model: Model, found: Found[Any]) -> str:
    end: State = found.trace[-1][1]
    if found.violation == "unwire":
        return f"**The strategy is None, and {_where(model, end, 1 - end.history[-1])}.**"
    if found.violation == "overwritten":
        return '**The mark took the place of an "unfinished" that this run did not see.**'
    if found.violation.startswith("ready"):
        version = int(found.violation.split()[1])
        return f"**`ready --drop {_version(version)}` says yes, and {_where(model, end, version)}.**"
    hidden = 0 if model.hidden(end) & bit(0) else 1
    return f"**`storedVersions` is {_versions(end.stored)}, and {_where(model, end, hidden)}.**"


def _where(model: Model, state: State, version: int) -> str:
    """What is stored at a version, or could be."""
    for number, stored_at in enumerate(state.objects):
        if stored_at == version:
            return f"{_object(model, number)} is stored at {_version(version)}"
    for index, (_cache, handlers) in enumerate(state.servers):
        if state.history[handlers] == version:
            return f"{_server(model, index)} stores at {_version(version)}"
    for index, (_cache, handlers) in enumerate(state.servers):
        if version in state.history[handlers:]:
            return f"{_server(model, index)} is about to store at {_version(version)}"
    return f"a write under way will be stored at {_version(version)}"


def told_of_owners(found: Found[Any]) -> list[str]:
    """Return the sentences of a counterexample of the strategies, with one API server and one object."""
    sentences = [_of_owners(label, after) for label, after in found.trace]
    return [*sentences, "**The object's owners are wrong, and no run will judge them again.**"]


def _of_owners(label: Label, after: OwnersState) -> str:
    what, *rest = label
    if what == "strategy":
        return f"Someone sets strategy {_STRATEGIES[int(rest[0])]} (generation {len(after.strategies)})."
    if what == "server":
        return f"The API server reaches generation {int(rest[1]) + 1}."
    what, *rest = rest[1:]
    if what == "read":
        return f"The run reads generation {int(rest[0]) + 1}."
    if what == "write":
        decided, converts = (_STRATEGIES[each] for each in (after.strategies[after.run.generation], int(rest[2])))
        return f"The run translates the object's owners by {decided}; the API server converts the object by {converts}."
    return {
        "look": "The run looks at the API server, and finds it up to date.",
        "changed": "The run reads the CRD again, and finds that it changed.",
        "end": "The run reads the CRD again, and ends.",
        "killed": "The run is killed.",
    }[str(what)]


_STRATEGIES = ("None", "Webhook")


def _capital(sentence: str) -> str:
    return sentence[0].upper() + sentence[1:]
