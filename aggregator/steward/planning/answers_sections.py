"""The answer of `prio plan sections`: one epsilon for a whole report, split over its sections.

Each section has a unit: an error of one unit is equally bad in every section. The split makes every
section's error the same in its unit. Discrete Laplace noise needs no delta, and its scale grows
with the number of sections; that of discrete Gaussian noise grows with the root of that number, and
is found by its own law. So Laplace noise is narrower for few sections and Gaussian noise for many;
both are computed.
"""

import math
from collections.abc import Sequence
from fractions import Fraction

from aggregator.collector.results.sums import SumLaw
from aggregator.dp.by_section import BySection, equal_errors, with_gaussian_epsilon
from aggregator.dp.certified import to_float
from aggregator.dp.decimals import rational_in
from aggregator.dp.discrete_gaussian import DiscreteGaussian
from aggregator.dp.discrete_laplace import PureDpDiscreteLaplace
from aggregator.dp.filters import check_delta
from aggregator.dp.laws import NoiseLaw
from aggregator.dp.mechanisms import Mechanism
from aggregator.dp.policy import PrivacyPolicy
from aggregator.dp.policy_table import policy_to_mapping
from aggregator.errors import ParameterError
from aggregator.steward.planning.output import PlanAnswer, Value
from aggregator.vdaf.circuits import Circuit, Sections

_AGGREGATORS = 2


def sections(
    circuit: Circuit,
    epsilon: str,
    delta: str,
    units: Sequence[str] = (),
    confidence: str = "0.95",
    max_reports_per_person: int = 1,
) -> PlanAnswer:
    """Return both mechanisms with their shares and each section's error, and which one to take.

    epsilon is of one release, for everything that a report holds, and delta of the Gaussian
    mechanism. Units are one for each section; by default the largest value of an entry, 1 for
    counts. Raises `ParameterError` if a value is out of its range, or there is not one unit per
    section.
    """
    if not isinstance(circuit, Sections):
        raise ParameterError(f"circuit must be sections, not Prio3{circuit.name}")
    whole = rational_in(epsilon, "epsilon", 0, None, open_low=True)
    failure = rational_in(delta, "delta", 0, 1, open_low=True)
    check_delta(failure)
    sure = rational_in(confidence, "confidence", 0, 1, open_low=True, open_high=True)
    given = [rational_in(unit, "units", 0, None, open_low=True) for unit in units]
    most = max_reports_per_person
    laplace = PureDpDiscreteLaplace(whole, max_reports_per_person=most)
    gaussian = DiscreteGaussian(Fraction(1), failure, max_reports_per_person=most)
    shares = equal_errors(gaussian, circuit, given)
    found = {
        laplace.name: BySection(laplace, equal_errors(laplace, circuit, given)),
        gaussian.name: with_gaussian_epsilon(whole, failure, circuit, shares, most),
    }
    errors = {name: _deviations(mechanism, circuit)[0] for name, mechanism in found.items()}
    taken = min(errors, key=lambda name: errors[name])
    other = max(errors, key=lambda name: errors[name])
    privacy: dict[str, Value] = {**policy_to_mapping(PrivacyPolicy(found[taken]))}
    return {
        "take": taken,
        "why": f"the standard deviation of the first section's values is {errors[taken]:.4g}, and "
        f"{errors[other]:.4g} with {other}",
        "mechanisms": {
            name: {
                "noise": mechanism.describe_scale(circuit),
                "sections": _rows(mechanism, circuit, sure),
            }
            for name, mechanism in found.items()
        },
        "privacy": privacy,
    }


def _deviations(mechanism: Mechanism, circuit: Sections) -> list[float]:
    """Return the standard deviation of a value of each section, with both aggregators' noise."""
    laws = [law for _, law in mechanism.laws(circuit, _AGGREGATORS)]
    return [0.0 if law is None else to_float(law.variance()) ** 0.5 for law in laws]


def _difference(law: NoiseLaw | None, confidence: Fraction) -> int:
    """Return the least difference of a value in two releases that shows a difference in truth."""
    if law is None:
        return 1
    width = SumLaw.of([(law, 1), (law, -1)]).width(confidence).size
    return math.floor(width) + 1


def _rows(mechanism: BySection, circuit: Sections, confidence: Fraction) -> list[Value]:
    widths = mechanism.half_widths(circuit, confidence, _AGGREGATORS)
    return [
        {
            "section": section.text,
            "share": share,
            "standard_deviation": deviation,
            "half_width": width,
            "two_releases_must_differ_by": _difference(law, confidence),
        }
        for section, share, deviation, (_, width), (_, law) in zip(
            circuit.parts(),
            mechanism.shares,
            _deviations(mechanism, circuit),
            widths,
            mechanism.laws(circuit, _AGGREGATORS),
            strict=True,
        )
    ]
