"""A privacy policy as the table [privacy] of a task file: read, and written."""

from collections.abc import Mapping

from aggregator.dp.by_section import split
from aggregator.dp.group import Group
from aggregator.dp.policy import (
    MECHANISMS,
    PARAMETERS,
    PrivacyPolicy,
    check_count,
    optional,
    read_mechanism,
)
from aggregator.dp.rationals import format_rational, parse_rational
from aggregator.dp.shares import shares_of_text, text_of_shares
from aggregator.dp.suppression import Suppression
from aggregator.dp.thresholds import Thresholds
from aggregator.dp.window import Window
from aggregator.errors import ParameterError
from aggregator.untrusted_text import meant, near

_SETTINGS = (
    *("mechanism", *PARAMETERS, "shares", "max_reports_per_person", "max_batches_per_person"),
    *("window", "window_start", "budget", "max_releases", "population", "group", "group_place"),
    *("private_threshold", "public_buckets", "public_threshold"),
    *("suppress_at_or_below", "assumed_probability", "bound"),
)
"""The names that a privacy table may have, for a hint where one is misspelt."""


def policy_from_mapping(table: Mapping[str, object]) -> PrivacyPolicy:
    """Return the policy in a task file's [privacy] table.

    Args:
        table: `mechanism` and its parameters; all else has a default.

    Raises:
        ParameterError: A setting is missing, unknown, or out of range; the message names it.
    """
    values = dict(table)
    name = values.pop("mechanism", None)
    kinds = {kind.name: kind for kind in MECHANISMS.values()}
    if not isinstance(name, str) or name not in kinds:
        known = f"mechanism must be one of {', '.join(kinds)}"
        if name is None:
            misspelt = near("mechanism", values)
            raise ParameterError(f"{known}{f'; there is {misspelt}' if misspelt else ''}")
        raise ParameterError(f"{known}, not {name!r}{meant(str(name), kinds)}")
    parameters = {key: values.pop(key, None) for key in PARAMETERS}
    mechanism = read_mechanism(kinds[name], parameters, values.pop("max_reports_per_person", 1))
    window = Window.of(values.pop("window", None), values.pop("window_start", None))
    if (shares := values.pop("shares", None)) is not None:
        mechanism = split(mechanism, shares_of_text(shares))
    max_batches = check_count(values.pop("max_batches_per_person", None), "max_batches_per_person")
    max_releases = check_count(values.pop("max_releases", None), "max_releases")
    population = values.pop("population", "")
    if not isinstance(population, str):
        raise ParameterError(f"population must be text, not {population!r}")
    group = Group.of(values.pop("group", None), values.pop("group_place", None))
    budget = optional(values.pop("budget", None), "budget", parse_rational)
    thresholds = Thresholds.from_settings(values, mechanism)
    suppression = Suppression.from_settings(values)
    for key in values:
        raise ParameterError(f"{key}: no such setting of a privacy policy{meant(key, _SETTINGS)}")
    return PrivacyPolicy(
        mechanism=mechanism,
        max_batches_per_person=max_batches,
        budget=budget,
        max_releases=max_releases,
        population=population,
        thresholds=thresholds,
        suppression=suppression,
        window=window,
        group=group,
    )


def policy_to_mapping(policy: PrivacyPolicy) -> dict[str, str | int]:
    """Return the [privacy] table of this policy; values are text or whole numbers."""
    mechanism, parameters = policy.mechanism, policy.mechanism.parameters()
    hides_by_default = mechanism.default_private_threshold != "none"
    settings: dict[str, str | int | None] = {
        "mechanism": mechanism.name,
        **{name: format_rational(parameters[name]) for name in PARAMETERS if name in parameters},
        "shares": text_of_shares(policy.shares) or None,
        "max_reports_per_person": policy.max_reports_per_person,
        **(policy.window.settings() if policy.window else {}),
        "max_batches_per_person": policy.max_batches_per_person,
        "budget": None if policy.budget is None else format_rational(policy.budget),
        "max_releases": policy.max_releases,
        "population": policy.population or None,
        **(policy.group.settings() if policy.group else {}),
        **({"private_threshold": "none"} if hides_by_default else {}),
        **(policy.thresholds.settings() if policy.thresholds else {}),
        **(policy.suppression.settings() if policy.suppression else {}),
    }
    return {name: value for name, value in settings.items() if value is not None}
