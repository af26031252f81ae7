"""What holds for all tests.

Hypothesis profiles, chosen by RESTOW_HYPOTHESIS_PROFILE:

- ``default``: few objects and always the same ones, so that the suite is quick and its failures are the change's own;
- ``nightly``: ten thousand new objects of every kind and direction, without a time limit.

A failure prints a line to reproduce it with.
"""

from __future__ import annotations

import os
import signal

import pytest
from hypothesis import settings

os.environ.setdefault("RESTOW_SETTLE", "5")
"""Seconds. A minute, the default, is for requests that admission webhooks hold; a test that has some says so itself."""

PROFILE = os.environ.get("RESTOW_HYPOTHESIS_PROFILE", "default")

settings.register_profile("default", max_examples=50, derandomize=True, deadline=None, print_blob=True)
settings.register_profile("nightly", max_examples=10_000, derandomize=False, deadline=None, print_blob=True)
settings.load_profile(PROFILE)


LONGEST = ("test_pages.py", "test_smoke.py")
"""Files that take minutes. Begun last, one process would work on them while the others have nothing left to do."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the longest files, and let the nightly run take its time."""
    items.sort(key=lambda item: item.path.name not in LONGEST)
    if PROFILE != "default":
        for item in items:
            item.add_marker(pytest.mark.timeout(0))


# A shell without job control starts what it puts in the background with SIGINT ignored, nohup does so with SIGHUP, and
# children inherit it: a test that ends a process by such a signal would then wait for ever.
for _number, _handler in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
    if signal.getsignal(_number) is signal.SIG_IGN:
        signal.signal(_number, _handler)
