"""The normal law in decimal arithmetic, and the sigma needed for (epsilon, delta).

Double precision fails at a steward's deltas: at delta = 1e-300 the two terms of the Gaussian
mechanism's curve agree to more digits than a double has. Everything here is in terms of Mills'
ratio R(x) = Q(x) / phi(x), where Q is the upper tail, so that the tiny common factor phi is taken
out first.
"""

import decimal
from decimal import Decimal
from functools import lru_cache
from statistics import NormalDist

from aggregator.dp.decimals import to_decimal, working
from aggregator.dp.normal import pi
from aggregator.errors import ParameterError

# Below this point the power series is summed, above it the continued fraction.
_SERIES_UP_TO = 7


@lru_cache(maxsize=16)
def _root_of_two_pi(digits: int) -> Decimal:
    with working(digits):
        return to_decimal(2 * pi(digits).low).sqrt()


def density(x: Decimal) -> Decimal:
    """Return phi(x), the standard normal density."""
    return (-x * x / 2).exp() / _root_of_two_pi(decimal.getcontext().prec)


def mills_ratio(x: Decimal) -> Decimal:
    """Return Q(x) / phi(x) for `x` of at least zero."""
    with decimal.localcontext() as context:
        digits = context.prec
        if x < _SERIES_UP_TO:
            # Q = 1/2 - phi * sum x^(2k+1) / (2k+1)!!; the difference loses about x^2/2 nats.
            context.prec += int(x * x / 4) + 8
            term = total = x
            k = 1
            while term > total * Decimal(1).scaleb(-context.prec):
                k += 2
                term = term * x * x / k
                total += term
            value = _root_of_two_pi(context.prec) / 2 * (x * x / 2).exp() - total
        else:
            # R(x) = 1/(x + 1/(x + 2/(x + 3/(x + ...)))); n terms leave about exp(-2 x sqrt(2n)).
            context.prec += 5
            terms = int((digits * 2.303 * 1.3 / (2 * float(x))) ** 2 / 2) + 20
            value = x
            for k in range(terms, 0, -1):
                value = x + k / value
            value = 1 / value
    return +value


def upper_tail(x: Decimal) -> Decimal:
    """Return Q(x) = P[N(0, 1) > x]."""
    if x >= 0:
        return density(x) * mills_ratio(x)
    return 1 - density(x) * mills_ratio(-x)


def upper_quantile(probability: Decimal) -> Decimal:
    """Return the z with Q(z) = `probability`, which lies strictly between 0 and 1."""
    if probability > Decimal("0.5"):
        return -upper_quantile(1 - probability)
    approximate = float(probability)
    if approximate > 1e-290:  # noqa: PLR2004 - where the double is still a normal number
        z = Decimal(-NormalDist().inv_cdf(approximate))
    else:
        z = (-2 * probability.ln()).sqrt()
    goal = probability.ln()
    while True:
        # Newton on ln Q, whose slope is -1/R: concave, so it converges from every start.
        ratio = mills_ratio(max(z, Decimal(0)))
        step = ((density(z) * ratio).ln() - goal) * ratio
        z = max(z + step, Decimal(0))
        if abs(step) <= Decimal(1).scaleb(-decimal.getcontext().prec // 2 - 2):
            # Quadratic convergence: the next step is below the working precision.
            return z


def gaussian_delta(epsilon: Decimal, mu: Decimal) -> Decimal:
    """Return the exact delta at `epsilon` of Gaussian noise with sensitivity/sigma = `mu`.

    Source: [BW18], Theorem 8: delta = Phi(mu/2 - epsilon/mu) - e^epsilon Phi(-mu/2 - epsilon/mu).
    """
    with decimal.localcontext() as context:
        context.prec += 2 * max(0, -mu.adjusted()) + 5
        near, far = epsilon / mu - mu / 2, epsilon / mu + mu / 2
        # e^epsilon phi(far) = phi(near), so the second term is phi(near) R(far).
        if near >= 0:
            value = density(near) * (mills_ratio(near) - mills_ratio(far))
        else:
            value = 1 - density(near) * (mills_ratio(-near) + mills_ratio(far))
    return +value


def gaussian_mu(epsilon: Decimal, delta: Decimal) -> Decimal:
    """Return the largest sensitivity/sigma whose Gaussian noise is (`epsilon`, `delta`)-DP.

    Raises `ParameterError` if `delta` does not lie strictly between 0 and 1.
    """
    if not 0 < delta < 1:
        raise ParameterError(f"delta must lie in (0, 1), not {delta:.6g}")
    # Both terms of the curve are positive, so Phi(mu/2 - epsilon/mu) = delta gives a mu too small;
    # so does delta = mu/sqrt(2 pi), which is the curve's bound at epsilon = 0.
    z = upper_quantile(delta)
    root = (z * z + 2 * epsilon).sqrt()
    tangent = 2 * epsilon / (z + root) if z > 0 else root - z
    mu = max(tangent, delta * _root_of_two_pi(decimal.getcontext().prec))
    goal = delta.ln()
    while True:
        # Newton on ln delta over ln mu, concave and rising: from the left it never overshoots. The
        # derivative of delta by mu is phi(mu/2 - epsilon/mu).
        reached = gaussian_delta(epsilon, mu)
        step = (goal - reached.ln()) * reached / (mu * density(mu / 2 - epsilon / mu))
        mu *= step.exp()
        if abs(step) <= Decimal(1).scaleb(-decimal.getcontext().prec // 2 - 2):
            return mu
