"""The aggregation parameter: what reports are aggregated for, which only a VDAF can read.

Source:
    VDAF, "Verification" and "Unsharding".
"""

import dataclasses


@dataclasses.dataclass(frozen=True, slots=True)
class AggregationParameter:
    """An aggregation parameter as it came; the default is the empty one, which Prio3 takes.

    Attributes:
        encoded: Its wire form.
    """

    encoded: bytes = b""


NO_PARAMETER = AggregationParameter()
