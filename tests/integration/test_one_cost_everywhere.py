"""Budget, `prio ledger` and `prio plan compose` say one number of the same releases."""

import dataclasses
import json
from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any, ClassVar, Self

import pytest
from typing_extensions import override

from aggregator.cli.service.parties import open_aggregator
from aggregator.cli.service.taking_part import take_part
from aggregator.dap.profile import Role
from aggregator.dp import policy
from aggregator.dp.accounting import Pieces
from aggregator.dp.filters import Cost, cost_of_dp
from aggregator.dp.laws import DiscreteLaplaceLaw, NoiseLaw
from aggregator.dp.mechanisms import Guarantee, Mechanism, PolicyParameters
from aggregator.dp.samplers import DiscreteLaplaceSampler
from aggregator.dp.sensitivity import l1_sensitivity
from aggregator.dp.zcdp import implied_epsilon
from aggregator.entropy import Entropy
from aggregator.errors import ParameterError
from aggregator.protocol.batches import Batch
from aggregator.protocol.budget import cost
from aggregator.protocol.provisioning import provision
from aggregator.protocol.task import Task
from aggregator.protocol.task_file import task_to_toml
from aggregator.service.runtime import charge_of
from aggregator.service.storage.ledger.charges import charge
from aggregator.vdaf.circuits import Circuit
from tests.support.commands import run_here, service_file
from tests.support.entropy import SeededEntropy
from tests.support.tasks import make_task

RELEASES = 10
DELTA = "1/125"
COUNT = {"type": "Prio3Count"}
HISTOGRAM = {"type": "Prio3Histogram", "length": 4, "chunk_length": 2}
LONELY = {"type": "Prio3Histogram", "length": 1, "chunk_length": 1}
SUM_VEC = {"type": "Prio3SumVec", "length": 3, "max_measurement": 6, "chunk_length": 3}
MULTIHOT = {"type": "Prio3MultihotCountVec", "length": 6, "max_weight": 2, "chunk_length": 3}
LAPLACE = {"mechanism": "PureDpDiscreteLaplace", "epsilon": "1/3"}
GEOMETRIC = {"mechanism": "TruncatedGeometric", "epsilon": "1", "delta": "1/100000"}
GAUSSIAN = {"mechanism": "DiscreteGaussian", "rho": "1/20", "delta": "1/1000000"}


@dataclasses.dataclass(frozen=True, slots=True)
class TwoThousandth(Mechanism):
    """A mechanism of one's own, written as the documents say: it promises (1, 1/2000)."""

    max_reports_per_person: int = dataclasses.field(default=1, kw_only=True)

    name: ClassVar[str] = "TwoThousandth"

    @classmethod
    @override
    def of(cls, parameters: PolicyParameters, max_reports_per_person: int) -> Self:
        return cls(max_reports_per_person=max_reports_per_person)

    @override
    def parameters(self) -> Mapping[str, Fraction]:
        return {}

    @override
    def scale(self, circuit: Circuit) -> Fraction:
        return Fraction(l1_sensitivity(circuit, self.max_reports_per_person))

    @override
    def describe_scale(self, circuit: Circuit) -> str:
        return f"t = {self.scale(circuit)}"

    @override
    def noise(self, circuit: Circuit, entropy: Entropy) -> list[int]:
        sampler = DiscreteLaplaceSampler(self.scale(circuit))
        return list(map(int, sampler.sample(circuit.output_len, entropy)))

    @override
    def guarantee(self, circuit: Circuit) -> Guarantee:
        return self.promised("(1, 1/2000)-differential privacy", Fraction(1), Fraction(1, 2000))

    @override
    def cost(self, circuit: Circuit, releases: int) -> Cost:
        return cost_of_dp(Fraction(1), Fraction(1, 2000), releases)

    @override
    def pieces(self, circuit: Circuit) -> Pieces:
        return Pieces(1, Fraction(1), Fraction(1, 2000))

    @override
    def losses(self, circuit: Circuit) -> None:
        return None

    @override
    def law(self, circuit: Circuit, aggregators: int) -> NoiseLaw:
        return DiscreteLaplaceLaw(aggregators, self.scale(circuit))


@pytest.fixture
def _one_row_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(policy.MECHANISMS, 200, TwoThousandth)


