"""The drafts that we speak: all that differs between them is in a task's `Profile`.

So one service can serve tasks of several drafts side by side. Codecs do not depend on the profile:
drafts differ in numbers that messages carry and in the tag that domain separation strings begin
with.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import IntEnum

from aggregator.dap.dialect import AS_DRAFTED, WITH_LENGTHS, Framing
from aggregator.dap.report_errors import AnyReportError, ReportError, UnknownReportError
from aggregator.errors import LocalError, ParameterError


class Role(IntEnum):
    """The parties, as the HPKE info strings number them (DAP, "Basic Type Definitions")."""

    COLLECTOR = 0
    CLIENT = 1
    LEADER = 2
    HELPER = 3

    @property
    def agg_id(self) -> int:
        """The VDAF's number of an aggregator: 0 for the leader, 1 for the helper.

        Raises `LocalError` if the role is not an aggregator's.
        """
        if self not in (Role.LEADER, Role.HELPER):
            raise LocalError(f"the {self.name.lower()} is not an aggregator")
        return self - Role.LEADER


TASK_EXTENSION_INTERVAL = 0x0001
"""`task_interval`: when reports of the task may be generated."""

JOB_EXTENSION_BATCH_ID = 0x0001
"""`leader_selected_batch_id`, of an aggregation job: the batch that its reports fall in. Where
collectors select batches too, for no draft says what names one there."""

TASK_EXTENSION_PRIVACY = 0xFF50
"""The task's privacy policy. Our own code point, not a registered one: no draft defines one."""

TASK_EXTENSION_PERMITS = 0xFF51
"""That each report of the task needs a permit. Our own code point, too."""

REPORT_EXTENSION_PERMIT = 0xFF51
"""A permit's opening, in the Helper's input share alone. Our own code point, too."""

REPORT_EXTENSION_SIGNATURE = 0xFF52
"""The signature of a signed permit, in public. Of another type than the opening, since DAP lets no
type stand in both lists. Our own code point, too."""


@dataclass(frozen=True, slots=True)
class CodePoints:
    """The numbers that draft-thomson-ppm-dap-attribution asks for, none of which is assigned.

    Attributes:
        batch_mode: `collector-selected`.
        collector_identity: The task extension that says who collects.
        budget_source: The task extension that says whose budget people pay from.
        privacy_budget: The report extension that says what a report may cost.
        min_dp_budget: The collection extension that says what each report of a batch is to pay.
    """

    batch_mode: int
    collector_identity: int
    budget_source: int
    privacy_budget: int
    min_dp_budget: int


CODE_POINTS = CodePoints(
    batch_mode=0xF0,
    collector_identity=0xFF60,
    budget_source=0xFF61,
    privacy_budget=0xFF62,
    min_dp_budget=0xFF63,
)
"""Our own, from the end of each range: no other program knows them. They hold in every profile, as
the draft can be followed with any version of DAP."""


class BatchMode(IntEnum):
    """How reports fall into batches (DAP, "Batch Modes Registry")."""

    TIME_INTERVAL = 1
    LEADER_SELECTED = 2
    COLLECTOR_SELECTED = CODE_POINTS.batch_mode


ERROR_NAMESPACE = "urn:ietf:params:ppm:dap:error:"
"""Prefix of an error's token in a problem document's type, in every draft."""

TASK_EXTENSIONS = frozenset(
    {
        TASK_EXTENSION_INTERVAL,
        TASK_EXTENSION_PRIVACY,
        TASK_EXTENSION_PERMITS,
        CODE_POINTS.collector_identity,
        CODE_POINTS.budget_source,
    }
)
"""The task extensions that we understand; a task with any other is refused."""

Words = Mapping[ReportError, ReportError]

_OF_PERMITS: Mapping[ReportError, int] = {
    ReportError.PERMIT_MISSING: 240,
    ReportError.PERMIT_UNKNOWN: 241,
    ReportError.PERMIT_OF_ANOTHER_WINDOW: 242,
    ReportError.PERMIT_SPENT: 243,
}
"""Numbers of our own, not registered ones."""

_WORDS: Words = {
    ReportError.BUDGET_MISSING: ReportError.REPORT_DROPPED,
    ReportError.BUDGET_TOO_SMALL: ReportError.REPORT_DROPPED,
}
"""What every draft has in place of errors of ours that we only count."""


