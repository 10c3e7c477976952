"""Results as tables on a terminal."""

import math
from fractions import Fraction
from typing import TYPE_CHECKING

from aggregator.collector.results.selection import WITHHELD
from aggregator.collector.results.sums import Method
from aggregator.untrusted_text import escaped

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from aggregator.collector.documents import Document
    from aggregator.collector.results import ConfidenceInterval, Quantity
    from aggregator.collector.results.intervals import Bound


def print_result(collection: "Document", values: "Sequence[Quantity]") -> None:
    """Print a finished collection: each value with its interval, and the guarantee."""
    from rich.console import Console
    from rich.table import Table

    result = collection["result"]
    if not isinstance(result, dict):
        return
    console = Console(markup=False)
    error, privacy = result["error"], result["privacy"]
    width, processed = error["half_width"], result.get("post_processed")
    confidence = Fraction(error["confidence"])
    table = Table("", "value", f"interval ({float(100 * confidence):g} %)")
    if processed is not None:
        table.add_column(processed["rule"], justify="right")
    for index, value in enumerate(values):
        found = value.interval(confidence)
        number = value.estimate
        cells = [
            escaped(value.label),
            WITHHELD if number is None else _number(number),
            "" if number is None else _interval(found),
        ]
        if processed is not None:
            cells.append(_number(processed["integers"][index]))
        table.add_row(*cells)
    table.columns[1].justify = table.columns[2].justify = "right"
    console.print(table)
    console.print(f"{result['report_count']:,} reports ({result['report_count_source']})")
    said = f"{privacy['mechanism']}: {privacy['statement']}"
    for text in (privacy.get("in_short"), said, privacy["all_releases"], privacy.get("group")):
        if text is not None:
            console.print(escaped(text))
    if width:
        at_once = "at most " if error.get("sections") else ""
        at_once += f"{error['joint_half_width']:,}"
        console.print(
            f"each interval by itself; all at once: plus or minus {at_once}; {error['holds']}"
            if result.get("selection") is None
            else "each interval by itself, of those in which the value is shown"
        )
    if processed is not None:
        console.print(processed["statement"])
    _print_selection(console, result.get("selection"))
    if not privacy["bound_into_reports"]:
        console.print("the reports themselves do not carry this privacy policy")


def _print_selection(console: "Console", selection: "Document | None") -> None:
    """Print the rule that selects values, how many it withheld, and what it promises."""
    if selection is None:
        return
    if selection["rule"] == "threshold":
        above = selection["shown_above"]
        limits = above if isinstance(above, dict) else {}
        rule = f"above {limits['private']}"
        if limits["public_buckets"]:
            buckets = ", ".join(map(str, limits["public_buckets"]))
            public = "always" if limits["public"] is None else f"above {limits['public']}"
            rule += f", of the public buckets {buckets} {public}"
        console.print(f"shown: noised counts {rule}; {selection['withheld']} withheld")
    else:
        limit = selection["suppressed_at_or_below"]
        console.print(
            f"withheld: counts at or below {limit}, and those from which such a count follows; "
            f"{selection['withheld']} withheld"
        )
    console.print(str(selection["guarantee"]))
    caveats = selection["caveats"]
    for caveat in caveats if isinstance(caveats, list) else ():
        console.print(f"- {caveat}")


def _number(value: "int | Bound | None") -> str:
    if value is None:
        return WITHHELD
    return f"{int(value):,}" if math.isfinite(value) else "unbounded"


def _interval(found: "ConfidenceInterval") -> str:
    if found.method == Method.NONE:
        return "exact"
    return f"{_number(found.low)} to {_number(found.high)}"
