"""ConversionReviews: what is sent, what is believed of an answer, and where the webhook is."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from restow.crds import Crd
from restow.kube.errors import BadReply
from restow.migrator.model.converter import ConverterDown
from restow.migrator.model.options import url_problem
from restow.migrator.requests.webhook import (
    MOST_BYTES,
    MOST_OBJECTS,
    ReviewFailed,
    endpoint,
    read_answer,
    slices,
    write_review,
)
from tests.migrator import builders as b

REVIEW = "apiextensions.k8s.io/v1"
V1, V2 = b.api_version("v1"), b.api_version("v2")
SENT: list[dict[str, Any]] = [
    {"apiVersion": V1, "kind": "Widget", "metadata": {"name": name, "namespace": "ns", "uid": name}} for name in "ab"
]


def answer(change: Callable[[dict[str, Any]], object] = lambda _answer: None) -> bytes:
    """A right answer to ``SENT``, changed."""
    converted = [each | {"apiVersion": V2, "spec": {"size": 1}, "metadata": dict(each["metadata"])} for each in SENT]
    right: dict[str, Any] = {
        "apiVersion": REVIEW,
        "kind": "ConversionReview",
        "response": {"uid": "u", "result": {"status": "Success"}, "convertedObjects": converted},
    }
    change(right)
    return json.dumps(right).encode()


def read(body: bytes) -> list[dict[str, Any]]:
    """Read an answer to ``SENT``."""
    return read_answer(body, SENT, V2, uid="u", review_version=REVIEW)


def test_a_review_is_what_an_api_server_sends() -> None:
    """Webhooks of any framework read it; a field that is missing or misspelt and none of them answers."""
    body = write_review([b'{"a":1}'], V2, uid="u", review_version=REVIEW)
    assert json.loads(body) == {
        "apiVersion": REVIEW,
        "kind": "ConversionReview",
        "request": {"uid": "u", "desiredAPIVersion": V2, "objects": [{"a": 1}]},
    }


def test_a_right_answer_gives_its_objects() -> None:
    """Each object comes back in its place, and metadata may be cut to what the server looks at."""
    assert [each["spec"] for each in read(answer())] == [{"size": 1}, {"size": 1}]
    assert read(answer(lambda found: found.update(more="than", request=None)))


def convert_nothing(found: dict[str, Any]) -> None:
    found["response"]["convertedObjects"] = None


def converted(found: dict[str, Any]) -> Any:
    """The converted objects of an answer."""
    return found["response"]["convertedObjects"]


@pytest.mark.parametrize(
    "change",
    [
        lambda found: found.update(kind="Status"),
        lambda found: found.update(apiVersion="apiextensions.k8s.io/v1beta1"),
        lambda found: found.pop("response"),
        lambda found: found["response"].update(uid="other"),
        convert_nothing,
        lambda found: converted(found).pop(),
        lambda found: converted(found).append({}),
        lambda found: converted(found).reverse(),
        lambda found: converted(found)[0].update(apiVersion=V1),
        lambda found: converted(found)[0].update(kind="Gadget"),
        lambda found: converted(found)[0].pop("metadata"),
        lambda found: converted(found)[0].update(metadata=[]),
        lambda found: converted(found)[0]["metadata"].update(uid="other"),
        lambda found: converted(found).__setitem__(0, None),
    ],
)
def test_what_is_no_answer_to_the_review_is_not_believed(change: Callable[[dict[str, Any]], object]) -> None:
    """The API server would refuse it; taken for an image, it would move ownership to fields of another object."""
    with pytest.raises(BadReply):
        read(answer(change))


@pytest.mark.parametrize("body", [b"", b"<html>", b"[]", b'"x"', b"null"])
def test_what_is_no_json_object_is_not_believed(body: bytes) -> None:
    """A proxy in between answers in its own way."""
    with pytest.raises(BadReply):
        read(body)


@pytest.mark.parametrize(
    ("result", "said"),
    [
        ({"status": "Failure", "message": "no such stage"}, "no such stage"),
        ({"status": "Failed"}, "the converter gives no reason"),
        ({"status": "success"}, "the converter gives no reason"),
        ({"status": "Failure", "message": "a\n\tb " + "x" * 900}, "a b " + "x" * 296 + "…"),
        ({}, "the converter gives no reason"),
    ],
)
def test_a_failure_is_the_converters_own(result: dict[str, str], said: str) -> None:
    """Status is compared as the API server does, letter by letter; the message goes into a report of one line."""
    with pytest.raises(ReviewFailed) as failed:
        read(answer(lambda found: found["response"].update(result=result)))
    assert str(failed.value) == said


@given(st.lists(st.integers(0, MOST_BYTES + 5), max_size=30), st.integers(1, 7))
def test_slices_are_whole_and_not_too_large(sizes: list[int], most: int) -> None:
    """An object in no slice would be lost, one in two be asked for twice; too large a body is refused as a whole."""
    parts = list(slices(sizes, most))
    assert [size for part in parts for size in sizes[part]] == sizes
    for part in parts:
        length = part.stop - part.start
        assert 1 <= length <= most
        assert length == 1 or sum(sizes[part]) <= MOST_BYTES


def test_a_full_page_is_one_slice() -> None:
    """Reviews of a few objects each would cost as many calls as objects."""
    assert list(slices([1000] * MOST_OBJECTS)) == [slice(0, MOST_OBJECTS)]


def crd(config: dict[str, Any], *, versions: tuple[str, ...] = ("v1",)) -> Crd:
    """A CRD with this clientConfig."""
    document = dict(b.crd(webhook=True).document)
    webhook = {"clientConfig": config, "conversionReviewVersions": list(versions)}
    spec = document["spec"] | {"conversion": {"strategy": "Webhook", "webhook": webhook}}
    return Crd.from_document(document | {"spec": spec})


PEM = "-----BEGIN CERTIFICATE-----\n"
BUNDLE = base64.b64encode(PEM.encode()).decode()
SERVICE = {"service": {"namespace": "ns", "name": "hook", "port": 8443, "path": "/convert"}, "caBundle": BUNDLE}


def test_a_url_is_taken_as_it_is() -> None:
    """Paths differ from webhook to webhook, and its own name is the one to verify."""
    found = endpoint(crd({"url": "https://hook.example.com:8443/a/b", "caBundle": BUNDLE}))
    assert (found.url, found.server_name) == ("https://hook.example.com:8443/a/b", "hook.example.com")
    assert (found.ca, found.proxied, found.review_version) == (PEM.strip(), None, REVIEW)
    assert found.host == "https://hook.example.com:8443"


@pytest.mark.parametrize(
    ("service", "url", "proxied"),
    [
        (
            SERVICE["service"],
            "https://hook.ns.svc:8443/convert",
            "/api/v1/namespaces/ns/services/https:hook:8443/proxy/convert",
        ),
        (
            {"namespace": "ns", "name": "hook"},
            "https://hook.ns.svc:443",
            "/api/v1/namespaces/ns/services/https:hook:443/proxy",
        ),
        (
            {"namespace": "ns", "name": "hook", "path": "x"},
            "https://hook.ns.svc:443/x",
            "/api/v1/namespaces/ns/services/https:hook:443/proxy/x",
        ),
    ],
)
def test_a_service_is_its_name_and_its_proxy(service: Any, url: str, proxied: str) -> None:
    """Port and path have defaults; another name than the API server's own would not fit the certificate."""
    found = endpoint(crd({"service": service}))
    assert (found.url, found.server_name, found.ca) == (url, "hook.ns.svc", "")
    assert found.proxied is not None and found.proxied.path(found.namespace) == proxied


