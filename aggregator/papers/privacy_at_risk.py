"""Figures published as "privacy at risk", each with the label it needs.

[DBB20] claims that Laplace noise calibrated to epsilon0 also gives a smaller epsilon with a
confidence gamma. The claim is false: its proof treats two noises that differ by a constant as
independent, and for every number of coordinates the loss is exactly epsilon0 at least half of the
time. The sound replacement is `loss_law`. These functions reproduce the published numbers, so that
a steward who meets them can see what they are worth: show those without another label only with
`LABEL`. None is a privacy guarantee, and we avoid the paper's word "risk" for a claimed confidence.

Formulas are the paper's, misprints corrected: T = |X1 - X2| / theta with X1, X2 from Gamma(k,
theta) has P(T <= x) = sum_j C(k-1+j, j) 2^-(k-1+j) P(Gamma(k-j, 1) <= x), j = 0..k-1.

Every function raises `ParameterError` if a number is outside its range.
"""

import math
from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction

from aggregator.dp.decimals import (
    Number,
    expm1,
    integer_in,
    log1p,
    rational_in,
    to_decimal,
    working,
)
from aggregator.errors import ParameterError
from aggregator.papers.roots import find_root

LABEL = (
    "published figure (Dandekar et al.), not a privacy guarantee; overstates confidence: the loss"
    " of Laplace noise is exactly epsilon0 at least half of the time"
)
NOT_DP = (
    "published figure (Dandekar et al.), not differential privacy: a statement about random pairs"
    " of data sets; rare, influential people fall in the part that is not covered"
)

_MOST_DIMENSIONS = 200


def gap_probability(x: Number, k: int = 1) -> Decimal:
    """Return P(T <= `x`), on which the published confidence rests, for 1 to 200 coordinates."""
    number = rational_in(x, "x", 0, None)
    integer_in(k, "k", 1, _MOST_DIMENSIONS)
    with working():
        return _gap_probability(to_decimal(number), k)


def claimed_confidence(epsilon: Number, epsilon0: Number, k: int = 1) -> Decimal:
    """Return gamma1, the confidence the paper claims for `epsilon` under noise for `epsilon0`.

    [DBB20], equation (3), with `epsilon` from 0 to `epsilon0`. Show it only with `LABEL`.
    """
    noise = rational_in(epsilon0, "epsilon0", 0, None, open_low=True)
    level = rational_in(epsilon, "epsilon", 0, None)
    integer_in(k, "k", 1, _MOST_DIMENSIONS)
    if level > noise:
        raise ParameterError(f"epsilon must lie in [0, epsilon0 = {epsilon0}], not {epsilon}")
    with working():
        whole = _gap_probability(to_decimal(noise), k)
        return _gap_probability(to_decimal(level), k) / whole


def claimed_epsilon(confidence: Number, epsilon0: Number, k: int = 1) -> Decimal:
    """Return the epsilon the paper claims with `confidence` under noise for `epsilon0`.

    [DBB20], equation (4) for k = 1, the inverse of equation (3) otherwise. Show it only with
    `LABEL`.
    """
    gamma = rational_in(confidence, "confidence", 0, 1)
    noise = rational_in(epsilon0, "epsilon0", 0, None, open_low=True)
    integer_in(k, "k", 1, _MOST_DIMENSIONS)
    with working():
        scale = to_decimal(noise)
        if k == 1:
            return -log1p(to_decimal(gamma) * expm1(-scale))
        goal = to_decimal(gamma) * _gap_probability(scale, k)
        return find_root(lambda x: _gap_probability(x, k) - goal, Decimal(0), scale)


def claimed_noise(epsilon: Number, confidence: Number, k: int = 1) -> Decimal:
    """Return the epsilon0 whose noise the paper claims to give `epsilon` with `confidence`.

    [DBB20], section "Result Analysis". Show it only with `LABEL`. If P(T <= epsilon) is above
    `confidence`, no noise gives it: a `ParameterError`.
    """
    level = rational_in(epsilon, "epsilon", 0, None, open_low=True)
    gamma = rational_in(confidence, "confidence", 0, 1, open_low=True)
    integer_in(k, "k", 1, _MOST_DIMENSIONS)
    with working():
        goal = _gap_probability(to_decimal(level), k) / to_decimal(gamma)
        if goal >= 1:
            raise ParameterError(
                f"confidence must be above P(T <= epsilon) = {goal * to_decimal(gamma):.6g}, not"
                f" {confidence}: even without noise the formula gives more"
            )
        high = to_decimal(level)
        while _gap_probability(high, k) < goal:
            high *= 2
        return find_root(lambda x: _gap_probability(x, k) - goal, to_decimal(level) / 2, high)


def sampling_tolerance(samples: int, accuracy: Number) -> Decimal:
    """Return alpha = 1 - 2 e^(-2 rho^2 n), the confidence of the two-sided DKW inequality.

    n is the number of sampled pairs, and rho the accuracy.
    """
    integer_in(samples, "samples", 1, None)
    rho = rational_in(accuracy, "accuracy", 0, 1, open_low=True)
    with working():
        return 1 - 2 * to_decimal(-2 * rho * rho * samples).exp()


