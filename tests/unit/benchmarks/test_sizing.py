"""docs/sizing.md says what its inputs come to."""

from fractions import Fraction
from math import ceil
from pathlib import Path

from benchmarks.sizing import DAYS, LOAD, MEASURED, cores, purchase, render

PAGE = Path(__file__).parents[3] / "docs" / "sizing.md"


def test_the_page_has_the_tables_that_are_computed() -> None:
    text = PAGE.read_text(encoding="utf-8")
    missing = [name for name, table in render().items() if table not in text]
    assert missing == [], "run python -m benchmarks.sizing"


def test_the_arithmetic_is_what_exact_fractions_give() -> None:
    rows = {row[0]: row[1:] for row in purchase(MEASURED)}
    for index, per_day in enumerate(DAYS):
        per_second = Fraction(3 * per_day, 24 * 60 * 60)
        busy = per_second * Fraction(str(MEASURED.leader)) / Fraction(str(LOAD))
        assert rows["leader: cores"][index] == f"{max(1, ceil(busy)):,}"
        for party in ("leader", "helper"):
            year = Fraction(125 * 365 * per_day, 10**9)
            assert rows[f"{party}: ids, GB a year"][index] == f"{float(year):,.0f}"
        waiting = Fraction(per_day * 6450, 10**9)
        assert rows["leader: a day's reports that wait, GB"][index] == f"{float(waiting):,.0f}"
        wire = float(per_second * 5480 * 8 / 10**6)
        assert rows["leader: network at the peak, Mbit/s"][index] in {
            f"{wire:,.1f}",
            f"{wire:,.0f}",
        }


def test_ten_times_the_reports_never_need_more_than_ten_times_the_cores() -> None:
    for seconds in (1e-6, 598e-6, 0.1):
        assert cores(10**7, seconds) <= 10 * cores(10**6, seconds)
