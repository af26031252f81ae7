"""The console scripts.

An embedder installs ``restow`` without extras; its scripts then exist without click. Therefore this module imports the
program only when a script runs, and names the extra to install if a library is missing.
"""

from __future__ import annotations

import sys

from restow.cli.extras import missing_library


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
