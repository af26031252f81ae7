"""What a log may say of a failure."""

import pytest

from restow.kube.errors import Unreachable, api_error, describe_failure

SECRET = "hunter2"


def raised(error: Exception) -> Exception:
    """Return ``error`` with a traceback."""
    try:
        raise error
    except Exception as caught:  # noqa: BLE001
        return caught


def invalid() -> Exception:
    cause = f'{{"field":"spec.size","reason":"FieldValueInvalid","message":"Invalid value: \\"{SECRET}\\""}}'
    body = f'{{"reason":"Invalid","message":"Invalid value: \\"{SECRET}\\"","details":{{"causes":[{cause}]}}}}'
    return api_error(status=422, body=body.encode(), headers={}, verb="update", target="widgets a")


@pytest.mark.parametrize(
    ("error", "said"),
    [
        pytest.param(raised(ValueError(SECRET)), "ValueError (test_failures.py:", id="foreign"),
        pytest.param(KeyError(SECRET), "KeyError", id="never raised"),
        pytest.param(Unreachable("the server is gone"), "the server is gone", id="own"),
        pytest.param(invalid(), "update widgets a: refused as invalid (422): spec.size (FieldValueInvalid)", id="422"),
        pytest.param(
            ExceptionGroup(SECRET, [raised(ValueError(SECRET)), Unreachable("the server is gone")]),
            "the server is gone",
            id="group",
        ),
    ],
)
def test_failures_are_told_without_values(error: Exception, said: str) -> None:
    """A log line says what failed and where, and never what the exception quotes of an object."""
    text = describe_failure(error)
    assert said in text
    assert SECRET not in text
    assert "\n" not in text