@dataclass(frozen=True, slots=True, eq=False)
class Profile:
    """One draft, as far as it differs from the others that we speak.

    Attributes:
        name: What a task file calls it.
        tag: The protocol's name in every domain separation string. Parties of one task that follow
            different drafts can therefore open nothing of each other's.
        min_task_info_size: The fewest bytes of `TaskConfiguration.task_info`.
        codes: The number of each report error that the draft defines, and of our own.
        at_upload: Errors to use instead in answers to uploads, where the draft has a different
            error or none.
        at_aggregation: Errors to use instead in answers to aggregation jobs.
        creator_names: Whether the caller names a job, a share or a collection, by `PUT`; otherwise
            the server does, in its answer to `POST`.
        framing: How aggregation jobs are written.
        seals_anew: Whether a helper seals its share again each time that it is asked for it, so
            that two answers for one share differ.
    """

    name: str
    tag: bytes
    min_task_info_size: int
    codes: Mapping[ReportError, int]
    at_upload: Words
    at_aggregation: Words
    creator_names: bool = False
    framing: Framing = AS_DRAFTED
    seals_anew: bool = False

    @property
    def has_permits(self) -> bool:
        """Whether tasks may have permits: other programs do not know their extension."""
        return ReportError.PERMIT_SPENT in self.codes

    def code(self, error: ReportError) -> int:
        """Return the number that stands for a report error.

        Raises `LocalError` if the draft does not define it.
        """
        error = _WORDS.get(error, error)
        if error not in self.codes:
            raise LocalError(f"{error.draft_name} is no report error of {self.name}")
        return self.codes[error]

    def report_error(self, code: int) -> AnyReportError:
        """Return the report error for a peer's number."""
        for error, known in self.codes.items():
            if known == code:
                return error
        return UnknownReportError(code)


DAP_18 = Profile(
    name="dap-18",
    tag=b"dap-18",
    min_task_info_size=1,
    codes={
        ReportError.BATCH_COLLECTED: 1,
        ReportError.REPORT_REPLAYED: 2,
        ReportError.REPORT_DROPPED: 3,
        ReportError.HPKE_UNKNOWN_CONFIG_ID: 4,
        ReportError.HPKE_DECRYPT_ERROR: 5,
        ReportError.VDAF_VERIFY_ERROR: 6,
        ReportError.TASK_EXPIRED: 7,
        ReportError.INVALID_MESSAGE: 8,
        ReportError.REPORT_TOO_EARLY: 9,
        ReportError.TASK_NOT_STARTED: 10,
        ReportError.OUTDATED_CONFIG: 11,
        **_OF_PERMITS,
    },
    at_upload={
        ReportError.HPKE_UNKNOWN_CONFIG_ID: ReportError.OUTDATED_CONFIG,
        ReportError.TASK_EXPIRED: ReportError.REPORT_DROPPED,
        ReportError.TASK_NOT_STARTED: ReportError.REPORT_DROPPED,
        ReportError.UNSUPPORTED_EXTENSION: ReportError.INVALID_MESSAGE,
    },
    at_aggregation={
        ReportError.HPKE_UNKNOWN_CONFIG_ID: ReportError.HPKE_DECRYPT_ERROR,
        ReportError.UNSUPPORTED_EXTENSION: ReportError.INVALID_MESSAGE,
    },
)
"""The profile of `aggregator.DAP_DRAFT`, and of a task that names none."""

DAP_19 = Profile(
    name="dap-19",
    tag=b"dap-19",
    min_task_info_size=0,
    codes={
        ReportError.BATCH_COLLECTED: 1,
        ReportError.REPORT_REPLAYED: 2,
        ReportError.REPORT_DROPPED: 3,
        ReportError.HPKE_UNKNOWN_CONFIG_ID: 4,
        ReportError.HPKE_DECRYPT_ERROR: 5,
        ReportError.VDAF_VERIFY_ERROR: 6,
        ReportError.INVALID_MESSAGE: 7,
        ReportError.REPORT_TOO_EARLY: 8,
        ReportError.UNKNOWN_VERIFICATION_KEY_ID: 9,
        ReportError.UNSUPPORTED_EXTENSION: 10,
        **_OF_PERMITS,
    },
    at_upload={
        ReportError.TASK_EXPIRED: ReportError.REPORT_DROPPED,
        ReportError.TASK_NOT_STARTED: ReportError.REPORT_DROPPED,
    },
    at_aggregation={
        ReportError.TASK_EXPIRED: ReportError.REPORT_DROPPED,
        ReportError.TASK_NOT_STARTED: ReportError.REPORT_DROPPED,
    },
)
"""The next draft: another tag, report errors with other numbers, and `task_info` may be empty."""

JANUS = replace(
    DAP_18,
    name="janus",
    codes={error: code for error, code in DAP_18.codes.items() if error not in _OF_PERMITS},
    # It says 4 itself, and cannot read an answer to an upload that has an 11 in it.
    at_upload={
        error: word
        for error, word in DAP_18.at_upload.items()
        if error is not ReportError.HPKE_UNKNOWN_CONFIG_ID
    },
    at_aggregation={ReportError.UNSUPPORTED_EXTENSION: ReportError.INVALID_MESSAGE},
    creator_names=True,
    seals_anew=True,
)
"""DAP-18 with the resources of Janus."""

JANUS_2026_08_20 = replace(JANUS, name="janus-2026-08-20", framing=WITH_LENGTHS)
"""`JANUS` with the messages that Janus had at commit 4ab28a36."""

PROFILES: Mapping[str, Profile] = {
    each.name: each for each in (DAP_18, DAP_19, JANUS, JANUS_2026_08_20)
}
"""Every profile by the name that a task file has for it."""


def profile_named(name: str) -> Profile:
    """Return the profile of this name, or raise `ParameterError`."""
    if name not in PROFILES:
        raise ParameterError(f"profile: must be {' or '.join(PROFILES)}, not {name!r}")
    return PROFILES[name]
