"""The audit of a pair whose noise is split by section, on noise that is drawn here.

Who gains by what it does not see: an aggregator that leaves out the noise where it would be missed
least, in few sections, or in the last ones. Seeds are fixed, as in `test_pair_audit`.
"""

import functools
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import binom

from aggregator.dp.by_section import BySection, equal_errors
from aggregator.dp.discrete_gaussian import DiscreteGaussian
from aggregator.dp.discrete_laplace import PureDpDiscreteLaplace
from aggregator.errors import ParameterError
from aggregator.steward.audit.fault import FaultKind
from aggregator.steward.audit.noise_table import Integers, NoiseTable
from aggregator.steward.audit.pair_audit import Releases
from aggregator.steward.audit.split_noise import Audited, Scale, audit_by_scale, scales_of
from aggregator.vdaf.circuits import Histogram, Sections
from tests.support.entropy import SeededEntropy

ALPHA = 1e-6
WINDOWS = 4
# Two questions of three answers, a number of each, their table, and a number that is wide.
CIRCUIT = Sections("onehot:3 onehot:5 given:0,2,1000 onehot:3 table:0,1 number:7", 5)
SECTIONS = {0: slice(0, 3), 2: slice(8, 10), 3: slice(10, 13), 4: slice(13, 28), 5: slice(28, 29)}


def split(base: PureDpDiscreteLaplace | DiscreteGaussian) -> BySection:
    return BySection(base, equal_errors(base, CIRCUIT))


LAPLACE = split(PureDpDiscreteLaplace(Fraction(1)))
GAUSSIAN = split(DiscreteGaussian(Fraction(1, 20)))


@functools.cache
def scales(mechanism: BySection) -> list[Scale]:
    return scales_of(mechanism, CIRCUIT)


def drawn(mechanism: BySection, seed: int) -> Integers:
    entropy = SeededEntropy(seed)
    return np.array([mechanism.noise(CIRCUIT, entropy) for _ in range(WINDOWS)])


def found(mechanism: BySection, leader: Integers, helper: Integers) -> list[Audited]:
    counts = (8,) * WINDOWS
    releases = Releases(leader, helper, leader + helper, counts, counts)
    return audit_by_scale(releases, scales(mechanism), ALPHA)


def refused(audited: list[Audited]) -> set[tuple[int, ...]]:
    return {
        each.scale.sections for each in audited if any(check.is_refused for check in each.checks)
    }


def test_entries_of_one_law_are_audited_together() -> None:
    first, second, third = scales(LAPLACE)
    assert (first.sections, second.sections, third.sections) == ((0, 1, 3, 4), (2,), (5,))
    assert [len(each.entries) for each in (first, second, third)] == [26, 2, 1]
    assert first.name == "sections 0 to 1, 3 to 4"
    assert second.noise == "discrete Laplace, t = 11000"
    # A section of a thousand is looked at in steps, and what is 0 is still 0.
    assert first.laws.single.step == 1 < second.laws.single.step
    assert second.laws.single.zero == pytest.approx(1 / 22000, rel=1e-3)
    (whole,) = scales_of(PureDpDiscreteLaplace(Fraction(1)), Histogram(7, 2))
    assert (whole.sections, whole.name, len(whole.entries)) == ((), "", 7)


@pytest.mark.parametrize("mechanism", [LAPLACE, GAUSSIAN], ids=lambda each: each.base.name)
def test_right_noise_of_sections_is_not_refuted(mechanism: BySection) -> None:
    audited = found(mechanism, drawn(mechanism, 1), drawn(mechanism, 2))
    assert refused(audited) == set()
    assert not any(each.faults for each in audited)


@pytest.mark.statistical
def test_right_noise_is_refuted_no_more_often_than_is_said_of_all_scales_together() -> None:
    wrong, counts = 0, (8,) * WINDOWS
    for seed in range(25):
        leader, helper = drawn(LAPLACE, 2 * seed), drawn(LAPLACE, 2 * seed + 1)
        releases = Releases(leader, helper, leader + helper, counts, counts)
        audited = audit_by_scale(releases, scales(LAPLACE), 0.1)
        wrong += bool(refused(audited))
    assert binom.sf(12, 25, 0.1) < 1e-6
    assert wrong <= 12


@pytest.mark.parametrize("mechanism", [LAPLACE, GAUSSIAN], ids=lambda each: each.base.name)
@pytest.mark.parametrize("section", [2, 4])
def test_an_aggregator_that_adds_noise_to_some_sections_only_is_found_and_named(
    mechanism: BySection, section: int
) -> None:
    leader, helper = drawn(mechanism, 3), drawn(mechanism, 4)
    helper[:, SECTIONS[section]] = 0
    audited = found(mechanism, leader, helper)
    (silent,) = [each for each in audited if section in each.scale.sections]
    assert refused(audited) == {silent.scale.sections}
    assert [(each.party, each.kind) for each in silent.faults] == [("helper", FaultKind.NO_NOISE)]


@pytest.mark.parametrize("mechanism", [LAPLACE, GAUSSIAN], ids=lambda each: each.base.name)
def test_silence_on_the_last_cells_of_a_result_is_found(mechanism: BySection) -> None:
    leader, helper = drawn(mechanism, 5), drawn(mechanism, 6)
    leader[:, -5:] = 0
    audited = found(mechanism, leader, helper)
    assert (0, 1, 3, 4) in refused(audited)
    kinds = {(fault.party, fault.kind) for each in audited for fault in each.faults}
    assert kinds == {("leader", FaultKind.NO_NOISE)}


def test_the_power_that_is_said_is_that_of_each_scale_by_itself() -> None:
    first = found(LAPLACE, drawn(LAPLACE, 7), drawn(LAPLACE, 8))[0]
    power = {each.fault: each.probability for each in first.power.faults()}
    assert power["adds no noise"] > 0.999
    assert power["adds no noise to the last 16 buckets"] == 1
    # Of 104 draws, a scale is hard to tell from half of it: the answer does not claim to.
    assert power["adds noise of half the scale"] == 0
    assert first.power.false_alarm == pytest.approx(ALPHA / 3)


def test_a_share_that_is_not_the_sum_of_the_reports_is_named_once() -> None:
    wild = np.random.default_rng(1).integers(-(2**40), 2**40, (WINDOWS, 29), endpoint=True)
    wild[:] = np.where(wild < 0, -(2**40), 2**40)
    leader = drawn(LAPLACE, 9)
    counts = (8,) * WINDOWS
    releases = Releases(leader, wild, np.clip(leader + wild, -(2**40), 2**40), counts, counts)
    audited = audit_by_scale(releases, scales(LAPLACE), ALPHA)
    faults = [fault for each in audited for fault in each.faults]
    assert [(each.party, each.kind) for each in faults] == [("helper", FaultKind.WRONG_SUM)]


def test_steps_of_wide_noise_have_the_law_of_the_nearest_multiple() -> None:
    fine = NoiseTable(np.full(21, 1 / 21))
    coarse = NoiseTable(np.array([7, 7, 7]) / 21, step=7)
    steps = coarse.in_steps(fine.values)
    assert [int((steps == step).sum()) for step in (-1, 0, 1)] == [7, 7, 7]
    assert list(coarse.in_steps(np.array([2**40, -(2**40)]))) == [2**40, -(2**40)]


def test_noise_that_is_too_wide_for_any_table_is_refused() -> None:
    circuit = Sections("number:1000000000000 onehot:3", 2)
    base = PureDpDiscreteLaplace(Fraction(1))
    with pytest.raises(ParameterError, match="too wide to be audited"):
        scales_of(BySection(base, equal_errors(base, circuit)), circuit)