def ledger_of(task: Task, directory: Path, releases: int) -> dict[str, Any]:
    """Return what `prio ledger` prints after this many releases."""
    file = service_file(directory, "helper", 'requirements.max_delta = "1/1000"\n')
    key, each = task.task_id.value, charge_of(task)
    with open_aggregator(file) as party:
        take_part(party, provision(task, SeededEntropy(1))[Role.HELPER])
        for unit in range(releases):
            bucket = unit.to_bytes(8, "big")
            batch = Batch(bucket, bucket)
            party.database.run_sync("charge", lambda tx, b=batch: charge(tx, key, b, each))
    done = run_here("ledger", "--config", file, "--delta", DELTA, "--json")
    assert done.returncode == 0, done.stderr
    (document,) = json.loads(done.stdout)["tasks"]
    assert isinstance(document, dict)
    return document


def plan_of(task: Task, directory: Path, delta: str = DELTA) -> dict[str, Any]:
    """Return what `prio plan compose` prints of this many releases of the task."""
    file = directory / "task.toml"
    file.write_text(task_to_toml(task))
    done = run_here(
        "plan", "compose", "--task", file, "--releases", str(RELEASES), "--delta", delta, "--json"
    )
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert isinstance(document, dict)
    return document


@pytest.mark.parametrize("vdaf", [COUNT, HISTOGRAM, SUM_VEC, MULTIHOT], ids=lambda v: v["type"])
@pytest.mark.usefixtures("_one_row_more")
def test_ten_releases_with_a_delta_cost_ten_deltas_in_every_valid_bound(
    vdaf: dict[str, str | int], tmp_path: Path
) -> None:
    privacy = {"mechanism": "TwoThousandth", "max_releases": RELEASES, "budget": "12"}
    task = make_task(vdaf, privacy)
    assert cost(task, RELEASES) == 10
    ledger, plan = ledger_of(task, tmp_path, RELEASES), plan_of(task, tmp_path)
    assert (ledger["epsilon_of_a_person"], ledger["delta_of_a_person"]) == ("10", "1/200")
    valid = {row["name"]: row for row in ledger["bounds"] if row["valid"]}
    assert (valid["basic"]["epsilon"], valid["basic"]["delta"]) == ("10", "1/200")
    assert set(valid) == {
        "basic",
        "odometer",
        "filter on epsilon",
        "filter on rho",
        "optimal (KOV)",
    }
    assert all(Fraction(row["delta"]) >= Fraction(1, 200) for row in valid.values())
    assert plan["deltas"] == {"basic": 0.005, "odometer": 0.008, "zcdp": 0.008, "optimal": 0.008}
    assert plan["basic"] == 10
    assert plan["advanced"] is plan["pld"] is None


@pytest.mark.usefixtures("_one_row_more")
def test_a_mechanism_with_a_delta_has_no_bound_at_a_smaller_one(tmp_path: Path) -> None:
    task = make_task(HISTOGRAM, {"mechanism": "TwoThousandth"})
    plan = plan_of(task, tmp_path, "1/201")
    assert plan["deltas"] == {}
    assert plan["best"] is None
    (note,) = plan["notes"]
    assert note.startswith("no bound holds at this delta")
    assert note.endswith("of the mechanism TwoThousandth, add up to 1/200")


@pytest.mark.usefixtures("_one_row_more")
def test_a_mechanism_without_a_scale_costs_what_it_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(TwoThousandth, "scale", lambda _mechanism, _circuit: Fraction(0))
    monkeypatch.setattr(TwoThousandth, "law", lambda *_arguments: None)
    task = make_task(HISTOGRAM, {"mechanism": "TwoThousandth", "budget": "12"})
    assert cost(task, RELEASES) == 10
    assert plan_of(task, tmp_path)["basic"] == 10


