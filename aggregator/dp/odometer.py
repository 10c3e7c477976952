"""What releases have cost so far, valid at all times at once: for a collector who may stop anytime.

A collector who sees each result before asking for the next can wait for the moment at which the
privacy loss is large, and stop there. A bound that holds after a number of releases *fixed
beforehand* is then exceeded more often than it says; an odometer's bound holds for all numbers of
releases together:

    P(the loss passes epsilon(n) for any n) <= delta

It needs neither a horizon nor an enforced limit, and mechanisms and costs may be chosen after
seeing earlier results. delta and `tightest_rho` must be fixed before the first release.

**Theorem.** *With c > 0 and rho_n the sum of the rhos of n releases,*

    epsilon(n) = rho_n + 2 sqrt((rho_n + c) ln(1/2 + sqrt(1 + rho_n / c) / 2 delta))

*is such a bound.*

*Proof.* Let L_n be the loss. For each k > 0, exp(k L_n - k (k + 1) rho_n) is a supermartingale that
starts at 1, since a release is rho_i-zCDP given all that went before, and rho_i is known before it.
So is their mixture with the density 2 sqrt(c / pi) e^(-c k^2), k > 0, which is, with
s = L_n - rho_n and v = rho_n + c,

    M_n = 2 sqrt(c / v) e^(s^2 / 4v) Phi(s / sqrt(2v))

By Ville's inequality M_n ever reaches 1/delta with a probability of at most delta. M_n grows with
L_n, and where s >= 0, Phi(s / sqrt(2v)) >= 1 - e^(-s^2 / 4v) / 2, so that
M_n >= sqrt(c / v) (2 e^(s^2 / 4v) - 1). That is 1/delta at s = epsilon(n) - rho_n.

Then also P(E) <= E'[e^epsilon(n) 1_E] + delta for every event E of the releases up to the moment n
at which the collector stops, with E' the expectation under the neighbour: (epsilon(n), delta)-DP of
what was seen, with the epsilon of that moment. If mechanisms have deltas of their own, these are
added, as for `dp.filters`.

The price of the freedom to stop is small. Compared with rho + 2 sqrt(rho ln(1/delta)), which bounds
the loss after a number of releases fixed beforehand, epsilon is 5 percent larger at `tightest_rho`
if delta is 10^-6, 10 percent at a hundred times that and 15 percent at a tenth, but twice as large
at a hundredth. There must be a price: by the law of the iterated logarithm the loss sooner or later
exceeds every bound for fixed numbers.

Source: [WRRW23] for odometers from mixtures of supermartingales, here with a mixture over k > 0
only and rhos that need not come from pure differential privacy; [RRUV16] for what an odometer is.
"""

import dataclasses
from fractions import Fraction

from aggregator.dp.certified import floor_of, ln, round_up_closely, sqrt
from aggregator.dp.filters import Cost, check_delta
from aggregator.dp.rationals import require_positive

TIGHTEST_RHO = Fraction(1, 100)
"""Where an odometer is tightest by default: good from a tenth of it upwards."""


@dataclasses.dataclass(frozen=True, slots=True)
class Odometer:
    """A bound on the loss at all times at once.

    Attributes:
        delta: The probability that the loss ever exceeds the bound, below 1/100; fixed before the
            first release.
        tightest_rho: The sum of rhos at which the bound is to be tightest, fixed before the first
            release and not from results: an enforced limit, say, or the default. The bound holds
            for all sums.

    Raises:
        ParameterError: An attribute is out of range.
    """

    delta: Fraction
    tightest_rho: Fraction = TIGHTEST_RHO

    def __post_init__(self) -> None:
        check_delta(self.delta)
        require_positive(self.tightest_rho, "tightest_rho")

    def epsilon(self, spent: Cost) -> Fraction:
        """Return the epsilon of what was released so far, with delta = self.delta + spent.delta.

        If the sum of epsilons is smaller, it is that sum. The loss never exceeds that, so the
        smaller of the two is an odometer with the same delta. (The smaller of two bounds that may
        both be exceeded is not: it has both deltas.)
        """
        if spent.epsilon is None:
            return self._mixture_bound(spent.rho)
        if spent.epsilon == 0:
            return Fraction(0)
        return min(spent.epsilon, self._mixture_bound(spent.rho))

    def _mixture_bound(self, rho: Fraction) -> Fraction:
        mixed = self.tightest_rho / _best_ratio(self.delta)
        return round_up_closely(
            lambda digits: (
                rho
                + 2
                * sqrt(
                    (rho + mixed)
                    * ln(Fraction(1, 2) + sqrt(1 + rho / mixed, digits) / (2 * self.delta), digits),
                    digits,
                )
            )
        )


def _best_ratio(delta: Fraction) -> int:
    """Return roughly the best rho_n / c at which to be tightest, as an integer.

    (1 + 1/x) (ln(1 + x) / 2 + a), a = ln(1 / 2 delta), is least where x = ln(1 + x) + 2a; one step
    from x = 2a comes within a hundredth, and the minimum is flat. It is computed exactly, since an
    odometer must not change from one machine to the next.
    """
    guess = 1 + floor_of(lambda digits: 2 * ln(1 / (2 * delta), digits))
    return 1 + floor_of(
        lambda digits: 2 * ln(1 / (2 * delta), digits) + ln(Fraction(1 + guess), digits)
    )
