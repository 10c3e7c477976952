"""Results as tables on a terminal."""

from collections.abc import Sequence
from fractions import Fraction
from typing import TYPE_CHECKING

from aggregator.untrusted_text import escaped

if TYPE_CHECKING:
    from rich.console import Console

    from aggregator.collector.documents import Document


def print_result(collection: "Document", labels: Sequence[str] = ()) -> None:
    """Print a finished collection: each value with its interval, and the guarantee."""
    from rich.console import Console
    from rich.table import Table

    result = collection["result"]
    if not isinstance(result, dict):
        return
    console = Console(markup=False)
    error, privacy = result["error"], result["privacy"]
    width, processed = error["half_width"], result.get("post_processed")
    sections = error.get("sections")
    runs = sections or [{"values": len(result["values"]), "half_width": width}]
    widths = [run["half_width"] for run in runs for _ in range(run["values"])]
    confidence = float(100 * Fraction(error["confidence"]))
    table = Table("", "value", f"interval ({confidence:g} %)")
    if processed is not None:
        table.add_column(processed["rule"], justify="right")
    for index, value in enumerate(result["values"]):
        cells = [
            escaped(labels[index]) if labels else str(index),
            _number(value),
            _interval(value, widths[index]),
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
        console.print(
            "each interval by itself; all at once: plus or minus "
            + ("at most " if sections else "")
            + f"{error['joint_half_width']:,}; "
            + error["holds"]
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


def _number(value: int | None) -> str:
    return "withheld" if value is None else f"{value:,}"


def _interval(value: int | None, width: int) -> str:
    if value is None:
        return ""
    return f"{value - width:,} to {value + width:,}" if width else "exact"
