"""Faults planted in the release path, and which of the self-test's vantages finds each.

The numbers of collections are those of docs/privacy.md, "A self-test of the release path": each is
enough for a power of at least 0.999, or of 1 where the noise is gone altogether. Seeds are fixed,
so a test passes or fails for good; with fresh seeds one self-test of a right mechanism in 10^6
would accuse it.
"""

import math
from collections.abc import Callable
from fractions import Fraction

import pytest
from scipy.stats import binom

from aggregator.dp.discrete_laplace import PureDpDiscreteLaplace
from aggregator.dp.mechanisms import Mechanism
from aggregator.dp.release import add_noise
from aggregator.entropy import Entropy
from aggregator.steward.audit.refutation import Finding, best_finding, epsilon_bound
from aggregator.steward.audit.runs import Audit, AuditedTask
from aggregator.vdaf.circuits import Circuit
from field import Vector
from tests.support.entropy import SeededEntropy

FALSE_ALARM = 1e-6
LAPLACE = {"mechanism": "PureDpDiscreteLaplace", "epsilon": "1"}
COUNT = AuditedTask("Prio3Count", {}, LAPLACE)
HISTOGRAM = AuditedTask("Prio3Histogram", {"length": 2}, LAPLACE)
EVENTS = {"count": 8 * 2, "histogram": 8 * 2 * 2}
"""Vantages times directions times thresholds: the false alarm is divided by this number."""

ReleaseNoise = Callable[[Vector, Mechanism, Circuit, Entropy], Vector]


