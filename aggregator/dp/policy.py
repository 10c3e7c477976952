"""A task's privacy policy, and the bytes of it that are bound into every report.

The encoding is a task extension, so clients and aggregators authenticate it with every report. An
aggregator applies what it decodes from those very bytes. Every policy has one encoding and no other
decodes, so equal policies are equal bytes.
"""

import dataclasses
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Self, TypedDict

from aggregator.codec import DecodeError, Reader, Writer, decode, encode
from aggregator.dp.by_section import BySection, Shares, split
from aggregator.dp.decimals import integer_in
from aggregator.dp.discrete_gaussian import DiscreteGaussian
from aggregator.dp.discrete_laplace import PureDpDiscreteLaplace
from aggregator.dp.filters import check_delta
from aggregator.dp.group import Group
from aggregator.dp.mechanisms import Mechanism, PolicyParameters
from aggregator.dp.no_privacy import NoPrivacy
from aggregator.dp.rationals import (
    MAX_RATIONAL_TEXT,
    format_rational,
    parse_probability,
    parse_rational,
    require_positive,
)
from aggregator.dp.sensitivity import check_max_reports_per_person
from aggregator.dp.shares import read_shares, write_shares
from aggregator.dp.suppression import Suppression
from aggregator.dp.thresholds import Thresholds
from aggregator.dp.truncated_geometric import TruncatedGeometric
from aggregator.dp.window import Window
from aggregator.errors import ParameterError
from aggregator.untrusted_text import is_unsafe
from aggregator.vdaf.circuits import Circuit, Sections

_MAX_CODE_POINT = 255


def mechanism_table(*rows: tuple[int, type[Mechanism]]) -> dict[int, type[Mechanism]]:
    """Return the rows as a table, by code point.

    Raises TypeError if a mechanism leaves a question about its privacy unanswered, has no name of
    its own, has the code point of another, or one that is not a byte.
    """
    table: dict[int, type[Mechanism]] = {}
    for code_point, kind in rows:
        missing = ", ".join(sorted(getattr(kind, "__abstractmethods__", ())))
        if missing:
            raise TypeError(f"mechanism {kind.__name__} does not say its {missing}")
        if not isinstance(getattr(kind, "name", None), str):
            raise TypeError(f"mechanism {kind.__name__} does not say its name")
        if not 0 <= code_point <= _MAX_CODE_POINT:
            raise TypeError(
                f"mechanism {kind.__name__} must have a code point from 0 to {_MAX_CODE_POINT}, "
                f"not {code_point}"
            )
        if code_point in table or kind.name in {other.name for other in table.values()}:
            raise TypeError(f"mechanism {kind.__name__} has the code point or name of another")
        table[code_point] = kind
    return table


MECHANISMS = mechanism_table(
    (0, NoPrivacy),
    (1, PureDpDiscreteLaplace),
    (2, TruncatedGeometric),
    (3, DiscreteGaussian),
)
"""Every mechanism by its code point: one row per mechanism, which the browser's client repeats."""

_VERSION, _BY_SECTION, _IN_GROUP = 3, 1, 2
"""The version of plain policies, and what split noise and a group each add to it."""

_REPLACEMENT = 1
_MAX_POPULATION_SIZE = 255

_ALWAYS_SHOWN = 2**64 - 1
"""Stands for "no threshold"; a threshold is below 2^63."""

PARAMETERS = ("epsilon", "delta", "rho")
"""The parameters that the encoding has room for, in order; each mechanism uses some of them."""

_EVERYTHING, _THRESHOLDS, _SUPPRESSION = 0, 1, 2
"""What the collector shows."""


