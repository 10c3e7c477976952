"""Why one report was refused, as a code point on the wire.

Source:
    DAP, "Basic Type Definitions"; DAP, "Report Errors Registry".
"""

import dataclasses
from enum import IntEnum


class ReportError(IntEnum):
    """The error of one report, in an upload's answer or an aggregation job's."""

    BATCH_COLLECTED = 1
    REPORT_REPLAYED = 2
    REPORT_DROPPED = 3
    HPKE_UNKNOWN_CONFIG_ID = 4
    HPKE_DECRYPT_ERROR = 5
    VDAF_VERIFY_ERROR = 6
    TASK_EXPIRED = 7
    INVALID_MESSAGE = 8
    REPORT_TOO_EARLY = 9
    TASK_NOT_STARTED = 10
    OUTDATED_CONFIG = 11

    @property
    def draft_name(self) -> str:
        """The draft's name for it, such as `report_replayed`."""
        return self.name.lower()


@dataclasses.dataclass(frozen=True, slots=True)
class UnknownReportError:
    """A code point that a newer peer uses: its report is rejected, whatever it means."""

    value: int

    @property
    def draft_name(self) -> str:
        """A name to count it by, such as `report_error_12`."""
        return f"report_error_{self.value}"
