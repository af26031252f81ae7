"""What an API server makes of an answer; tests/apiserver/test_conversion_acceptance.py compares it with a real one."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest

from restow.conversion.reviews.responsechecks import RejectionType, ResponseRejected, SentReview, accept, review_body

GVK = "example.com/v1, Kind=Widget"
FAILED = f"conversion webhook for {GVK} failed: "
INVALID = f"conversion webhook for {GVK} returned invalid object"
EXPECTED = "expected webhook response of apiextensions.k8s.io/v1, Kind=ConversionReview, got"
METADATA = f"conversion webhook for {GVK} returned invalid metadata: "


def widget(name: str = "a", **metadata: Any) -> dict[str, Any]:
    """An object as it is sent."""
    own = {"name": name, "namespace": "default", "uid": f"uid-{name}", "generation": 3, "labels": {"a": "b"}}
    return {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": own | metadata, "spec": {"x": 1}}


SENT = SentReview("u-1", "example.com/v2", (widget(),))
TWO = SentReview("u-1", "example.com/v2", (widget("a"), widget("b")))


def answer(sent: SentReview = SENT) -> dict[str, Any]:
    """A good answer."""
    objects = [copy.deepcopy(obj) | {"apiVersion": sent.desired} for obj in sent.objects]
    response = {"uid": sent.uid, "convertedObjects": objects, "result": {"status": "Success"}}
    return {"apiVersion": f"apiextensions.k8s.io/{sent.version}", "kind": "ConversionReview", "response": response}


def changed(*path: Any, value: Any, sent: SentReview = SENT) -> dict[str, Any]:
    """A good answer with something else at a place; an ellipsis takes it out."""
    found = answer(sent)
    node: Any = found
    for name in path[:-1]:
        node = node[name]
    if value is ...:
        del node[path[-1]]
    else:
        node[path[-1]] = value
    return found


def judged(found: Any, sent: SentReview = SENT, status: int = 200, content_type: str = "application/json") -> Any:
    """What comes of an answer."""
    body = found if isinstance(found, bytes) else json.dumps(found).encode()
    return accept(sent, status=status, content_type=content_type, body=body)


OBJECT = ("response", "convertedObjects", 0)
META = (*OBJECT, "metadata")


@pytest.mark.parametrize(
    ("found", "failure", "message"),
    [
        (
            b"",
            RejectionType.CALL,
            f"{FAILED}0-length response with status code: 200 and content type: application/json",
        ),
        (b"{", RejectionType.CALL, f"{FAILED}the answer is no JSON"),
        (b"[]", RejectionType.CALL, f"{FAILED}the answer is no JSON object"),
        (
            changed("kind", value="Review"),
            RejectionType.CALL,
            f'{FAILED}no kind "Review" is registered for version "apiextensions.k8s.io/v1" in scheme',
        ),
        (
            changed("apiVersion", value="apiextensions.k8s.io/v1beta1"),
            RejectionType.CALL,
            f"{FAILED}converting (v1beta1.ConversionReview) to (v1.ConversionReview): unknown conversion",
        ),
        (
            changed("kind", value=""),
            RejectionType.MALFORMED,
            f"{FAILED}{EXPECTED} apiextensions.k8s.io/v1, Kind=",
        ),
        (
            changed("apiVersion", value=...),
            RejectionType.MALFORMED,
            f"{FAILED}{EXPECTED} /, Kind=ConversionReview",
        ),
        (changed("response", value=None), RejectionType.MALFORMED, f"{FAILED}no response provided"),
        (
            changed("response", "uid", value=...),
            RejectionType.MALFORMED,
            f'{FAILED}expected response.uid="u-1", got ""',
        ),
        (
            changed("response", "result", value={"status": "success"}),
            RejectionType.MALFORMED,
            f"{FAILED}response.result.status was 'success', not 'Success'",
        ),
        (
            changed("response", "result", value={"status": "Failure", "message": "no"}),
            RejectionType.MALFORMED,
            f"{FAILED}no",
        ),
        (
            changed("response", "convertedObjects", value=None),
            RejectionType.PARTIAL,
            f"conversion webhook for {GVK} returned 0 objects, expected 1",
        ),
        (changed(*OBJECT, value=None), RejectionType.INVALID_OBJECT, "unexpected end of JSON input"),
        (changed(*OBJECT, "kind", value=...), RejectionType.INVALID_OBJECT, "Object 'Kind' is missing"),
        (
            changed(*OBJECT, "apiVersion", value="example.com/v1"),
            RejectionType.INVALID_OBJECT,
            f"{INVALID} at index 0: invalid groupVersion (expected example.com/v2, received example.com/v1)",
        ),
        (
            changed(*OBJECT, "kind", value="Gadget"),
            RejectionType.INVALID_OBJECT,
            f"{INVALID} at index 0: invalid kind (expected Widget, received Gadget)",
        ),
        (
            changed(*META, "name", value="b"),
            RejectionType.INVALID_OBJECT,
            f"{INVALID}: must have the same name: a != b",
        ),
        (
            changed(*META, "namespace", value=...),
            RejectionType.INVALID_OBJECT,
            f"{INVALID}: must have the same namespace: default != ",
        ),
        (
            changed(*META, "uid", value="x"),
            RejectionType.INVALID_OBJECT,
            f"{INVALID}: must have the same UID: uid-a != x",
        ),
        (
            changed(*META, "labels", value=[]),
            RejectionType.INVALID_OBJECT,
            f"{METADATA}invalid metadata.labels of type []interface {{}} in converted object",
        ),
        (
            changed(*META, "annotations", value={"a": 1}),
            RejectionType.INVALID_OBJECT,
            f"{METADATA}metadata.annotations[a] must be a string, but is int64 in converted object",
        ),
        (
            changed(*META, "labels", value={"a b": ""}),
            RejectionType.INVALID_OBJECT,
            f"{METADATA}metadata.labels: Invalid value: the label a b is malformed",
        ),
        (
            changed(*META, "labels", value={"a": "x" * 64}),
            RejectionType.INVALID_OBJECT,
            f"{METADATA}metadata.labels: Invalid value: the label a is malformed",
        ),
        (
            changed(*META, "annotations", value={"a": "x" * 262144}),
            RejectionType.INVALID_OBJECT,
            f"{METADATA}metadata.annotation: Too long: may not be more than 262144 bytes",
        ),
    ],
)
def test_what_is_rejected(found: Any, failure: RejectionType, message: str) -> None:
    """A webhook that the probe lets pass would break the CRD; a wrong sentence leads astray."""
    with pytest.raises(ResponseRejected) as rejected:
        judged(found)
    assert (rejected.value.failure, str(rejected.value)) == (failure, message)


@pytest.mark.parametrize(
    ("status", "content_type", "body", "message"),
    [
        (500, "text/plain", b'boom "x"\n', 'an error on the server ("boom \\"x\\"") has prevented the request from'),
        (500, "application/json", b"{}", 'an error on the server ("unknown") has prevented the request from'),
        (413, "text/plain", b"too large", "the server responded with the status code 413 but did not return more"),
        (503, "text/plain", b"", "the server is currently unable to handle the request"),
        (500, "application/json", b'{"kind": "Status", "message": "said so"}', "said so"),
    ],
)
def test_statuses(status: int, content_type: str, body: bytes, message: str) -> None:
    """People see these sentences, and have to find them again."""
    with pytest.raises(ResponseRejected, match="failed: ") as rejected:
        judged(body, status=status, content_type=content_type)
    assert message in str(rejected.value) and rejected.value.failure is RejectionType.CALL


def test_several_objects_are_told_by_index() -> None:
    """In a list of objects, only the index shows which one is wrong."""
    path = ("response", "convertedObjects", 1)
    with pytest.raises(ResponseRejected) as rejected:
        judged(changed(*path, "metadata", "name", value="c", sent=TWO), TWO)
    assert str(rejected.value) == (
        "conversion webhook for example.com/v1, Kind=WidgetList returned invalid converted object at index 1: "
        "must have the same name: b != c"
    )
    nameless = SentReview("u-1", "example.com/v2", (widget(), {"apiVersion": "example.com/v1", "kind": "Widget"}))
    with pytest.raises(ResponseRejected, match="returned invalid metadata in object at index 1: missing metadata"):
        judged(answer(nameless), nameless)


def test_metadata_is_restored_but_for_labels_and_annotations() -> None:
    """The accepted object must be the one that the API server continues with."""
    found = changed(*META, value={"name": "a", "namespace": "default", "uid": "uid-a", "annotations": {"x": "y"}})
    (accepted,) = judged(found)
    assert accepted["metadata"] == {
        "name": "a",
        "namespace": "default",
        "uid": "uid-a",
        "generation": 3,
        "annotations": {"x": "y"},
    }


def test_unchanged_labels_are_not_validated_again() -> None:
    """Old objects may carry what would not be allowed today."""
    sent = SentReview("u-1", "example.com/v2", (widget(labels={"a b": "c d"}),))
    assert judged(answer(sent), sent)


@pytest.mark.parametrize("extra", [{}, {"more": 1}, {"request": {"uid": "2"}}])
def test_v1beta1_is_judged_less(extra: dict[str, Any]) -> None:
    """API servers did not check kind and uid in v1beta1, so the checks must not either."""
    sent = SentReview("u-1", "example.com/v2", (widget(),), "v1beta1")
    found = answer(sent) | {"apiVersion": "", "kind": ""} | extra
    found["response"]["uid"] = ""
    assert judged(found, sent)


def test_the_review_that_is_sent() -> None:
    """Webhooks have to be asked as an API server asks."""
    review = json.loads(review_body(SENT, response={"uid": ""}))
    assert review == {
        "kind": "ConversionReview",
        "apiVersion": "apiextensions.k8s.io/v1",
        "request": {"uid": "u-1", "desiredAPIVersion": "example.com/v2", "objects": [widget()]},
        "response": {"uid": ""},
    }
