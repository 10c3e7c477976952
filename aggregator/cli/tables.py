"""Results as tables on a terminal."""

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from aggregator.collector.documents import Document


def print_result(collection: Document, labels: Sequence[str] = ()) -> None:
    """Print a finished collection: each value with its interval, and what it promises."""
    result = collection["result"]
    if not isinstance(result, dict):
        return
    console = Console()
    error, privacy = result["error"], result["privacy"]
    width = error["half_width"]
    table = Table("", "value", f"interval ({error['confidence']})")
    for index, value in enumerate(result["values"]):
        label = labels[index] if index < len(labels) else str(index)
        interval = f"{value - width:,} to {value + width:,}" if width else "exact"
        table.add_row(label, f"{value:,}", interval)
    table.columns[1].justify = table.columns[2].justify = "right"
    console.print(table)
    console.print(f"{result['report_count']:,} reports ({result['report_count_source']})")
    console.print(f"{privacy['mechanism']}: {privacy['statement']}")
    if width:
        console.print(
            f"each interval by itself; all at once: plus or minus {error['joint_half_width']:,}; "
            + error["holds"]
        )
    if not privacy["bound_into_reports"]:
        console.print("the reports themselves do not carry this privacy policy")
