import itertools
from fractions import Fraction

import mpmath
import numpy as np
import pytest

from aggregator.dp.certified import to_float
from aggregator.dp.laws import DiscreteLaplaceLaw
from aggregator.dp.samplers import (
    DiscreteGaussianSampler,
    DiscreteLaplaceSampler,
    TruncatedGeometricSampler,
)
from aggregator.dp.samplers.keystream import Keystream
from aggregator.dp.samplers.two_sided_geometric import TwoSidedGeometric
from aggregator.errors import ParameterError
from tests.support.entropy import NoEntropy, SeededEntropy
from tests.support.sampling import ScriptedBits, block, discrete_laplace_draws, keystream, mpmath_of

FAILS = 2**32 - 1
SUCCEEDS = 0


@pytest.mark.parametrize(
    "scale",
    [
        Fraction(1, 3),
        Fraction(1),
        Fraction(4),
        Fraction(51000, 7),
        Fraction(25500),
        Fraction(2**40),
    ],
    ids=str,
)
def test_draws_are_those_that_a_slow_second_implementation_reads_off_the_keystream(
    scale: Fraction,
) -> None:
    count = 5000
    stream = keystream(SeededEntropy(7), 2_000_000)
    expected = discrete_laplace_draws(stream, scale, count)
    draws = DiscreteLaplaceSampler(scale).sample(count, SeededEntropy(7))
    assert draws.dtype == np.int64
    assert draws.tolist() == expected
    assert len(set(expected)) > 3


@pytest.mark.parametrize("num_digits", [3, 6])
def test_independent_digits_and_a_sign_make_the_discrete_laplace_law(num_digits: int) -> None:
    # The law below 2^I, given no overflow, summed over all digits in exact arithmetic.
    scale = Fraction(3, 2)
    with mpmath.workdps(40):
        t = mpmath_of(scale)
        q = mpmath.exp(-1 / t)
        biases = [1 / (1 + mpmath.exp(2**i / t)) for i in range(num_digits)]
        sign = 1 / (1 + mpmath.exp(1 / t))
        overflow = mpmath.exp(-(2**num_digits) / t)
        for digits in itertools.product((0, 1), repeat=num_digits):
            magnitude = sum(digit << i for i, digit in enumerate(digits))
            mass = mpmath.fprod(b if d else 1 - b for b, d in zip(biases, digits, strict=True))
            positive = mass * (1 - overflow) * (1 - sign)
            negative = mass * (1 - overflow) * sign
            law = (1 - q) / (1 + q)
            assert mpmath.almosteq(positive, law * q**magnitude, 1e-35)
            assert mpmath.almosteq(negative, law * q ** (magnitude + 1), 1e-35)


def test_the_tail_is_counted_on_and_never_cut() -> None:
    scale = Fraction(1)
    geometric = TwoSidedGeometric(scale, 6, has_tail=True)
    # Digits 1 and 3 set, the overflow row's word and extension both zero, then the sign.
    words = [[FAILS, 0], [SUCCEEDS, 0], [FAILS, 0], [SUCCEEDS, 0], [FAILS, 0], [FAILS, 0]]
    words += [[0, 0], [SUCCEEDS, 0]]
    extension = [[1] * 6 + [0, 1]]
    one_more = (0).to_bytes(8, "little") * 2
    stop = (2**64 - 1).to_bytes(8, "little")
    # e^-64 is 0.0...0 for 92 bits: 96 bits of zeros are below it, and so are the next trial's 128.
    stream = ScriptedBits(block(words, extension) + one_more + stop)
    assert geometric.draw(1, stream).tolist() == [-1 - (2 * 64 + 8 + 2)]


def test_a_draw_beyond_64_bits_comes_out_as_a_python_integer() -> None:
    draws = DiscreteLaplaceSampler(Fraction(2**80)).sample(50, SeededEntropy(1))
    assert draws.dtype == np.object_
    assert all(type(draw) is int for draw in draws)
    assert max(map(abs, draws)) > 2**76
    assert any(draw < 0 for draw in draws)
    assert any(draw > 0 for draw in draws)


def test_a_large_scale_whose_draws_fit_gives_machine_words() -> None:
    draws = DiscreteLaplaceSampler(Fraction(2**50)).sample(50, SeededEntropy(1))
    assert draws.dtype == np.int64


@pytest.mark.parametrize(
    "sampler",
    [
        DiscreteLaplaceSampler(Fraction(0)),
        TruncatedGeometricSampler(Fraction(0), 5),
        DiscreteGaussianSampler(Fraction(0)),
    ],
    ids=["laplace", "geometric", "gaussian"],
)
def test_scale_zero_draws_nothing(sampler: DiscreteLaplaceSampler) -> None:
    assert sampler.sample(4, NoEntropy()).tolist() == [0] * 4


