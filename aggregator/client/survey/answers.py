"""What a question accepts as an answer, and what the answer adds to its entries of a report.

Nothing here reveals the answer, not even an error: an application may log errors anywhere.
"""

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import TypeAlias

from typing_extensions import override

from aggregator.client.survey.alternatives import Alternatives, Labels, comparable
from aggregator.client.survey.numbers import Grid, Unfit, is_nothing
from aggregator.errors import ParameterError

Entries: TypeAlias = list[int]
"""What a person adds to the sums of some sections."""

Answer: TypeAlias = tuple[int, ...]
"""What one person answered, in whole numbers: places of labels, or steps above the least number."""


class AnswerError(ParameterError):
    """An answer that a question does not take: the message names the question and what it takes.

    The name is empty if the survey has no question of the given name.
    """

    def __init__(self, question: str, problem: str) -> None:
        super().__init__(f"{question or 'answers'}: {problem}")
        self.question = question


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Question(ABC):
    """A question as it is asked; giving no answer adds the entries `nothing`."""

    name: str
    nothing: Sequence[int] = dataclasses.field(repr=False)

    def read(self, answer: object) -> Answer | None:
        """Return an answer in whole numbers; None, a blank text or NaN is none.

        Raises `AnswerError` if the question does not take it.
        """
        if is_nothing(answer):
            return None
        try:
            return self.parse(answer)
        except Unfit as unfit:
            raise AnswerError(self.name, str(unfit)) from None

    @abstractmethod
    def parse(self, answer: object) -> Answer | None:
        """Return an answer in whole numbers, or raise `Unfit`; None if parts of it are missing."""

    def added(self, answer: Answer | None) -> Entries:
        """Return what an answer adds that was read; None is no answer."""
        return list(self.nothing) if answer is None else self._added(answer)

    @abstractmethod
    def _added(self, answer: Answer) -> Entries:
        """Return what an answer adds."""

    @property
    def length(self) -> int:
        """How many entries it has."""
        return len(self.nothing)

    @property
    def choices(self) -> Sequence[str]:
        """The labels that a person chooses from, one entry each; empty if there are none."""
        return ()

    @property
    def makes_groups(self) -> bool:
        """Whether each person is in one of its first entries: tables can be made by these."""
        return False

    @abstractmethod
    def sections(self, first: int) -> list[str]:
        """Return its sections, numbered from `first` on."""

    def data(self) -> dict[str, object]:
        """Return what another interpreter needs, as JSON has it."""
        return {"name": self.name, "nothing": list(self.nothing)}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class One(Question):
    """One answer of several: each adds one to the entries `ones` of sections of these `lengths`."""

    alternatives: Alternatives = dataclasses.field(repr=False)
    ones: Sequence[Sequence[int]] = dataclasses.field(repr=False)
    lengths: Sequence[int]

    @override
    def parse(self, answer: object) -> Answer:
        return (self.alternatives.place(answer),)

    @override
    def _added(self, answer: Answer) -> Entries:
        (place,) = answer
        return ones_at(self.ones[place], len(self.nothing))

    @property
    @override
    def choices(self) -> Sequence[str]:
        return self.alternatives.choices if self.makes_groups else ()

    @property
    @override
    def makes_groups(self) -> bool:
        return len(self.lengths) == 1

    @override
    def sections(self, first: int) -> list[str]:
        return [f"onehot:{length}" for length in self.lengths]

    @override
    def data(self) -> dict[str, object]:
        ones = [list(each) for each in self.ones]
        return {**Question.data(self), "kind": "one", **self.alternatives.data(), "ones": ones}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Some(Question):
    """Any of several labels, at most `most`; an empty list is an answer too: that none applies."""

    labels: Labels = dataclasses.field(repr=False)
    most: int

    @override
    def parse(self, answer: object) -> Answer:
        if isinstance(answer, str) or not isinstance(answer, Sequence | AbstractSet):
            raise Unfit(f"must be a list of labels, each of them {self.labels.said}")
        places = set[int]()
        for at, each in enumerate(answer):
            try:
                places.add(self.labels.place(each))
            except Unfit as unfit:
                raise Unfit(str(unfit), at) from None
        if len(places) != len(answer):
            raise Unfit("must have no label twice")
        if len(places) > self.most:
            raise Unfit(f"must be at most {self.most} labels")
        return tuple(sorted(places))

    @override
    def _added(self, answer: Answer) -> Entries:
        return ones_at(answer, len(self.nothing))

    @property
    @override
    def choices(self) -> Sequence[str]:
        return self.labels.choices

    @override
    def sections(self, first: int) -> list[str]:
        return [f"atmost:{len(self.nothing)},{self.most}"]

    @override
    def data(self) -> dict[str, object]:
        more = {"kind": "some", **self.labels.data(), "at_most": self.most}
        return {**Question.data(self), **more}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Amount(Question):
    """A number whose powers are summed, or whose values are counted one by one.

    Attributes:
        grid: The possible numbers.
        powers: How many powers of it are summed; 0 if each value is counted.
    """

    grid: Grid
    powers: int

    @override
    def parse(self, answer: object) -> Answer:
        return (self.grid.place(answer),)

    @override
    def _added(self, answer: Answer) -> Entries:
        (steps,) = answer
        if self.powers:
            return [1, 0, *(steps**power for power in range(1, self.powers + 1))]
        return ones_at(answer, len(self.nothing))

    @override
    def sections(self, first: int) -> list[str]:
        if not self.powers:
            return [f"onehot:{len(self.nothing)}"]
        return ["onehot:2", *(f"given:{first},1,{each}" for each in self.largest)]

    @property
    def largest(self) -> tuple[int, ...]:
        """The most that a person adds to each of its powers that are summed."""
        return tuple(self.grid.steps**power for power in range(1, self.powers + 1))

    @override
    def data(self) -> dict[str, object]:
        more = {"kind": "number", "grid": self.grid.data(), "powers": self.powers}
        return {**Question.data(self), **more}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Amounts(Question):
    """Several numbers at once, by their names; if one is left out, none was answered."""

    grids: Mapping[str, Grid]

    @override
    def parse(self, answer: object) -> Answer | None:
        said = f"must be a table of numbers by these names: {', '.join(self.grids)}"
        if not isinstance(answer, Mapping):
            raise Unfit(said)
        named = {comparable(str(name)): each for name, each in answer.items()}
        if len(named) < len(answer) or not named.keys() <= set(map(comparable, self.grids)):
            raise Unfit(said)
        given = [named.get(comparable(name)) for name in self.grids]
        if any(map(is_nothing, given)):
            return None
        steps = []
        for at, (name, grid) in enumerate(self.grids.items()):
            try:
                steps.append(grid.place(given[at]))
            except Unfit as unfit:
                raise type(unfit)(f"{name}: {unfit}", at) from None
        return tuple(steps)

    @override
    def _added(self, answer: Answer) -> Entries:
        return [1, 0, *answer]

    @override
    def sections(self, first: int) -> list[str]:
        return ["onehot:2", *(f"given:{first},1,{grid.steps}" for grid in self.grids.values())]

    @override
    def data(self) -> dict[str, object]:
        grids = [{"name": name, "grid": grid.data()} for name, grid in self.grids.items()]
        return {**Question.data(self), "kind": "numbers", "columns": grids}


def ones_at(places: Sequence[int], length: int) -> Entries:
    """Return ones among zeros."""
    entries = [0] * length
    for place in places:
        entries[place] = 1
    return entries
