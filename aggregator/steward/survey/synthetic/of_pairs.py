"""Functions of pairs of answers, such as correlations and linear regressions, with intervals.

A function is computed from the released pairs themselves and not from synthetic rows. Its interval
comes from copies of the release with fresh noise of the same laws, so it is approximate: the
function is taken to be nearly linear where the noise leads, and its own noise to be nearly normal.
"""

import dataclasses
import itertools
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from statistics import NormalDist
from typing import TypeAlias

import numpy as np
from typing_extensions import override

from aggregator.collector.results import ConfidenceInterval, Quantity
from aggregator.collector.results.intervals import NO_LOWER, NO_UPPER
from aggregator.collector.results.values import Source
from aggregator.dp.certified import to_float
from aggregator.dp.laws import DiscreteLaplaceLaw, NoiseLaw
from aggregator.dp.utility import DEFAULT_CONFIDENCE
from aggregator.errors import ParameterError
from aggregator.steward.survey.synthetic.agreement import Agreed, agreed
from aggregator.steward.survey.synthetic.tables import Column, Floats, Layout, Released

COPIES = 200
_METHOD = f"normal, by {COPIES} copies with fresh noise"
_NO_BOUNDS = "none: the noise may be all of it"

Codes: TypeAlias = Mapping[str, Mapping[str, float]]
"""For each question, the number that stands for each label."""

Outcome: TypeAlias = float | Mapping[str, float]
Function: TypeAlias = Callable[[Floats, Floats], Outcome]
"""Returns one number or several by name, from the means and the covariance matrix."""


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class OfPairs(Quantity):
    """A figure computed from pairs, with the standard deviation of its noise; None is too much."""

    value: float
    deviation: float | None

    @property
    @override
    def estimate(self) -> Fraction | None:
        return Fraction(self.value) if np.isfinite(self.value) else None

    @override
    def interval(self, confidence: Fraction = DEFAULT_CONFIDENCE) -> ConfidenceInterval:
        if self.deviation is None or self.estimate is None:
            return ConfidenceInterval(NO_LOWER, NO_UPPER, confidence, _NO_BOUNDS)
        half = NormalDist().inv_cdf(1 - float(1 - confidence) / 2) * self.deviation
        return ConfidenceInterval(self.value - half, self.value + half, confidence, _METHOD)

    @override
    def sources(self) -> frozenset[Source]:
        return frozenset()


def figures_of_pairs(
    released: Released,
    function: Function,
    questions: Sequence[str] | Codes,
    generator: np.random.Generator,
) -> list[OfPairs]:
    """Return what a function makes of the means and covariances of some questions.

    Means are of the people who answered; a correlation is of those who answered both.

    Args:
        released: The released counts.
        function: Gets the means and the covariance matrix, in the order of the questions.
        questions: Their names, or for each the number that stands for each label. By default it
            is what a row has if that is a number; otherwise labels are 0, 1, 2 and so on.
        generator: The randomness of the copies.

    Raises:
        ParameterError: There is no such question or label, two are in no table, or the released
            covariance matrix is not positive definite.
    """
    layout = released.layout
    chosen, codes = _coded(layout, questions)
    for of, by in itertools.combinations(chosen, 2):
        layout.check_pair(of, by)
    plain = agreed(layout, released.ones, released.tables, released.people)
    means, covariances = moments(layout, plain, chosen, codes)
    if not _is_definite(covariances):
        raise ParameterError(
            "questions: the noise is larger than what these pairs show: their covariance matrix "
            "is not positive definite"
        )
    found = _named(function(means, covariances))
    copies = _copies(released, generator)
    all_means, all_covariances = moments(layout, copies, chosen, codes)
    if not all(map(_is_definite, all_covariances)):
        return [OfPairs(value, None, label=name) for name, value in found.items()]
    made = [_named(function(*each)) for each in zip(all_means, all_covariances, strict=True)]
    return [
        OfPairs(value, float(np.std([each[name] for each in made], ddof=1)), label=name)
        for name, value in found.items()
    ]


