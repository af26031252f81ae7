"""The console scripts, and the error message of a command whose extra is not installed (``missing_library``).

An embedder installs ``restow`` without extras; its scripts then exist without click. Therefore this module imports only
the standard library at first, and the program only when a script runs.
"""

from __future__ import annotations

import sys

__all__ = ["kubectl_complete", "missing_library", "restow"]

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


def restow() -> None:
    """Run ``restow``."""
    try:
        from restow.main import main
    except ModuleNotFoundError as error:
        print(f"restow: {missing_library('the command line', error)}", file=sys.stderr)  # noqa: T201
        raise SystemExit(2) from None
    main()


def kubectl_complete() -> None:
    """Run ``kubectl_complete-restow``, which offers nothing without the extra ``cli``."""
    try:
        from restow.main import kubectl_main
    except ModuleNotFoundError:
        return
    kubectl_main()
