"""What a breach may cost: the compensation budget as a function of epsilon.

The model of [DBB20]: each of N people is owed E e^(-1/epsilon), E being what each would be owed
without any protection. It is a way to price privacy, not a law of nature: its only input about
privacy is an epsilon, which must be a guarantee.

The paper then lowers the budget by mixing over a claimed confidence; the mechanism stays the same,
so the "saving" is mere relabelling. `published_optimum` reproduces it, labelled; the other
functions are the sound counterparts.

A number that is out of its range raises `ParameterError`.
"""

from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

from aggregator.dp.decimals import (
    DIGITS,
    Number,
    expm1,
    integer_in,
    log1p,
    rational_in,
    to_decimal,
    working,
)
from aggregator.dp.laws import DiscreteLaplaceLaw
from aggregator.dp.sensitivity import l1_sensitivity, nothing_changes
from aggregator.errors import ParameterError
from aggregator.papers.loss_law import MOST_EPSILON0, LaplaceLaw, LatticeLaw, Move
from aggregator.papers.privacy_at_risk import LABEL
from aggregator.papers.roots import find_root
from aggregator.vdaf.circuits import Circuit


@dataclass(frozen=True, slots=True)
class Optimum:
    """The epsilon with the smallest mixed budget, and the confidence used in the mixture."""

    epsilon: Decimal
    confidence: Decimal
    budget: Decimal
    label: str


@dataclass(frozen=True, slots=True)
class EpsilonRange:
    """Every epsilon0 that keeps to a wanted error and a budget; empty if low is above high.

    The noise of an epsilon0 below `low` is too large, and one above `high` costs too much; None if
    unbounded.
    """

    low: Decimal | None
    high: Decimal | None

    @property
    def is_empty(self) -> bool:
        """Whether no epsilon0 keeps to both."""
        return self.low is not None and self.high is not None and self.low > self.high


@dataclass(frozen=True, slots=True)
class CostModel:
    """Compensation owed after a breach, in the currency of `compensation`.

    `compensation` is what each of the people is owed if nothing protects the data.
    """

    people: int
    compensation: Fraction

    @classmethod
    def of(cls, people: int, compensation: Number) -> "CostModel":
        """Make the model from at least one person and a compensation above 0."""
        integer_in(people, "people", 1, None)
        return cls(people, rational_in(compensation, "compensation", 0, None, open_low=True))

    @property
    def whole(self) -> Fraction:
        """What is owed if nothing protects the data."""
        return self.people * self.compensation

    def budget(self, epsilon: Number) -> Decimal:
        """Return what is owed under an epsilon-DP release, N E e^(-1/epsilon).

        [DBB20], equation (8) with c = 1 and no fixed part.
        """
        level = rational_in(epsilon, "epsilon", 0, None)
        with working():
            return to_decimal(self.whole) * _owed(to_decimal(level))

    def published_optimum(self, epsilon0: Number) -> Optimum:
        """Return the paper's cheapest epsilon for one-coordinate Laplace noise, with its label.

        epsilon0 is above 0 and at most 1000. [DBB20], equations (9) and (10).
        """
        noise = rational_in(epsilon0, "epsilon0", 0, MOST_EPSILON0, open_low=True)
        with working():
            scale = to_decimal(noise)
            epsilon = _published_minimum(scale)
            confidence = expm1(-epsilon) / expm1(-scale)
            return self._mixed(epsilon, scale, confidence, LABEL)

    def true_confidence_optimum(self, epsilon0: Number) -> Optimum:
        """Return the cheapest epsilon with the true P(|L| <= epsilon) of Laplace noise."""
        law = LaplaceLaw.of(epsilon0)
        with working():
            scale = to_decimal(law.epsilon0)

            def slope(epsilon: Decimal) -> Decimal:
                # d/d epsilon of c(epsilon) (B(epsilon) - B(epsilon0)), c ~ sinh(epsilon/2), over
                # the positive factor cosh(epsilon/2)/2.
                tanh = expm1(epsilon) / (expm1(epsilon) + 2)
                falls = _owed(epsilon) - _owed(scale)
                return falls + 2 * tanh * _owed(epsilon) / (epsilon * epsilon)

            epsilon = find_root(slope, scale.scaleb(-3), scale)
            confidence = (expm1(epsilon)) * (-(scale + epsilon) / 2).exp() / 2
            return self._mixed(
                epsilon, scale, confidence, "descriptive: the true law of the loss, same mechanism"
            )

    def realised_loss_budget(self, epsilon0: Number, move: Move | None = None) -> Decimal:
        """Return N E E[e^(-1/|L|)], the budget if the realised loss were charged.

        Without a move the loss has the continuous law.
        """
        if move is not None:
            law = LatticeLaw.of(epsilon0, move)
            with working():
                return to_decimal(self.whole) * law.expected_of(lambda loss: _owed(abs(loss)))
        continuous = LaplaceLaw.of(epsilon0)
        with working(40):
            scale = to_decimal(continuous.epsilon0)
            edges = (1 + (-scale).exp()) / 2 * _owed(scale)
            return to_decimal(self.whole) * (edges + _middle_part(scale))

    def epsilon_range(
        self, circuit: Circuit, error: Number | None = None, budget: Number | None = None
    ) -> EpsilonRange:
        """Return every epsilon0 that keeps to the mean absolute error and the budget.

        The error is that of one coordinate, with the noise of both aggregators; the budget the most
        that may be owed. [DBB20], equation (11), corrected: the error bounds epsilon0, which sets
        the noise, and not the claimed epsilon.
        """
        low = high = None
        if error is not None:
            sensitivity = l1_sensitivity(circuit)
            if sensitivity == 0:
                raise nothing_changes(circuit)
            low = least_epsilon(rational_in(error, "error", 0, None, open_low=True), sensitivity)
        with working():
            if budget is not None:
                money = rational_in(budget, "budget", 0, None, open_low=True)
                if money < self.whole:
                    high = 1 / to_decimal(self.whole / money).ln()
        return EpsilonRange(low, high)

    def _mixed(self, epsilon: Decimal, scale: Decimal, confidence: Decimal, label: str) -> Optimum:
        per_unit = confidence * _owed(epsilon) + (1 - confidence) * _owed(scale)
        return Optimum(epsilon, confidence, to_decimal(self.whole) * per_unit, label)


