"""What an error answer means: its class, what the server said, whose fault, and how long to wait."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from restow.kube.errors import (
    AlreadyExists,
    ApiError,
    BadRequest,
    Conflict,
    Forbidden,
    Gone,
    Invalid,
    KubeError,
    MethodNotAllowed,
    NotFound,
    ServerError,
    TooLarge,
    TooManyRequests,
    Unauthorized,
    UnsupportedMediaType,
    api_error,
    one_line,
)

WEDNESDAY = "Wed, 21 Oct 2026 07:28:00 GMT"
HALF_A_MINUTE_LATER = "Wed, 21 Oct 2026 07:28:30 GMT"


def error(status: int, body: bytes = b"", **headers: str) -> ApiError:
    """The error of an answer to ``patch widgets.example.com ns/w``."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return api_error(status=status, body=body, headers=named, verb="patch", target="widgets.example.com ns/w")


def status_body(**said: Any) -> bytes:
    """A ``v1.Status``."""
    return json.dumps({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure"} | said).encode()


@pytest.mark.parametrize(
    ("status", "reason", "kind"),
    [
        (400, "BadRequest", BadRequest),
        (401, "Unauthorized", Unauthorized),
        (403, "Forbidden", Forbidden),
        (404, "NotFound", NotFound),
        (405, "MethodNotAllowed", MethodNotAllowed),
        (409, "Conflict", Conflict),
        (409, "AlreadyExists", AlreadyExists),
        (410, "Expired", Gone),
        (413, "RequestEntityTooLarge", TooLarge),
        (415, "UnsupportedMediaType", UnsupportedMediaType),
        (422, "Invalid", Invalid),
        (429, "TooManyRequests", TooManyRequests),
        (500, "InternalError", ServerError),
        (503, "ServiceUnavailable", ServerError),
        (504, "Timeout", ServerError),
        (418, "Teapot", ApiError),
        (307, "", ApiError),
    ],
)
def test_each_status_has_its_class(status: int, reason: str, kind: type[ApiError]) -> None:
    """Whoever tells a conflict from a refusal by class would act on the wrong one."""
    found = error(status, status_body(reason=reason, message="so it is", code=status))
    assert type(found) is kind
    assert (found.status, found.reason, found.message) == (status, reason, "so it is")
    assert (found.verb, found.target) == ("patch", "widgets.example.com ns/w")


def test_a_message_of_several_lines_is_told_on_one() -> None:
    """It would break the table, the log line or the Event that it is shown in."""
    said = 'Apply failed with 2 conflicts: conflicts with "alice":\n- .spec.size\n- .spec.color\n'
    found = error(409, status_body(reason="Conflict", message=said))
    assert found.message == 'Apply failed with 2 conflicts: conflicts with "alice": - .spec.size - .spec.color'
    assert "\n" not in str(found)
    causes = [{"field": "spec", "message": "Invalid value: 1: is\nwrong"}]
    invalid = error(422, status_body(reason="Invalid", message="no", details={"causes": causes}))
    assert isinstance(invalid, Invalid) and invalid.findings == "spec: Invalid value: is wrong"


def unreadable(name: str, why: str) -> str:
    """An API server's message about an object that it cannot read."""
    return (
        f"StorageError: corrupt object, Code: 7, Key: /registry/example.com/widgets/a/{name}, ResourceVersion: 0, "
        f"AdditionalErrorMsg: object not decodable revision=294: {why}"
    )


LEFT = "request to convert CR from an invalid group/version: example.com/v0"
REFUSED = "conversion webhook for example.com/v2, Kind=Widget failed: out of order"
FAILED = "failed to read one or more widgets.example.com from the storage: "


@pytest.mark.parametrize(
    ("status", "why", "left", "passes"),
    [
        (500, LEFT, "example.com/v0", False),
        (429, LEFT, "example.com/v0", False),
        (500, "invalid character 'x' looking for beginning of value", "", False),
        (500, REFUSED, "", True),
    ],
)
def test_an_object_that_cannot_be_read_is_named(status: int, why: str, left: str, passes: bool) -> None:
    """Its reader would search thousands of objects; and a Job would try for hours what no retry repairs."""
    causes = [{"message": unreadable(name, why), "field": name} for name in ("w", "x")]
    message = f"{FAILED}{unreadable('w', why)} (and 1 more)"
    found = error(status, status_body(reason="StorageReadError", message=message, details={"causes": causes}))
    assert found.said == f"{FAILED}/registry/example.com/widgets/a/w: {why} (and 1 more)"
    assert found.unreadable == {f"/registry/example.com/widgets/a/{name}": why for name in ("w", "x")}
    assert (found.left_version, found.may_pass) == (left, passes)


def test_a_server_before_1_37_names_no_object() -> None:
    """The version that has left is the cause there too, and a retry does not bring it back."""
    found = error(500, status_body(reason="InternalError", message=LEFT))
    assert (found.unreadable, found.left_version, found.may_pass) == ({}, "example.com/v0", False)


def test_a_long_line_is_cut() -> None:
    """A message of a megabyte would fill a terminal, or be refused as an Event."""
    assert one_line("so\tit \n is") == "so it is"
    assert one_line("abcd", 4) == "abcd" and one_line("abcde", 4) == "abcd…"


def test_the_text_says_what_was_asked_and_what_was_answered() -> None:
    """A log line without the object, or without the server's reason, sends its reader searching."""
    found = error(409, status_body(reason="Conflict", message="the object has been modified"))
    assert str(found) == "patch widgets.example.com ns/w: the object has been modified (409 Conflict)"
    assert found.said == "the object has been modified"
    assert str(error(502)) == "patch widgets.example.com ns/w: no message (502)"
    assert error(502).said == str(error(502)), "nothing said is not nothing wrong"


@pytest.mark.parametrize(
    ("details", "names"),
    [
        ({"kind": "widgets", "group": "example.com", "name": "w"}, True),
        ({"kind": "widgets", "name": "other"}, False),
        ({"kind": "namespaces", "name": "w"}, False),
        ({}, False),
        (None, False),
    ],
)
def test_only_a_404_that_names_the_object_says_that_it_is_gone(details: dict[str, str] | None, names: bool) -> None:
    """A 404 of an unserved version or a missing namespace, taken for a deleted object, would lose that object."""
    found = error(404, status_body(reason="NotFound", details=details))
    assert isinstance(found, NotFound)
    assert found.names("widgets", "w") is names


def test_a_404_in_plain_text_names_nothing() -> None:
    """``404 page not found`` is what an API server answers of a version that it does not serve."""
    found = error(404, b"404 page not found\n")
    assert isinstance(found, NotFound)
    assert found.message == "404 page not found"
    assert not found.names("widgets", "w")


def test_an_expired_list_brings_the_token_to_go_on_with() -> None:
    """Without it a long list would have to start over each time that etcd compacts."""
    body = status_body(reason="Expired", message="token is too old", metadata={"continue": "inconsistent"})
    found = error(410, body)
    assert isinstance(found, Gone)
    assert found.continue_token == "inconsistent"
    assert error(410, b"gone").continue_token == ""  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("headers", "details", "seconds"),
    [
        ({}, None, None),
        ({"Retry_After": "7"}, None, 7.0),
        ({"Retry_After": "0"}, None, 0.0),
        ({"Retry_After": "7"}, {"retryAfterSeconds": 3}, 7.0),
        ({}, {"retryAfterSeconds": 3}, 3.0),
        ({}, {"retryAfterSeconds": 0}, None),
        ({"Retry_After": HALF_A_MINUTE_LATER, "Date": WEDNESDAY}, None, 30.0),
        ({"Retry_After": WEDNESDAY, "Date": HALF_A_MINUTE_LATER}, None, 0.0),
        ({"Retry_After": HALF_A_MINUTE_LATER}, {"retryAfterSeconds": 3}, 3.0),
        ({"Retry_After": HALF_A_MINUTE_LATER, "Date": "yesterday"}, None, None),
        ({"Retry_After": "soon"}, {"retryAfterSeconds": 3}, 3.0),
        ({"Retry_After": "-5"}, None, None),
        ({"Retry_After": "²"}, None, None),
        ({"Retry_After": "9" * 400}, None, float("inf")),
        ({"Retry_After": HALF_A_MINUTE_LATER.replace("2026", "9" * 20), "Date": WEDNESDAY}, None, None),
        ({"Retry_After": HALF_A_MINUTE_LATER, "Date": WEDNESDAY.replace("07:", "9" * 20 + ":")}, None, None),
        ({"Retry_After": HALF_A_MINUTE_LATER, "Date": WEDNESDAY.replace("GMT", "-0000")}, None, 30.0),
    ],
)
def test_how_long_the_server_asked_to_wait(
    headers: dict[str, str], details: dict[str, int] | None, seconds: float | None
) -> None:
    """A wait that is missed hammers a server that asked for mercy; a wrong one hangs the run."""
    body = status_body(reason="TooManyRequests", details=details)
    assert error(429, body, **headers).retry_after == seconds


def test_a_watch_cache_that_cannot_be_filled_is_told_apart() -> None:
    """It lasts for as long as an object cannot be converted: waiting as for a busy server would never end."""
    busy, broken = (
        error(429, status_body(message=text))
        for text in ("too many requests, please try again later", "storage is (re)initializing")
    )
    assert isinstance(busy, TooManyRequests)
    assert isinstance(broken, TooManyRequests)
    assert not busy.initializing
    assert broken.initializing


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"", ""),
        (b"upstream connect error\n\n  or disconnect\t", "upstream connect error or disconnect"),
        (b"<html>\n<h1>502 Bad Gateway</h1>", "<html> <h1>502 Bad Gateway</h1>"),
        (b'"a text"', '"a text"'),
        (b'{"error": "rate limited"}', '{"error": "rate limited"}'),
        (b'{"kind":"Status","message":"cut', '{"kind":"Status","message":"cut'),
        (b"\xff\xfe", "��"),
        (b"x" * 5000, "x" * 300 + "…"),
    ],
)
def test_an_answer_that_is_no_status_is_told_in_one_short_line(body: bytes, message: str) -> None:
    """Proxies and a starting API server answer in plain text: it must neither be lost nor fill a screen."""
    assert error(502, body).message == message


