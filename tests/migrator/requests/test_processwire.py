"""Messages between processes: whole or not at all, and counts that neither get lost nor count twice."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from restow.kube.credentials import ConnectArguments
from restow.kube.impersonation import Impersonation
from restow.migrator import CrdReport, ObjectFailure, Options, Shard
from restow.migrator.requests.processwire import (
    Batch,
    Done,
    FrameError,
    WorkerSetup,
    add_counts,
    frame,
    from_worker,
    read_messages,
    take_counts,
    to_worker,
)


async def messages(data: bytes, decoder: Any = to_worker) -> list[Any]:
    """What a process reads that is sent these bytes."""
    reader = asyncio.StreamReader()
    reader.feed_data(data)
    reader.feed_eof()
    return [message async for message in read_messages(reader, decoder)]


@given(st.lists(st.lists(st.binary(max_size=50), max_size=4), max_size=4), st.data())
def test_a_broken_off_message_is_dropped(batches: list[list[bytes]], data: st.DataObject) -> None:
    """A part of an object that counts as an object would be written."""
    sent = [Batch(list(range(len(objects))), objects) for objects in batches]
    stream = b"".join(map(frame, sent))
    cut = data.draw(st.integers(0, len(stream)))
    found = asyncio.run(messages(stream[:cut]))
    assert found == sent[: len(found)]
    assert asyncio.run(messages(stream)) == sent


@pytest.mark.parametrize(
    "data", [b"\xff\xff\xff\xff", b"\x00\x00\x00\x01\xc1", frame(Done([], take_counts(CrdReport(name="a"))))]
)
async def test_what_is_no_message_is_refused(data: bytes) -> None:
    """A process that reads on after an unknown message works on what was not sent."""
    with pytest.raises(FrameError):
        await messages(data)


async def test_a_setup_arrives_as_it_was_sent() -> None:
    """A worker with other options, or another cluster, does something else than the run."""
    sent = WorkerSetup(
        crd={"kind": "CustomResourceDefinition"},
        options=Options(skip=frozenset({"prune"}), shard=Shard(1, 3), rate=2.5, patience_s=0.0),  # type: ignore[arg-type]
        written_since="12",
        connection=ConnectArguments(
            "https://a", "k", None, None, None, Impersonation("eve", groups=("b",)), float("inf")
        ),
        factory="module:function",
        arguments=["a", ["b"]],
        levels={"": 30},
        seed=7,
        grace_s=8.0,
    )
    assert await messages(frame(sent)) == [sent]


async def test_counts_arrive_once() -> None:
    """A count that is not reset counts again with each message; one that is not added is lost."""
    mine, run = CrdReport(name="a"), CrdReport(name="a")
    requests = mine.requests
    for _ in range(2):
        mine.objects.rewritten += 3
        requests.write += 4
        mine.fail(ObjectFailure("n", "a", "OwnershipLost", "why"))
        mine.hazards["m", "v1"] = mine.stripped_owners["m", "v1"] = mine.kept_owners["m", "v2"] = 1
        mine.conversions += 5
        mine.unchanged += 1
        [done] = await messages(frame(Done([1], take_counts(mine))), from_worker)
        add_counts(run, done.counts)
    assert mine == CrdReport(name="a")
    assert (run.objects.rewritten, run.objects.failed, run.requests.write) == (6, 2, 8)
    assert (run.hazards, run.stripped_owners, run.kept_owners) == ({("m", "v1"): 2}, {("m", "v1"): 2}, {("m", "v2"): 2})
    assert (len(run.failures), run.owners_lost, run.conversions, run.unchanged) == (2, ["n/a", "n/a"], 10, 2)
