"""The leader-selected batch mode: the leader puts reports together as it makes aggregation jobs.

A bucket's key is a batch id, and a batch is one bucket. A report gets its bucket from its
aggregation job, whose extension carries the batch id to the helper; before that it has none. A
query asks for the next batch, whichever that is.

Batch ids are opaque to everybody but the leader. Ours begin with a serial number, so a task's keys
sort by age.

Source: DAP, "Leader-selected Batch Mode".
"""

from collections.abc import Mapping
from typing import ClassVar

from typing_extensions import override

from aggregator.dap.extensions import Extension, Extensions, find, unrecognized
from aggregator.dap.ids import BatchId
from aggregator.dap.messages import (
    BatchSelector,
    CollectorSelectedQuery,
    CollectorSelectedSelector,
    LeaderSelectedQuery,
    LeaderSelectedSelector,
    Query,
)
from aggregator.dap.problems import BatchInvalid, InvalidMessage, UnsupportedExtension
from aggregator.dap.profile import JOB_EXTENSION_BATCH_ID, BatchMode
from aggregator.dap.times import Interval, Time
from aggregator.dp.window import Window
from aggregator.entropy import Entropy
from aggregator.protocol.batch_modes import Batching
from aggregator.protocol.batches import Batch

_SERIAL_SIZE = 8


class LeaderSelected(Batching):
    """Reports fall into batches as the leader puts them into aggregation jobs."""

    leader_selects: ClassVar[bool] = True
    has_ids: ClassVar[bool] = True
    mode: ClassVar[BatchMode] = BatchMode.LEADER_SELECTED
    query_type: ClassVar[type[LeaderSelectedQuery | CollectorSelectedQuery]] = LeaderSelectedQuery
    selector_type: ClassVar[type[LeaderSelectedSelector | CollectorSelectedSelector]] = (
        LeaderSelectedSelector
    )
    who_selects: ClassVar[str] = "the leader selects its next batch"

    @override
    def bucket(self, time: Time, job: Extensions = ()) -> bytes:
        return find(job, JOB_EXTENSION_BATCH_ID) or b""

    @override
    def job_extensions(self, bucket: bytes) -> Extensions:
        return (Extension(JOB_EXTENSION_BATCH_ID, bucket),)

    @override
    def check_job(self, extensions: Extensions) -> None:
        unknown = unrecognized(extensions, {JOB_EXTENSION_BATCH_ID})
        if unknown:
            raise UnsupportedExtension(
                f"a {self.mode.name.lower()} task has no other aggregation job extension than "
                "leader_selected_batch_id",
                unsupported_extensions=list(unknown),
            )
        batch_id = find(extensions, JOB_EXTENSION_BATCH_ID)
        if batch_id is None:
            raise InvalidMessage("leader_selected_batch_id: missing; the job names no batch")
        if len(batch_id) != BatchId.size:
            raise InvalidMessage(
                f"leader_selected_batch_id: must be {BatchId.size} bytes, not {len(batch_id)}"
            )

    @override
    def query(self, named: Mapping[str, int], time_precision: int) -> Query:
        for name in named:
            raise BatchInvalid(
                f"{name}: the task is {self.mode.name.lower()}: {self.who_selects}, "
                "and none can be named"
            )
        return self.query_type()

    @override
    def named(self, query: Query, time_precision: int) -> Mapping[str, int]:
        return {}

    @override
    def asked(self, query: Query, latest: Time, time_precision: int) -> None:
        self._check_query(query)

    @override
    def check_window(
        self, asked: Query | BatchSelector, window: Window, time_precision: int
    ) -> None:
        raise BatchInvalid(f"batches of a {self.mode.name.lower()} task are no windows")

    @override
    def selected(self, selector: BatchSelector, query: Query) -> Batch:
        self._check_query(query)
        if not isinstance(selector, self.selector_type):
            raise self._other_mode()
        return Batch(selector.batch_id.value, selector.batch_id.value)

    @override
    def may_span(self, query: Query, interval: Interval) -> bool:
        return not interval.is_empty

    @override
    def selector(self, batch: Batch) -> BatchSelector:
        return self.selector_type(BatchId(batch.first))

    @override
    def described(self, batch: Batch, time_precision: int) -> Mapping[str, int | str]:
        return {"batch_id": str(BatchId(batch.first))}

    def _check_query(self, query: Query) -> None:
        if not isinstance(query, self.query_type):
            raise self._other_mode()

    def _other_mode(self) -> InvalidMessage:
        return InvalidMessage(f"the task's batch mode is {self.mode.name.lower()}")


def new_bucket(newest: bytes, entropy: Entropy) -> bytes:
    """Return the key of a task's new batch: a batch id that has not been used.

    Args:
        newest: The key of the task's newest batch; empty if there is none.
        entropy: Where the rest of the id comes from.
    """
    serial = int.from_bytes(newest[:_SERIAL_SIZE], "big") + 1
    return serial.to_bytes(_SERIAL_SIZE, "big") + entropy.bytes(BatchId.size - _SERIAL_SIZE)
