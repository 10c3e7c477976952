"""What can be wrong with the noise of a pair."""

import dataclasses
from enum import StrEnum


class FaultKind(StrEnum):
    """A kind of fault."""

    NO_NOISE = "no noise"
    WRONG_SCALE = "wrong scale"
    WRONG_LAW = "wrong law"
    BIASED = "biased"
    REPEATED = "repeated between windows"
    COMMON = "in part common to windows"
    CORRELATED = "correlated between buckets"
    SHARED = "shared between the aggregators"
    WRONG_SUM = "wrong sum"
    WRONG_COUNT = "wrong count"
    UNKNOWN = "refused, and like nothing that is known here"


@dataclasses.dataclass(frozen=True, slots=True)
class Fault:
    """One fault, in words with numbers.

    The party is `leader`, `helper`, or `pair` where both or neither can be blamed.
    """

    party: str
    kind: FaultKind
    text: str
