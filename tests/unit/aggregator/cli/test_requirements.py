"""A client can require of a task all that an aggregator can."""

import dataclasses
import inspect
from fractions import Fraction

import pytest

from aggregator.cli.requirements import _requirements
from aggregator.protocol.requirements import Requirements
from aggregator.service.config import HelperSettings
from aggregator.service.config.tables import TABLES

GIVEN = {
    "min_batch_size": (50, 50),
    "max_epsilon": (Fraction(1, 3), "1/3"),
    "max_delta": (Fraction(0), "0"),
    "max_rho": (Fraction(1, 50), "1/50"),
    "limit_required": (True, True),
    "exact_results": (False, False),
    "population_required": ("staff, patients", "staff, patients"),
}
"""What each setting is set to, and its option."""


def test_every_requirement_is_a_setting_of_services_and_an_option_of_clients() -> None:
    options = inspect.signature(_requirements).parameters.keys()
    assert options == {*TABLES["requirements"]} == GIVEN.keys()
    required = {field.name for field in dataclasses.fields(Requirements)}
    # A client whose data is nobody's takes any epsilon; no service does.
    assert len(required - {"any_epsilon"}) == len(GIVEN)


@pytest.mark.parametrize("name", GIVEN)
def test_a_requirement_is_the_same_as_a_setting_and_as_an_option(name: str) -> None:
    setting, option = GIVEN[name]
    by_setting = HelperSettings(database="x", **{name: setting}).requirements
    assert by_setting == _requirements(**{name: option})
    assert by_setting != Requirements()
