"""Types for the draft's test vectors only: without a code point, no task can name them.

Source:
    VDAF, "Test Vectors".
"""

from functools import partial
from typing import Final

from aggregator.vdaf.circuits import SumVec
from aggregator.vdaf.circuits.higher_degree import HigherDegree
from aggregator.vdaf.instances import SUM_VEC, VdafType
from field import FIELD64

ALGORITHM_ID: Final = 0xFFFFFFFF
"""What their vectors have in place of a code point."""

SUM_VEC_WITH_MULTIPROOF: Final = VdafType(
    "Prio3SumVecWithMultiproof",
    "sumvecwithmultiproof",
    ALGORITHM_ID,
    partial(SumVec, field=FIELD64),
    SUM_VEC.parameters,
    num_proofs=3,
)
HIGHER_DEGREE: Final = VdafType("Prio3HigherDegree", "higherdegree", ALGORITHM_ID, HigherDegree)

EXPERIMENTAL: Final = {row.name: row for row in (SUM_VEC_WITH_MULTIPROOF, HIGHER_DEGREE)}
