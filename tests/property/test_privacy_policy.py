from fractions import Fraction
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from aggregator.codec import DecodeError
from aggregator.dp.discrete_gaussian import DiscreteGaussian
from aggregator.dp.discrete_laplace import PureDpDiscreteLaplace
from aggregator.dp.group import Group
from aggregator.dp.mechanisms import Mechanism
from aggregator.dp.no_privacy import NoPrivacy
from aggregator.dp.policy import PrivacyPolicy, decode_policy, encode_policy
from aggregator.dp.policy_table import policy_from_mapping, policy_to_mapping
from aggregator.dp.rationals import format_rational, parse_rational
from aggregator.dp.suppression import Suppression
from aggregator.dp.thresholds import Thresholds
from aggregator.dp.truncated_geometric import TruncatedGeometric
from aggregator.dp.window import Window
from aggregator.untrusted_text import is_unsafe

BITS = 2**64
positive = st.builds(Fraction, st.integers(1, BITS), st.integers(1, BITS))
small = st.builds(lambda n, d: Fraction(n, n + d), st.integers(1, BITS), st.integers(1, BITS))
deltas = small.map(lambda value: value / 100)
reports = st.integers(1, 2**32 - 1)


def mechanisms() -> st.SearchStrategy[Mechanism]:
    return st.one_of(
        st.builds(NoPrivacy, max_reports_per_person=reports),
        st.builds(PureDpDiscreteLaplace, positive, max_reports_per_person=reports),
        st.builds(TruncatedGeometric, positive, deltas, max_reports_per_person=reports),
        st.builds(DiscreteGaussian, positive, deltas, max_reports_per_person=reports),
    )


thresholds = st.builds(
    Thresholds,
    private=st.one_of(st.sampled_from(["k", "2k"]), st.integers(0, 2**63 - 1)),
    public=st.none() | st.integers(0, 2**63 - 1),
    public_buckets=st.sets(st.integers(0, 2**32 - 1), max_size=20).map(
        lambda buckets: tuple(sorted(buckets))
    ),
)
suppressions = st.builds(Suppression, st.integers(0, 2**63 - 1), st.none() | small)
selections = st.one_of(
    st.just({}),
    st.fixed_dictionaries({"thresholds": thresholds}),
    st.fixed_dictionaries({"suppression": suppressions}),
)


windows = st.integers(1, 2**64 - 1).flatmap(
    lambda length: st.builds(Window, st.just(length), st.integers(0, length - 1))
)


groups = st.builds(
    Group,
    st.text(min_size=1, max_size=40).filter(lambda text: not is_unsafe(text)),
    st.integers(0, 2**32 - 1),
)


def policy_of(
    selection: dict[str, Any],
    window: Window | None,
    group: Group | None,
    *settings: Any,  # noqa: ANN401 - any field
) -> PrivacyPolicy:
    return PrivacyPolicy(*settings, **selection, window=window, group=group)


policies = st.builds(
    policy_of,
    selections,
    st.none() | windows,
    st.none() | groups,
    mechanisms(),
    st.none() | reports,
    st.none() | positive,
    st.none() | reports,
    st.text(max_size=40).filter(lambda text: not is_unsafe(text)),
)


@settings(deadline=None)
@given(policies)
def test_a_policy_survives_its_encoding_and_its_file(policy: PrivacyPolicy) -> None:
    assert decode_policy(encode_policy(policy)) == policy
    assert policy_from_mapping(policy_to_mapping(policy)) == policy


@settings(deadline=None)
@given(policies, st.integers(0, 10**6), st.integers(1, 255))
def test_a_changed_byte_is_refused_or_another_policy(
    policy: PrivacyPolicy, position: int, change: int
) -> None:
    data = bytearray(encode_policy(policy))
    data[position % len(data)] ^= change
    try:
        other = decode_policy(bytes(data))
    except DecodeError:
        return
    assert other != policy
    assert encode_policy(other) == bytes(data)


@settings(deadline=None)
@given(st.binary(max_size=80))
def test_junk_is_refused_by_a_decode_error_or_is_canonical(data: bytes) -> None:
    try:
        policy = decode_policy(data)
    except DecodeError:
        return
    assert encode_policy(policy) == data


@settings(deadline=None)
@given(positive)
def test_a_rational_survives_its_text(value: Fraction) -> None:
    assert parse_rational(format_rational(value), "epsilon") == value
