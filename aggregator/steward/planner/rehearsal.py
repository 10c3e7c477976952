"""A result as it would be published: made-up answers, and real noise from both aggregators."""

import dataclasses
from fractions import Fraction

from aggregator.collector.results import Noised
from aggregator.entropy import Entropy
from aggregator.steward.planner.proposal import Proposal
from aggregator.steward.survey import Design, Figure, Question
from aggregator.steward.survey.made_up import shared_out


@dataclasses.dataclass(frozen=True)
class Shown:
    """One figure, with its value without noise.

    Attributes:
        figure: As it would be published.
        truth: The value for the made-up answers; None if there is none.
    """

    figure: Figure
    truth: Fraction | None


def rehearse(proposal: Proposal, entropy: Entropy) -> list[Shown]:
    """Return every figure of one window; the noise is random, the answers are not."""
    design, people = proposal.design, proposal.draft.people
    sheet, mechanism = proposal.plan.sheet, proposal.mechanism
    circuit = sheet.circuit
    sums = made_up_sums(design, proposal.draft.question, people, proposal.draft.shape)
    draws = [mechanism.noise(circuit, entropy) for _aggregator in range(2)]
    laws = [law for entries, law in mechanism.laws(circuit, 2) for _ in range(entries)]
    released = [
        Noised.released(value + sum(noise), law, place)
        for place, (value, law, *noise) in enumerate(zip(sums, laws, *draws, strict=True))
    ]
    exact = [Noised.exact(value) for value in sums]
    noised, true = (design.figures(sheet.sums(values, people)) for values in (released, exact))
    return [
        Shown(figure, truth.quantity.estimate) for figure, truth in zip(noised, true, strict=True)
    ]


def made_up_sums(design: Design, question: Question, people: int, shape: str) -> list[int]:
    """Return the exact sums of the made-up answers of some people.

    Their shape is "falling", "bell" or "even".
    """
    answers = question.made_up_answers()
    sums = [0] * design.length
    for answer, count in zip(answers, shared_out(people, len(answers), shape), strict=True):
        for place, added in enumerate(design.measurement(answer)):
            sums[place] += count * added
    return sums
