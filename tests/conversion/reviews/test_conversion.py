"""ConversionReviews, bytes to bytes, by the protocol table of the API server."""

from __future__ import annotations

import json
from typing import Any

import pytest

from docs.examples.provider.conversions import graph as example
from restow.conversion import ObjectError, Registry, ReviewError, convert_review, rules
from restow.conversion.reviews.conversion import MAX_MESSAGE

GROUP = "review.example.dev"
V1, V2 = f"{GROUP}/v1", f"{GROUP}/v2"


def _failing(value: Any) -> Any:
    if value == "bad":
        raise ValueError(value)
    return value


registry = Registry()
kind = registry.kind(GROUP, "Thing", hub="v2")
kind.spoke("v1")(lambda: [rules.rename("spec.a", "spec.b"), rules.pair("spec.p", "spec.p", up=_failing, down=_failing)])
GRAPH = registry.freeze()


def review(*objects: Any, to: str = V2, version: str = "v1", **more: Any) -> bytes:
    request = {"uid": "u-1", "desiredAPIVersion": to, "objects": list(objects)}
    return json.dumps(
        {
            "apiVersion": f"apiextensions.k8s.io/{version}",
            "kind": "ConversionReview",
            "request": request,
            **more,
        }
    ).encode()


def thing(name: str = "n", **more: Any) -> dict[str, Any]:
    return {
        "apiVersion": V1,
        "kind": "Thing",
        "metadata": {"name": name, "namespace": "ns", "uid": "x"},
        **more,
    }


def answer(body: bytes) -> dict[str, Any]:
    return dict(json.loads(convert_review(GRAPH, body)))


def test_success() -> None:
    """The answer echoes apiVersion and uid, keeps the order and converts; else the server refuses it."""
    answered = answer(review(thing("a", spec={"a": 1}), thing("b", spec={})))
    assert answered == {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "ConversionReview",
        "response": {
            "uid": "u-1",
            "convertedObjects": [
                {**thing("a", spec={"b": 1}), "apiVersion": V2},
                {**thing("b", spec={}), "apiVersion": V2},
            ],
            "result": {"status": "Success"},
        },
    }


def test_v1beta1_is_echoed() -> None:
    """A v1beta1 review gets a v1beta1 answer."""
    assert answer(review(thing(), version="v1beta1"))["apiVersion"] == "apiextensions.k8s.io/v1beta1"


def test_the_stub_response_and_unknown_fields_are_ignored() -> None:
    """The server itself sends a stub response; later ones may send more."""
    stub: dict[str, Any] = {"uid": "", "convertedObjects": None, "result": {"metadata": {}}}
    assert answer(review(thing(), response=stub, extra={"a": 1}))["response"]["result"] == {"status": "Success"}


def test_only_five_metadata_fields_go_back() -> None:
    """The server restores the others itself; sending managedFields back is wasted."""
    metadata = {
        "name": "n",
        "uid": "x",
        "labels": {"a": "b"},
        "annotations": {"c": "d"},
        "generation": 3,
        "managedFields": [{}],
    }
    obj = {**thing(), "metadata": metadata}
    (converted,) = answer(review(obj))["response"]["convertedObjects"]
    assert converted["metadata"] == {"name": "n", "uid": "x", "labels": {"a": "b"}, "annotations": {"c": "d"}}


@pytest.mark.parametrize("metadata", [{}, {"metadata": None}, {"metadata": {}}], ids=["absent", "null", "empty"])
def test_metadata_is_always_there(metadata: dict[str, Any]) -> None:
    """The server fails an object without a metadata key, even if it sent none."""
    (converted,) = answer(review({"apiVersion": V1, "kind": "Thing", **metadata}))["response"]["convertedObjects"]
    assert converted == {"apiVersion": V2, "kind": "Thing", "metadata": {}}


def test_untouched_fields_are_passed_on_as_bytes() -> None:
    """Fields that no rule reads are not decoded: numbers, escapes and order stay as they came."""
    other = b'"other":{"z":1.0,"a":1e3,"big":123456789012345678901234567890,"s":"\\u003c"}'
    raw = b'{"apiVersion":"%s","kind":"Thing","metadata":{},%s}' % (V1.encode(), other)
    body = review().replace(b'"objects": []', b'"objects": [' + raw + b"]")
    assert other in convert_review(GRAPH, body)


@pytest.mark.parametrize(
    "value",
    [9223372036854775807, -9223372036854775808, 2**64, 1.5, 0, False, "", "\u2028é\U0001f6a2", [], {}, None],
)
def test_values_are_kept(value: Any) -> None:
    """Limits of int64, empty values and Unicode survive decoding and encoding."""
    (converted,) = answer(review(thing(spec={"a": value})))["response"]["convertedObjects"]
    assert converted["spec"] == {"b": value}
    assert type(converted["spec"]["b"]) is type(value)