def test_noise_that_has_no_scale_is_not_taken_for_a_sum_that_nobody_can_move(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Scaleless(TwoThousandth):
        name = "Scaleless"

        @override
        def scale(self, circuit: Circuit) -> Fraction:
            return Fraction(0)

        @override
        def law(self, circuit: Circuit, aggregators: int) -> NoiseLaw:
            return DiscreteLaplaceLaw(aggregators, Fraction(1))

    monkeypatch.setitem(policy.MECHANISMS, 202, Scaleless)
    task = make_task(HISTOGRAM, {"mechanism": "Scaleless"})
    assert cost(task, RELEASES) == 10
    assert plan_of(task, tmp_path)["basic"] == 10


def test_noise_that_promises_nothing_has_no_bound_and_no_budget(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Decoration(TwoThousandth):
        name = "Decoration"

        @override
        def cost(self, circuit: Circuit, releases: int) -> None:
            return None

    monkeypatch.setitem(policy.MECHANISMS, 201, Decoration)
    task = make_task(HISTOGRAM, {"mechanism": "Decoration"})
    assert plan_of(task, tmp_path)["deltas"] == {}
    ledger = ledger_of(task, tmp_path, RELEASES)
    assert (ledger["releases_that_promise_nothing"], ledger["bounds"]) == (RELEASES, [])
    assert "the mechanism Decoration promises nothing" in plan_of(task, tmp_path)["notes"][0]
    with pytest.raises(ParameterError, match="the mechanism Decoration has no epsilon"):
        make_task(HISTOGRAM, {"mechanism": "Decoration", "budget": "1"})


def test_a_mechanism_that_leaves_a_question_unanswered_is_refused_at_start() -> None:
    class Forgetful(TwoThousandth):
        pieces = Mechanism.pieces

    # ABC counts what is abstract when a class is made.
    with pytest.raises(TypeError, match="Forgetful does not say its pieces"):
        policy.mechanism_table((200, Forgetful))
    with pytest.raises(TypeError, match="abstract"):
        Forgetful()
    with pytest.raises(TypeError, match="TwoThousandth has the code point or name of another"):
        policy.mechanism_table((200, TwoThousandth), (201, TwoThousandth))


def test_a_mechanism_that_no_policy_could_name_is_refused_at_start() -> None:
    class Nameless(TwoThousandth):
        name = None  # type: ignore[assignment]  # on purpose

    with pytest.raises(TypeError, match="Nameless does not say its name"):
        policy.mechanism_table((200, Nameless))
    for code_point in (-1, 256):
        with pytest.raises(TypeError, match=f"from 0 to 255, not {code_point}"):
            policy.mechanism_table((code_point, TwoThousandth))


@pytest.mark.parametrize(
    ("vdaf", "privacy"),
    [
        (COUNT, LAPLACE),
        (HISTOGRAM, LAPLACE),
        (HISTOGRAM, {**LAPLACE, "max_reports_per_person": 3}),
        (LONELY, LAPLACE),
        (SUM_VEC, LAPLACE),
        (MULTIHOT, LAPLACE),
        (HISTOGRAM, GEOMETRIC),
        (HISTOGRAM, {**GEOMETRIC, "max_reports_per_person": 2}),
        (SUM_VEC, GAUSSIAN),
        (MULTIHOT, GAUSSIAN),
    ],
    ids=lambda value: " ".join(map(str, value.values())),
)
def test_budget_ledger_and_plan_agree_on_the_same_releases(
    vdaf: dict[str, str | int], privacy: dict[str, str | int], tmp_path: Path
) -> None:
    task = make_task(vdaf, {**privacy, "max_releases": RELEASES, "budget": "1000"})
    ledger, plan = ledger_of(task, tmp_path, RELEASES), plan_of(task, tmp_path)
    spent = cost(task, RELEASES)
    assert Fraction(ledger["left"]) == 1000 - spent
    if ledger["rho_of_a_person"] and privacy is GAUSSIAN:
        # The budget is compared with the epsilon of all of them at the policy's delta.
        rho = Fraction(ledger["rho_of_a_person"])
        assert spent < implied_epsilon(rho, Fraction(privacy["delta"]))
        assert ledger["epsilon_of_a_person"] is plan["basic"] is None
    else:
        assert Fraction(ledger["epsilon_of_a_person"]) == spent
        assert plan["basic"] == float(spent)
    keys = {
        "nothing to protect": "basic",
        "basic": "basic",
        "odometer": "odometer",
        "advanced": "advanced",
        "filter on rho": "zcdp",
        "optimal (KOV)": "optimal",
        "Gaussian": "gaussian",
        "PLD": "pld",
    }
    valid = [row for row in ledger["bounds"] if row["valid"]]
    said = {keys[row["name"]]: row for row in valid if row["name"] in keys}
    assert {key: float(Fraction(row["epsilon"])) for key, row in said.items()} == {
        key: plan[key] for key in plan["deltas"]
    }
    assert {key: float(Fraction(row["delta"])) for key, row in said.items()} == plan["deltas"]
