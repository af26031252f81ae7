"""The pytest plugin: a fixture that serves conversions to the control plane, and ``--thorough`` for the laws.

- ``serve_conversions``: ``serve_conversions(graph, crd)`` installs the CRD on the session's control plane, wired to the
  graph, and returns its API as ``ServedConversions``; both end with the module;
- ``--thorough``: the classes of ``roundtrip_suite`` try the full number of objects of the Hypothesis profile;
- while such a class runs on a terminal, a line shows its progress.

Invariant: importing this module is cheap, because every pytest run loads it where restow is installed.
"""

from __future__ import annotations

import os
import sys
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Final

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from restow.conversion import Graph
    from restow.crds import Crd
    from restow.webhook.testing import ServedConversions

_THOROUGH: Final = "RESTOW_THOROUGH"
_SUITE: Final = "restow.conversion.testing.suite"
#: Seconds before a test's progress is first shown, and between two updates.
_EVERY_S: Final = 2.0


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add ``--thorough``."""
    group = parser.getgroup("restow")
    group.addoption("--thorough", action="store_true", help="try the laws of conversions on more and fuller objects")


def pytest_configure(config: pytest.Config) -> None:
    """Pass ``--thorough`` on by the environment: test modules create the classes of laws on import, also in xdist."""
    if config.getoption("--thorough"):
        os.environ[_THOROUGH] = "1"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """Show the progress of a law's test on a terminal."""
    suite: Any = sys.modules.get(_SUITE)
    reporter: Any = item.config.pluginmanager.get_plugin("terminalreporter")
    capture: Any = item.config.pluginmanager.get_plugin("capturemanager")
    if suite is None or reporter is None or capture is None or not reporter.isatty:
        return (yield)
    told_at = time.monotonic()

    def tell(name: str, tried: int, of: int) -> None:
        nonlocal told_at
        now = time.monotonic()
        if now - told_at >= _EVERY_S:
            told_at = now
            with capture.global_and_fixture_disabled():
                reporter.ensure_newline()
                reporter.write_line(
                    f"{name}: {tried} of {of} objects" if tried <= of else f"{name}: a smaller object is sought"
                )

    suite.progress = tell
    try:
        return (yield)
    finally:
        suite.progress = None


@pytest.fixture(scope="module")
def serve_conversions(kubeconfig: Path) -> Iterator[Callable[..., ServedConversions]]:
    """Return a function that serves a graph to the control plane with its CRDs wired, until the module ends."""
    from restow.webhook.testing import serve_conversions as serving

    with ExitStack() as stack:

        def serve(graph: Graph, *crds: Crd) -> ServedConversions:
            return stack.enter_context(serving(kubeconfig, graph, *crds))

        yield serve
