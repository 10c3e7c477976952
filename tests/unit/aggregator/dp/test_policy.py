from collections.abc import Mapping
from fractions import Fraction

import pytest

from aggregator.codec import DecodeError
from aggregator.dp.discrete_gaussian import DiscreteGaussian
from aggregator.dp.discrete_laplace import PureDpDiscreteLaplace
from aggregator.dp.group import Group
from aggregator.dp.no_privacy import NoPrivacy
from aggregator.dp.policy import PrivacyPolicy, decode_policy, encode_policy
from aggregator.dp.policy_table import policy_from_mapping, policy_to_mapping
from aggregator.dp.suppression import Suppression
from aggregator.dp.thresholds import Thresholds
from aggregator.dp.truncated_geometric import TruncatedGeometric
from aggregator.dp.window import Window
from aggregator.errors import ParameterError
from aggregator.vdaf.circuits import Circuit, Count, Histogram, Sections, Sum

LAPLACE: dict[str, object] = {"mechanism": "PureDpDiscreteLaplace", "epsilon": "1/2"}
GEOMETRIC: dict[str, object] = {"mechanism": "TruncatedGeometric", "epsilon": "1"}
GAUSSIAN: dict[str, object] = {"mechanism": "DiscreteGaussian", "rho": "1"}
FULL = PrivacyPolicy(
    mechanism=TruncatedGeometric(Fraction(1), Fraction(1, 101), max_reports_per_person=2),
    max_batches_per_person=3,
    budget=Fraction(5, 2),
    max_releases=6,
    population="müsli",
    thresholds=Thresholds("2k", public=5, public_buckets=(0, 3)),
    window=Window(2184, 24),
)


def test_every_field_of_the_encoding_has_its_place() -> None:
    expected = (
        "03"  # version
        "02"  # mechanism: TruncatedGeometric
        "01"  # neighbours: replacement
        "01"
        "31"  # epsilon: length, "1"
        "05"
        "312f313031"  # delta: length, "1/101"
        "00"  # rho: none
        "00000002"  # max_reports_per_person
        "0000000000000888"
        "0000000000000018"  # window: length and start, in units of time
        "00000003"  # max_batches_per_person
        "03"
        "352f32"  # budget: length, "5/2"
        "00000006"  # max_releases
        "06"
        "6dc3bc736c69"  # population: length, UTF-8
        "01"  # thresholds are given
        "02"
        "326b"  # private threshold: length, "2k"
        "0000000000000005"  # public threshold
        "0008"
        "00000000"
        "00000003"  # public buckets: length in bytes, bucket numbers
    )
    assert encode_policy(FULL).hex() == expected
    assert decode_policy(bytes.fromhex(expected)) == FULL


def test_a_setting_that_is_left_out_is_empty_or_zero() -> None:
    plain = PrivacyPolicy(NoPrivacy())
    assert encode_policy(plain).hex() == f"03000100000000000001{32 * '0'}0000000000000000000000"
    assert decode_policy(encode_policy(plain)) == plain


def test_suppression_is_encoded_where_thresholds_would_be() -> None:
    policy = PrivacyPolicy(NoPrivacy(), suppression=Suppression(20, Fraction(1, 200)))
    expected = (
        f"03000100000000000001{32 * '0'}00000000000000000000"  # as without it
        "02"  # suppression
        "0000000000000014"  # at or below: 20
        "05"
        "312f323030"  # assumed probability: length, "1/200"
    )
    assert encode_policy(policy).hex() == expected
    assert decode_policy(bytes.fromhex(expected)) == policy


def test_a_place_in_a_group_is_encoded_behind_the_population() -> None:
    policy = PrivacyPolicy(NoPrivacy(), population="p", group=Group("words", 3))
    expected = (
        f"05000100000000000001{32 * '0'}000000000000000000"  # as without it, but for the version
        "0170"  # population
        "05"
        "776f726473"  # group: length, UTF-8
        "00000003"  # place
        "00"  # everything is shown
    )
    assert encode_policy(policy).hex() == expected
    assert decode_policy(bytes.fromhex(expected)) == policy