def test_an_object_at_the_version_already_is_untouched() -> None:
    """Other frameworks fail here; the same bytes go back."""
    obj = {**thing(), "apiVersion": V2}
    assert answer(review(obj))["response"]["convertedObjects"] == [obj]


def test_no_objects() -> None:
    """An empty review succeeds."""
    assert answer(review())["response"]["convertedObjects"] == []


def test_every_failure_is_named_and_no_value_shown() -> None:
    """One message for all objects, with namespace, name, place and rule; else operators fix them one by one."""
    bad = [
        thing("b1", spec={"p": "bad"}),
        {**thing("b2"), "kind": "Other"},
        {**thing("b3"), "apiVersion": f"{GROUP}/v9"},
        None,
        {"spec": 1},
    ]
    answered = answer(review(thing("ok"), *bad))["response"]
    message = answered["result"]["message"]
    assert answered["result"]["status"] == "Failure"
    assert answered["uid"] == "u-1"
    assert answered["convertedObjects"] == []
    assert message.startswith(f"5 of 6 objects cannot be converted to {V2}: [1] Thing ns/b1 ({V1}): /spec/p: pair(")
    for part in (
        "ValueError",
        "[2] Other ns/b2",
        "[3] Thing ns/b3",
        "no version v9",
        "[4] ",
        "[5] ",
        "no apiVersion",
    ):
        assert part in message
    assert "bad" not in message.replace("[1]", "")


def test_the_message_is_bounded() -> None:
    """Hundreds of failures make no message that the server would have to cut."""
    message = answer(review(*[thing("n" * 300, spec={"p": "bad"})] * 500))["response"]["result"]["message"]
    assert len(message) <= MAX_MESSAGE
    assert message.startswith("500 of 500")


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"null",
        b"{",
        b"\xff",
        b"NaN",
        b'{"kind":"ConversionReview","apiVersion":"apiextensions.k8s.io/v1"}',
        b'{"kind":"Other","apiVersion":"apiextensions.k8s.io/v1","request":{"uid":"","desiredAPIVersion":"","objects":[]}}',
        b'{"kind":"ConversionReview","apiVersion":"v2","request":{"uid":"","desiredAPIVersion":"","objects":[]}}',
        b'{"kind":"ConversionReview","apiVersion":"apiextensions.k8s.io/v1","request":{"uid":1}}',
        b"[" * 100_000,
    ],
)
def test_what_is_no_review_is_refused(body: bytes) -> None:
    """There is no uid to answer to: the server shell answers 400."""
    with pytest.raises(ReviewError):
        convert_review(GRAPH, body)


def with_object(text: bytes) -> bytes:
    return review().replace(b'"objects": []', b'"objects": [' + text + b"]")


def with_field(field: bytes) -> bytes:
    return with_object(b'{"apiVersion":"%s","kind":"Thing","metadata":{"name":"odd"},' % V1.encode() + field + b"}")


DEEP = b"[" * 5000 + b"]" * 5000


@pytest.mark.parametrize(
    ("field", "converted"),
    [
        pytest.param(
            b'"spec":{"a":1,"a":2}', b'"spec":{"b":2}', id="duplicate keys: the last counts, as for the server"
        ),
        pytest.param(b'"spec":1,"spec":{"a":2}', b'"spec":{"b":2}', id="a duplicate field"),
        pytest.param(b'"spec":{"a":18446744073709551616}', b'"spec":{"b":18446744073709551616}', id="2**64"),
        pytest.param(b'"spec":{"a":-' + b"9" * 400 + b"}", b'"spec":{"b":-' + b"9" * 400 + b"}", id="400 digits"),
        pytest.param(b'"other":' + b"9" * 5000, b'"other":' + b"9" * 5000, id="5000 digits that nobody reads"),
        pytest.param(b'"spec":{"a":1.0}', b'"spec":{"b":1.0}', id="a float stays one"),
        pytest.param(b'"spec":{"a":-0.0}', b'"spec":{"b":-0.0}', id="negative zero"),
        pytest.param(b'"other":1e2', b'"other":1e2', id="a spelling that nobody reads"),
        pytest.param(b'"spec":null,"status":null', b'"spec":null,"status":null', id="null everywhere"),
        pytest.param(b'"spec":{"a":null,"p":null}', b'"spec":{"p":null,"b":null}', id="null inside"),
        pytest.param(b'"spec":[]', b'"spec":[]', id="a list for an object"),
        pytest.param(b'"spec":"text"', b'"spec":"text"', id="a text for an object"),
        pytest.param(b'"spec":{"a":[],"p":{}}', b'"spec":{"p":{},"b":[]}', id="empty ones"),
        pytest.param(
            b'"spec":{"a":' + b"[" * 300 + b"]" * 300 + b"}", b'"spec":{"b":' + b"[" * 300 + b"]" * 300, id="300 deep"
        ),
    ],
)
def test_odd_values_pass(field: bytes, converted: bytes) -> None:
    """Any valid JSON passes unchanged, however odd; otherwise one object fails all reads of its version."""
    text = convert_review(GRAPH, with_field(field))
    assert b'"status":"Success"' in text
    assert converted in text


