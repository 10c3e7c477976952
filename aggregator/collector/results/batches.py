"""One collected batch with labels, in a form to calculate with."""

import dataclasses
from collections.abc import Mapping, Sequence
from fractions import Fraction

from typing_extensions import override

from aggregator.collector.results.ratios import Ratio, ratio
from aggregator.collector.results.result import Result
from aggregator.collector.results.selection import Selected, Withheld
from aggregator.collector.results.tables import Table
from aggregator.collector.results.values import Noised, Quantity, not_noised, total
from aggregator.dp.sensitivity import max_entry
from aggregator.dp.utility import DEFAULT_CONFIDENCE
from aggregator.errors import ParameterError
from aggregator.protocol.attribution import with_budget
from aggregator.protocol.summary import guarantee_in_short
from aggregator.protocol.task import Task
from aggregator.written_times import counted


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Batch:
    """The released values of one collection.

    Attributes:
        values: The noised values by label; `Selected` if shown only because it is above a
            threshold; None if the policy withholds it.
        report_count: How many reports there are: public and exact, by the leader's word.
        start: The first second of the interval that holds the reports, since the epoch.
        end: The second after its last.
        guarantee: What people are promised, in a few words.
        of_some: For each number that only people with a certain answer add to: the label of the
            count of these people.
        most_of_one: The most that one report adds to each value.
    """

    values: Mapping[str, Noised | Selected | None]
    report_count: int
    start: int
    end: int
    guarantee: str = ""
    of_some: Mapping[str, str] = dataclasses.field(default_factory=dict)
    most_of_one: Mapping[str, int] = dataclasses.field(default_factory=dict)

    @classmethod
    def of_result(
        cls, task: Task, result: Result, labels: Sequence[str] = (), unit: str = ""
    ) -> "Batch":
        """Return the batch of a `Result`, as `TaskCollector.collect` returns it.

        Args:
            task: The collector's own view of the task: it has the law of the noise.
            result: A result of that task.
            labels: The labels of the values, in order; their numbers by default.
            unit: The unit of the values.

        Raises:
            ParameterError: There are not as many labels as values, or two are the same.
        """
        start, end = result.interval.start.units, result.interval.end.units
        seconds = start * task.time_precision, end * task.time_precision
        of_its_own = with_budget(task, result.min_dp_budget)
        return cls._of(
            of_its_own, result.values, result.report_count, seconds, result.release, labels, unit
        )

    @classmethod
    def of_document(
        cls, task: Task, document: Mapping[str, object], labels: Sequence[str] = (), unit: str = ""
    ) -> "Batch":
        """Return the batch of a collection's JSON document; arguments as in `of_result`.

        Raises `ParameterError` if the document is malformed, of another task, or holds no result.
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
                budget = result.get("min_dp_budget")
                of_its_own = with_budget(task, budget if isinstance(budget, int) else None)
                return cls._of(of_its_own, values, count, (start, end), release, labels, unit)
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
        shown: dict[str, Noised | Selected | None] = {}
        entries = (max_entry(part) for part in circuit.parts() for _ in range(part.output_len))
        most_of_one = dict(zip(names, entries, strict=True))
        for index, (name, value, limit) in enumerate(zip(names, values, limits, strict=True)):
            if value is None:
                shown[name] = None
                continue
            key = str(task.task_id), release, index
            law = laws[index]
            noised = Noised.released(value, law, key, label=name, unit=unit)
            shown[name] = noised
            if limit is not None and law is not None:
                most = report_count * most_of_one[name]
                shown[name] = Selected(noised, limit, most=most, label=name, unit=unit)
        start, end = seconds
        of_some = {names[entry]: names[answer] for entry, answer in circuit.given_by().items()}
        said = guarantee_in_short(task)
        return cls(shown, report_count, start, end, said, of_some, most_of_one)

    def __getitem__(self, label: str) -> Noised | Selected:
        """Return the value of a label; `Selected` if it is shown because it passed a threshold.

        Raises `ParameterError` if there is no such label, or its value is withheld.
        """
        if label not in self.values:
            raise ParameterError(f"there is no {label!r}, only {', '.join(self.values)}")
        value = self.values[label]
        if value is None:
            raise ParameterError(f"{label!r} is withheld by the task's policy")
        return value

    def plain(self) -> list[Noised]:
        """Return all values in their order, to calculate with.

        Raises `ParameterError` if one is withheld, or is shown because it passed a threshold.
        """
        return [self._calculable(label) for label in self.values]

    @property
    def shown(self) -> list[Noised | Selected]:
        """The values that are shown, in their order."""
        return [value for value in self.values.values() if value is not None]

    def share(self, label: str) -> Noised | Selected:
        """Return a value divided by the number of reports: a count's share, a sum's mean.

        Its interval is cut where no share or mean can be.

        Raises:
            ParameterError: Only some people add to the value; use `mean`.
        """
        if label in self.of_some:
            raise ParameterError(
                f"{label!r} is of those counted by {self.of_some[label]!r}, not of all reports: "
                "a share would take everybody else for 0; use `mean`"
            )
        value, most = self[label] / self.report_count, self.most_of_one.get(label)
        if isinstance(value, Selected) or most is None:
            return value
        return dataclasses.replace(value, least=Fraction(0), most=Fraction(most))

    def mean(self, *labels: str) -> Ratio:
        """Return the mean of a number over the people who gave the answer that it belongs to.

        Args:
            labels: The number's labels for one or several groups of people, taken as one group.

        Raises:
            ParameterError: A label does not name such a number.
        """
        if not labels:
            raise ParameterError("mean: name the numbers by their labels")
        for label in labels:
            if label not in self.of_some:
                raise ParameterError(f"{label!r} is no number that is given for an answer")
        numbers = total(self._calculable(label) for label in labels)
        counts = total(self._calculable(self.of_some[label]) for label in labels)
        name = f"mean of {', '.join(labels)}"
        most = Fraction(max(self.most_of_one[label] for label in labels))
        unit = self[labels[0]].unit
        return ratio(numbers, counts, label=name, unit=unit, least=Fraction(0), most=most)

    def _calculable(self, label: str) -> Noised:
        value = self[label]
        if isinstance(value, Selected):
            raise not_noised(value)
        return value

    def quantities(self) -> list[Quantity]:
        """Return a quantity for every value, `Withheld` for one that is not shown.

        Intervals take thresholds into account.
        """
        return [
            Withheld(self.report_count * self.most_of_one[label], label=label)
            if value is None
            else value
            for label, value in self.values.items()
        ]

    def table(
        self, confidence: Fraction = DEFAULT_CONFIDENCE, *, jointly: bool = False, title: str = ""
    ) -> Table:
        """Return the values with their intervals."""
        return Table(
            self.quantities(),
            confidence=confidence,
            jointly=jointly,
            title=title,
            guarantee=self.guarantee,
        )

    @override
    def __repr__(self) -> str:
        """Show the guarantee, how many reports there are, and each value on a line."""
        values = [repr(value) for value in self.quantities()]
        return "\n".join(
            filter(None, [self.guarantee, counted(self.report_count, "report"), *values])
        )

    def _repr_html_(self) -> str:
        """Return the table with the guarantee above it, for a notebook."""
        return self.table()._repr_html_()
