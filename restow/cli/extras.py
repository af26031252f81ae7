"""The extra that a user has to install for a command whose library is missing. It imports only the standard library."""

from __future__ import annotations

_EXTRAS = {
    "click": "cli",
    "cryptography": "operator",
    "deepdiff": "cli",
    "jinja2": "report",
    "prometheus_client": "operator",
    "pydantic": "cli",
    "rich": "cli",
}
"""The extra of each library that a command imports."""


def missing_library(what: str, error: ModuleNotFoundError) -> str:
    """Return a message that says what to install for a missing library.

    For a library that belongs to no extra, the function raises the error itself: the installation is broken.
    """
    missing = (error.name or "").partition(".")[0]
    if missing not in _EXTRAS:
        raise error
    return f"{what} needs {missing}: pip install 'restow[{_EXTRAS[missing]}]'"
