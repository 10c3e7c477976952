"""Results that know their law: noised values to calculate with, each with an interval that holds.

    monday, tuesday = Batch.of_document(task, first), Batch.of_document(task, second)
    (monday["poor"] + tuesday["poor"]).interval()
    compare(monday.share("poor"), tuesday.share("poor"))

docs/results.md explains how each interval is found, and what cannot be concluded from it.
"""

from typing import TYPE_CHECKING

from aggregator.lazy_exports import exports

if TYPE_CHECKING:
    from aggregator.collector.results.batches import Batch
    from aggregator.collector.results.comparisons import Comparison, compare, compare_all
    from aggregator.collector.results.consistency import consistent
    from aggregator.collector.results.cross_tables import CrossTable
    from aggregator.collector.results.deviations import Deviation
    from aggregator.collector.results.intervals import ConfidenceInterval
    from aggregator.collector.results.moments import Variance, mean
    from aggregator.collector.results.moments_of_some import VarianceOfSome
    from aggregator.collector.results.quantiles import Quantile, median
    from aggregator.collector.results.ratios import Ratio, ratio
    from aggregator.collector.results.sayable import Range, Shown, TooFew, shown, too_few
    from aggregator.collector.results.selection import Selected, Withheld, after_selection
    from aggregator.collector.results.tables import Table
    from aggregator.collector.results.trees import Tree
    from aggregator.collector.results.values import (
        Noised,
        Quantity,
        combination,
        joint_intervals,
        total,
    )
else:
    __getattr__ = exports(
        __name__,
        {
            "batches": ("Batch",),
            "comparisons": ("Comparison", "compare", "compare_all"),
            "consistency": ("consistent",),
            "cross_tables": ("CrossTable",),
            "deviations": ("Deviation",),
            "intervals": ("ConfidenceInterval",),
            "moments": ("Variance", "mean"),
            "moments_of_some": ("VarianceOfSome",),
            "quantiles": ("Quantile", "median"),
            "ratios": ("Ratio", "ratio"),
            "sayable": ("Range", "Shown", "TooFew", "shown", "too_few"),
            "selection": ("Selected", "Withheld", "after_selection"),
            "tables": ("Table",),
            "trees": ("Tree",),
            "values": ("Noised", "Quantity", "combination", "joint_intervals", "total"),
        },
    )

__all__ = [
    "Batch",
    "Comparison",
    "ConfidenceInterval",
    "CrossTable",
    "Deviation",
    "Noised",
    "Quantile",
    "Quantity",
    "Range",
    "Ratio",
    "Selected",
    "Shown",
    "Table",
    "TooFew",
    "Tree",
    "Variance",
    "VarianceOfSome",
    "Withheld",
    "after_selection",
    "combination",
    "compare",
    "compare_all",
    "consistent",
    "joint_intervals",
    "mean",
    "median",
    "ratio",
    "shown",
    "too_few",
    "total",
]
