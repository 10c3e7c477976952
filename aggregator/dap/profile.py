"""The draft that we speak: what changes from one draft to the next, in one value.

Another draft is another `Profile`, not a parameter of every codec.
"""

from dataclasses import dataclass
from enum import IntEnum

from aggregator.dap.report_errors import ReportError
from aggregator.errors import LocalError


class Role(IntEnum):
    """The parties, as the HPKE info strings number them (DAP, "Basic Type Definitions")."""

    COLLECTOR = 0
    CLIENT = 1
    LEADER = 2
    HELPER = 3

    @property
    def agg_id(self) -> int:
        """The VDAF's number of an aggregator: 0 for the leader, 1 for the helper.

        Raises:
            LocalError: The role is not an aggregator's.
        """
        if self not in (Role.LEADER, Role.HELPER):
            raise LocalError(f"the {self.name.lower()} is not an aggregator")
        return self - Role.LEADER


class BatchMode(IntEnum):
    """How reports fall into batches (DAP, "Batch Modes Registry")."""

    TIME_INTERVAL = 1
    LEADER_SELECTED = 2


TASK_EXTENSION_INTERVAL = 0x0001
"""`task_interval`: when reports of the task may be generated."""

JOB_EXTENSION_BATCH_ID = 0x0001
"""`leader_selected_batch_id`, of an aggregation job: the batch that its reports fall in."""

TASK_EXTENSION_PRIVACY = 0xFF50
"""The task's privacy policy. Our own code point, not a registered one: no draft defines one."""


@dataclass(frozen=True, slots=True)
class Profile:
    """One draft's domain separation, limits and code points.

    Attributes:
        tag: The protocol's name in every domain separation string.
        min_task_info_size: The fewest bytes of `TaskConfiguration.task_info`.
        error_namespace: Prefix of an error's token in a problem document's type.
        report_errors: The report errors the draft defines.
        task_extensions: The task extensions we understand; a task with any other is refused.
        report_extensions: The report extensions we understand: none are registered.
    """

    tag: bytes
    min_task_info_size: int
    error_namespace: str
    report_errors: frozenset[ReportError]
    task_extensions: frozenset[int]
    report_extensions: frozenset[int]


DAP_18 = Profile(
    tag=b"dap-18",
    min_task_info_size=1,
    error_namespace="urn:ietf:params:ppm:dap:error:",
    report_errors=frozenset(ReportError),
    task_extensions=frozenset({TASK_EXTENSION_INTERVAL, TASK_EXTENSION_PRIVACY}),
    report_extensions=frozenset(),
)
"""The profile of `aggregator.DAP_DRAFT`."""
