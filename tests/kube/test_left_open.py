"""What a test leaves open fails it, here as in every folder whose tests kill no process."""

from __future__ import annotations

import gc
import socket
import sys
from typing import Any

import pytest


def leave_a_socket_open() -> None:
    """Make a socket, and forget it."""
    socket.socket()
    gc.collect()


def test_a_socket_that_is_left_open_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """A connection that is never closed would pass, and in a process that runs for months it would be a leak."""
    met: list[Any] = []
    monkeypatch.setattr(sys, "unraisablehook", met.append)
    leave_a_socket_open()
    assert [each.exc_type for each in met] == [ResourceWarning]
    assert "unclosed <socket.socket" in str(met[0].exc_value)


@pytest.mark.filterwarnings("ignore:unclosed <socket.socket:ResourceWarning")
def test_a_test_may_say_what_it_leaves_open(monkeypatch: pytest.MonkeyPatch) -> None:
    """A test that breaks a connection on purpose could not be written."""
    met: list[Any] = []
    monkeypatch.setattr(sys, "unraisablehook", met.append)
    leave_a_socket_open()
    assert met == []