def _owed(epsilon: Decimal) -> Decimal:
    """Return e^(-1/epsilon), which is 0 at 0."""
    return (-1 / epsilon).exp() if epsilon else Decimal(0)


def _published_minimum(epsilon0: Decimal) -> Decimal:
    """Solve 1/x - ln(1 + (e^x - 1)/x^2) = 1/epsilon0 for its one root in (0, epsilon0)."""

    def excess(x: Decimal) -> Decimal:
        return 1 / x - log1p(expm1(x) / (x * x)) - 1 / epsilon0

    low = epsilon0 / 2
    while excess(low) < 0:
        low /= 2
    if low == 0:
        raise ParameterError("epsilon0 is too small for the published optimum")
    return find_root(excess, low, epsilon0)


def _middle_part(scale: Decimal) -> Decimal:
    """Return the integral of e^(-1/|L|) over the continuous part of the Laplace law.

    There L = scale - 2u with density e^-u / 2 on (0, scale); both signs of L = l together have
    density e^(-scale/2) cosh(l/2) / 2 on (0, scale). By the tanh-sinh rule, which squares the error
    when the step is halved.
    """
    factor = (-scale / 2).exp() / 2

    def value(fraction: Decimal) -> Decimal:
        loss = scale * fraction
        if loss == 0:
            return Decimal(0)
        half = (loss / 2).exp()
        return _owed(loss) * (half + 1 / half) / 2

    step = Decimal(1) / 16
    half_pi = Decimal("1.5707963267948966192313216916397514420985846996875529")
    total = Decimal(0)
    for i in range(-72, 73):
        t = i * step
        sinh = (t.exp() - (-t).exp()) / 2
        cosh = (t.exp() + (-t).exp()) / 2
        grown = (2 * half_pi * sinh).exp()
        # (1 + tanh)/2 and the weight pi/4 cosh(t)/cosh^2(pi/2 sinh t), both on (0, 1).
        place = grown / (1 + grown)
        weight = 2 * half_pi * cosh * grown / (1 + grown) ** 2
        total += weight * value(place)
    return factor * scale * total * step


def least_epsilon(error: Fraction, sensitivity: int) -> Decimal:
    """Return the epsilon at which both aggregators' draws together have this mean absolute error.

    The error is of each coordinate; a smaller epsilon has a larger one.
    """
    with working():
        wanted = to_decimal(error)
        digits = DIGITS + abs(wanted.adjusted())

        def excess(epsilon: Decimal) -> Decimal:
            law = DiscreteLaplaceLaw(2, sensitivity / Fraction(epsilon))
            return to_decimal(law.mean_magnitude()(digits).low) - wanted

        low = high = Decimal(sensitivity)
        while excess(high) > 0:
            high *= 2
        while excess(low) < 0:
            low /= 2
        return low if low == high else find_root(excess, low, high)
