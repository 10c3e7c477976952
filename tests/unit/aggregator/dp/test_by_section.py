"""Noise by section: that the shares of the whole are kept, and by nothing that the mechanism says.

A person who would learn more about somebody than epsilon or rho allows gains by any share that is
too large, by noise of one section on another, or by a move of several sections at once.
"""

import dataclasses
import math
from collections.abc import Sequence
from fractions import Fraction
from functools import cache

import pytest
from typing_extensions import override

from aggregator.codec import DecodeError
from aggregator.dp.by_section import BySection, equal_errors, split
from aggregator.dp.certified import to_float
from aggregator.dp.composition import Releases, bounds
from aggregator.dp.discrete_gaussian import DiscreteGaussian
from aggregator.dp.discrete_laplace import PureDpDiscreteLaplace
from aggregator.dp.laws import NoiseLaw
from aggregator.dp.mechanisms import Mechanism
from aggregator.dp.policy import PrivacyPolicy, decode_policy, encode_policy
from aggregator.dp.policy_table import policy_from_mapping, policy_to_mapping
from aggregator.dp.release import check_no_wrap
from aggregator.dp.truncated_geometric import TruncatedGeometric
from aggregator.errors import ParameterError
from aggregator.vdaf.circuits import Circuit, Histogram, Sections, Summed
from tests.support.entropy import SeededEntropy
from tests.support.small_field import moves

SHARES = {
    "onehot:2 onehot:3": "1/3 2/3",
    "onehot:3 bygroup:2,2": "1/2 1/2",
    "atmost:3,2 onehot:2": "3/7 4/7",
    "onehot:2 number:3 given:0,1,2": "1/8 1/2 3/8",
    "onehot:2 onehot:2 table:0,1": "2x1/4 1/2",
}
LAPLACE = PureDpDiscreteLaplace(Fraction(6, 5))
GAUSSIAN = DiscreteGaussian(Fraction(1, 4))


def circuit_of(text: str) -> Sections:
    return Sections(text, 2)


def by_section(base: Mechanism, text: str) -> BySection:
    table: dict[str, object] = {"mechanism": base.name, "shares": SHARES[text]}
    table |= {name: str(value) for name, value in base.parameters().items()}
    table["max_reports_per_person"] = base.max_reports_per_person
    made = policy_from_mapping(table).mechanism
    assert isinstance(made, BySection)
    return made


def laws_of(mechanism: Mechanism, circuit: Circuit) -> list[NoiseLaw]:
    """The law of each entry; one aggregator is honest."""
    runs = mechanism.laws(circuit, 1)
    return [law for entries, law in runs for _ in range(entries) if law is not None]


@cache
def mass(law: NoiseLaw, value: int) -> float:
    return to_float(law.probability(abs(value)))


def pure_loss(laws: Sequence[NoiseLaw], move: Sequence[int]) -> float:
    """The largest privacy loss of any outcome, found at a distance beyond both sums."""
    return sum(
        math.log(mass(law, 9) / mass(law, 9 + abs(step)))
        for law, step in zip(laws, move, strict=True)
    )


def renyi(laws: Sequence[NoiseLaw], move: Sequence[int], order: int) -> float:
    """The Renyi divergence of this order between the neighbours, over all entries."""
    found = 0.0
    for law, step in zip(laws, move, strict=True):
        found += renyi_of_entry(law, abs(step), order)
    return found


@cache
def renyi_of_entry(law: NoiseLaw, step: int, order: int) -> float:
    pairs = ((mass(law, value), mass(law, value - step)) for value in range(-60, 61))
    sums = (p * (p / q) ** (order - 1) for p, q in pairs if q > 1e-60)
    return math.log(sum(sums)) / (order - 1)


@pytest.mark.parametrize("reports", [1, 2])
@pytest.mark.parametrize("text", SHARES)
def test_no_neighbours_lose_more_than_the_whole_epsilon_and_the_furthest_lose_it(
    text: str, reports: int
) -> None:
    circuit = circuit_of(text)
    base = dataclasses.replace(LAPLACE, max_reports_per_person=reports)
    laws = laws_of(by_section(base, text), circuit)
    worst = max(pure_loss(laws, move) for move in moves(circuit, reports))
    assert worst == pytest.approx(1.2, rel=1e-9)


