"""Numbers as pages and commands round them: no more digits than are known."""

import math

from aggregator.collector.pages.numbers import said
from aggregator.service.web.pages.charts import Mark


def test_an_estimate_without_bounds_has_two_digits_else_those_of_its_interval() -> None:
    assert said(Mark("mean", 33.333333, -math.inf, math.inf)) == ("33", "unbounded", "unbounded")
    assert said(Mark("mean", 1234.5, 0.0, math.inf)) == ("1,200", "0", "unbounded")
    assert said(Mark("mean", None, -math.inf, math.inf))[0] == "none"
    assert said(Mark("mean", 33.333333, 31.0, 36.0)) == ("33.3", "31.0", "36.0")
