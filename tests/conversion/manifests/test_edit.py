"""Editing text: it says what it has to say, and what no change touches comes out as it went in."""

from __future__ import annotations

from collections import Counter
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from restow.conversion.explain import FieldLinks
from restow.conversion.manifests.document import comments, read
from restow.conversion.manifests.edit import edit, rewrite
from restow.conversion.model.values import same
from tests.conversion.manifests.commented import Text, documents
from tests.conversion.manifests.mutations import Told, mutated, rearranged

RELAXED = settings(suppress_health_check=list(HealthCheck), deadline=None)
Case = tuple[Text, tuple[dict[str, Any], Told]]


def cases(changes: Any, *, block: bool = False) -> st.SearchStrategy[Case]:
    return documents(block=block).flatmap(lambda document: st.tuples(st.just(document), changes(document.value)))


def applied(text: str, new: Any, told: Any) -> str:
    (document,) = read(text)
    assert document.root is not None
    made = edit(text, document.root, new, told)
    return text[: made.start] + made.text + text[made.end :]


def written_comments(text: str) -> Counter[str]:
    (document,) = read(text)
    assert document.root is not None
    return Counter(comment.text for comment in comments(text, document.root, 0, len(text)))


@RELAXED
@given(documents())
def test_the_reader_reads_what_was_written(document: Text) -> None:
    """A reader that misreads would convert something else than kubectl sends."""
    (found,) = read(document.text)
    assert not found.problem
    assert same(found.data, document.value)


@RELAXED
@given(documents())
def test_without_a_change_nothing_changes(document: Text) -> None:
    """Editing a document into what it says already must give its very bytes."""
    assert applied(document.text, document.value, FieldLinks()) == document.text


@RELAXED
@given(cases(mutated))
def test_the_text_says_what_it_has_to_say(case: Case) -> None:
    """The edited text, read again, is the new data: whatever was renamed, moved, removed, added or aliased."""
    document, (new, told) = case
    (found,) = read(applied(document.text, new, told))
    assert not found.problem
    assert same(found.data, new)


@RELAXED
@given(cases(mutated))
def test_untouched_lines_survive(case: Case) -> None:
    """The lines of a field in which nothing changed come out as they are, comments and all."""
    document, (new, told) = case
    text = applied(document.text, new, told)
    for name, chunk in document.chunks.items():
        if told.is_untouched((name,), document.value[name], new) and " *n" not in chunk:
            assert chunk.rstrip() in text  # blank lines below belong to nobody


@RELAXED
@given(cases(rearranged, block=True))
def test_comments_go_where_their_fields_go(case: Case) -> None:
    """Renaming, moving and reordering lines of block style lose no comment."""
    document, (new, told) = case
    text = applied(document.text, new, told)
    assert written_comments(document.text) == written_comments(text)


@RELAXED
@given(cases(mutated))
def test_a_document_can_be_rewritten_as_a_whole(case: Case) -> None:
    """The last resort says the same, without the comments."""
    document, (new, _) = case
    (found,) = read(document.text)
    assert found.root is not None
    made = rewrite(document.text, found.root, new)
    (again,) = read(document.text[: made.start] + made.text + document.text[made.end :])
    assert same(again.data, new)


EMPTIED = """\
list:
- a: null
  # below a
other:
  # nobody's

  # above x
  x: 1
"""


def test_comments_stay_in_what_its_last_field_leaves_empty() -> None:
    """Comments of the object, not of the field that moved out of it, were lost with its lines."""
    told = Told({("list",): ("list",), ("list", 0): ("list", 0), ("a",): ("list", 0, "a"), ("x",): ("other", "x")})
    text = applied(EMPTIED, {"list": [{}], "other": {}, "a": None, "x": 1}, told)
    assert text == "list:\n- {}\n  # below a\na: null\nother: {}\n  # nobody's\n\n# above x\nx: 1\n"
