"""What a CRD remembers of objects that lost their owners: bounded, and never in the way."""

from __future__ import annotations

import pytest

from restow.migrator.requests.lostowners import ANNOTATION, MOST_NAMED, LostOwners
from tests.migrator import builders as b


@pytest.mark.parametrize("text", ["", "no JSON", "[]", '{"objects": 1}', '{"objects": ["a"], "more": "x"}'])
def test_what_somebody_else_wrote_there_says_nothing(text: str) -> None:
    """A run must not end over an annotation that a hand or another tool changed."""
    assert LostOwners.noted_on(b.crd(annotations={ANNOTATION: text})) == LostOwners()


def test_a_record_is_read_as_it_was_written() -> None:
    """A name that is read back differently would be looked for in vain, and taken for gone."""
    lost = LostOwners(("default/a", "clusterwide"), 3)
    assert LostOwners.noted_on(b.crd(annotations={ANNOTATION: lost.encode() or ""})) == lost


def test_names_are_bounded_and_the_rest_is_counted() -> None:
    """The annotations of a CRD share 256 KiB: the record must not keep others from being written."""
    longest = [f"{number:0253}/{number:0253}" for number in range(MOST_NAMED + 20)]
    lost = LostOwners().joined(longest[:50]).joined(longest[25:])
    assert lost.names == tuple(longest[:MOST_NAMED]) and lost.more == 20
    assert len(lost.encode() or "") < 60_000
    assert "and 110 more" in lost.sentence


def test_nothing_lost_is_no_annotation_and_no_sentence() -> None:
    """A record that stays when it is empty would be a warning about nothing at every run."""
    assert LostOwners().encode() is None
    assert LostOwners().sentence == ""
