"""A rehearsal: made-up answers that add up, with the noise that a release draws."""

from datetime import date
from fractions import Fraction

import pytest

from aggregator.dp.sensitivity import max_entry
from aggregator.steward.planner.form import SHAPES, Draft
from aggregator.steward.planner.proposal import propose
from aggregator.steward.planner.rehearsal import made_up_sums, rehearse, shared_out
from aggregator.steward.planner.survey_question import KINDS
from aggregator.steward.survey import Sheet
from tests.support.entropy import SeededEntropy

TODAY = date(2026, 11, 25)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("parts", [1, 2, 7, 200])
def test_people_are_shared_out_whole_and_all_of_them(shape: str, parts: int) -> None:
    shares = shared_out(1800, parts, shape)
    assert (len(shares), sum(shares)) == (parts, 1800)
    assert min(shares) >= 0
    if shape == "falling":
        assert shares[0] >= shares[-1]


@pytest.mark.parametrize("kind", KINDS)
def test_made_up_answers_are_possible_ones_in_every_design(kind: str) -> None:
    draft = Draft.of({"kind": kind}, TODAY)
    for design in draft.question.designs():
        sums = made_up_sums(design, draft.question, draft.people, "bell")
        circuit = Sheet(((draft.question, design),)).circuit
        assert len(sums) == circuit.output_len
        assert all(0 <= value <= 1800 * max_entry(circuit) for value in sums)
        assert sums[design.nobody] == 0
        if design.labels:
            assert sum(sums) == 1800


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_figures_are_published_with_the_noise_of_both_aggregators(kind: str) -> None:
    proposal = propose(Draft.of({"kind": kind}, TODAY))
    rounds = [rehearse(proposal, SeededEntropy(bytes([seed]))) for seed in range(40)]
    wanted = [
        place
        for place, each in enumerate(rounds[0])
        if each.figure.is_wanted and each.truth is not None
    ]
    missed = shown = 0
    for each in rounds:
        assert [one.truth for one in each] == [one.truth for one in rounds[0]]
        for place in wanted:
            interval = each[place].figure.quantity.interval()
            truth = each[place].truth or Fraction(0)
            shown += 1
            missed += not interval.low <= truth <= interval.high
    estimates = {each[wanted[0]].figure.quantity.estimate for each in rounds}
    assert len(estimates) > 10
    # At 95 % confidence more than a sixth of this many missing has a probability below 1e-6.
    assert missed <= shown / 4
