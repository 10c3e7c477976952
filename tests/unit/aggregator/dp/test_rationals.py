from fractions import Fraction

import pytest

from aggregator.dp.rationals import at_most, format_rational, parse_probability, parse_rational
from aggregator.errors import ParameterError


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1/10", Fraction(1, 10)),
        ("0.1", Fraction(1, 10)),
        ("2/4", Fraction(1, 2)),
        ("3", Fraction(3)),
        ("1e-6", Fraction(1, 10**6)),
        ("2.5E2", Fraction(250)),
        (2, Fraction(2)),
    ],
)
def test_text_is_read_exactly(text: object, value: Fraction) -> None:
    assert parse_rational(text, "epsilon") == value
    assert parse_rational(format_rational(value), "epsilon") == value


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (0.1, "is a float"),
        (float("nan"), "is a float"),
        ("0", "must be positive"),
        ("0.000", "must be positive"),
        (0, "must be positive"),
        ("0/5", "must be positive"),
        ("-1/2", "must be a positive rational"),
        (-1, "must be a positive rational"),
        ("1/0", "denominator other than zero"),
        ("nan", "must be a positive rational"),
        ("inf", "must be a positive rational"),
        ("", "must be a positive rational"),
        (" 1", "must be a positive rational"),
        ("1_000", "must be a positive rational"),
        ("\u0661", "must be a positive rational"),
        ("1e9999", "must be a positive rational"),
        ("1e-999", "more than 255 digits"),
        ("9" * 256, "must be a positive rational"),
        pytest.param(10**5000, "more than 255 digits", id="10^5000"),
        (True, "must be a positive rational"),
        (None, "must be a positive rational"),
    ],
    ids=repr,
)
def test_other_text_is_refused_with_the_parameter_and_the_reason(text: object, reason: str) -> None:
    with pytest.raises(ParameterError, match=rf"^epsilon .*{reason}"):
        parse_rational(text, "epsilon")


def test_a_probability_is_below_one() -> None:
    assert parse_probability("0.99", "delta") == Fraction(99, 100)
    with pytest.raises(ParameterError, match="delta must be below 1, not 1"):
        parse_probability("1", "delta")


def test_a_stated_maximum_is_rounded_up() -> None:
    assert at_most(Fraction(1, 3)) == "0.334"
    assert at_most(Fraction(1, 3), 6) == "0.333334"
    assert at_most(Fraction(16, 25), 10) == "0.64"
    assert at_most(Fraction(1, 10**400)) == "1e-400"
