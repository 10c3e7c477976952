"""Coroutine tests run on asyncio, as the services do."""

import pytest


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"