@dataclasses.dataclass(frozen=True, slots=True)
class PrivacyPolicy:
    """What a task promises a person, and what it may cost them.

    Attributes:
        mechanism: What each aggregator adds to its share; carries epsilon, delta or rho and the
            largest number of reports of one person in one batch.
        max_batches_per_person: In how many batches of the task one person may be; None for any.
            Clients keep to it; no aggregator can check it, and none relies on it.
        budget: The epsilon that all releases may cost together; None for no limit. Each aggregator
            enforces it.
        max_releases: How many releases there may be; None for no limit. Each aggregator enforces
            it.
        population: A name for the people asked; costs add up over the tasks of one population.
        thresholds: Which buckets of a noised histogram the collector shows; None for all.
        suppression: Which exact counts the collector does not show; None shows all. Only without
            noise; `dp.suppression` says what it is worth.
        window: The windows of time that batches are; aggregators release no other batches. None for
            any batch: then clients count a person's reports for ever.
        group: The group in which a person is in one place only, and the task's place in it. Clients
            keep to it; no aggregator can check it, but ledgers add up accordingly.
    """

    mechanism: Mechanism
    max_batches_per_person: int | None = None
    budget: Fraction | None = None
    max_releases: int | None = None
    population: str = ""
    thresholds: Thresholds | None = None
    suppression: Suppression | None = None
    window: Window | None = None
    group: Group | None = None

    def __post_init__(self) -> None:
        if _kind(self.mechanism) not in MECHANISMS.values():
            raise ParameterError(f"mechanism {self.mechanism.name}: has no row in MECHANISMS")
        for name in self.mechanism.parameters().keys() - set(PARAMETERS):
            raise ParameterError(f"mechanism {self.mechanism.name}: no policy has room for {name}")
        delta = self.mechanism.parameters().get("delta")
        if delta is not None:
            check_delta(delta)
        check_count(self.max_batches_per_person, "max_batches_per_person")
        check_count(self.max_releases, "max_releases")
        if self.budget is not None:
            require_positive(self.budget, "budget")
        if is_unsafe(self.population):
            raise ParameterError("population must be one line, without control characters")
        size = len(self.population.encode())
        if size > _MAX_POPULATION_SIZE:
            raise ParameterError(
                f"population must be at most {_MAX_POPULATION_SIZE} bytes of UTF-8, not {size}"
            )
        if self.suppression is not None and self.thresholds is not None:
            raise ParameterError(
                "suppress_at_or_below: is for exact counts, private_threshold for noised ones; "
                "give one of them"
            )

    def check(self, circuit: Circuit) -> None:
        """Refuse a policy that is meaningless for a type of measurement.

        Raises `ParameterError` for shares of other sections; thresholds for exact sums;
        suppression of noised sums, or of sums that are not counts; either of these for sections; a
        bucket that does not exist; or a budget without an epsilon to count.
        """
        self.mechanism.by_part(circuit)  # raises for shares of other sections
        if self.thresholds is not None:
            if isinstance(circuit, Sections):
                raise ParameterError(
                    "private_threshold: sections have different laws and meanings, so no one "
                    "threshold fits them; leave it out"
                )
            if not self.mechanism.is_noisy:
                raise ParameterError(
                    "private_threshold: thresholds are for noised counts; without noise "
                    "suppress_at_or_below hides small counts, and promises less"
                )
            self.thresholds.of_buckets(circuit, self.mechanism)
        if self.suppression is not None:
            if self.mechanism.is_noisy:
                raise ParameterError(
                    "suppress_at_or_below: only for the mechanism None; noised counts have "
                    "private_threshold"
                )
            if isinstance(circuit, Sections):
                raise ParameterError(
                    "suppress_at_or_below: counts of sections add up to what is known or shown "
                    "elsewhere, so the shown ones give away the hidden ones; leave it out"
                )
            self.suppression.check(circuit)
        if self.budget is not None and self.mechanism.cost(circuit, 1) is None:
            raise ParameterError(
                f"budget: the mechanism {self.mechanism.name} has no epsilon to count; give "
                "max_releases instead"
            )

    @property
    def shares(self) -> Shares:
        """The share of each section if epsilon or rho is split over sections; else empty."""
        return self.mechanism.shares if isinstance(self.mechanism, BySection) else ()

    @property
    def has_limit(self) -> bool:
        """Whether aggregators refuse releases after some number of them."""
        return self.budget is not None or self.max_releases is not None

    @property
    def max_reports_per_person(self) -> int:
        """How many reports of one person a batch may hold; the client enforces it."""
        return self.mechanism.max_reports_per_person

    def write(self, writer: Writer) -> None:
        """Append this policy's encoding."""
        by_section, in_group = bool(self.shares), self.group is not None
        writer.u8(_VERSION + _BY_SECTION * by_section + _IN_GROUP * in_group)
        code_points = {kind: code_point for code_point, kind in MECHANISMS.items()}
        writer.u8(code_points[_kind(self.mechanism)])
        writer.u8(_REPLACEMENT)
        parameters = self.mechanism.parameters()
        for name in PARAMETERS:
            _write_rational(writer, parameters.get(name))
        if self.shares:
            write_shares(writer, self.shares)
        writer.u32(self.max_reports_per_person)
        writer.u64(0 if self.window is None else self.window.length)
        writer.u64(0 if self.window is None else self.window.start)
        writer.u32(self.max_batches_per_person or 0)
        _write_rational(writer, self.budget)
        writer.u32(self.max_releases or 0)
        writer.opaque8(self.population.encode(), name="population")
        if self.group is not None:
            writer.opaque8(self.group.name.encode(), name="group")
            writer.u32(self.group.place)
        if self.thresholds is not None:
            writer.u8(_THRESHOLDS)
            self.thresholds.write(writer)
        elif self.suppression is not None:
            writer.u8(_SUPPRESSION)
            writer.u64(self.suppression.at_or_below)
            _write_rational(writer, self.suppression.assumed_probability)
        else:
            writer.u8(_EVERYTHING)

    @classmethod
    def read(cls, reader: Reader) -> Self:
        """Take one policy off `reader`, or raise `DecodeError`."""
        version = reader.u8()
        more, last = version - _VERSION, _VERSION + _BY_SECTION + _IN_GROUP
        if not _VERSION <= version <= last:
            raise reader.error(
                f"privacy policy version {version} is not known, only {_VERSION} to {last}"
            )
        code_point = reader.u8()
        if code_point not in MECHANISMS:
            raise reader.error(f"privacy mechanism {code_point} is not known")
        relation = reader.u8()
        if relation != _REPLACEMENT:
            raise reader.error(
                f"privacy policy neighbour relation {relation} is not known, only {_REPLACEMENT}"
            )
        parameters = {name: reader.text8(name) or None for name in PARAMETERS}
        try:
            shares = read_shares(reader) if more & _BY_SECTION else None
            mechanism = read_mechanism(MECHANISMS[code_point], parameters, reader.u32())
            return cls(
                mechanism=mechanism if shares is None else split(mechanism, shares),
                window=Window.of(reader.u64() or None, reader.u64() or None),
                max_batches_per_person=reader.u32() or None,
                budget=optional(reader.text8("budget") or None, "budget", parse_rational),
                max_releases=reader.u32() or None,
                population=reader.text8("population"),
                group=Group(reader.text8("group"), reader.u32()) if more & _IN_GROUP else None,
                **_read_selection(reader),
            )
        except ParameterError as error:
            raise DecodeError(f"privacy policy: {error}") from error