@pytest.mark.parametrize(
    ("table", "circuit", "reason"),
    [
        ({"private_threshold": 5}, Count(), "private_threshold: thresholds are for noised"),
        ({"budget": "3"}, Count(), "budget: the mechanism None has no epsilon"),
        ({"suppress_at_or_below": 5}, Sum(9), "Prio3Sum does not count"),
        (
            {"suppress_at_or_below": 5, "assumed_probability": "0.1"},
            Histogram(4, 2),
            "the theorem is about one count, Prio3Count; for Prio3Histogram there is no guarantee",
        ),
        # Of 200 reports 100 and 97 are shown, so the bucket that is hidden has 3.
        ({"suppress_at_or_below": 5}, Sections("onehot:3", 2), "give away the hidden ones"),
        ({"suppress_at_or_below": 5}, Sections("onehot:2 onehot:2 table:0,1", 2), "give away"),
        ({**LAPLACE, "private_threshold": 9}, Sections("onehot:3", 2), "sections have different"),
        ({**LAPLACE, "suppress_at_or_below": 5}, Count(), "only for the mechanism None"),
        ({**LAPLACE, "private_threshold": "2k"}, Count(), "PureDpDiscreteLaplace has none"),
        (
            {**LAPLACE, "private_threshold": 9, "public_threshold": 1, "public_buckets": "1 4"},
            Histogram(4, 2),
            "there is no bucket 4",
        ),
    ],
    ids=lambda value: value.name if isinstance(value, Circuit) else None,
)
def test_a_policy_that_means_nothing_for_a_measurement_is_refused(
    table: dict[str, object], circuit: Circuit, reason: str
) -> None:
    policy = policy_from_mapping({"mechanism": "None"} | table)
    with pytest.raises(ParameterError, match=reason):
        policy.check(circuit)


@pytest.mark.parametrize(
    "policy",
    [
        FULL,
        PrivacyPolicy(NoPrivacy()),
        PrivacyPolicy(PureDpDiscreteLaplace(Fraction(1, 10)), budget=Fraction(3)),
        PrivacyPolicy(DiscreteGaussian(Fraction(1, 2), Fraction(1, 10**6))),
        PrivacyPolicy(TruncatedGeometric(Fraction(1), Fraction(1, 1000))),
        PrivacyPolicy(PureDpDiscreteLaplace(Fraction(1)), thresholds=Thresholds(23)),
        PrivacyPolicy(NoPrivacy(), suppression=Suppression(5)),
        PrivacyPolicy(NoPrivacy(), suppression=Suppression(0, Fraction(1, 200))),
    ],
    ids=["full", "none", "laplace", "gaussian", "geometric", "threshold", "suppress", "assume"],
)
def test_a_policy_survives_its_file_and_its_encoding(policy: PrivacyPolicy) -> None:
    assert decode_policy(encode_policy(policy)) == policy
    assert policy_from_mapping(policy_to_mapping(policy)) == policy


def test_truncated_noise_has_the_safe_threshold_unless_it_is_told_otherwise() -> None:
    table: dict[str, object] = {"mechanism": "TruncatedGeometric", "epsilon": "1", "delta": "1e-5"}
    assert policy_from_mapping(table).thresholds == Thresholds("2k")
    assert policy_from_mapping({**table, "private_threshold": "none"}).thresholds is None


def test_defaults_are_one_report_any_number_of_batches_and_no_limit() -> None:
    policy = policy_from_mapping({"mechanism": "PureDpDiscreteLaplace", "epsilon": "0.5"})
    assert policy == PrivacyPolicy(PureDpDiscreteLaplace(Fraction(1, 2)))
    assert policy.max_reports_per_person == 1


