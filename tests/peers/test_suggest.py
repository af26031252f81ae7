"""What ``restow suggest`` drafts of the ported kinds: much of what was written by hand, and nothing else."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import pytest

from restow.conversion.definition.drafts import RulesDraft, drafted
from restow.conversion.rules.lens import Lens
from restow.conversion.rules.protocol import Rule
from restow.conversion.rules.scopes import ScopedRules
from restow.conversion.rules.unions import flattened
from tests.peers.peer import Peer
from tests.peers.peers import PEERS

#: Of each kind: rules by hand but for waivers, those of them that the draft has, and that it asks about.
FOUND: Final = {}

Place = tuple[str, str, tuple[str, ...], tuple[str, ...]]


def draft(peer: Peer) -> RulesDraft:
    """Draft the rules of a kind."""
    spoke, hub = (peer.definition().version(name) for name in (peer.spoke, peer.hub))
    assert spoke is not None
    assert hub is not None
    return drafted(spoke.schema, hub.schema, names=(peer.spoke, peer.hub))


def places(rules: Sequence[Rule], around: str = "") -> Iterator[Place]:
    """Yield each rule with the lists and maps that it stands in; objects are parts of the path."""
    for rule in flattened(rules):
        if isinstance(rule, ScopedRules) and rule.container == "object":
            if rule.spoke != rule.hub:
                yield "move", around, rule.spoke, rule.hub
            for name, inner, spoke, hub in places(rule.rules, around):
                whole = [
                    tuple(f"{path[0]}.{each}" for each in claims)
                    for path, claims in ((rule.spoke, spoke), (rule.hub, hub))
                ]
                yield (name, inner, *whole) if inner == around else (name, inner, spoke, hub)
            continue
        name = "stash" if hides_only(rule) else "move" if rule.name == "rename" else rule.name
        if not isinstance(rule, ScopedRules) or rule.spoke != rule.hub:
            yield name, around, rule.spoke, rule.hub
        if isinstance(rule, ScopedRules):
            yield from places(rule.rules, f"{around}/{rule.spoke[0]}")


def hides_only(rule: Rule) -> bool:
    """Whether an enum names each value as it is: others are kept and not shown, so it cannot be wrong."""
    return (
        rule.name == "enum"
        and isinstance(rule, Lens)
        and rule.tables is not None
        and all([*table] == [*table.values()] for table in rule.tables.values())
    )


def is_part(found: Place, whole: Place) -> bool:
    """Say whether a move is that of a part of what another one moves as a whole."""
    if found[0] != "move" or whole[0] != "move" or found[1] != whole[1]:
        return False
    (one, other), (left, right) = (found[2][0], found[3][0]), (whole[2][0], whole[3][0])
    return one.startswith(f"{left}.") and other == right + one.removeprefix(left)


@pytest.mark.parametrize("peer", PEERS, ids=[peer.kind for peer in PEERS])
def test_no_guess_is_wrong(peer: Peer) -> None:
    """A wrong rule that is drafted without a question would corrupt objects of whoever trusts it."""
    by_hand = [*places([*peer.declared(), *peer.functions()])]
    for rule in places([each.rule for each in draft(peer).rules]):
        if rule[0] != "stash":
            assert rule in by_hand or any(is_part(rule, each) for each in by_hand), rule
