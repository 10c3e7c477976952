"""Why one report was refused: names that hold in every draft.

The draft decides which number stands for a name (`profile.Profile`), and the next draft has other
numbers. So messages carry the number, and only a task's profile gives it a name.

Source: DAP, "Basic Type Definitions"; DAP, "Report Errors Registry".
"""

import dataclasses
from enum import Enum


class ReportError(Enum):
    """The error of one report, in an upload's answer or an aggregation job's."""

    BATCH_COLLECTED = "batch_collected"
    REPORT_REPLAYED = "report_replayed"
    REPORT_DROPPED = "report_dropped"
    HPKE_UNKNOWN_CONFIG_ID = "hpke_unknown_config_id"
    HPKE_DECRYPT_ERROR = "hpke_decrypt_error"
    VDAF_VERIFY_ERROR = "vdaf_verify_error"
    TASK_EXPIRED = "task_expired"
    INVALID_MESSAGE = "invalid_message"
    REPORT_TOO_EARLY = "report_too_early"
    TASK_NOT_STARTED = "task_not_started"
    OUTDATED_CONFIG = "outdated_config"
    UNKNOWN_VERIFICATION_KEY_ID = "unknown_verification_key_id"
    UNSUPPORTED_EXTENSION = "unsupported_extension"

    # Our own, of tasks that count only reports with a permit.
    PERMIT_MISSING = "permit_missing"
    PERMIT_UNKNOWN = "permit_unknown"
    PERMIT_OF_ANOTHER_WINDOW = "permit_of_another_window"
    PERMIT_SPENT = "permit_spent"

    # Our own, of tasks of attribution; the drafts' parties are told that the report is dropped.
    BUDGET_MISSING = "privacy_budget_missing"
    BUDGET_TOO_SMALL = "privacy_budget_too_small"

    @property
    def draft_name(self) -> str:
        """The drafts' name for it, such as `report_replayed`."""
        return self.value


@dataclasses.dataclass(frozen=True, slots=True)
class UnknownReportError:
    """A number that the task's draft does not define: its report is refused, whatever it means."""

    code: int

    @property
    def draft_name(self) -> str:
        """A name to count it by, such as `report_error_12`."""
        return f"report_error_{self.code}"


AnyReportError = ReportError | UnknownReportError
