"""One example of each row of `MECHANISMS`, made from the row alone."""

from fractions import Fraction

from aggregator.dp.mechanisms import Mechanism, PolicyParameters
from aggregator.dp.policy import MECHANISMS

PARAMETERS = {"epsilon": Fraction(1), "delta": Fraction(1, 10**3), "rho": Fraction(1, 8)}


def example_of(
    kind: type[Mechanism], max_reports_per_person: int = 1, **parameters: Fraction
) -> Mechanism:
    """Return a mechanism of a row with such parameters, those not given being `PARAMETERS`."""
    given = {name: str((PARAMETERS | parameters)[name]) for name in kind.parameter_names}
    return kind.of(PolicyParameters(kind.name, given), max_reports_per_person)


def noisy_examples(**parameters: Fraction) -> list[Mechanism]:
    """Return an example of each row that adds noise."""
    return [example_of(kind, **parameters) for kind in MECHANISMS.values() if kind.is_noisy]
