"""Random histories of all parties: every report is counted once, every release is made once."""

from pathlib import Path

import pytest

from aggregator.protocol.replay import refusal
from aggregator.storage import report_ids
from tests.support.history import History

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

HISTORIES = 100
MANY = 20_000
PER_TEST = 25


async def live(folder: Path, seed: int) -> None:
    place = folder / str(seed)
    place.mkdir()
    try:
        await History(place, seed).run()
    except BaseException as error:
        error.add_note(f"in the history of seed {seed}")
        raise


@pytest.mark.parametrize("first", range(0, HISTORIES, PER_TEST))
async def test_nothing_is_lost_or_doubled_whatever_fails(tmp_path: Path, first: int) -> None:
    for seed in range(first, first + PER_TEST):
        await live(tmp_path, seed)


@pytest.mark.bench
@pytest.mark.parametrize("first", range(HISTORIES, MANY, PER_TEST))
async def test_nothing_is_lost_or_doubled_in_many_histories(tmp_path: Path, first: int) -> None:
    for seed in range(first, first + PER_TEST):
        await live(tmp_path, seed)


async def test_an_aggregator_that_forgets_what_it_has_seen_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        report_ids, "refusal", lambda **facts: refusal(**(facts | {"is_seen": False}))
    )

    async def live_some() -> None:
        for seed in range(10):
            await live(tmp_path, seed)

    with pytest.raises(AssertionError):
        await live_some()