@pytest.mark.parametrize(
    "sampler",
    [
        DiscreteLaplaceSampler(Fraction(4)),
        TruncatedGeometricSampler(Fraction(4), 20),
        DiscreteGaussianSampler(Fraction(4)),
    ],
    ids=["laplace", "geometric", "gaussian"],
)
def test_every_release_takes_a_fresh_key_and_the_same_key_gives_the_same_draws(
    sampler: DiscreteLaplaceSampler,
) -> None:
    entropy = SeededEntropy(3)
    first, second = sampler.sample(100, entropy), sampler.sample(100, entropy)
    assert first.tolist() != second.tolist()
    assert sampler.sample(100, SeededEntropy(3)).tolist() == first.tolist()
    assert sampler.sample(0, entropy).tolist() == []
    with pytest.raises(ParameterError, match="count must be at least 0, not -1"):
        sampler.sample(-1, entropy)


@pytest.mark.parametrize("scale", [Fraction(-1), 4, 0.5], ids=repr)
def test_a_scale_is_a_positive_exact_rational(scale: Fraction) -> None:
    for make in (
        DiscreteLaplaceSampler,
        DiscreteGaussianSampler,
        lambda value: TruncatedGeometricSampler(value, 3),
    ):
        with pytest.raises(ParameterError, match=r"(scale|sigma_squared) must be"):
            make(scale)


@pytest.mark.parametrize(
    ("scale", "bound"),
    [
        (Fraction(1), 1),
        pytest.param(Fraction(9, 2), 22, marks=pytest.mark.slow),
        (Fraction(100), 3),
    ],
)
def test_truncated_draws_reach_the_bound_and_never_pass_it(scale: Fraction, bound: int) -> None:
    draws = TruncatedGeometricSampler(scale, bound).sample(
        200_000 if bound > 3 else 2000, SeededEntropy(5)
    )
    assert set(draws.tolist()) <= set(range(-bound, bound + 1))
    if bound <= 3:
        assert {-bound, bound} <= set(draws.tolist())


def test_a_bound_of_zero_leaves_zero_and_one_out_of_range_is_refused() -> None:
    assert TruncatedGeometricSampler(Fraction(2), 0).sample(3, NoEntropy()).tolist() == [0, 0, 0]
    with pytest.raises(ParameterError, match="bound must be from 0 to 2\\^61, not -1"):
        TruncatedGeometricSampler(Fraction(2), -1)


@pytest.mark.parametrize("sigma_squared", [Fraction(1, 100), Fraction(10**40)], ids=str)
def test_the_gaussian_sampler_takes_any_variance(sigma_squared: Fraction) -> None:
    draws = DiscreteGaussianSampler(sigma_squared).sample(400, SeededEntropy(11))
    deviation = max(1e-9, float(sigma_squared) ** 0.5)
    assert max(map(abs, draws.tolist())) <= 6 * deviation
    if sigma_squared > 1:
        assert draws.dtype == np.object_
        spread = sum(int(draw) ** 2 for draw in draws) / len(draws) / float(sigma_squared)
        assert 0.6 < spread < 1.4  # five standard errors of 0.07


def test_wide_and_narrow_arithmetic_of_the_gaussian_sampler_agree() -> None:
    # Which values are kept may not depend on whether machine words or Python integers decide it.
    from aggregator.dp.samplers.discrete_gaussian import _Proposal  # noqa: PLC0415 - looks inside

    proposal = _Proposal(Fraction(1000))
    stream = Keystream(SeededEntropy(2))
    values = proposal._laplace.draw(3000, stream)
    outcomes = proposal._rows.draw(3000, stream)
    fast = proposal._are_kept(values.astype(np.int64), outcomes, stream).tolist()
    slow = [proposal._is_kept(int(v), outcomes[:, i], stream) for i, v in enumerate(values)]
    assert fast == slow
    assert 0.7 < sum(fast) / 3000 < 0.82


def test_a_keystream_is_aes_in_counter_mode_under_32_bytes_of_entropy() -> None:
    stream = Keystream(SeededEntropy(9))
    expected = keystream(SeededEntropy(9), 100)
    assert stream.fill(10).tobytes() == expected[:10]
    assert stream.fill(70).tobytes() == expected[10:80]
    assert stream.fill(4).tobytes() == expected[80:84]
    assert stream.integer(8) == int.from_bytes(expected[84:92], "little")


@pytest.mark.slow
def test_the_law_of_the_draws_is_the_one_that_intervals_use() -> None:
    law = DiscreteLaplaceLaw(1, Fraction(1, 2))
    draws = DiscreteLaplaceSampler(Fraction(1, 2)).sample(100_000, SeededEntropy(4))
    share = float(np.mean(draws == 0))
    expected = to_float(law.probability(0))
    assert abs(share - expected) < 6 * (expected * (1 - expected) / 100_000) ** 0.5