@pytest.mark.parametrize(
    ("table", "reason"),
    [
        ({}, "mechanism must be one of None, PureDpDiscreteLaplace"),
        ({"mechanism": "none"}, "not 'none'"),
        ({"mechanism": "PureDpDiscreteLaplace"}, "epsilon: missing; the mechanism .* needs it"),
        ({**LAPLACE, "epsilon": 0.5}, "epsilon .* is a float"),
        ({**LAPLACE, "epsilon": "0"}, "epsilon must be positive"),
        ({**LAPLACE, "epsilon": "-1"}, "epsilon must be a positive rational"),
        ({**LAPLACE, "epsilon": "1/0"}, "epsilon must have a denominator"),
        ({**LAPLACE, "delta": "1e-6"}, "delta: the mechanism .* has no such parameter"),
        ({"mechanism": "None", "epsilon": "1"}, "epsilon: the mechanism None has no"),
        ({"mechanism": "TruncatedGeometric", "epsilon": "1", "delta": "1"}, "delta must be below"),
        ({**GEOMETRIC, "delta": "0.01"}, "delta must be below 1/100, not 1/100"),
        ({**GEOMETRIC, "delta": "99/100"}, "delta must be below 1/100, not 99/100"),
        ({**GAUSSIAN, "delta": "1/100"}, "delta must be below 1/100, not 1/100"),
        ({**GAUSSIAN, "delta": "9/10"}, "delta must be below 1/100, not 9/10"),
        ({"mechanism": "DiscreteGaussian", "epsilon": "1"}, "rho: missing; the mechanism"),
        ({**LAPLACE, "max_reports_per_person": 0}, "max_reports_per_person must be"),
        ({**LAPLACE, "max_reports_per_person": "1"}, "max_reports_per_person must be"),
        ({**LAPLACE, "max_batches_per_person": 2**32}, "max_batches_per_person must be"),
        ({**LAPLACE, "window": 0}, "window must be from 1 to 2"),
        ({**LAPLACE, "window": 2**64}, "window must be from 1 to 2"),
        ({**LAPLACE, "window": "24"}, "window must be a whole number of units of time"),
        ({**LAPLACE, "window": 24, "window_start": 24}, "from 0 to below the window's 24 units"),
        ({**LAPLACE, "window_start": 3}, "window_start: goes with window only"),
        ({**LAPLACE, "max_releases": 0}, "max_releases must be an integer from 1"),
        ({**LAPLACE, "max_releases": True}, "max_releases must be"),
        ({**LAPLACE, "budget": 1.5}, "budget .* is a float"),
        ({**LAPLACE, "population": 3}, "population must be text"),
        ({**LAPLACE, "population": "x" * 256}, "population must be at most 255 bytes"),
        ({**LAPLACE, "population": "a\x1b[2J"}, "population must be one line, without control"),
        ({**LAPLACE, "population": "\ud800"}, "population must be one line, without control"),
        ({**LAPLACE, "group": "a"}, "group_place: missing"),
        ({**LAPLACE, "group_place": 1}, "group_place: needs group"),
        ({**LAPLACE, "group": 3, "group_place": 1}, "group must be text"),
        ({**LAPLACE, "group": "", "group_place": 1}, "group must be 1 to 255 bytes of UTF-8"),
        ({**LAPLACE, "group": "a\n", "group_place": 1}, "group must be one line"),
        ({**LAPLACE, "group": "a", "group_place": -1}, "group_place must be an integer from 0"),
        ({**LAPLACE, "group": "a", "group_place": 2**32}, "group_place must be an integer"),
        ({**LAPLACE, "private_threshold": "4k"}, "private_threshold must be"),
        ({**LAPLACE, "private_threshold": 1.5}, "private_threshold must be"),
        ({**LAPLACE, "public_threshold": 3}, "private_threshold: missing; with public"),
        ({**LAPLACE, "budgt": "3"}, r"budgt: no such setting .*; did you mean budget\?"),
        ({**LAPLACE, "private_threshold": 3, "public_buckets": "a"}, "public_buckets must be"),
        ({**LAPLACE, "private_threshold": 3, "public_threshold": "x"}, "public_threshold must be"),
        ({"mechanism": "None", "suppress_at_or_below": "5"}, "suppress_at_or_below must be"),
        ({"mechanism": "None", "suppress_at_or_below": -1}, "from 0 to 9223372036854775807"),
        (
            {"mechanism": "None", "assumed_probability": "0.1"},
            "assumed_probability: needs suppress",
        ),
        (
            {"mechanism": "None", "suppress_at_or_below": 5, "assumed_probability": "1"},
            "assumed_probability must be below 1",
        ),
        (
            {**LAPLACE, "private_threshold": 5, "suppress_at_or_below": 5},
            "give one of them",
        ),
        ({**LAPLACE, "epsilon_per_day": "1"}, "epsilon_per_day: no such setting"),
    ],
    ids=lambda value: None if isinstance(value, dict) else value,
)
def test_a_wrong_table_is_refused_with_the_setting_that_is_wrong(
    table: Mapping[str, object], reason: str
) -> None:
    with pytest.raises(ParameterError, match=reason):
        policy_from_mapping(table)