@given(status=st.integers(300, 599), body=st.binary(max_size=400), wait=st.text(max_size=30), date=st.text(max_size=30))
def test_no_answer_is_too_strange_to_be_an_error(status: int, body: bytes, wait: str, date: str) -> None:
    """An exception out of the reading of an error would hide the error, and end a run over one odd proxy."""
    found = error(status, body, Retry_After=wait, Date=date)
    assert isinstance(found, KubeError)
    assert found.status == status
    assert found.retry_after is None or found.retry_after >= 0


@given(
    said=st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=8),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(["message", "reason", "details", "metadata", "name", "causes", "retryAfterSeconds"]),
                inner,
                max_size=4,
            )
        ),
        max_leaves=12,
    )
)
def test_no_json_is_too_strange_to_be_an_error(said: Any) -> None:
    """A Status that is shaped otherwise than the API says must still give the class of its status code."""
    assert type(error(409, json.dumps(said).encode())) in (Conflict, AlreadyExists)


@pytest.mark.parametrize(
    ("message", "told"),
    [
        ('Invalid value: "s3cret": must match the pattern', "Invalid value: must match the pattern"),
        ('Invalid value: {"password":"s3cret: yes"}: may only grow', "Invalid value: may only grow"),
        ("Invalid value: 7: too big", "Invalid value: too big"),
        ('Unsupported value: "s3cret": supported values: "a", "b"', 'Unsupported value: supported values: "a", "b"'),
        ('Duplicate value: {"name":"s3cret"}', "Duplicate value"),
        ('Invalid value: map[string]interface {}{"name":"s3cret"}: odd', "Invalid value"),
        ("Invalid value: size may only grow", "Invalid value: size may only grow"),
        ("Required value", "Required value"),
    ],
)
def test_findings_of_an_invalid_object_tell_no_values(message: str, told: str) -> None:
    """The server quotes what it refuses, and that may be a secret; a report is read by many."""
    status = {"reason": "Invalid", "details": {"causes": [{"field": "spec.x", "message": message}]}}
    error = api_error(status=422, body=json.dumps(status).encode(), headers={}, verb="patch", target="w")
    assert isinstance(error, Invalid)
    assert error.findings == f"spec.x: {told}"


@pytest.mark.parametrize(
    ("message", "told"),
    [
        ('admission webhook "w.example.com" denied the request: frozen', None),
        ('Widget "w" is invalid: spec.x: "s3cret"', "the API server says that it is invalid"),
    ],
)
def test_an_admission_webhook_that_denies_as_invalid_is_heard(message: str, told: str | None) -> None:
    """It names no fields, so its own text is all that tells why."""
    body = json.dumps({"reason": "Invalid", "message": message}).encode()
    error = api_error(status=422, body=body, headers={}, verb="patch", target="w")
    assert isinstance(error, Invalid)
    assert error.findings == (told or message)
