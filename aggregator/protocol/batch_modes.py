"""What a batch mode decides: the bucket of a report, and the batch that a query asks for.

Everything else, closing, counting, charging and destroying, is the same in every mode and takes a
`Batch`. A mode is one file with one subclass, and its row in `task.BATCH_MODES`; ADR 11 says what
one needs besides in which the leader chooses the batches.

Source: DAP, "Batch Modes".
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping

from aggregator.dap.extensions import Extensions
from aggregator.dap.messages import BatchSelector, Query, ReportMetadata
from aggregator.dap.times import Time
from aggregator.dp.window import Window
from aggregator.protocol.batches import Batch


class Batching(ABC):
    """How a task's reports fall into batches."""

    @abstractmethod
    def bucket(self, metadata: ReportMetadata, job: Extensions = ()) -> bytes:
        """Return the key of the bucket that a report falls in.

        Args:
            metadata: The report's.
            job: The extensions of the report's aggregation job, if it has one. A mode in which the
                job decides returns an empty key before that: the report is in no batch.
        """

    @abstractmethod
    def check_job(self, extensions: Extensions) -> None:
        """Check the extensions of an aggregation job.

        Raises:
            UnsupportedExtension: One is unknown, or does not apply in this mode.
        """

    @abstractmethod
    def batch_of(self, query: Query | BatchSelector) -> Batch:
        """Return the batch that a query asks for, or that a batch selector names.

        Raises:
            InvalidMessage: It is of another mode.
            BatchInvalid: It determines no batch.
        """

    @abstractmethod
    def check_reach(self, batch: Batch, latest: Time, time_precision: int) -> None:
        """Refuse a query that reaches into the future: it would shut out reports yet to come.

        Args:
            batch: What the query asks for.
            latest: The last unit of time that may be asked for.
            time_precision: Seconds per unit of the task's times.

        Raises:
            BatchInvalid: The batch holds a later unit.
        """

    @abstractmethod
    def check_window(self, batch: Batch, window: Window, time_precision: int) -> None:
        """Refuse a batch that is not exactly one of the task's windows.

        Args:
            batch: What a query asks for, or a selector names.
            window: The windows that the task's policy binds into its reports.
            time_precision: Seconds per unit of the task's times.

        Raises:
            BatchInvalid: It is not.
        """

    @abstractmethod
    def selected(self, selector: BatchSelector, query: Query) -> Batch:
        """Return the batch that the leader selected for the collector's query.

        Raises:
            InvalidMessage: One of them is of another mode.
            BatchInvalid: They determine no batch, or the selector does not fit the query.
        """

    @abstractmethod
    def selector(self, batch: Batch) -> BatchSelector:
        """Return what identifies a batch to the helper."""

    @abstractmethod
    def described(self, batch: Batch, time_precision: int) -> Mapping[str, int | str]:
        """Return what identifies a batch to a person, as members of a JSON document.

        Args:
            batch: The batch.
            time_precision: Seconds per unit of the task's times.
        """
