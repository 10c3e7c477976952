"""Surveys of questions with labels whose answers are made up, and releases of them.

`made_up` has ten questions of five answers: two latent factors, a chain of three that begins at one
of them, and an interaction: one question follows from two others together, and from neither alone.
One person in twenty-five gives no answer to a question.
"""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

import numpy as np
from numpy.typing import NDArray

from aggregator.collector.results import Batch, Noised
from aggregator.dp.release import add_noise
from aggregator.steward.survey import Meaning, Plan, Sheet, Windows, plan, survey_from_toml
from aggregator.steward.survey.by_group import CountsByGroup
from aggregator.steward.survey.synthetic.tables import Released, layout_of
from field import Vector
from tests.support.entropy import SeededEntropy

Entries = NDArray[np.int64]

LABELS = 5
QUESTIONS = {f"q{number}": LABELS for number in range(10)}
GAUSSIAN = 'epsilon = "1"\ndelta = "1/1000000"'
LAPLACE = 'epsilon = "1"'

FIRST = datetime(2026, 1, 1, tzinfo=UTC)
_NO_ANSWER = 0.04


def survey_text(sizes: Mapping[str, int], budget: str = GAUSSIAN, tables: str = '"all"') -> str:
    """Return a survey of choices with so many labels each."""
    head = (
        'title = "Made up"\nasked = "people"\nwindow = "day"\nfirst = 2026-01-01\n'
        f"min_batch_size = 100\ntables = {tables}\n[budget]\n{budget}\nwindows = 9\n"
    )
    return head + "".join(
        f'[[question]]\nname = "{name}"\nkind = "choice"\n'
        f"labels = {[f'{name} {label}' for label in range(size)]}\n"
        for name, size in sizes.items()
    )


def planned(sizes: Mapping[str, int] = QUESTIONS, budget: str = GAUSSIAN) -> Plan:
    """Return the plan of such a survey, with all pairs."""
    return plan(survey_from_toml(survey_text(sizes, budget)))


def meaning_of(asked: Plan) -> Meaning:
    """Return what the numbers of a planned survey mean."""
    return Meaning("Made up", "people", Windows.of("day", FIRST), asked.sheet)


def made_up(people: int, random: np.random.Generator) -> Entries:
    """Return what people answer to the ten questions: places of labels, or 5 for no answer."""

    def cut(values: NDArray[np.float64]) -> Entries:
        edges = np.quantile(values, [0.15, 0.4, 0.65, 0.85])
        return np.searchsorted(edges, values).astype(np.int64)

    def noise() -> NDArray[np.float64]:
        return random.normal(size=people)

    one = noise()
    two = 0.5 * one + 0.75**0.5 * noise()
    columns = [cut(factor + 0.6 * noise()) for factor in (one, one, one, two, two)]
    link = two
    for _ in range(3):
        link = 0.8 * link + 0.6 * noise()
        columns.append(cut(link))
    left = random.integers(0, LABELS, people)
    sum_ = (left + columns[0] + (random.random(people) < 0.2)) % LABELS
    columns += [left, sum_]
    answers = np.stack(columns, axis=1)
    return without_some(answers, [LABELS] * len(columns), random)


def independent(people: int, random: np.random.Generator) -> Entries:
    """Return answers to the same questions of which none says anything of another."""
    made = made_up(people, random)
    return np.stack([random.permutation(column) for column in made.T], axis=1)


def without_some(answers: Entries, sizes: Sequence[int], random: np.random.Generator) -> Entries:
    """Return answers some of which are not given."""
    is_given = random.random(answers.shape) >= _NO_ANSWER
    return np.where(is_given, answers, np.asarray(sizes))


def true_sums(sheet: Sheet, answers: Entries) -> list[int]:
    """Return the sums of a sheet whose questions all have labels."""
    sums: list[int] = []
    sizes = [part.source.length for part in sheet.parts]
    for at, part in enumerate(sheet.parts):
        if isinstance(part.source, CountsByGroup):
            of, by = part.source.table.of, part.source.table.by
            places = answers[:, of] * sizes[by] + answers[:, by]
        else:
            places = answers[:, at]
        sums += np.bincount(places, minlength=sizes[at]).tolist()
    return sums


def release_without_noise(asked: Plan, answers: Entries) -> Released:
    """Return the true counts, as if they had been released without noise."""
    layout = layout_of(meaning_of(asked), [None] * asked.sheet.circuit.output_len)
    sums = np.array(true_sums(asked.sheet, answers), dtype=float)
    ones = [sums[each.first : each.first + each.size] for each in layout.columns]
    tables = []
    for pair in layout.pairs:
        shape = layout.sizes[pair.of], layout.sizes[pair.by]
        tables.append(sums[pair.first : pair.first + shape[0] * shape[1]].reshape(shape))
    return Released(layout, ones, tables, len(answers))


def release(asked: Plan, answers: Entries, number: int, day: int = 0) -> Batch:
    """Return what a collector gets of a day: each aggregator adds its own noise to its share."""
    mechanism, prio3 = asked.mechanism, asked.sheet.prio3
    circuit, people = prio3.circuit, len(answers)
    sums = Vector.from_ints(circuit.field, true_sums(asked.sheet, answers))
    random = np.random.default_rng(number)
    words = random.integers(0, 2**62, len(sums)).tolist()
    mask = Vector.from_ints(circuit.field, words)
    shares = [
        add_noise(share, mechanism, circuit, SeededEntropy(bytes([place]) + number.to_bytes(4)))
        for place, share in enumerate((sums - mask, mask))
    ]
    laws = [law for run, law in mechanism.laws(circuit, 2) for _ in range(run)]
    values = prio3.unshard_signed(shares, people)
    assert isinstance(values, list)
    start = int(FIRST.timestamp()) + 86400 * day
    noised = {
        str(place): Noised.released(value, law, ("task", f"{number}.{day}", place))
        for place, (value, law) in enumerate(zip(values, laws, strict=True))
    }
    return Batch(noised, people, start, start + 86400, "a promise")
