"""The states that a row can be in, and the verbs that move it.

The verbs take their `WHERE state IN (…)` from these tables, so a transition that is not listed here
cannot happen; `docs/data-model.md` draws them.
"""

import dataclasses
from enum import StrEnum


class AggregationJobState(StrEnum):
    """A Leader's aggregation job."""

    CREATED = "created"  # reports are claimed, nothing was sent
    SENT = "sent"  # the exact request is stored; the Helper may have seen it
    HELD = "held"  # the Helper's answers cannot be used; waits for an operator, reports kept
    FINISHED = "finished"  # aggregated on our side, report bodies dropped
    ABANDONED = "abandoned"  # given up by an operator; reports dropped, or free for another job


class CollectionJobState(StrEnum):
    """A Leader's collection job."""

    OPEN = "open"  # reports are uploaded below it, if its collector selects them; no driver's yet
    START = "start"  # waiting for reports, or for aggregation jobs to end
    FROZEN = "frozen"  # the batch takes no more reports; the Helper may have released
    FINISHED = "finished"  # both sealed shares stored
    FAILED = "failed"  # a problem document is stored; nothing was released
    DELETED = "deleted"  # the Collector has saved it or does not want it


class BatchState(StrEnum):
    """A closed batch; a batch without a row is open."""

    FROZEN = "frozen"  # no report is added; may open again
    COLLECTED = "collected"  # released, or never to be; its un-noised shares destroyed; for ever


class CollectionState(StrEnum):
    """A Collector's collection."""

    PENDING = "pending"  # the request is stored; the Leader may have answered with a job
    FINISHED = "finished"  # the result is stored
    FAILED = "failed"  # refused; the same batch may be asked for again
    ABANDONED = "abandoned"  # given up by a person, or a bundle that broke off; may be released


class ResourceState(StrEnum):
    """A Helper's stored answer."""

    LIVE = "live"  # repeated requests get these bytes
    DELETED = "deleted"  # the Leader deleted it; the row remains


class LedgerState(StrEnum):
    """One release in the ledger."""

    RESERVED = "reserved"  # the batch is frozen, nothing drawn by us
    CHARGED = "charged"  # released, or perhaps released by the Helper
    PRESUMED = "presumed"  # perhaps released, by a store that was lost and restored from a backup


@dataclasses.dataclass(frozen=True, slots=True)
class Transition:
    """`verb` takes a row from one of `sources` to `target`; without sources it creates the row."""

    verb: str
    sources: tuple[str, ...]
    target: str


@dataclasses.dataclass(frozen=True, slots=True)
class Machine:
    """The life of one kind of row."""

    name: str
    transitions: tuple[Transition, ...]

    def transition(self, verb: str) -> Transition:
        """Return the transition that `verb` makes."""
        return next(edge for edge in self.transitions if edge.verb == verb)


AGGREGATION_JOB = Machine(
    "aggregation job (Leader)",
    (
        Transition("create_aggregation_job", (), AggregationJobState.CREATED),
        Transition("store_request", (AggregationJobState.CREATED,), AggregationJobState.SENT),
        Transition("forget_request", (AggregationJobState.SENT,), AggregationJobState.CREATED),
        Transition("hold_aggregation_job", (AggregationJobState.SENT,), AggregationJobState.HELD),
        Transition("retry_aggregation_job", (AggregationJobState.HELD,), AggregationJobState.SENT),
        Transition(
            "finish_aggregation_job",
            (AggregationJobState.CREATED, AggregationJobState.SENT),
            AggregationJobState.FINISHED,
        ),
        Transition(
            "abandon_aggregation_job",
            (AggregationJobState.CREATED, AggregationJobState.SENT, AggregationJobState.HELD),
            AggregationJobState.ABANDONED,
        ),
    ),
)

COLLECTION_JOB = Machine(
    "collection job (Leader)",
    (
        Transition("create_collection_job", (), CollectionJobState.START),
        Transition("open_collection_job", (), CollectionJobState.OPEN),
        Transition("close_collection_job", (CollectionJobState.OPEN,), CollectionJobState.START),
        Transition("freeze_collection_job", (CollectionJobState.START,), CollectionJobState.FROZEN),
        Transition(
            "finish_collection_job", (CollectionJobState.FROZEN,), CollectionJobState.FINISHED
        ),
        Transition(
            "fail_collection_job",
            (CollectionJobState.START, CollectionJobState.FROZEN),
            CollectionJobState.FAILED,
        ),
        Transition(
            "abandon_collection_job",
            (CollectionJobState.OPEN, CollectionJobState.START, CollectionJobState.FROZEN),
            CollectionJobState.FAILED,
        ),
        Transition(
            "delete_collection_job",
            (
                CollectionJobState.OPEN,
                CollectionJobState.START,
                CollectionJobState.FROZEN,
                CollectionJobState.FINISHED,
                CollectionJobState.FAILED,
            ),
            CollectionJobState.DELETED,
        ),
    ),
)

ANSWERED_JOB = Machine(
    "answered aggregation job (Helper)",
    (
        Transition("put_answered_job", (), ResourceState.LIVE),
        Transition("delete_answered_job", (ResourceState.LIVE,), ResourceState.DELETED),
        Transition("delete_deferred_job", (), ResourceState.DELETED),
    ),
)

AGGREGATE_SHARE = Machine(
    "aggregate share (Helper)",
    (
        Transition("put_aggregate_share", (), ResourceState.LIVE),
        Transition("delete_aggregate_share", (ResourceState.LIVE,), ResourceState.DELETED),
    ),
)

CLOSED_BATCH = Machine(
    "batch (Leader; the Helper goes from open to collected at once)",
    (
        Transition("freeze", ("open",), BatchState.FROZEN),
        Transition("unfreeze", (BatchState.FROZEN,), "open"),
        Transition("mark_collected", (BatchState.FROZEN, "open"), BatchState.COLLECTED),
        Transition("drop", ("open",), BatchState.COLLECTED),
    ),
)

COLLECTION = Machine(
    "collection (Collector)",
    (
        Transition("put_collection", (), CollectionState.PENDING),
        Transition("finish_collection", (CollectionState.PENDING,), CollectionState.FINISHED),
        Transition("fail_collection", (CollectionState.PENDING,), CollectionState.FAILED),
        Transition("abandon_collection", (CollectionState.PENDING,), CollectionState.ABANDONED),
    ),
)

MACHINES = (
    AGGREGATION_JOB,
    COLLECTION_JOB,
    CLOSED_BATCH,
    ANSWERED_JOB,
    AGGREGATE_SHARE,
    COLLECTION,
)
