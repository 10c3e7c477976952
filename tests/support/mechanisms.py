"""One example of each row of `MECHANISMS`, made from the row alone."""

from fractions import Fraction

from aggregator.dp.mechanisms import Mechanism, PolicyParameters
from aggregator.dp.policy import MECHANISMS

PARAMETERS = {"epsilon": Fraction(1), "delta": Fraction(1, 10**3), "rho": Fraction(1, 8)}


def example_of(
    kind: type[Mechanism], max_reports_per_person: int = 1, **parameters: Fraction
) -> Mechanism:
    """Return a mechanism of a row with such parameters, those not given being `PARAMETERS`."""
    given = {name: (PARAMETERS | parameters)[name] for name in kind.parameter_names}
    texts = {name: str(value) for name, value in given.items()}
    made = kind.of(PolicyParameters(kind.name, texts), max_reports_per_person)
    # Otherwise it would be judged as another mechanism than the policy's.
    assert made.max_reports_per_person == max_reports_per_person, kind
    assert dict(made.parameters()) == given, kind
    return made


def noisy_examples(**parameters: Fraction) -> list[Mechanism]:
    """Return an example of each row that adds noise."""
    return [example_of(kind, **parameters) for kind in MECHANISMS.values() if kind.is_noisy]
