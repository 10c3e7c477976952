"""Numbers of a chart's marks for a reader; see `aggregator.collector.results.written`."""

from aggregator.collector.results import written
from aggregator.collector.results.written import number
from aggregator.service.web.pages.charts import Mark


def said(mark: Mark) -> tuple[str, str, str]:
    """Return an estimate and its interval for a reader: value, from, to."""
    return written.said(mark.value, mark.low, mark.high)


def beside(mark: Mark, truth: float) -> str:
    """Return a true value with as many digits as the estimate beside it.

    It has more if it lies so near an end of the interval that they would hide on which side.
    """
    digits = written.digits_of(mark.value, mark.low, mark.high)
    if digits is None:
        return number(truth)
    rounded = round(truth, digits)
    is_held, seems_held = (mark.low <= each <= mark.high for each in (truth, rounded))
    return f"{rounded:,.{digits}f}" if is_held == seems_held else number(truth)
