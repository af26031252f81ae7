"""What a pass may prove after the CRD or its history changed, and when requests from before a change have ended."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from restow.crds import Crd
from restow.migrator.decide.premise import Followers, Premise, decisions
from restow.migrator.decide.prune import Generations
from restow.migrator.model.watermark import RUNS, with_token
from tests.migrator import builders as b

MAP = b.mapping(b.STRING)


def spec(node: b.Node) -> dict[str, b.Node]:
    """Both versions, the storage version with this schema of ``spec.m``."""
    return {"v1": b.struct(spec=b.struct(m=MAP)), "v2": b.struct(spec=b.struct(m=node))}


def read(crd: Crd, resource_version: str = "7", *tokens: str) -> Crd:
    """The CRD as read at a resourceVersion, with the tokens of runs."""
    annotations = {RUNS: " ".join(tokens)} if tokens else {}
    return dataclasses.replace(crd, resource_version=resource_version, annotations=annotations)


def judged(start: Crd, now: Crd, token: str = "ours") -> Any:
    """The verdict of a pass that watched every generation."""
    seen = Generations()
    for crd in (start, now):
        seen.add(crd)
    return Premise(start, token).judge(now, seen)


def test_a_pass_whose_premise_holds_may_prune() -> None:
    """The old version could never leave the CRD."""
    assert judged(read(b.crd()), read(b.crd(), "9", "another", "ours")).prune


@pytest.mark.parametrize(
    ("generation", "resource_version", "tokens", "said"),
    [
        (2, "9", (), RUNS),
        (2, "9", ("another",), RUNS),
        (2, "9", ("oursandmore",), RUNS),
        (2, "6", ("ours",), "etcd is restored"),
        (1, "9", ("ours",), "etcd is restored"),
    ],
    ids=["no token", "the token of another run", "a longer token", "an older resourceVersion", "an older generation"],
)
def test_a_pass_proves_nothing_over_a_restore(
    generation: int, resource_version: str, tokens: tuple[str, ...], said: str
) -> None:
    """Objects of the backup would be taken for written, and the API server would lose them with the old version."""
    verdict = judged(read(b.crd(generation=2)), read(b.crd(generation=generation), resource_version, *tokens))
    assert not verdict.prune and verdict.again and said in verdict.reason


def test_without_a_token_resource_versions_alone_tell() -> None:
    """A user without the right to annotate CRDs could never prune."""
    assert judged(read(b.crd()), read(b.crd(), "9"), token="").prune
    assert not judged(read(b.crd()), read(b.crd(), "6"), token="").prune


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        (b.crd(webhook=False), b.crd(webhook=True, generation=2), "the conversion"),
        (b.crd(schemas=spec(MAP)), b.crd(schemas=spec(b.atomic(MAP)), generation=2), "a schema"),
        (b.crd(schemas=spec(MAP)), b.crd(schemas=spec(MAP | {"default": {}}), generation=2), "a schema"),
        (b.crd(schemas=spec(MAP)), b.crd(schemas=spec(b.INTEGER), webhook=True, generation=2), "a schema and the conv"),
        (b.crd(), b.crd(unserved=("v1",), generation=2), "the versions"),
    ],
    ids=["strategy", "list type", "default", "two things", "served"],
)
def test_objects_that_were_decided_by_something_else_are_decided_again(before: Crd, after: Crd, said: str) -> None:
    """Owners would be left at fields that the present conversion, or the present schema, does not have."""
    verdict = judged(read(before), read(after, "9", "ours"))
    assert not verdict.prune and verdict.again and verdict.reason.startswith(said)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (
            b.crd(schemas=spec(MAP)),
            b.crd(schemas=spec(MAP | {"description": "a map"}), generation=2),
        ),
        (b.crd(webhook=True, ca_bundle="b25l"), b.crd(webhook=True, ca_bundle="dHdv", generation=2)),
    ],
    ids=["a description", "a CA bundle"],
)
def test_a_change_that_decides_nothing_repeats_nothing(before: Crd, after: Crd) -> None:
    """A rotation of certificates would have every run list all objects twice."""
    assert judged(read(before), read(after, "9", "ours")).prune


def test_a_field_called_description_decides() -> None:
    """Its schema is no text for people: an owner of it would be decided by a schema that has left."""
    with_field = b.struct(spec=b.struct(description=b.STRING))
    assert decisions(b.crd(schemas={"v1": with_field, "v2": with_field})) != decisions(
        b.crd(schemas={"v1": with_field, "v2": b.struct(spec=b.struct(description=b.INTEGER))})
    )


def test_tokens_of_several_runs_coexist_and_are_bounded() -> None:
    """Two shards would take each other for a restore, and runs that are killed would fill the CRD."""
    crd = b.crd()
    for number in range(1200):
        crd = dataclasses.replace(crd, annotations={RUNS: with_token(crd, f"t{number}")})
    tokens = crd.annotations[RUNS].split()
    assert len(tokens) == 1000 and tokens[-2:] == ["t1198", "t1199"]


def test_each_server_has_to_follow_for_the_whole_time() -> None:
    """A request that began on a server while it lagged would be stored at the old version after the list."""
    followers, crd = Followers(), b.crd(generation=2)
    assert followers.remaining(crd, ["a"], settle_s=65.0, now=100.0) == 65.0
    assert followers.remaining(crd, ["a", "b"], settle_s=65.0, now=150.0) == 65.0
    assert followers.remaining(crd, ["a", "b"], settle_s=65.0, now=200.0) == 15.0
    assert followers.remaining(crd, ["a", "b"], settle_s=65.0, now=215.0) == 0.0
    assert followers.remaining(b.crd(generation=3), ["a"], settle_s=65.0, now=215.0) == 65.0
    followers.forget(crd.uid)
    assert followers.remaining(crd, ["a"], settle_s=65.0, now=300.0) == 65.0


def test_an_address_counts_from_the_last_look_at_a_server_behind() -> None:
    """Behind a load balancer, the look that finds one server up to date would count for the one that still lags."""
    followers, crd = Followers(), b.crd(generation=2)
    assert followers.remaining(crd, ["a"], settle_s=65.0, now=100.0) == 65.0
    assert followers.remaining(crd, [], behind=["a"], settle_s=65.0, now=150.0) == 65.0
    assert followers.remaining(crd, ["a"], settle_s=65.0, now=200.0) == 65.0


def test_a_generation_that_is_counted_again_is_waited_for_again() -> None:
    """After a restore of etcd and the same change again, a run would list while requests of the backup's CRD last."""
    followers, crd = Followers(), b.crd(generation=2)
    assert followers.remaining(read(crd, "100"), ["a"], settle_s=65.0, now=100.0) == 65.0
    assert followers.remaining(read(crd, "101"), ["a"], settle_s=65.0, now=165.0) == 0.0
    assert followers.remaining(read(crd, "99"), ["a"], settle_s=65.0, now=165.0) == 65.0


@given(st.lists(st.tuples(st.sampled_from("abc"), st.floats(0, 1e4)), min_size=1), st.floats(0, 600))
def test_no_server_is_waited_for_longer_than_the_settle_time(looks: list[tuple[str, float]], settle: float) -> None:
    """A run would wait for ever, or list while a server may still store at the old version."""
    followers, crd, first = Followers(), b.crd(), {}
    now = 0.0
    for server, passed in looks:
        now += passed
        first.setdefault(server, now)
        wait = followers.remaining(crd, [server], settle_s=settle, now=now)
        assert 0.0 <= wait <= settle and now + wait >= first[server] + settle - 1e-6
