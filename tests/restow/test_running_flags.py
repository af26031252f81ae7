"""``--shard``, ``--shards``, ``--engine``: what they mean, and what is told of those that do not go together."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import pytest

from restow.cli.options import JOB_INDEX, shard
from restow.migrator import Shard
from tests.restow.commandline import restow

CRD = "widgets.example.com"


def flags(part: str | None = None, count: int | None = None) -> dict[str, Any]:
    """The flags as click gives them."""
    return {"shard": part, "shards": count, "another": 1}


@pytest.mark.parametrize(
    ("part", "count", "environment", "expected"),
    [
        (None, None, {}, None),
        (None, None, {JOB_INDEX: "1"}, None),
        ("1/3", None, {}, Shard(1, 3)),
        ("1/3", None, {JOB_INDEX: "2"}, Shard(1, 3)),
        ("1/3", 5, {JOB_INDEX: "2"}, Shard(1, 3)),
        (None, 3, {JOB_INDEX: "0"}, Shard(0, 3)),
        (None, 3, {JOB_INDEX: "2"}, Shard(2, 3)),
    ],
)
def test_which_part_it_is(
    part: str | None, count: int | None, environment: dict[str, str], expected: Shard | None
) -> None:
    """A pod that takes another one's part leaves its own undone; any Indexed Job may run restow as a whole."""
    given = flags(part, count)
    assert shard(given, environment) == expected
    assert given == {"another": 1}, "the others are somebody else's"


@pytest.mark.parametrize(
    ("part", "count", "environment", "said"),
    [
        ("3/3", None, {}, "counted from 0/3 to 2/3"),
        ("1", None, {}, "is no shard: give i/n"),
        (None, 3, {}, "--shards 3 needs JOB_COMPLETION_INDEX"),
        (None, 3, {JOB_INDEX: ""}, "needs JOB_COMPLETION_INDEX"),
        (None, 3, {JOB_INDEX: "one"}, "needs JOB_COMPLETION_INDEX"),
        (None, 3, {JOB_INDEX: "-1"}, "needs JOB_COMPLETION_INDEX"),
        (None, 3, {JOB_INDEX: "3"}, "shard 3/3 does not exist"),
    ],
)
def test_a_part_that_there_is_not(part: str | None, count: int | None, environment: dict[str, str], said: str) -> None:
    """It would do nothing and succeed, and the last pod would wait for a part that nobody does."""
    with pytest.raises(click.UsageError) as refused:
        shard(flags(part, count), environment)
    assert said in refused.value.message


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--shard", "0/2", "-n", "a"], "a shard is a part of all objects"),
        (["--shard", "0/2", "--engine", "native"], "the engine native goes with no shard"),
        (["--engine", "native", "--dry-run"], "the engine native goes with no namespace, selector or dry run"),
        (["--engine", "native", "-l", "a=b"], "the engine native goes with no namespace, selector or dry run"),
        (["--engine", "fast"], "is not one of 'direct', 'native', 'auto'"),
        (["--shards", "0"], "0 is not in the range"),
        (["--shards", "2"], "--shards 2 needs JOB_COMPLETION_INDEX"),
    ],
)
def test_wrong_use_is_told_before_any_server_is_asked(arguments: list[str], said: str) -> None:
    """Exit code 2 and a hint; a run that began anyway would do something else than was meant."""
    ran = restow("migrate", CRD, *arguments, kubeconfig=Path("/nonexistent"))
    assert ran.code == 2
    assert said in " ".join(ran.err.split())
    assert ran.out == ""