def encode_policy(policy: PrivacyPolicy) -> bytes:
    """Return the one encoding of a policy."""
    return encode(policy)


def decode_policy(data: bytes) -> PrivacyPolicy:
    """Return the policy that `data` encodes.

    Raises `DecodeError` if `data` is truncated, has leftover bytes, names an unknown mechanism,
    holds a value out of range, or is not the canonical encoding ("2/4" instead of "1/2").
    """
    policy = decode(PrivacyPolicy, data)
    if encode(policy) != data:
        raise DecodeError("privacy policy: not the canonical encoding")
    return policy


def _kind(mechanism: Mechanism) -> type[Mechanism]:
    """Return the row of a mechanism; for one split over sections, the row of its base."""
    return type(mechanism.base if isinstance(mechanism, BySection) else mechanism)


def read_mechanism(
    kind: type[Mechanism], given: Mapping[str, object], max_reports_per_person: object
) -> Mechanism:
    """Return the mechanism of a row with its parameters; raises what its `of` raises."""
    parameters = PolicyParameters(kind.name, given)
    mechanism = kind.of(parameters, check_max_reports_per_person(max_reports_per_person))
    parameters.finish()
    return mechanism


def check_count(value: object, name: str) -> int | None:
    """Return a limit on how many of something there may be; None for no limit."""
    return None if value is None else integer_in(value, name, 1, 2**32 - 1)


def _write_rational(writer: Writer, value: Fraction | None) -> None:
    text = "" if value is None else format_rational(value)
    writer.opaque8(text.encode(), maximum=MAX_RATIONAL_TEXT, name="rational")


def optional(text: object, name: str, parse: Callable[[object, str], Fraction]) -> Fraction | None:
    """Return the number that a text gives; None for None."""
    return None if text is None else parse(text, name)


def _read_selection(reader: Reader) -> "_Selection":
    kind = reader.u8()
    if kind == _EVERYTHING:
        return {}
    if kind == _THRESHOLDS:
        return {"thresholds": Thresholds.read(reader)}
    if kind == _SUPPRESSION:
        limit = reader.u64()
        assumed = reader.text8("assumed_probability") or None
        probability = optional(assumed, "assumed_probability", parse_probability)
        return {"suppression": Suppression(limit, probability)}
    raise reader.error(f"privacy policy selection {kind} is not known")


class _Selection(TypedDict, total=False):
    """The arguments of a policy that say what the collector shows."""

    thresholds: Thresholds
    suppression: Suppression
