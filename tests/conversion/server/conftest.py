"""What most tests of the server need: an authority, a running webhook, and an API server that asks it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.conversion.server.apiserver import ApiServer, api_server
from tests.conversion.server.webhooks import Authority, Running, running


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    """Who signs the serving certificates of this test."""
    return Authority(tmp_path)


@pytest.fixture
async def webhook(authority: Authority) -> AsyncIterator[Running]:
    """A webhook that serves gateways."""
    async with running(authority) as found:
        yield found


@pytest.fixture
async def api(authority: Authority) -> AsyncIterator[ApiServer]:
    """An API server with connections of its own."""
    async with api_server(authority.client()) as found:
        yield found
