"""The other half of the random histories; a file stays with one worker, and there are two."""

from pathlib import Path

import pytest

from tests.support.history import HISTORIES, PER_TEST, live

pytestmark = [pytest.mark.anyio, pytest.mark.slow]


@pytest.mark.parametrize("first", range(HISTORIES // 2, HISTORIES, PER_TEST))
async def test_nothing_is_lost_or_doubled_whatever_fails(tmp_path: Path, first: int) -> None:
    await live(tmp_path, range(first, first + PER_TEST))
