"""What is nested too deep is cut out, carried along, and put back as it came."""

from __future__ import annotations

import msgspec
import pytest

from restow.conversion.model.deepjson import DEEPEST, cut, restore
from restow.conversion.reviews.admission import AdmissionReview

ENVELOPE = (
    '{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"u","kind":{},"resource":{},'
    '"operation":"UPDATE","object":%s,"oldObject":%s}}'
)


def deep(levels: int, inside: str = "1") -> str:
    return '{"a":[' * (levels // 2) + inside + "]}" * (levels // 2)


@pytest.mark.parametrize("levels", [2, DEEPEST, DEEPEST + 2, 3000, 9998])
@pytest.mark.parametrize("inside", ["1", '"]}\\"[{\\\\"', '{"cut:":"cut:"}'])
def test_what_is_cut_out_comes_back_as_it_was(levels: int, inside: str) -> None:
    """A bracket in a text, or a text like a mark, must not change what an object says."""
    text = '{"x":%s,"y":"cut:","z":%s}' % (deep(levels, inside), deep(levels, inside))  # noqa: UP031
    shallow, cuts = cut(text.encode())
    tree = restore(msgspec.json.decode(shallow, type=dict), cuts)
    assert msgspec.json.encode(tree).decode() == text
    assert len(cuts) <= 1, "equal parts are one value"


def test_deeper_than_an_api_server_reads_is_refused() -> None:
    """No API server sends it, so there is no reason to spend anything on it."""
    with pytest.raises(ValueError, match="levels deep"):
        cut(deep(30_000).encode())


@pytest.mark.parametrize("end", ["x", '"', '"\\'])
def test_what_is_no_json_is_read_once(end: str) -> None:
    """Read again from each byte on, a body of 6 MB that anybody can send takes hours."""
    body = deep(3000)[:9000] + end + "x" * 6_000_000
    shallow, cuts = cut(body.encode())
    assert (shallow, cuts) == (body.encode(), {})


def test_no_text_keeps_the_search_for_a_mark_going() -> None:
    """A mark that is made longer until the text has none takes hours for a text of marks."""
    text = '{"x":%s,"y":"%s"}' % (deep(3000), "c" * 3_000_000 + "cut:")  # noqa: UP031
    shallow, cuts = cut(text.encode())
    assert len(cuts) == 1
    assert msgspec.json.encode(restore(msgspec.json.decode(shallow, type=dict), cuts)).decode() == text


def test_a_request_decodes_what_is_looked_at() -> None:
    """Most requests are decided by a few bytes; the rest would only take memory."""
    new = '{"metadata":{"name":"a"},"spec":{"n":%s}}' % deep(4000)  # noqa: UP031
    old = new.replace('"a"}', '"a","labels":{}}')
    request = AdmissionReview.of((ENVELOPE % (new, old)).encode()).request
    assert request.has_object and request.is_cut and request.keeps("spec")
    assert not request.keeps("metadata")
    assert request.object is request.object
    assert request.object is not None and request.object["metadata"] == {"name": "a"}
    assert request.size > 0, "also after it is decoded"
    changed = AdmissionReview.of((ENVELOPE % (new, new.replace("1", "2"))).encode()).request
    assert not changed.keeps("spec")
    assert not AdmissionReview.of((ENVELOPE % (new, "null")).encode()).request.keeps("spec")


def test_equal_specs_of_different_bytes_are_kept() -> None:
    """Bytes are only the shortcut: what is not equal as text may be equal as JSON."""
    request = AdmissionReview.of((ENVELOPE % ('{"spec":{"a":1,"b":2}}', '{"spec":{"b":2,"a":1}}')).encode()).request
    assert request.keeps("spec") and request.object == {"spec": {"a": 1, "b": 2}}