@pytest.mark.parametrize(
    ("field", "words"),
    [
        pytest.param(b'"spec":{"a":' + b"9" * 5000 + b"}", "what JSON cannot represent", id="5000 digits"),
        pytest.param(b'"spec":{"a":1e999}', "what JSON cannot represent", id="not finite"),
        pytest.param(b'"kind":1', "no kind", id="a kind that is no text"),
        pytest.param(b'"apiVersion":null', "no apiVersion", id="an apiVersion that is null"),
        pytest.param(b'"metadata":[]', "/metadata: the metadata is no object", id="metadata that is a list"),
        pytest.param(b'"metadata":"m"', "/metadata: the metadata is no object", id="metadata that is a text"),
        pytest.param(
            b'"spec":{"p":"bad"},"metadata":{"name":{"s3cret":1},"namespace":["s3cret"]}',
            "Thing without a name",
            id="names that are no texts",
        ),
    ],
)
def test_what_cannot_be_converted_fails_its_object(field: bytes, words: str) -> None:
    """Such an object is named, shortly and without its values; none takes the process down."""
    answered = answer(with_field(field))["response"]
    assert (answered["uid"], answered["result"]["status"]) == ("u-1", "Failure")
    assert words in answered["result"]["message"]
    assert len(answered["result"]["message"]) < 300
    assert "s3cret" not in answered["result"]["message"]


@pytest.mark.parametrize("text", [b"null", b"1", b"true", b'"text"', b"[]", b"[{}]"])
def test_what_is_no_object(text: bytes) -> None:
    """Items that are no objects fail by themselves, the others are told of as well."""
    message = answer(with_object(text + b", " + text))["response"]["result"]["message"]
    assert message.count("it is no object") == 2


@pytest.mark.parametrize(
    "field",
    [
        b'"spec":{"a":NaN}',
        b'"other":NaN',
        b'"other":-Infinity',
        b'"other":tru',
        b'"x":01',
        b'"spec":{"a":"\\ud800"}',
        b'"spec":{"a":' + DEEP[:-1] + b"}",
        b'"other":' + DEEP[:-1],
    ],
    ids=[
        "NaN",
        "NaN that nobody reads",
        "infinity",
        "a word",
        "an octal",
        "half a surrogate",
        "deep without an end",
        "deep elsewhere without an end",
    ],
)
def test_what_is_no_json_is_refused(field: bytes) -> None:
    """No API server sends what is no JSON: the body is refused as a whole, however deep it is before that shows."""
    with pytest.raises(ReviewError):
        convert_review(GRAPH, with_field(field))


def test_odd_labels_and_annotations_are_sent_back_as_they_came() -> None:
    """The server restores what is not changed, and says best itself what is wrong with it."""
    body = with_field(b'"metadata":{"annotations":[1],"labels":3}')
    assert answer(body)["response"]["convertedObjects"][0]["metadata"] == {"annotations": [1], "labels": 3}


def test_a_long_reason_is_cut() -> None:
    """An author's own message is bounded too; else one object would fill the answer."""

    def complain(_: Any) -> Any:
        raise ObjectError("no " * 1000)

    registry = Registry()
    registry.kind(GROUP, "Thing", hub="v2").spoke("v1")(lambda: [rules.pair("a", "b", up=complain, down=complain)])
    body = review(*[thing(a=1)] * 3)
    message = json.loads(convert_review(registry.freeze(), body))["response"]["result"]["message"]
    assert len(message) < MAX_MESSAGE
    assert "[2] Thing ns/n" in message


def test_an_internal_hub_is_no_target() -> None:
    """A review that asks for the internal hub fails, because no client can see that version."""
    body = review(
        {"apiVersion": "edge.example.dev/v1", "kind": "Cache", "metadata": {}}, to="edge.example.dev/internal"
    )
    assert json.loads(convert_review(example, body))["response"]["result"]["status"] == "Failure"