@pytest.mark.parametrize("order", [2, 7])
@pytest.mark.parametrize("text", SHARES)
def test_no_neighbours_diverge_by_more_than_the_whole_rho(text: str, order: int) -> None:
    circuit = circuit_of(text)
    laws = laws_of(by_section(GAUSSIAN, text), circuit)
    worst = max(renyi(laws, move, order) for move in moves(circuit))
    assert worst <= order / 4 * (1 + 1e-9)
    # An integer times an integer move: there the bound is attained.
    assert worst == pytest.approx(order / 4, rel=1e-6)


@dataclasses.dataclass(frozen=True, slots=True)
class Greedy(BySection):
    """Gives each section the whole epsilon."""

    @override
    def by_part(self, circuit: Summed) -> Sequence[tuple[Mechanism, Summed]]:
        return [(self.base, part) for part in circuit.parts()]


def test_a_mechanism_that_spends_the_whole_on_each_section_is_seen() -> None:
    circuit = circuit_of("onehot:2 onehot:3")
    laws = laws_of(Greedy(LAPLACE, (Fraction(1, 2),) * 2), circuit)
    assert max(pure_loss(laws, move) for move in moves(circuit)) == pytest.approx(2.4)


@pytest.mark.parametrize("base", [LAPLACE, GAUSSIAN], ids=lambda base: base.name)
@pytest.mark.parametrize("text", SHARES)
def test_one_release_costs_what_the_whole_does(text: str, base: Mechanism) -> None:
    circuit, mechanism = circuit_of(text), by_section(base, text)
    cost, whole = mechanism.cost(circuit, 3), base.cost(circuit, 3)
    assert whole is not None
    assert cost.epsilon == whole.epsilon
    if isinstance(base, DiscreteGaussian):
        assert cost.rho == whole.rho
        assert mechanism.guarantee(circuit).rho == base.rho
    else:
        assert mechanism.guarantee(circuit) == base.guarantee(circuit)


def test_the_noise_of_each_section_is_drawn_at_its_own_scale() -> None:
    text = "onehot:40 number:1000000 atmost:40,1 onehot:40"
    circuit = Sections(text, 2)
    mechanism = split(LAPLACE, equal_errors(LAPLACE, circuit))
    scales = [each.scale(part) for each, part in mechanism.by_part(circuit)]
    assert scales[0] == scales[2] == scales[3] == scales[1] / 10**6
    entropy, sums = SeededEntropy(3), [0] * circuit.output_len
    for _ in range(30):
        for place, draw in enumerate(mechanism.noise(circuit, entropy)):
            sums[place] += abs(draw)
    # Means of 30 and of 1,200 draws, whose expectations are the scales to within a part in ten.
    runs = ((0, 40, 0), (40, 41, 1), (41, 81, 2), (81, 121, 3))
    for first, end, section in runs:
        mean = sum(sums[first:end]) / (30 * (end - first))
        assert float(scales[section]) / 2 < mean < 2 * float(scales[section])


def test_one_scale_for_all_is_the_split_with_equal_errors() -> None:
    circuit = Sections("onehot:5 onehot:9 atmost:4,2", 3)
    for base in (LAPLACE, GAUSSIAN):
        mechanism = split(base, equal_errors(base, circuit))
        assert mechanism.laws(circuit) == [(n, base.law(circuit, 2)) for n in (5, 9, 4)]
        assert mechanism.law(circuit, 2) == base.law(circuit, 2)
        assert mechanism.tail_bound(circuit) == base.tail_bound(circuit)
        assert mechanism.describe_scale(circuit) == base.describe_scale(circuit)


def test_errors_are_equal_in_the_units_that_are_given() -> None:
    circuit = Sections("onehot:5 number:100", 3)
    for base in (LAPLACE, GAUSSIAN):
        shares = equal_errors(base, circuit, [Fraction(1), Fraction(20)])
        assert sum(shares) == 1
        (_, counts), (_, numbers) = split(base, shares).laws(circuit)
        assert counts is not None
        assert numbers is not None
        assert to_float(numbers.variance()) == pytest.approx(
            400 * to_float(counts.variance()), rel=1e-2
        )
    with pytest.raises(ParameterError, match="units: there must be 2 above 0"):
        equal_errors(LAPLACE, circuit, [Fraction(1)])


def test_intervals_are_of_each_sections_own_law_and_joint_ones_of_all_values() -> None:
    circuit = Sections("onehot:5 number:100", 3)
    mechanism = split(GAUSSIAN, equal_errors(GAUSSIAN, circuit))
    (five, narrow), (one, wide) = mechanism.half_widths(circuit, Fraction(19, 20))
    assert (five, one) == (5, 1)
    assert 90 * narrow < wide < 110 * narrow
    assert mechanism.half_width(circuit, Fraction(19, 20)) == wide
    joint = mechanism.half_widths(circuit, Fraction(19, 20), jointly=True)
    assert joint[0][1] > narrow
    with pytest.raises(ParameterError, match="another law in each section"):
        mechanism.law(circuit, 2)


