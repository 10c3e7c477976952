"""Random histories of all parties: every report is counted once, every release is made once."""

from pathlib import Path

import pytest

from aggregator.protocol.replay import refusal
from aggregator.service.storage.reports import ids as report_ids
from tests.support.history import HISTORIES, PER_TEST, live

pytestmark = pytest.mark.slow

MANY, PER_BENCH = 20_000, 200
FAULTY = 20


@pytest.mark.parametrize("first", range(0, HISTORIES, PER_TEST))
async def test_nothing_is_lost_or_doubled_whatever_fails(tmp_path: Path, first: int) -> None:
    await live(tmp_path, range(first, first + PER_TEST))


@pytest.mark.bench
@pytest.mark.parametrize("first", range(HISTORIES, MANY, PER_BENCH))
async def test_nothing_is_lost_or_doubled_in_many_histories(tmp_path: Path, first: int) -> None:
    await live(tmp_path, range(first, min(first + PER_BENCH, MANY)))


async def test_an_aggregator_that_forgets_what_it_has_seen_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        report_ids, "refusal", lambda **facts: refusal(**(facts | {"is_seen": False}))
    )
    with pytest.raises(AssertionError):
        await live(tmp_path, range(FAULTY))