def sampled_sensitivity(sensitivities: Sequence[Fraction], coverage: Number) -> Fraction:
    """Return F_n^-1(gamma2), the least sampled value that covers `coverage` of the sample.

    There is a sensitivity for each of n random pairs of neighbouring data sets. [DBB20], Definition
    14: noise scaled to it has no guarantee, so show it only with `NOT_DP`.
    """
    gamma = rational_in(coverage, "coverage", 0, 1, open_low=True)
    if not sensitivities:
        raise ParameterError("sensitivities must have at least 1 value, not 0")
    return sorted(sensitivities)[math.ceil(gamma * len(sensitivities)) - 1]


def claimed_sampled_confidence(coverage: Number, samples: int, accuracy: Number) -> Decimal:
    """Return the published bound gamma2 alpha for noise scaled to a sampled sensitivity.

    It improves as rho grows, which is an error: the corrected claim is `sampled_coverage`. [DBB20],
    Theorem 13. Show it only with `NOT_DP`.
    """
    gamma = rational_in(coverage, "coverage", 0, 1)
    with working():
        return to_decimal(gamma) * sampling_tolerance(samples, accuracy)


def sampled_coverage(coverage: Number, accuracy: Number) -> Fraction:
    """Return gamma2 - rho, what a sampled sensitivity covers with confidence `sampling_tolerance`.

    It is at least 0.
    """
    gamma = rational_in(coverage, "coverage", 0, 1)
    rho = rational_in(accuracy, "accuracy", 0, 1, open_low=True)
    return max(Fraction(0), gamma - rho)


def exchangeable_coverage(coverage: Number, samples: int) -> Fraction:
    """Return P(a new pair's sensitivity <= the sampled one) = ceil(gamma2 n)/(n+1), exactly.

    The probability is averaged over the samples, for continuous sensitivities. It says something
    about random pairs, and is not differential privacy.
    """
    gamma = rational_in(coverage, "coverage", 0, 1)
    integer_in(samples, "samples", 1, None)
    return Fraction(math.ceil(gamma * samples), samples + 1)


def samples_needed(claimed: Number, coverage: Number, accuracy: Number) -> int:
    """Return the least number of samples at which the published bound reaches `claimed`.

    Raises `ParameterError` if a number is outside its range, or `claimed` is not below `coverage`.
    """
    wanted = rational_in(claimed, "claimed", 0, 1, open_high=True)
    gamma = rational_in(coverage, "coverage", 0, 1, open_low=True)
    rho = rational_in(accuracy, "accuracy", 0, 1, open_low=True)
    if wanted >= gamma:
        raise ParameterError(f"claimed must lie in [0, coverage = {coverage}), not {claimed}")
    with working():
        # gamma2 (1 - 2 e^(-2 rho^2 n)) >= claimed.
        exponent = -to_decimal((1 - wanted / gamma) / 2).ln()
        return max(
            1, int((exponent / to_decimal(2 * rho * rho)).to_integral_value("ROUND_CEILING"))
        )


def claimed_coupled_confidence(
    epsilon: Number, epsilon0: Number, coverage: Number, eta: Number = 1, k: int = 1
) -> Decimal:
    """Return gamma3 = P(T <= epsilon) / P(T <= eta epsilon0) * gamma2.

    eta is the true sensitivity divided by the sampled one, and `epsilon` at most eta epsilon0.
    [DBB20], equation (7). Show it only with `NOT_DP`.
    """
    gamma = rational_in(coverage, "coverage", 0, 1)
    ratio = rational_in(eta, "eta", 0, None, open_low=True)
    noise = rational_in(epsilon0, "epsilon0", 0, None, open_low=True)
    with working():
        return claimed_confidence(epsilon, ratio * noise, k) * to_decimal(gamma)


def _gap_probability(x: Decimal, k: int) -> Decimal:
    """Return P(T <= x) in the current context, all terms being positive."""
    if x == 0:
        return Decimal(0)
    total = Decimal(0)
    for j in range(k):
        weight = Decimal(math.comb(k - 1 + j, j)) / (1 << (k - 1 + j))
        total += weight * _gamma_probability(k - j, x)
    return total


def _gamma_probability(shape: int, x: Decimal) -> Decimal:
    """Return P(Gamma(shape, 1) <= x) = e^-x sum_{i >= shape} x^i/i!."""
    if x > 2 * shape + 10:
        # These omitted terms are the smaller side.
        term = total = Decimal(1)
        for i in range(1, shape):
            term *= x / i
            total += term
        return 1 - (-x).exp() * total
    term = Decimal(1)
    for i in range(1, shape + 1):
        term *= x / i
    total = term
    i = shape
    while term > total.scaleb(-70):
        i += 1
        term *= x / i
        total += term
    return (-x).exp() * total
