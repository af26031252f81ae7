"""What holds for all tests.

Hypothesis profiles, chosen by RESTOW_HYPOTHESIS_PROFILE:

- ``default``: few objects and always the same ones, so that the suite is quick and its failures are the change's own;
- ``nightly``: ten thousand new objects of every kind and direction, without a time limit.

A failure prints a line to reproduce it with.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from tests.logs import logging_restored

os.environ.setdefault("RESTOW_SETTLE", "5")
"""Seconds. A minute, the default, is for requests that admission webhooks hold; a test that has some says so itself."""

os.environ.setdefault("GOGC", "400")
"""API servers, etcd and kubectl spend much of their time on collecting garbage; a test machine has the memory."""

HERE = Path(__file__).parent

PROFILE = os.environ.get("RESTOW_HYPOTHESIS_PROFILE", "default")

# A machine with other work on it is no reason for a property to fail.
_SLOW = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
settings.register_profile("default", max_examples=50, derandomize=True, print_blob=True, **_SLOW)
settings.register_profile("nightly", max_examples=10_000, derandomize=False, print_blob=True, **_SLOW)
settings.load_profile(PROFILE)


LONGEST = (
    "test_pages.py",
    "test_readme.py",
    "test_smoke.py",
    "test_faults.py",
    "test_histories.py",
    "test_unlistable.py",
    "test_doctor.py",
    "test_golden.py",
)
"""Files that take minutes. Begun last, one process would work on them while the others have nothing left to do."""

SHARED = frozenset(("test_smoke.py",))
"""Those of them whose tests are shared one by one. Pages are not: several of them serve at the default port."""

LONGEST_TESTS = (
    "test_quick_run",
    "test_the_readme_does_what_it_says",
    "test_a_page_does_what_it_says[docs/howto/write-conversions.md]",
    "test_quick_run_of_rules",
)
"""Tests of those that take more than a minute and a half, which begin first."""

KILLING = frozenset(
    (
        "apiserver",
        "benchmarks",
        "browser",
        "controlplane",
        "deploy",
        "docs",
        "faults",
        "histories",
        "packaging",
        "restow",
    )
)
"""Folders whose tests start processes and kill them.

A killed process leaves its pipes open while a child of it holds the other end, and a connection to it may end before
the goodbye of TLS. pyproject.toml ignores the warnings of these, which come when the collector finds them.
"""


def kills(path: Path) -> bool:
    """Whether the tests of a file may leave sockets and transports open."""
    return path.is_relative_to(HERE) and path.relative_to(HERE).parts[0] in KILLING


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the longest files, let the nightly run take its time, and have what is left open fail a test."""
    order = {name: position for position, name in enumerate(LONGEST)}
    items.sort(key=lambda item: (order.get(item.path.name, len(order)), item.name not in LONGEST_TESTS))
    for item in items:
        if PROFILE != "default":
            item.add_marker(pytest.mark.timeout(0))
        if not kills(item.path) and item.get_closest_marker("apiserver") is None:
            # First among the marks, so that a test can say by one of its own what it leaves open, and why.
            item.add_marker(pytest.mark.filterwarnings("error::ResourceWarning"), append=False)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Give a process whole files, but for SHARED, whose tests the processes share."""
    from xdist.scheduler import LoadFileScheduling

    class Shared(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            file = nodeid.partition("::")[0]
            return nodeid if Path(file).name in SHARED else file

    return Shared(config, log)


def pytest_collection_finish() -> None:
    """Have the collector look at what tests make, and not again and again at ten thousand tests and all modules."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="module", autouse=True)
def _nothing_left_to_later_tests(request: pytest.FixtureRequest) -> Iterator[None]:
    """Collect what the tests of a file that kills processes leave open, lest it is another file's test that fails."""
    yield
    if kills(request.path):
        gc.collect()


@pytest.fixture(scope="session")
def server_minor(kubeconfig: Path) -> tuple[int, int]:
    """The minor of the API server under test, as it says itself."""
    from restow.controlplane.binaries import find_binaries  # it takes aiohttp, half of the start of a pure test

    with asyncio.Runner(loop_factory=asyncio.new_event_loop) as runner:
        kubectl = runner.run(find_binaries(("kubectl",)))["kubectl"]
    command = [str(kubectl), "--kubeconfig", str(kubeconfig), "version", "-o", "json"]
    told = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)["serverVersion"]
    return int(told["major"]), int(told["minor"].rstrip("+"))


@pytest.fixture(scope="session")
def keeps_owners(server_minor: tuple[int, int]) -> bool:
    """Whether a server that cannot convert an entry leaves managedFields as they were; before 1.37 it empties them."""
    return server_minor >= (1, 37)


@pytest.fixture(autouse=True)
def _log_left_as_it_was() -> Iterator[None]:
    """Undo what a command that runs in this process does to its log, which later tests read."""
    with logging_restored():
        yield


# A shell without job control starts what it puts in the background with SIGINT ignored, nohup does so with SIGHUP, and
# children inherit it: a test that ends a process by such a signal would then wait for ever.
for _number, _handler in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
    if signal.getsignal(_number) is signal.SIG_IGN:
        signal.signal(_number, _handler)
