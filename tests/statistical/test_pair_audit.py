"""The audit of a pair on noise that is drawn here, right or with a planted fault.

Seeds are fixed. With fresh ones a right pair would be refused once in 10^6 audits (`ALPHA`), or in
the test of the false alarm as often as that test says; and a fault be missed as the audit's own
power says, which is tested too.
"""

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import binom

from aggregator.dp.gaussian_law import DiscreteGaussianLaw
from aggregator.dp.laws import DiscreteLaplaceLaw, NoiseLaw, TruncatedGeometricLaw
from aggregator.errors import ParameterError
from aggregator.steward.audit.fault import Fault, FaultKind
from aggregator.steward.audit.noise_table import LARGEST, Integers, NoiseTable
from aggregator.steward.audit.pair_audit import Laws, Mistake, Releases, audit
from aggregator.steward.audit.pair_faults import draws_in_the_sum, name_faults
from aggregator.steward.audit.pair_power import SURELY, PowerOfAudit

ALPHA = 1e-6
WINDOWS, BUCKETS = 4, 1024
LAPLACE = NoiseTable.of(DiscreteLaplaceLaw(1, Fraction(2)))
LAWS = Laws.of(LAPLACE)


class Noise:
    """Draws of a law, right ones by default."""

    def __init__(self, seed: int, table: NoiseTable = LAPLACE) -> None:
        self.rng = np.random.default_rng(seed)
        self.table = table

    def __call__(
        self, table: NoiseTable | None = None, windows: int = WINDOWS, buckets: int = BUCKETS
    ) -> Integers:
        law = self.table if table is None else table
        return self.rng.choice(law.values, (windows, buckets), p=law.probabilities)


def releases(leader: Integers, helper: Integers, counted: int = 8) -> Releases:
    total = np.clip(leader + helper, -LARGEST, LARGEST)
    windows = len(leader)
    return Releases(leader, helper, total, (counted,) * windows, (8,) * windows)


def faults_of(found: Releases, laws: Laws = LAWS) -> list[Fault]:
    return name_faults(found, laws, audit(found, laws, ALPHA))


@pytest.mark.parametrize(
    "law",
    [
        DiscreteLaplaceLaw(1, Fraction(2)),
        DiscreteLaplaceLaw(1, Fraction(1, 4)),
        DiscreteLaplaceLaw(1, Fraction(20)),
        TruncatedGeometricLaw(1, Fraction(2), 9),
        DiscreteGaussianLaw(1, Fraction(4)),
    ],
    ids=["laplace", "small laplace", "wide laplace", "truncated", "gaussian"],
)
def test_right_noise_is_not_refuted(law: NoiseLaw) -> None:
    table = NoiseTable.of(law)
    noise = Noise(1, table)
    found = releases(noise(), noise())
    assert faults_of(found, Laws.of(table)) == []
    assert not any(check.is_refused for check in audit(found, Laws.of(table), ALPHA))


@pytest.mark.statistical
def test_right_noise_is_refuted_no_more_often_than_is_said() -> None:
    # 400 audits at a false alarm of 1/10: more than 75 refusals would have a probability of 10^-6.
    noise, refused = Noise(2), 0
    for _ in range(400):
        found = releases(noise(windows=2, buckets=64), noise(windows=2, buckets=64))
        refused += any(check.is_refused for check in audit(found, LAWS, 0.1))
    assert binom.sf(75, 400, 0.1) < 1e-6
    assert refused <= 75


def dropped(noise: Noise) -> Integers:
    return noise() * 0


def halved(noise: Noise) -> Integers:
    return noise(LAPLACE.rescaled(1 / 2))


def doubled(noise: Noise) -> Integers:
    return noise(LAPLACE.rescaled(2))


def repeated(noise: Noise) -> Integers:
    draws = noise()
    draws[3] = draws[1]
    return draws


def negated(noise: Noise) -> Integers:
    draws = noise()
    draws[2] = -draws[0]
    return draws


def rotated(noise: Noise) -> Integers:
    draws = noise()
    draws[2] = np.roll(draws[0], 100)
    return draws


def repeated_in_a_third(noise: Noise) -> Integers:
    draws = noise()
    draws[3, ::3] = draws[1, ::3]
    return draws


