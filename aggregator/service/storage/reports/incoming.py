"""Reports on their way into the store: columns, and bodies one after another as they came.

A request's reports mostly have one width, and come one after another in its body. So the body goes
into a group as it is, and no report is an object of its own unless somebody asks for it.
"""

from bisect import bisect_right
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import accumulate
from typing import NamedTuple, Self, overload

from typing_extensions import override

from aggregator.service.storage.reports.groups import MOST_BYTES, MOST_REPORTS, Packed, StoredReport


class _Run(NamedTuple):
    """Encoded reports of one width, one after another."""

    content: bytes | memoryview
    width: int

    @property
    def rows(self) -> int:
        return len(self.content) // self.width

    def between(self, first: int, end: int) -> "_Run":
        """Return some of its reports, without a copy."""
        if (first, end) == (0, self.rows):
            return self
        return _Run(memoryview(self.content)[first * self.width : end * self.width], self.width)


class IncomingReports(Sequence[StoredReport]):
    """Reports as columns.

    Attributes:
        ids: Their ids, with which their bodies begin.
        buckets: The keys of their buckets; empty if a job will choose them.
        days: The days of their times (`Time.day`).
    """

    __slots__ = ("_runs", "buckets", "days", "ids")

    def __init__(
        self,
        ids: Sequence[bytes],
        buckets: Sequence[bytes],
        days: Sequence[int],
        content: bytes | memoryview,
        width: int,
    ) -> None:
        """Hold reports that lie one after another in `content`, `width` bytes each."""
        self.ids, self.buckets, self.days = ids, buckets, days
        self._runs = [_Run(content, width)] if ids else []

    @classmethod
    def _of_runs(
        cls,
        ids: Sequence[bytes],
        buckets: Sequence[bytes],
        days: Sequence[int],
        runs: list[_Run],
    ) -> Self:
        made = cls(ids, buckets, days, b"", 1)
        made._runs = runs
        return made

    @classmethod
    def of(cls, reports: Iterable[StoredReport]) -> Self:
        """Return reports that are objects as columns.

        Raises:
            ValueError: A body does not begin with its report's id.
        """
        if isinstance(reports, cls):
            return reports
        each = [*reports]
        if not all(report.body.startswith(report.report_id) for report in each):
            raise ValueError("the body of a report must begin with its id")
        return cls._of_runs(
            [report.report_id for report in each],
            [report.bucket for report in each],
            [report.day for report in each],
            [_Run(report.body, len(report.body)) for report in each],
        )

    @classmethod
    def joined(cls, several: Sequence[Self]) -> Self:
        """Return the reports of several, in order."""
        if len(several) == 1:
            return several[0]
        return cls._of_runs(
            [each for some in several for each in some.ids],
            [each for some in several for each in some.buckets],
            [each for some in several for each in some.days],
            [run for some in several for run in some._runs],  # noqa: SLF001  our own
        )

    @override
    def __len__(self) -> int:
        """Return how many reports there are."""
        return len(self.ids)

    @overload
    def __getitem__(self, place: int) -> StoredReport: ...
    @overload
    def __getitem__(self, place: slice) -> "list[StoredReport]": ...
    @override
    def __getitem__(self, place: int | slice) -> "StoredReport | list[StoredReport]":
        """Return a report as an object."""
        if isinstance(place, slice):
            return [self[each] for each in range(*place.indices(len(self)))]
        if not -len(self) <= place < len(self):
            raise IndexError(place)
        place %= len(self)
        ends = [*accumulate(run.rows for run in self._runs)]
        which = bisect_right(ends, place)
        run = self._runs[which]
        row = place - (ends[which] - run.rows)
        body = bytes(run.between(row, row + 1).content)
        return StoredReport(self.ids[place], self.buckets[place], self.days[place], body)

    @property
    def size(self) -> int:
        """The bytes of all bodies."""
        return sum([len(run.content) for run in self._runs])

    def heads(self, size: int) -> list[bytes]:
        """Return the first bytes of each body."""
        return [
            bytes(run.content[start : start + size])
            for run in self._runs
            for start in range(0, len(run.content), run.width)
        ]

    def pieces(self, most: int, most_bytes: int) -> Iterator["IncomingReports"]:
        """Yield the reports in pieces of at most so many reports and bytes; any single one fits.

        There is at least one piece, which may be empty.
        """
        if len(self) <= most and self.size <= most_bytes:
            yield self
            return
        runs: list[_Run] = []
        first = rows = size = 0
        for run in self._runs:
            start = 0
            while start < run.rows:
                room = min(most - rows, (most_bytes - size) // run.width)
                end = min(run.rows, start + (max(room, 0) if rows else max(room, 1)))
                if end == start:
                    yield self._between(first, first + rows, runs)
                    first, rows, size, runs = first + rows, 0, 0, []
                    continue
                runs.append(run.between(start, end))
                rows += end - start
                size += (end - start) * run.width
                start = end
        yield self._between(first, first + rows, runs)

    def _between(self, first: int, end: int, runs: list[_Run]) -> "IncomingReports":
        columns = self.ids[first:end], self.buckets[first:end], self.days[first:end]
        return self._of_runs(*columns, runs)

    def packed(self, without: Collection[int] = ()) -> Iterator[Packed]:
        """Yield reports in groups, none of which is too large.

        Args:
            without: The places of those to leave out.
        """
        alike: dict[tuple[bytes, int], list[_Run]] = {}
        end = 0
        for run in self._runs:
            first, end = end, end + run.rows
            buckets = self.buckets[first:end]
            if not without and buckets.count(buckets[0]) == len(buckets):  # nearly always
                alike.setdefault((buckets[0], run.width), []).append(run)
                continue
            for row, bucket in enumerate(buckets):
                if first + row not in without:
                    alike.setdefault((bucket, run.width), []).append(run.between(row, row + 1))
        for (bucket, width), runs in alike.items():
            most = min(MOST_REPORTS, max(1, MOST_BYTES // width))
            for body in _joined(runs, most):
                yield Packed(bucket, width, len(body) // width, body)


def _joined(runs: Iterable[_Run], most: int) -> Iterator[bytes]:
    """Yield the reports of runs of one width, at most so many together."""
    parts: list[bytes | memoryview] = []
    rows = 0
    for run in runs:
        start = 0
        while start < run.rows:
            end = min(run.rows, start + most - rows)
            parts.append(run.between(start, end).content)
            rows += end - start
            start = end
            if rows == most:
                yield b"".join(parts)  # one part that is bytes is not copied
                parts, rows = [], 0
    if parts:
        yield b"".join(parts)