def test_unequal_pieces_of_one_release_compose_no_worse_than_the_release() -> None:
    circuit = Sections("onehot:2 onehot:2 number:9", 3)
    mechanism = split(LAPLACE, (Fraction(1, 5), Fraction(2, 5), Fraction(2, 5)))
    made = [Releases(mechanism, circuit, 40)]
    single = [Releases(LAPLACE, Sections("number:9", 3), 40)]
    delta = Fraction(1, 10**6)
    found = {each.name: each for each in bounds(made, delta, plan=made)}
    as_one = {each.name: each for each in bounds(single, delta, plan=single)}
    assert found["basic"].epsilon == as_one["basic"].epsilon == 48
    advanced, whole = found["advanced"].epsilon, as_one["advanced"].epsilon
    assert advanced is not None
    assert whole is not None
    assert advanced < whole


def test_a_release_by_section_that_could_wrap_is_refused() -> None:
    circuit = Sections(f"onehot:2 number:{2**64 - 1}", 3)
    mechanism = split(LAPLACE, equal_errors(LAPLACE, circuit))
    check_no_wrap(circuit, mechanism, 10**6)
    tiny = PureDpDiscreteLaplace(Fraction(1, 2**70))
    with pytest.raises(ParameterError, match="wrap around the field"):
        check_no_wrap(circuit, split(tiny, equal_errors(tiny, circuit)), 10**6)


@pytest.mark.parametrize(
    ("shares", "message"),
    [
        ("1/2 1/3", "all must add up to 1, not 5/6"),
        ("3/2 -1/2", "shares"),
        ("0 1", "shares"),
        ("", "shares: there must be 1 to 65535, not 0"),
        ("0x1/2 1", "the number before x must be 1 to 65535"),
        ("70000x1/70000", "there must be at most 65535"),
        (3, "shares must be text"),
    ],
)
def test_shares_that_are_none_are_refused(shares: object, message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        policy_from_mapping({"mechanism": "DiscreteGaussian", "rho": "1", "shares": shares})


def test_shares_are_of_the_tasks_sections_and_of_mechanisms_that_can_be_split() -> None:
    policy = PrivacyPolicy(split(GAUSSIAN, (Fraction(1, 2),) * 2))
    policy.check(Sections("onehot:2 onehot:3", 2))
    with pytest.raises(ParameterError, match="one for each of the 3 sections, not 2"):
        policy.check(Sections("onehot:2 onehot:3 number:4", 2))
    with pytest.raises(ParameterError, match="one for each of the 1 sections, not 2"):
        policy.check(Histogram(4, 2))
    geometric = TruncatedGeometric(Fraction(1), Fraction(1, 1000))
    with pytest.raises(ParameterError, match="TruncatedGeometric has one scale for all sections"):
        split(geometric, (Fraction(1),))
    threshold = policy_from_mapping(
        {"mechanism": "PureDpDiscreteLaplace", "epsilon": "1", "private_threshold": 5}
    )
    with pytest.raises(ParameterError, match="private_threshold: sections have different laws"):
        threshold.check(Sections("onehot:2 onehot:3", 2))


def test_a_policy_by_section_has_one_encoding_and_one_text() -> None:
    shares = (Fraction(1, 8),) * 3 + (Fraction(5, 8),)
    policy = PrivacyPolicy(split(GAUSSIAN, shares), max_releases=3)
    data = encode_policy(policy)
    runs = "0002" + "0003" + "03312f38" + "0001" + "03352f38"
    assert data.hex() == (
        "04" + "03" + "01" + "00" + "0c" + b"1/1000000000".hex() + "03312f34" + runs
        + "00000001" + "0" * 32 + "00000000" + "00" + "00000003" + "00" + "00"
    )  # fmt: skip
    assert decode_policy(data) == policy
    assert policy_to_mapping(policy)["shares"] == "3x1/8 5/8"
    assert policy_from_mapping(policy_to_mapping(policy)) == policy
    split_run = data.hex().replace(runs, "0003" + "000103312f38" + "000203312f38" + runs[16:])
    with pytest.raises(DecodeError, match="not the canonical encoding"):
        decode_policy(bytes.fromhex(split_run))
    none = data.hex().replace(runs, "0000")
    with pytest.raises(DecodeError, match="there must be 1 to 65535"):
        decode_policy(bytes.fromhex(none))
