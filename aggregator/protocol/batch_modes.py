"""What a batch mode decides: the bucket of a report, and the batch that a query asks for.

Everything else, closing, counting, charging and destroying, is the same in every mode and takes a
`Batch`. A mode is one file with one subclass, and its row in `task.BATCH_MODES`.

Source: DAP, "Batch Modes".
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import ClassVar

from aggregator.dap.extensions import Extensions
from aggregator.dap.messages import BatchSelector, Query
from aggregator.dap.times import Interval, Time
from aggregator.dp.window import Window
from aggregator.protocol.batches import Batch


class Batching(ABC):
    """How a task's reports fall into batches."""

    leader_selects: ClassVar[bool] = False
    """Whether the leader decides which reports go together and which batch answers a query. Equal
    queries then ask for one batch after the other (`storage.batches.selected`)."""

    collector_selects: ClassVar[bool] = False
    """Whether a batch is what is uploaded below its collection job. Equal requests are then jobs of
    their own, and a batch that comes to nothing lets its reports go (`storage.reports.bound`)."""

    has_ids: ClassVar[bool] = False
    """Whether a batch has an id, instead of an interval of time."""

    @abstractmethod
    def bucket(self, time: Time, job: Extensions = ()) -> bytes:
        """Return the key of the bucket that a report falls in.

        Args:
            time: The report's.
            job: The extensions of the report's aggregation job. In a mode where the job decides, a
                report without a job is in no batch and its key is empty.
        """

    @abstractmethod
    def job_extensions(self, bucket: bytes) -> Extensions:
        """Return the extensions of an aggregation job whose reports all fall in a bucket.

        The bucket's key is empty where jobs do not decide the bucket.
        """

    @abstractmethod
    def check_job(self, extensions: Extensions) -> None:
        """Check the extensions of an aggregation job.

        Raises `UnsupportedExtension` if one is unknown, or does not apply in this mode;
        `InvalidMessage` if one is missing that this mode needs, or is not encoded as it must be.
        """

    @abstractmethod
    def query(self, named: Mapping[str, int], time_precision: int) -> Query:
        """Return the query for the batch that a person named, in a command or a JSON document.

        Equal names give equal queries. Raises `BatchInvalid`, which says what is missing, unknown
        or out of range.
        """

    @abstractmethod
    def named(self, query: Query, time_precision: int) -> Mapping[str, int]:
        """Return what names the batch of one of our own queries, the inverse of `query`."""

    @abstractmethod
    def asked(self, query: Query, latest: Time, time_precision: int) -> Batch | None:
        """Return the batch that a collector's query asks for; None if the leader selects it.

        Args:
            query: The query.
            latest: The last unit of time that may be asked for: collecting the future would shut
                out reports yet to come.
            time_precision: Seconds per unit of the task's times.

        Raises:
            InvalidMessage: It is of another mode.
            BatchInvalid: It determines no batch.
            BatchNotOver: It may not be asked for yet.
        """

    @abstractmethod
    def check_window(
        self, asked: Query | BatchSelector, window: Window, time_precision: int
    ) -> None:
        """Refuse, as `BatchInvalid`, a batch that is not exactly one of the policy's windows."""

    def smallest_batch(self, bucket: bytes, window: Window | None) -> Batch:  # noqa: ARG002  where time does not decide
        """Return the smallest batch that can be asked for and holds a bucket.

        Args:
            bucket: The bucket's key.
            window: The windows that the task's policy binds into its reports, if any.
        """
        return Batch(bucket, bucket)

    @abstractmethod
    def selected(self, selector: BatchSelector, query: Query) -> Batch:
        """Return the batch that the leader selected for the collector's query.

        Raises `InvalidMessage` if one of them is of another mode; `BatchInvalid` if they determine
        no batch, or the selector does not fit the query.
        """

    @abstractmethod
    def may_span(self, query: Query, interval: Interval) -> bool:
        """Return whether the reports that answer a query may span an interval of times."""

    @abstractmethod
    def selector(self, batch: Batch) -> BatchSelector:
        """Return what identifies a batch to the helper."""

    @abstractmethod
    def described(self, batch: Batch, time_precision: int) -> Mapping[str, int | str]:
        """Return what identifies a batch to a person, as members of a JSON document."""
