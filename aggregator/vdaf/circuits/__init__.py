"""One validity circuit per module; a new type of measurement is a new module here."""

from aggregator.vdaf.circuits.base import AggResult, Circuit, Run, Summed
from aggregator.vdaf.circuits.bit_vector import BitVectorCircuit
from aggregator.vdaf.circuits.count import Count
from aggregator.vdaf.circuits.histogram import Histogram
from aggregator.vdaf.circuits.l1_bound_sum import L1BoundSum
from aggregator.vdaf.circuits.linear_form import Block, LinearCheck, LinearForm, Term
from aggregator.vdaf.circuits.measurements import Measurement, MeasurementError
from aggregator.vdaf.circuits.multihot_count_vec import MultihotCountVec
from aggregator.vdaf.circuits.sections import Sections
from aggregator.vdaf.circuits.sum import Sum
from aggregator.vdaf.circuits.sum_vec import SumVec

__all__ = [
    "AggResult",
    "BitVectorCircuit",
    "Block",
    "Circuit",
    "Count",
    "Histogram",
    "L1BoundSum",
    "LinearCheck",
    "LinearForm",
    "Measurement",
    "MeasurementError",
    "MultihotCountVec",
    "Run",
    "Sections",
    "Sum",
    "SumVec",
    "Summed",
    "Term",
]