def moments(
    layout: Layout, made: Agreed, chosen: Sequence[int], codes: Sequence[Floats]
) -> tuple[Floats, Floats]:
    """Return means and covariances; axes in front of the counts' own, such as copies, stay."""
    means, spreads = [], []
    for column, code in zip(chosen, codes, strict=True):
        counts = made.ones[column][..., :-1]
        whole = counts.sum(axis=-1)
        mean = counts @ code / whole
        means.append(mean)
        spreads.append(np.sqrt(np.maximum(counts @ code**2 / whole - mean**2, 0)))
    covariances = np.stack([each**2 for each in spreads], axis=-1)[..., None] * np.eye(len(chosen))
    for at, of in enumerate(chosen):
        for other, by in enumerate(chosen[:at]):
            place = layout.pair_at[of, by]
            cells = made.tables[place][..., :-1, :-1]
            of_rows, of_columns = at, other
            if layout.pairs[place].of != of:
                of_rows, of_columns = other, at
            both = _correlation(cells, codes[of_rows], codes[of_columns])
            covariance = both * spreads[at] * spreads[other]
            covariances[..., at, other] = covariances[..., other, at] = covariance
    return np.stack(means, axis=-1), covariances


def _correlation(cells: Floats, rows: Floats, columns: Floats) -> Floats:
    whole = cells.sum(axis=(-2, -1))
    of_rows, of_columns = cells.sum(axis=-1), cells.sum(axis=-2)
    mean, other = of_rows @ rows / whole, of_columns @ columns / whole
    product = np.einsum("...ij,i,j->...", cells, rows, columns) / whole - mean * other
    variance = of_rows @ rows**2 / whole - mean**2
    other_variance = of_columns @ columns**2 / whole - other**2
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(product / np.sqrt(variance * other_variance))


def _coded(layout: Layout, questions: Sequence[str] | Codes) -> tuple[list[int], list[Floats]]:
    names = [questions] if isinstance(questions, str) else list(questions)
    if len(set(names)) < len(names) or len(names) < 2:  # noqa: PLR2004  a pair
        raise ParameterError("questions: must be two or more, each once")
    chosen = [layout.column(name) for name in names]
    given = questions if isinstance(questions, Mapping) else {}
    return chosen, [
        _codes(layout.columns[column], given.get(layout.columns[column].name)) for column in chosen
    ]


def _codes(column: Column, given: Mapping[str, float] | None) -> Floats:
    if given is None:
        written = column.written[:-1]
        numbers = [each for each in written if isinstance(each, int | float)]
        return np.array(numbers if len(numbers) == len(written) else range(len(written)), float)
    codes = np.full(column.size, np.nan)
    for label, number in given.items():
        codes[column.label_place(label)] = number
    if np.isnan(codes[:-1]).any():
        missing = column.labels[int(np.flatnonzero(np.isnan(codes[:-1]))[0])]
        raise ParameterError(f"questions: {column.name}: {missing!r} has no number")
    return codes[:-1]


def _is_definite(covariances: Floats) -> bool:
    return bool(np.isfinite(covariances).all() and np.linalg.eigvalsh(covariances)[0] > 0)


def _named(outcome: Outcome) -> dict[str, float]:
    if isinstance(outcome, Mapping):
        return {str(name): float(value) for name, value in outcome.items()}
    return {"": float(outcome)}


def _copies(released: Released, generator: np.random.Generator) -> Agreed:
    """Return copies of the released counts with fresh noise, made to agree."""
    layout = released.layout
    ones = [
        counts + noise(layout, each.first, (COPIES, *counts.shape), generator)
        for each, counts in zip(layout.columns, released.ones, strict=True)
    ]
    tables = [
        table + noise(layout, each.first, (COPIES, *table.shape), generator)
        for each, table in zip(layout.pairs, released.tables, strict=True)
    ]
    return agreed(layout, ones, tables, released.people)


def noise(
    layout: Layout, entry: int, shape: tuple[int, ...], generator: np.random.Generator
) -> Floats:
    """Return noise of the law of an entry, as of all windows together."""
    law = layout.laws[entry]
    return sum((_drawn(law, shape, generator) for _ in range(layout.windows)), np.zeros(shape))


def _drawn(law: NoiseLaw | None, shape: tuple[int, ...], generator: np.random.Generator) -> Floats:
    if law is None:
        return np.zeros(shape)
    if isinstance(law, DiscreteLaplaceLaw):
        parts = (generator.laplace(0, float(law.scale), shape) for _ in range(law.aggregators))
        return sum(parts, np.zeros(shape))
    return generator.normal(0, to_float(law.variance()) ** 0.5, shape)
