"""One collected batch with labels: what a collector has, made to calculate with."""

import dataclasses
from collections.abc import Mapping, Sequence
from fractions import Fraction

from aggregator.collector.results.selection import Selected
from aggregator.collector.results.tables import Table
from aggregator.collector.results.values import Noised, Quantity
from aggregator.dp.sensitivity import max_entry
from aggregator.errors import ParameterError
from aggregator.protocol.results import DEFAULT_CONFIDENCE, Result
from aggregator.protocol.task import Task


@dataclasses.dataclass(frozen=True, eq=False)
class Batch:
    """The released values of one collection.

    Attributes:
        values: By label, as noised; None in place of one that the policy withholds.
        report_count: How many reports: public and exact, by the leader's word.
        start: The first second of the interval that holds the reports, since the epoch.
        end: The second after its last.
        thresholds: By label, of those values that are shown only above one.
        max_entry: The most that one report adds to a value.
    """

    values: Mapping[str, Noised | None]
    report_count: int
    start: int
    end: int
    thresholds: Mapping[str, int] = dataclasses.field(default_factory=dict)
    max_entry: int = 1

    @classmethod
    def of_result(
        cls, task: Task, result: Result, labels: Sequence[str] = (), unit: str = ""
    ) -> "Batch":
        """Return what a collector library's `collect` gave.

        Args:
            task: The collector's own view of the task: it has the law of the noise.
            result: Of that task.
            labels: Of the values in their order; their numbers unless given.
            unit: In what they are measured.

        Raises:
            ParameterError: There are not as many labels as values, or two are the same.
        """
        start, end = result.interval.start.units, result.interval.end.units
        seconds = start * task.time_precision, end * task.time_precision
        return cls._of(
            task, result.values, result.report_count, seconds, result.release, labels, unit
        )

    @classmethod
    def of_document(
        cls, task: Task, document: Mapping[str, object], labels: Sequence[str] = (), unit: str = ""
    ) -> "Batch":
        """Return the result of a collection's JSON document; arguments as those of `of_result`.

        Raises:
            ParameterError: The document is of another task, holds no result, or is none.
        """
        result = document.get("result", document)
        if not isinstance(result, Mapping):
            raise ParameterError("document: the collection has no result yet")
        if result.get("task_id") != str(task.task_id):
            raise ParameterError(f"document: it is not of the task {task.task_id}")
        match result:
            case {
                "values": [*values],
                "report_count": int(count),
                "interval": {"start": int(start), "end": int(end)},
                "release": str(release),
            } if all(value is None or isinstance(value, int) for value in values):
                return cls._of(task, values, count, (start, end), release, labels, unit)
            case _:
                raise ParameterError(
                    "document: it has not the values, report_count, interval and release of a "
                    "result"
                )

    @classmethod
    def _of(
        cls,
        task: Task,
        values: Sequence[int | None],
        report_count: int,
        seconds: tuple[int, int],
        release: str,
        labels: Sequence[str],
        unit: str,
    ) -> "Batch":
        if len(values) != task.prio3.circuit.output_len:
            raise ParameterError(
                f"values: the task has {task.prio3.circuit.output_len}, not {len(values)}"
            )
        names = list(labels) or [str(index) for index in range(len(values))]
        if len(names) != len(values) or len(set(names)) != len(names):
            raise ParameterError(
                f"labels must be {len(values)} different texts, one for each value, not {names}"
            )
        circuit, policy = task.prio3.circuit, task.policy
        laws = [law for run, law in policy.mechanism.laws(circuit) for _ in range(run)]
        limits: Sequence[int | None] = [None] * len(values)
        if policy.thresholds is not None:
            limits = policy.thresholds.of_buckets(circuit, policy.mechanism)
        start, end = seconds
        return cls(
            values={
                name: None
                if value is None
                else Noised.released(
                    value, laws[index], (str(task.task_id), release, index), label=name, unit=unit
                )
                for index, (name, value) in enumerate(zip(names, values, strict=True))
            },
            report_count=report_count,
            start=start,
            end=end,
            thresholds={
                name: limit for name, limit in zip(names, limits, strict=True) if limit is not None
            },
            max_entry=max_entry(circuit),
        )

    def __getitem__(self, label: str) -> Noised:
        """Return the value of a label.

        Raises:
            ParameterError: There is no such label, or its value is withheld.
        """
        if label not in self.values:
            raise ParameterError(f"there is no {label!r}, only {', '.join(self.values)}")
        value = self.values[label]
        if value is None:
            raise ParameterError(f"{label!r} is withheld by the task's policy")
        return value

    @property
    def shown(self) -> list[Noised]:
        """The values that are shown, in their order."""
        return [value for value in self.values.values() if value is not None]

    def share(self, label: str) -> Noised:
        """Return a value for each report: of a count its share, of a sum the mean."""
        return self[label] / self.report_count

    def quantities(self) -> list[Quantity]:
        """Return the values that are shown; those above a threshold with intervals that know it."""
        return [
            value
            if label not in self.thresholds or not value.terms
            else Selected(
                value,
                self.thresholds[label],
                most=self.report_count * self.max_entry,
                label=label,
                unit=value.unit,
            )
            for label, value in self.values.items()
            if value is not None
        ]

    def table(
        self, confidence: Fraction = DEFAULT_CONFIDENCE, *, jointly: bool = False, title: str = ""
    ) -> Table:
        """Return the values that are shown with their intervals."""
        return Table(self.quantities(), confidence=confidence, jointly=jointly, title=title)
