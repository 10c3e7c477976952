"""The released counts of answers and of pairs, as exact as they can be: each knows its law."""

import dataclasses
from collections.abc import Mapping, Sequence
from functools import cached_property

from aggregator.collector.results import Batch, Noised, total
from aggregator.collector.results.consistency import Consistent
from aggregator.steward.survey.synthetic.tables import Layout
from aggregator.vdaf.circuits import Sections


@dataclasses.dataclass(frozen=True, eq=False)
class Best:
    """The best estimates of a layout's columns and pairs, of one or several windows together."""

    layout: Layout
    circuit: Sections
    batches: Sequence[Batch]

    @property
    def people(self) -> int:
        """How many reports there are."""
        return sum(each.report_count for each in self.batches)

    @cached_property
    def _windows(self) -> list[Consistent]:
        return [
            Consistent(self.circuit, each.plain(), each.report_count)
            for each in self.batches
            if each.report_count
        ]

    @cached_property
    def _sections(self) -> dict[int, list[Noised]]:
        return {}

    def _section(self, number: int) -> list[Noised]:
        if number not in self._sections:
            found = (each.section(number) for each in self._windows)
            self._sections[number] = [total(values) for values in zip(*found, strict=True)]
        return self._sections[number]

    def one(self, column: int) -> list[Noised]:
        """Return how many people gave each answer to a question."""
        return self._section(self.layout.columns[column].section)

    def pair(self, of: int, by: int) -> list[list[Noised]]:
        """Return how many people gave each pair of answers; the two must be in a table."""
        place = self.layout.pair_at[of, by]
        pair = self.layout.pairs[place]
        values = self._section(pair.section)
        columns = self.layout.columns[pair.by].size
        rows = [values[at : at + columns] for at in range(0, len(values), columns)]
        return rows if pair.of == of else [list(each) for each in zip(*rows, strict=True)]

    def released(self, entries: Mapping[int, int]) -> Noised | None:
        """Return how many people gave some answers; None if no table counts them."""
        match list(entries.items()):
            case [(column, entry)]:
                return self.one(column)[entry]
            case [(of, row), (by, column)] if (of, by) in self.layout.pair_at:
                return self.pair(of, by)[row][column]
        return None