WINDOW = bytes.fromhex("00000000000000180000000000000005")
WINDOWED = PrivacyPolicy(NoPrivacy(), window=Window(24, 5))


def with_text(epsilon: str, mechanism: int = 1, neighbours: int = 1, version: int = 3) -> bytes:
    text = epsilon.encode()
    head = bytes([version, mechanism, neighbours, len(text)]) + text
    return head + bytes.fromhex(f"000000000001{32 * '0'}0000000000000000000000")


def test_the_helper_of_these_tests_encodes_a_valid_policy_correctly() -> None:
    assert decode_policy(with_text("1/2")) == PrivacyPolicy(PureDpDiscreteLaplace(Fraction(1, 2)))


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (with_text("2/4"), "not the canonical encoding"),
        (with_text("0.5"), "not the canonical encoding"),
        (with_text("01"), "not the canonical encoding"),
        (with_text("1/2") + b"\0", "left over"),
        (with_text("1/2")[:-1], "expected"),
        (with_text("0"), "epsilon must be positive"),
        (with_text(""), "epsilon: missing; the mechanism PureDpDiscreteLaplace needs it"),
        (with_text("1", mechanism=0), "epsilon: the mechanism None has no such parameter"),
        (with_text("1", mechanism=9), "mechanism 9 is not known"),
        (with_text("1", neighbours=2), "neighbour relation 2 is not known"),
        (with_text("1", version=2), "version 2 is not known, only 3 to 6"),
        (with_text("1", version=7), "version 7 is not known, only 3 to 6"),
        (with_text("1", version=5)[:-1] + bytes(6), "group must be 1 to 255 bytes"),
        (encode_policy(WINDOWED).replace(WINDOW, WINDOW[8:] + WINDOW[:8]), "window_start must be"),
        (encode_policy(WINDOWED).replace(WINDOW, bytes(8) + WINDOW[8:]), "window_start: goes with"),
        (with_text("1/2")[:-1] + b"\3" + bytes.fromhex("0133" + "00" * 8 + "0000"), "selection 3"),
        (with_text("1/2")[:-1] + b"\2" + b"\xff" * 8 + b"\0", "suppress_at_or_below must be"),
        (with_text("1/2")[:-1] + b"\2" + bytes(8) + b"\x032/4", "not the canonical encoding"),
        (with_text("1/2")[:-2] + b"\1\xff\0", "not UTF-8"),
        (encode_policy(FULL).replace(b"1/101", b"1/100"), "delta must be below 1/100, not 1/100"),
        (encode_policy(FULL).replace(b"1/101", b"99/98"), "delta must be below 1"),
        (b"", "expected"),
    ],
    ids=lambda value: value.hex() or "empty" if isinstance(value, bytes) else value,
)
def test_bytes_that_are_not_the_one_encoding_of_a_policy_are_refused(
    data: bytes, reason: str
) -> None:
    with pytest.raises(DecodeError, match=reason):
        decode_policy(data)