def audit(audited: AuditedTask, collections: int) -> Finding:
    audit_of = Audit(audited, SeededEntropy(b"audit"))
    delta = float(Fraction(audited.privacy.get("delta", "0")))
    observations = audit_of.observe(collections // 4)
    return best_finding(observations, audit_of.neighbours.distance, FALSE_ALARM, delta)


def plant(monkeypatch: pytest.MonkeyPatch, faulty: ReleaseNoise) -> None:
    """Put another function in the place where both aggregators add noise, the leader first."""
    monkeypatch.setattr("aggregator.protocol.collection.add_noise", faulty)


def halve_the_scale(monkeypatch: pytest.MonkeyPatch) -> None:
    right = PureDpDiscreteLaplace.scale
    monkeypatch.setattr(
        PureDpDiscreteLaplace, "scale", lambda self, circuit: right(self, circuit) / 2
    )


def forget_a_coordinate(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "aggregator.dp.discrete_laplace.l1_sensitivity", lambda _circuit, reports: reports
    )


@pytest.mark.parametrize(
    ("audited", "collections"),
    [
        (COUNT, 1200),
        (HISTOGRAM, 1200),
        (AuditedTask("Prio3Sum", {"max_measurement": 5}, LAPLACE), 600),
        (AuditedTask("Prio3SumVec", {"length": 2, "max_measurement": 3}, LAPLACE), 400),
        (AuditedTask("Prio3MultihotCountVec", {"length": 3, "max_weight": 2}, LAPLACE), 400),
        (AuditedTask("Prio3L1BoundSum", {"length": 2, "max_value": 3}, LAPLACE), 400),
        (
            AuditedTask(
                "Prio3Histogram",
                {"length": 2},
                {"mechanism": "TruncatedGeometric", "epsilon": "1", "delta": "1/100000"},
            ),
            600,
        ),
    ],
    ids=["count", "histogram", "sum", "sum-vec", "multihot", "l1-bound-sum", "truncated"],
)
def test_the_right_mechanism_is_not_accused(audited: AuditedTask, collections: int) -> None:
    assert audit(audited, collections).epsilon <= 1


def test_a_count_that_is_released_rightly_comes_close_to_its_epsilon() -> None:
    # Not accused only because nothing is seen? At 2000 collections the bound is about 0.6.
    assert 0.4 < audit(COUNT, 2000).epsilon <= 1


def test_half_the_scale_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    halve_the_scale(monkeypatch)
    finding = audit(COUNT, 1200)
    assert 1 < finding.epsilon <= 2
    assert finding.vantage in {"leader's noise", "helper's noise"}


def test_a_histogram_s_sensitivity_of_1_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    forget_a_coordinate(monkeypatch)
    finding = audit(HISTOGRAM, 2800)
    assert 1 < finding.epsilon <= 2


@pytest.mark.parametrize("forgetful", [0, 1], ids=["leader", "helper"])
def test_noise_forgotten_on_one_side_is_found(
    monkeypatch: pytest.MonkeyPatch, forgetful: int
) -> None:
    calls = 0

    def faulty(share: Vector, mechanism: Mechanism, circuit: Circuit, entropy: Entropy) -> Vector:
        nonlocal calls
        calls += 1
        is_forgetful = (calls - 1) % 2 == forgetful
        return share if is_forgetful else add_noise(share, mechanism, circuit, entropy)

    plant(monkeypatch, faulty)
    finding = audit(HISTOGRAM, 120)
    assert finding.epsilon > 1
    assert finding.vantage.startswith(("leader's", "helper's")[forgetful])


@pytest.mark.parametrize("lazy", [0, 1], ids=["leader", "helper"])
def test_noise_reused_for_the_next_batch_is_found(
    monkeypatch: pytest.MonkeyPatch, lazy: int
) -> None:
    calls = 0
    last: Vector | None = None

    def faulty(share: Vector, mechanism: Mechanism, circuit: Circuit, entropy: Entropy) -> Vector:
        nonlocal calls, last
        calls += 1
        if (calls - 1) % 2 != lazy:
            return add_noise(share, mechanism, circuit, entropy)
        if last is None or (calls - 1) // 2 % 2 == 0:  # fresh noise for every other batch only
            last = add_noise(share, mechanism, circuit, entropy) - share
        return share + last

    plant(monkeypatch, faulty)
    finding = audit(HISTOGRAM, 240)
    assert finding.epsilon > 1
    assert finding.vantage == f"{('leader', 'helper')[lazy]}'s noise, less its last"


@pytest.mark.parametrize("sign", [1, -1], ids=["equal", "opposite"])
def test_noise_that_both_aggregators_share_is_found(
    monkeypatch: pytest.MonkeyPatch, sign: int
) -> None:
    calls = 0
    drawn: Vector | None = None

    def faulty(share: Vector, mechanism: Mechanism, circuit: Circuit, entropy: Entropy) -> Vector:
        nonlocal calls, drawn
        calls += 1
        if drawn is None or calls % 2 == 1:
            drawn = add_noise(share, mechanism, circuit, entropy) - share
            return share + drawn
        return share + drawn * sign

    plant(monkeypatch, faulty)
    finding = audit(HISTOGRAM, 120)
    assert finding.epsilon > 1
    assert finding.vantage.endswith("less the peer's" if sign == 1 else "with the peer's")


@pytest.mark.parametrize(
    ("shape", "collections", "true_epsilon"),
    [("count", 1200, 2), ("histogram", 2800, 2)],
)
def test_the_stated_numbers_of_collections_give_the_stated_power(
    shape: str, collections: int, true_epsilon: float
) -> None:
    # The event that the audit looks at, under a mechanism whose scale is half of what it should be.
    if shape == "count":
        q = math.exp(-true_epsilon)
        likely, unlikely = 1 / (1 + q), q / (1 + q)
    else:
        q = math.exp(-true_epsilon / 2)
        likely, unlikely = 1 / (1 + q) ** 2, q**2 / (1 + q) ** 2
    runs = collections // 2
    hits = (int(binom.ppf(2e-4, runs, likely)), int(binom.ppf(1 - 2e-4, runs, unlikely)))
    # More hits and fewer false ones only raise the bound, so this refutes in all but 0.001.
    power = binom.sf(hits[0] - 1, runs, likely) * binom.cdf(hits[1], runs, unlikely)
    assert power > 0.999
    assert epsilon_bound(hits, (runs, runs), FALSE_ALARM / EVENTS[shape]) > 1


def test_the_fewest_collections_for_noise_that_is_gone() -> None:
    # 60 runs a data set, always and never: 120 collections; pairs for noise that is reused: 240.
    assert epsilon_bound((60, 0), (60, 60), FALSE_ALARM / EVENTS["histogram"]) > 1
