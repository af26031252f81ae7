"""Objects that are nested as deeply as API servers read them, which is ten times as deep as Python's recursion goes."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from restow.conversion import Registry, ReviewError, convert_review, rules
from restow.conversion.compile.graph import Graph
from restow.conversion.model import deepjson
from restow.conversion.model.values import alike, canonical, depth, plain, same
from restow.conversion.reviews.conversion import Review

GROUP, OLD, HUB = "edge.example.dev", "edge.example.dev/v1", "edge.example.dev/v2"
DEPTHS = (10, 900, 980, 1_000, 3_000, 9_000, 9_990)
MOST = 8 * 1024 * 1024


def turned(value: Any) -> Any:
    """Another object of the same values, as authors make them."""
    return dict(reversed(value.items())) if isinstance(value, dict) else value


def grown(value: Any) -> Any:
    """Texts as many as are asked for, or an error, or what has no end."""
    match value:
        case int():
            return ["x" * 1000] * value
        case "loop":
            loop: list[Any] = []
            loop += [loop, loop]
            return loop
        case "memory":
            raise MemoryError
        case "recursion":
            return grown(value)
        case "exit":
            raise SystemExit
    return value


def _graph() -> Graph:
    registry = Registry()

    @registry.kind(GROUP, "Thing", hub="v2").spoke("v1")
    def v1() -> list[rules.Rule]:
        return [
            rules.rename("spec.old", "spec.new"),
            rules.pair("spec.turned", "spec.returned", up=turned, down=turned),
            rules.pair("spec.grown", "spec.shrunk", up=grown, down=grown, loses="both"),
            rules.stash(hub="spec.hidden"),
            rules.each("spec.items", [rules.stash(hub="hidden")]),
        ]

    return registry.freeze()


GRAPH = _graph()


def text_of(levels: int, inmost: bytes = b"1.5") -> bytes:
    """Objects and lists in turn, as the API server spells them."""
    pairs = levels // 2
    around = (b'{"a":[' * pairs, b'],"b":"]}\\"["}' * pairs)
    return (b"[" * (levels % 2)) + inmost.join(around) + (b"]" * (levels % 2))


def of(name: str, spec: bytes = b"{}", *, version: str = HUB, more: bytes = b"") -> bytes:
    about = f'{{"apiVersion":"{version}","kind":"Thing","metadata":{{"name":"{name}","namespace":"tenant"}}'
    return about.encode() + b',"spec":' + spec + more + b"}"


def tree_of(text: bytes) -> Any:
    nested = deepjson.scan(memoryview(text))
    assert nested is not None
    return nested.decode()


def asked(*objects: bytes, to: str = OLD, way: str = "small") -> Any:
    """The response of the webhook, by either of its ways: that of small and that of large reviews."""
    envelope = {"kind": "ConversionReview", "apiVersion": "apiextensions.k8s.io/v1"}
    body = json.dumps({**envelope, "request": {"uid": "u", "desiredAPIVersion": to, "objects": []}}).encode()
    body = body.replace(b"[]", b"[" + b",".join(objects) + b"]")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("restow.conversion.reviews.conversion.LARGE", len(body) if way == "small" else 0)
        review = Review(GRAPH, body, most=MOST)
    for _ in review:
        pass
    return tree_of(review.answer())["response"]


def objects_of(levels: int) -> list[bytes]:
    """Objects so deep, one with the deep value at each place where a value may stand."""
    deep = text_of(levels - 3)
    specs = [b'{"%s":%s}' % (name, deep) for name in (b"new", b"other", b"returned", b"shrunk")]
    specs.append(b'{"items":[{"deep":%s,"hidden":1}]}' % text_of(levels - 4))
    managed = b'"managedFields":[{"fieldsV1":%s}],"namespace"' % text_of(levels)
    found = [of(f"t{number}", spec) for number, spec in enumerate(specs)]
    return [*found, of("data", b'{"new":1}', more=b',"data":' + deep).replace(b'"namespace"', managed)]


@pytest.mark.parametrize(("levels", "way"), [*((each, "small") for each in DEPTHS), (980, "large"), (9_990, "large")])
def test_objects_are_converted_to_the_depth_that_api_servers_read(levels: int, way: str) -> None:
    """Wherever the deep value stands; else one object of one tenant ends every watch of its kind at that version."""
    deep, sent = tree_of(text_of(levels - 3)), objects_of(levels)
    response = asked(*sent, way=way)
    assert response["result"] == {"status": "Success"}
    new, other, returned, shrunk, items, data = response["convertedObjects"]
    assert same(new["spec"], {"old": deep}) and same(other["spec"], {"other": deep})
    assert same(returned["spec"], {"turned": deep}) and same(shrunk["spec"], {"grown": deep})
    assert same(items["spec"], {"items": [{"deep": tree_of(text_of(levels - 4))}]})
    assert same(data["data"], deep) and "managedFields" not in data["metadata"]
    back = asked(*map(deepjson.encode, response["convertedObjects"]), to=HUB, way=way)
    assert back["result"] == {"status": "Success"}
    for before, after in zip(map(tree_of, sent), back["convertedObjects"], strict=True):
        assert same({**before, "metadata": 0}, {**after, "metadata": 0})


def test_what_no_rule_touches_keeps_its_bytes() -> None:
    """It is not decoded, only looked through; else a number that is spelled in an odd way would churn."""
    deep = text_of(9_000, b"1.50e0")
    body = json.dumps({"kind": "ConversionReview", "apiVersion": "apiextensions.k8s.io/v1"})[:-1].encode()
    body += b',"more":%s,"request":{"uid":"u","more":%s,"objects":[' % (deep, deep)
    body += of("a", more=b',"data":' + deep) + b'],"desiredAPIVersion":"%s"}}' % OLD.encode()
    assert convert_review(GRAPH, body).count(deep) == 1


@pytest.mark.parametrize("way", ["small", "large"])
@pytest.mark.parametrize("levels", [10_000, 50_000])
@pytest.mark.parametrize("name", ["new", "data", "labels"])
def test_what_is_too_deep_fails_alone(name: str, levels: int, way: str) -> None:
    """The message names the object to repair, whatever stands before and after it."""
    value = b'{"%s":%s}' % (name.encode(), text_of(levels))
    more = b"," + value[1:-1] if name == "data" else b""
    bad = of("bad", b"{}" if more else value, more=more)
    if name == "labels":
        bad = of("bad").replace(b'"name"', value[1:-1] + b',"name"')
    response = asked(of("good"), bad, of("other", b'{"new":1}'), way=way)
    assert response["result"] == {
        "status": "Failure",
        "message": f"1 of 3 objects cannot be converted to {OLD}: [1] Thing tenant/bad ({HUB}): it is, or became, "
        "nested more than 9997 levels deep, which API servers do not read",
    }


@pytest.mark.parametrize("way", ["small", "large"])
@pytest.mark.parametrize(
    ("asks", "reason"),
    [
        (b'"loop"', "it became too large to be written"),
        (b'"recursion"', "raised RecursionError"),
        (b'"memory"', "raised MemoryError"),
        (b'"exit"', "raised SystemExit"),
        (b"9000", "it became larger than 8388608 bytes, the most that an object may have"),
    ],
)
def test_what_a_function_builds_fails_alone(asks: bytes, reason: str, way: str) -> None:
    """It is bounded as what is received is; else one value of one tenant ends the process, or fails all others."""
    response = asked(of("good"), of("bad", b'{"shrunk":%s}' % asks), of("other", b'{"new":1}'), way=way)
    message = response["result"]["message"]
    assert message.startswith(f"1 of 3 objects cannot be converted to {OLD}: [1] Thing tenant/bad ({HUB}): ")
    assert reason in message


def test_a_hidden_field_that_is_too_deep_to_be_kept_leaves_the_others() -> None:
    """It goes and is counted, as every value that does not fit; the rest of the stash must not go with it."""
    shown = GRAPH.convert(tree_of(of("a", b'{"hidden":%s,"items":[{"hidden":1}]}' % text_of(3_000))), OLD)
    stash = json.loads(shown["metadata"]["annotations"][f"{GROUP}/conversion-stash"])
    assert (stash["dropped"], list(stash["kept"]["v2"])) == (1, [".spec.items"])


@pytest.mark.parametrize("way", ["small", "large"])
def test_what_is_too_deep_and_too_large_is_told_so(way: str) -> None:
    """Calling it malformed JSON would send the reader after the wrong mistake; no API server sends as much."""
    deep = text_of(3_000, b'"%s"' % (b"x" * deepjson.MOST_NESTED))
    with pytest.raises(ReviewError, match="what is nested so deeply has more than 3145728 bytes"):
        asked(of("good"), of("bad", b'{"new":%s}' % deep), way=way)


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@given(st.lists(VALUES, min_size=1, max_size=4), st.integers(1, 450), st.booleans())
def test_a_deep_value_is_what_is_written_of_it(values: list[Any], levels: int, is_spaced: bool) -> None:
    """Whatever stands at whatever level, before and after the deep part; else objects change on the way."""
    value: Any = values
    for number in range(levels):
        value = [values[0], value, values[-1]] if number % 2 else {"": values, "deep": value, "last": values[-1]}
    compact = msgspec.json.encode(value)
    text = json.dumps(value).encode() if is_spaced else compact
    nested = deepjson.scan(memoryview(text + b',"]'))
    assert nested is not None and (nested.size, nested.depth) == (len(text), depth(value))
    nested.check()
    assert same(nested.decode(), value) and deepjson.encode(value) == compact


def test_deep_values_are_compared_as_others_are() -> None:
    """What the inverse of an author's function gives is compared with what was there, at any depth."""
    one, other, third = (tree_of(text_of(4_000, inmost)) for inmost in (b"1", b"1.0", b"2"))
    assert [same(one, each) for each in (one, other, third)] == [True, False, False]
    assert [alike(one, each) for each in (one, other, third)] == [True, True, False]
    assert same(plain(other), one) and canonical(one) == text_of(4_000, b"1")
    assert not same(one, [one]) and not alike(one, {"a": one})


@pytest.mark.parametrize("text", [b"[" * 5_000, b"[" * 5_000 + b"]" * 4_999, b'["' + b"[]" * 500_000])
def test_what_has_no_end_has_none(text: bytes) -> None:
    """A text that stops too early is no value, which is found in one go; else it keeps the process busy for minutes."""
    assert deepjson.scan(memoryview(text)) is None
