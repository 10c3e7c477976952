"""Ids that come in touch the pages of their days alone, however many ids there are."""

from pathlib import Path

from tests.support.bytes_of_ids import bytes_of_ids

BEFORE, MORE, DAYS = 40_000, 1_000, 400


def test_the_ids_of_a_day_touch_few_pages_of_a_store_that_is_a_year_old(tmp_path: Path) -> None:
    of_a_day = bytes_of_ids(tmp_path / "day", BEFORE, MORE)
    of_all_days = bytes_of_ids(tmp_path / "all", BEFORE, MORE, DAYS)
    assert 2 * of_a_day.written < of_all_days.written