def one_draw_for_two_buckets(noise: Noise) -> Integers:
    return np.repeat(noise(buckets=BUCKETS // 2), 2, axis=1)


def one_vector_twice(noise: Noise) -> Integers:
    return np.tile(noise(buckets=BUCKETS // 2), 2)


def moving_average(noise: Noise) -> Integers:
    draws = noise(buckets=BUCKETS + 1)
    return draws[:, 1:] + draws[:, :-1]


def one_draw_for_a_window(noise: Noise) -> Integers:
    return np.repeat(np.array([[3], [-2], [0], [5]]), BUCKETS, axis=1) + 0 * noise()


def common_part(noise: Noise) -> Integers:
    return noise() + np.array([[3], [-2], [0], [1]])


def biased(noise: Noise) -> Integers:
    return noise() + 1


def gaussian(noise: Noise) -> Integers:
    return noise(NoiseTable.of(DiscreteGaussianLaw(1, Fraction(8))))


def rounded_gaussian(noise: Noise) -> Integers:
    return np.rint(noise.rng.normal(0, LAPLACE.deviation, (WINDOWS, BUCKETS))).astype(np.int64)


def even_only(noise: Noise) -> Integers:
    return 2 * noise(LAPLACE.rescaled(1 / 2))


def two_draws(noise: Noise) -> Integers:
    return noise() + noise()


def integer_halves(noise: Noise) -> Integers:
    return np.trunc(noise() / 2).astype(np.int64)


def floored_halves(noise: Noise) -> Integers:
    return noise() // 2


def silent_window(noise: Noise) -> Integers:
    return noise() * np.array([[1], [1], [0], [1]])


def silent_buckets(noise: Noise) -> Integers:
    return noise() * (np.arange(BUCKETS) % 4 > 0)


def silent_at_the_end(noise: Noise) -> Integers:
    return noise() * (np.arange(BUCKETS) < BUCKETS - 16)


def silent_run_inside(noise: Noise) -> Integers:
    return noise() * (abs(np.arange(BUCKETS) - 500) > 4)


def few_silent_buckets(noise: Noise) -> Integers:
    return noise() * (np.arange(BUCKETS) % 20 > 0)


def reversed_window(noise: Noise) -> Integers:
    draws = noise()
    draws[3] = draws[1][::-1]
    return draws


def permuted_window(noise: Noise) -> Integers:
    draws = noise()
    draws[2] = -noise.rng.permutation(draws[1])
    return draws


def partly_common(noise: Noise) -> Integers:
    """A quarter of the variance common to all windows, and the law of each draw exact."""
    return _laplace_part(noise, 1 / 4, 1) + _laplace_part(noise, 3 / 4, WINDOWS)


def _laplace_part(noise: Noise, share: float, windows: int) -> Integers:
    """Draws whose characteristic function is that power of the law's: it divides for ever."""
    odds = 1 / (math.exp(1 / 2) - 1)
    rates = noise.rng.gamma(share, odds, (2, windows, BUCKETS))
    positive, negative = noise.rng.poisson(rates)
    return positive - negative


def few_biased_buckets(noise: Noise) -> Integers:
    return noise() + 6 * (np.arange(BUCKETS) % 20 == 0)


def four_buckets_far_off(noise: Noise) -> Integers:
    return noise() + 1000 * np.isin(np.arange(BUCKETS), [3, 50, 51, 900])


def totals_of_zero(noise: Noise) -> Integers:
    draws = noise()
    for row in draws:
        total = int(row.sum())
        row[noise.rng.permutation(BUCKETS)[: abs(total)]] -= np.sign(total)
    return draws


def no_sum(noise: Noise) -> Integers:
    return noise.rng.choice([-LARGEST, LARGEST], (WINDOWS, BUCKETS))


@pytest.mark.parametrize("party", ["leader", "helper"])
@pytest.mark.parametrize(
    ("fault", "kind"),
    [
        (dropped, FaultKind.NO_NOISE),
        (halved, FaultKind.WRONG_SCALE),
        (doubled, FaultKind.WRONG_SCALE),
        (two_draws, FaultKind.WRONG_SCALE),
        (integer_halves, FaultKind.WRONG_SCALE),
        (floored_halves, FaultKind.WRONG_SCALE),
        (silent_window, FaultKind.NO_NOISE),
        (silent_buckets, FaultKind.NO_NOISE),
        (repeated, FaultKind.REPEATED),
        (negated, FaultKind.REPEATED),
        (rotated, FaultKind.REPEATED),
        (repeated_in_a_third, FaultKind.REPEATED),
        (one_draw_for_two_buckets, FaultKind.CORRELATED),
        (one_vector_twice, FaultKind.CORRELATED),
        (moving_average, FaultKind.CORRELATED),
        (one_draw_for_a_window, FaultKind.CORRELATED),
        (common_part, FaultKind.CORRELATED),
        (biased, FaultKind.BIASED),
        (gaussian, FaultKind.WRONG_LAW),
        (rounded_gaussian, FaultKind.WRONG_LAW),
        (even_only, FaultKind.WRONG_LAW),
        (no_sum, FaultKind.WRONG_SUM),
        (silent_at_the_end, FaultKind.NO_NOISE),
        (silent_run_inside, FaultKind.NO_NOISE),
        (few_silent_buckets, FaultKind.NO_NOISE),
        (reversed_window, FaultKind.REPEATED),
        (permuted_window, FaultKind.REPEATED),
        (partly_common, FaultKind.COMMON),
        (few_biased_buckets, FaultKind.BIASED),
        (four_buckets_far_off, FaultKind.BIASED),
        (totals_of_zero, FaultKind.CORRELATED),
    ],
    ids=lambda value: value.__name__ if callable(value) else "",
)
def test_a_fault_of_one_aggregator_is_named(
    party: str, fault: Callable[[Noise], Integers], kind: FaultKind
) -> None:
    noise = Noise(3)
    series = {"leader": noise(), "helper": noise()} | {party: fault(noise)}
    found = faults_of(releases(**series))
    assert [(each.party, each.kind) for each in found] == [(party, kind)]


def test_the_factor_of_a_wrong_scale_is_told() -> None:
    noise = Noise(4)
    (fault,) = faults_of(releases(noise(), halved(noise)))
    factor = float(fault.text.split("the scale is ")[1].split()[0])
    assert factor == pytest.approx(1 / 2, rel=0.1)  # six standard errors of 1/64


def test_two_faults_of_one_aggregator_are_both_named() -> None:
    noise = Noise(5)
    draws = halved(noise)
    draws[2] = draws[0]
    found = faults_of(releases(noise(), draws))
    assert [fault.kind for fault in found] == [FaultKind.REPEATED, FaultKind.WRONG_SCALE]


@pytest.mark.parametrize("sign", [1, -1], ids=["equal", "opposite"])
def test_noise_that_both_aggregators_share_is_named(sign: int) -> None:
    draws = Noise(6)()
    (fault,) = faults_of(releases(draws, sign * draws))
    assert (fault.party, fault.kind) == ("pair", FaultKind.SHARED)


def test_noise_that_the_peer_had_a_window_before_is_named() -> None:
    noise = Noise(7)
    leader, helper = noise(), noise()
    helper[2] = leader[1]
    (fault,) = faults_of(releases(leader, helper))
    assert (fault.party, fault.kind) == ("pair", FaultKind.SHARED)
    assert "window 2 and the helper's 3" in fault.text


def test_a_count_of_reports_that_is_wrong_is_named_whatever_the_noise() -> None:
    noise = Noise(8)
    (fault,) = faults_of(releases(noise(), noise(), counted=7))
    assert fault.kind is FaultKind.WRONG_COUNT


def test_a_report_that_a_share_lacks_is_named_whatever_the_noise() -> None:
    noise = Noise(9)
    right = releases(noise(), noise())
    mistake = Mistake("helper", "report 3 is missing")
    found = Releases(
        right.leader, right.helper, right.total, right.counted, right.uploaded, (mistake,)
    )
    assert faults_of(found) == [Fault("helper", FaultKind.WRONG_SUM, "report 3 is missing")]


def test_the_sum_alone_tells_how_many_aggregators_drew() -> None:
    noise = Noise(10)
    both, one = noise() + noise(), noise()
    assert [draws_in_the_sum(each, LAWS) for each in (both, one, 0 * one)] == [2, 1, 0]


@pytest.mark.parametrize("series", ["leader", "helper", "sum"])
def test_a_fault_of_one_aggregator_is_seen_in_the_sum_as_well(series: str) -> None:
    noise = Noise(11)
    found = releases(dropped(noise), dropped(noise))
    refused = {check.series for check in audit(found, LAWS, ALPHA) if check.is_refused}
    assert series in refused


@pytest.mark.statistical
def test_the_smallest_faults_are_found_as_surely_as_is_said() -> None:
    # 200 audits of each: more than 5 misses at 1/1000 would have a probability below 10^-7.
    power = PowerOfAudit(LAPLACE, 2, 256, ALPHA)
    reach = power.reach()
    assert reach.scale_below is not None
    assert reach.scale_above is not None
    noise = Noise(12)
    tables = [LAPLACE.rescaled(reach.scale_below), LAPLACE.rescaled(reach.scale_above)]
    for table in tables:
        missed = 0
        for _ in range(200):
            found = releases(noise(windows=2, buckets=256), noise(table, 2, 256))
            missed += not any(check.is_refused for check in audit(found, LAWS, ALPHA))
        assert binom.sf(5, 200, 1 - SURELY) < 1e-7
        assert missed <= 5


def test_the_power_against_planted_faults_is_what_the_manual_says() -> None:
    # docs/operations/audit-the-pair.md, 4 windows of 4099 buckets at epsilon 1.
    power = PowerOfAudit(LAPLACE, 4, 4099, ALPHA)
    stated = {each.fault: each.probability for each in power.faults()}
    more = {
        each.fault: each.probability for each in PowerOfAudit(LAPLACE, 16, 4099, ALPHA).faults()
    }
    weak = {fault for fault, probability in stated.items() if probability < 0.9}
    assert weak == {
        "cuts its noise off at 6 times its deviation",
        "adds continuous Laplace noise, rounded, of the same deviation",
        "adds no noise to the last bucket",
        "has 1/10 of its noise's variance in common in all windows",
        "has 1/20 of its noise's variance in common in all windows",
    }
    assert sum(probability > 0.9999 for probability in stated.values()) == 18
    assert more.pop("cuts its noise off at 6 times its deviation") == 0
    assert min(more.values()) > 0.99
    reach = power.reach()
    assert reach.scale_below == pytest.approx(0.906, abs=1e-3)
    assert reach.scale_above == pytest.approx(1.104, abs=1e-3)
    assert reach.repeated_share == pytest.approx(0.094, abs=1e-3)
    assert reach.silent_run == 5
    assert reach.silent_share == pytest.approx(0.0145, abs=1e-4)
    assert reach.biased_share == pytest.approx(0.0134, abs=1e-4)
    assert reach.common_share == pytest.approx(0.160, abs=1e-3)


@pytest.mark.statistical
def test_noise_that_is_cut_off_or_partly_common_is_found_as_often_as_is_said() -> None:
    windows, buckets = 4, 4099
    stated = {
        each.fault: each.probability
        for each in PowerOfAudit(LAPLACE, windows, buckets, ALPHA).faults()
    }
    noise = Noise(21)
    for _ in range(4):
        own, other = (noise(windows=windows, buckets=buckets) for _ in range(2))
        is_common = noise.rng.random(own.shape) < 1 / 10
        far, near = (round(times * LAPLACE.deviation) for times in (6, 3))
        assert faults_of(releases(own, np.where(is_common, own, other)))
        assert faults_of(releases(np.clip(own, -near, near), other))
        assert not faults_of(releases(np.clip(own, -far, far), other))
    assert stated["adds the other aggregator's noise to 1 of 10 buckets"] > 0.999
    assert stated["cuts its noise off at 3 times its deviation"] > 0.999
    assert stated["cuts its noise off at 6 times its deviation"] == 0


@pytest.mark.statistical
def test_faults_of_buckets_and_windows_are_found_as_often_as_is_said() -> None:
    # 25 audits of each at a power of 999/1000: more than 3 misses once in 10^6.
    power = PowerOfAudit(LAPLACE, 4, 509, ALPHA)
    reach = power.reach()
    stated = {each.fault: each.probability for each in power.faults()}
    assert reach.silent_run is not None
    assert reach.silent_share is not None
    assert reach.biased_share is not None
    noise, missed = Noise(15), {"run": 0, "silent": 0, "biased": 0, "permuted": 0}
    for _ in range(25):
        right, faulty = noise(buckets=509), {name: noise(buckets=509) for name in missed}
        faulty["run"][:, 100 : 100 + reach.silent_run] = 0
        faulty["silent"][:, noise.rng.random(509) < reach.silent_share] = 0
        faulty["biased"][:, noise.rng.random(509) < reach.biased_share] += power.offset
        faulty["permuted"][3] = noise.rng.permutation(faulty["permuted"][0])
        for name, draws in faulty.items():
            checks = audit(releases(right, draws), LAWS, ALPHA)
            missed[name] += not any(check.is_refused for check in checks)
    assert missed.pop("permuted") <= 25 * (1 - stated["permutes its noise in another window"]) + 12
    assert binom.sf(3, 25, 1 - SURELY) < 1e-6
    assert max(missed.values()) <= 3


def test_one_window_cannot_show_a_repetition_and_has_no_power_for_it() -> None:
    assert PowerOfAudit(LAPLACE, 1, BUCKETS, ALPHA).reach().repeated_share is None


@pytest.mark.parametrize("false_alarm", [0.0, 1.0, math.nan])
def test_a_false_alarm_that_is_not_a_probability_is_refused(false_alarm: float) -> None:
    draws = Noise(13)()
    with pytest.raises(ParameterError, match="false_alarm"):
        audit(releases(draws, draws), LAWS, false_alarm)


def test_releases_of_different_shapes_are_refused() -> None:
    noise = Noise(14)
    with pytest.raises(ParameterError, match="one shape"):
        Releases(noise(), noise(windows=2), noise(), (8,) * 4, (8,) * 4)