@pytest.mark.parametrize(
    ("other", "url"),
    [
        ("https://localhost:9443", "https://localhost:9443/convert"),
        ("https://localhost:9443/", "https://localhost:9443/convert"),
        ("https://localhost:9443/other", "https://localhost:9443/other"),
        ("http://127.0.0.1:8080", "http://127.0.0.1:8080/convert"),
    ],
)
def test_another_way_keeps_path_name_and_authority(other: str, url: str) -> None:
    """A forwarded port is the same webhook: its certificate is for the service, not for this machine."""
    found = endpoint(crd(SERVICE), other)
    assert (found.url, found.server_name, found.ca, found.proxied) == (url, "hook.ns.svc", PEM.strip(), None)


@pytest.mark.parametrize(
    "url",
    [
        "localhost:9443",
        "ftp://localhost",
        "http://hook.example.com/convert",
        "https://",
        "https://h/?a=b",
        "https://h/#a",
        "https://user:secret@h/",
        "https://h:99999/",
        "https://[::1",
    ],
)
def test_a_url_that_cannot_be_one_is_told(url: str) -> None:
    """Found out when the first object is converted, it would cost a run; and it must not show a password."""
    assert "https://HOST:PORT/PATH" in url_problem(url) and "secret" not in url_problem(url)
    with pytest.raises(ConverterDown, match="is no URL of a conversion webhook"):
        endpoint(crd(SERVICE), url)


@pytest.mark.parametrize(("versions", "chosen"), [(("v1beta1", "v1"), "v1beta1"), (("v2", "v1"), "v1")])
def test_the_first_known_review_version_is_spoken(versions: tuple[str, ...], chosen: str) -> None:
    """The API server does so; a webhook may know no other."""
    found = endpoint(crd({"url": "https://h/"}, versions=versions))
    assert found.review_version == f"apiextensions.k8s.io/{chosen}"


@pytest.mark.parametrize(
    ("config", "versions", "said"),
    [
        ({"url": "https://h/"}, ("v2",), "takes no version of ConversionReview"),
        ({}, ("v1",), "does not say where its conversion webhook is"),
        ({"url": "https://h/", "caBundle": "?"}, ("v1",), "is no base64 of PEM"),
        ({"url": "https://h/", "caBundle": "/w=="}, ("v1",), "is no base64 of PEM"),
    ],
)
def test_a_crd_that_does_not_tell_is_told_of(config: dict[str, Any], versions: tuple[str, ...], said: str) -> None:
    """One sentence instead of a traceback."""
    with pytest.raises(ConverterDown, match=said):
        endpoint(crd(config, versions=versions))


def test_an_answer_that_is_nested_too_deeply_is_none() -> None:
    """A webhook that answers with it would end the run with a traceback."""
    deep = '{"a":' * 2000 + "1" + "}" * 2000
    with pytest.raises(BadReply, match="too deeply"):
        read(answer().replace(b'{"size": 1}', deep.encode(), 1))
