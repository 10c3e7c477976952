"""A type that is a circuit and a row is at home everywhere, or is refused at start."""

import dataclasses
import itertools
import os
import subprocess
import sys
from abc import abstractmethod
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path

import pytest
from typing_extensions import override

from aggregator.client.measurements import MeasurementReader
from aggregator.dp.composition import equal_pieces
from aggregator.dp.discrete_gaussian import DiscreteGaussian
from aggregator.dp.discrete_laplace import PureDpDiscreteLaplace
from aggregator.dp.sensitivity import furthest_move, l1_sensitivity
from aggregator.entropy import SystemEntropy
from aggregator.errors import ParameterError
from aggregator.protocol.task_file import task_from_toml, task_to_toml
from aggregator.steward.audit.runs import Audit, AuditedTask
from aggregator.vdaf.circuits import Run
from aggregator.vdaf.instances import (
    COUNT,
    LENGTH,
    TYPES,
    VdafType,
    by_name,
    configuration_bytes,
    prio3_from_configuration,
)
from tests.support.commands import run_here
from tests.support.new_types import ANY_BITS, LARGEST, MOMENTS, ROWS, AnyBits, Moments
from tests.support.prio3_batches import make_batch, result, verify
from tests.support.small_field import moves
from tests.support.tasks import LAPLACE, PARTIES, make_task


@pytest.fixture(autouse=True)
def types(monkeypatch: pytest.MonkeyPatch) -> None:
    """The table with the new rows."""
    for row in ROWS:
        monkeypatch.setitem(TYPES, row.name, row)


def started(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Run `prio` in a process whose table had the new rows when its options were made."""
    return subprocess.run(  # noqa: S603  our own interpreter on our own module
        [sys.executable, "-m", "tests.support.new_types", *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "COLUMNS": "120"},
    )


def test_reports_of_a_new_type_are_verified_and_summed() -> None:
    prio3 = MOMENTS.prio3({"largest": 9})
    outcome = verify(prio3, make_batch(prio3, [0, 9, 4, 3]))
    assert outcome.rejected == []
    assert result(prio3, outcome, 4) == [16, 106]


def test_a_false_proof_for_a_new_type_is_rejected() -> None:
    prio3 = MOMENTS.prio3({"largest": 9})
    batch = make_batch(prio3, [0, 9])
    residues = bytearray(batch.input_shares[0][1])
    residues[8 * 4] ^= 1  # the square that the client appended
    batch.input_shares[0][1] = bytes(residues)
    assert verify(prio3, batch).rejected == [1]


def test_a_task_of_a_new_type_survives_its_file_and_its_configuration() -> None:
    task = make_task({"type": "Prio3Moments", "largest": 9}, LAPLACE)
    assert task_from_toml(task_to_toml(task)) == task
    assert prio3_from_configuration(0xFFFF0002, bytes([0, 0, 0, 9])) == task.prio3
    assert configuration_bytes(task.prio3) == bytes([0, 0, 0, 9])


def test_a_command_line_reads_measurements_of_a_new_type() -> None:
    assert MeasurementReader(Moments(9)).read_arguments(["4", "9"]) == [4, 9]
    assert MeasurementReader(AnyBits(3, 1)).read_arguments(["0,1,1"]) == [[0, 1, 1]]


@pytest.mark.parametrize("reports", [1, 2])
def test_noise_for_a_new_type_covers_the_furthest_neighbours(reports: int) -> None:
    circuit = Moments(3)
    laplace = PureDpDiscreteLaplace(Fraction(1, 2), max_reports_per_person=reports)
    gaussian = DiscreteGaussian(Fraction(1, 2), max_reports_per_person=reports)
    found = {tuple(sorted(map(abs, move), reverse=True)) for move in moves(circuit, reports)}
    assert laplace.scale(circuit) == 2 * max(map(sum, found)) == 2 * reports * 12
    assert gaussian.scale(circuit) == max(a * a + b * b for a, b in found)
    worst = list(itertools.accumulate(size for _, size in furthest_move(circuit, reports)))
    assert all(
        total <= limit
        for sizes in found
        for total, limit in zip(itertools.accumulate(sizes), worst, strict=True)
    )
    # Its entries move by different amounts, so its release counts as one mechanism.
    assert equal_pieces(circuit, reports) == 1
    assert equal_pieces(AnyBits(5, 2), reports) == 5


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_the_furthest_measurements_of_a_new_type_are_audited(row: VdafType) -> None:
    privacy = {"mechanism": "PureDpDiscreteLaplace", "epsilon": "1"}
    made = Audit(AuditedTask(row.name, row.least(), privacy), SystemEntropy())
    assert made.neighbours.distance == l1_sensitivity(made.task.prio3.circuit)
    assert made.observe(1)


@dataclasses.dataclass(frozen=True, slots=True)
class Understated(Moments):
    """It says that squares move as far as numbers do."""

    @override
    def furthest(self) -> Sequence[Run]:
        return [Run(2, 0, self.largest)]


def test_an_audit_refuses_a_circuit_that_understates_how_far_measurements_move_sums(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    row = VdafType("Prio3Moments", "moments", 0xFFFF0002, Understated, (LARGEST,))
    monkeypatch.setitem(TYPES, row.name, row)
    privacy = {"mechanism": "PureDpDiscreteLaplace", "epsilon": "1"}
    with pytest.raises(ParameterError, match="move its sums by 12, not by 6 as its circuit says"):
        Audit(AuditedTask(row.name, {"largest": 3}, privacy), SystemEntropy())


def test_a_command_makes_a_task_of_a_new_type_with_the_options_of_its_row(tmp_path: Path) -> None:
    common = (
        *("task", "new", "--out", tmp_path / "task", "--vdaf", "Prio3Moments"),
        *PARTIES,
        *("--min-batch-size", "10", "--max-reports", "1000", "--epsilon", "1"),
    )
    refused = started(*common)
    assert refused.returncode == 2
    assert "Prio3Moments needs the parameter largest" in refused.stderr
    made = started(*common, "--largest", "9")
    assert made.returncode == 0, made.stderr
    assert "t = 90" in made.stderr  # 9 + 81
    assert "largest = 9" in (tmp_path / "task" / "task.toml").read_text()
    assert "--largest" in started("task", "new", "--help").stdout


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("plan error --circuit anybits --length 5 --epsilon 1", "sensitivity: 5"),
        ("plan compose --circuit moments --epsilon0 1 --releases 2 --delta 1e-6", "basic: 2"),
        ("plan risk --circuit anybits --length 3 --epsilon0 1 --epsilon 0", "delta: 0.2454588"),
        ("bench verify --circuit moments --reports 5 --rounds 1", "reports_per_second_per_core"),
        ("bench first --circuit anybits --length 7", "seconds"),
        ("audit self-test --circuit moments --epsilon 1 --runs 100 --processes 1", "not refuted"),
        pytest.param("warm", "Prio3Moments: ", marks=pytest.mark.slow),
    ],
)
def test_commands_that_ask_for_a_type_take_a_new_one(command: str, said: str) -> None:
    done = run_here(*command.split())
    assert done.returncode == 0, done.stderr
    assert said in done.stdout


@dataclasses.dataclass(frozen=True, slots=True)
class Uneven(Moments):
    """It says that its two entries move by different amounts."""

    @override
    def furthest(self) -> Sequence[Run]:
        return [Run(1, 0, 1), Run(1, 0, 2)]


def test_what_a_new_type_does_not_say_is_refused_with_the_reason(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    row = VdafType("Prio3Moments", "moments", 0xFFFF0002, Uneven, (LARGEST,))
    monkeypatch.setitem(TYPES, row.name, row)
    asked = ("plan", "risk", "--circuit", "moments", "--epsilon0", "1", "--epsilon", "0")
    assert run_here(*asked).returncode == 0
    done = run_here(*asked, "--aggregators", "2")
    assert done.returncode == 2
    assert "exact loss of Prio3Moments under 2 draws of noise is not known" in done.stderr


@dataclasses.dataclass(frozen=True, slots=True)
class TooFew(Moments):
    """It forgets an entry."""

    @override
    def furthest(self) -> Sequence[Run]:
        return [Run(1, 0, self.largest)]


@dataclasses.dataclass(frozen=True, slots=True)
class Signed(Moments):
    """It says that a measurement takes something from an entry."""

    @override
    def furthest(self) -> Sequence[Run]:
        return [Run(2, -self.largest, self.largest)]


@dataclasses.dataclass(frozen=True, slots=True)
class Owing(Moments):
    """It says of more entries than there are, and takes them back."""

    @override
    def furthest(self) -> Sequence[Run]:
        return [Run(3, 0, self.largest), Run(-1, 0, self.largest)]


@dataclasses.dataclass(frozen=True, slots=True)
class Silent(Moments):
    """It does not say how far it moves a sum."""

    @abstractmethod
    @override
    def furthest(self) -> Sequence[Run]: ...


UNTYPICAL = dataclasses.replace(LARGEST, typical=None)


@pytest.mark.parametrize(
    ("circuit", "parameters", "error", "message"),
    [
        (Silent, (LARGEST,), TypeError, "furthest"),
        (TooFew, (LARGEST,), ParameterError, "furthest must be of all 2 entries, not 1"),
        (Signed, (LARGEST,), ParameterError, "adds at least 0, not .*first=-1"),
        (Owing, (LARGEST,), ParameterError, "runs of at least 0 entries, .*entries=-1"),
        (Moments, (UNTYPICAL,), ParameterError, "needs the parameter largest"),
        (Moments, (LENGTH,), TypeError, "length"),
        (Moments, (), TypeError, "largest"),
        (COUNT.circuit, (LARGEST,), TypeError, "largest"),
    ],
)
def test_a_row_that_does_not_fit_its_circuit_is_refused_at_start(
    circuit: type[Moments],
    parameters: tuple[object, ...],
    error: type[Exception],
    message: str,
) -> None:
    with pytest.raises(error, match=message):
        VdafType("Prio3New", "new", 0xFFFF0003, circuit, parameters)  # type: ignore[arg-type]  # on purpose


def test_a_parameter_too_large_for_its_configuration_is_refused_with_the_limit() -> None:
    short = dataclasses.replace(LARGEST, size=1)
    row = dataclasses.replace(MOMENTS, parameters=(short,))
    assert row.prio3({"largest": 255}).circuit.parameters == {"largest": 255}
    with pytest.raises(ParameterError, match="largest must be below 256, not 256: the conf"):
        row.prio3({"largest": 256})


def test_a_code_point_or_name_that_another_type_has_is_refused_at_start() -> None:
    for changes, message in (
        ({"name": "Prio3AllBits"}, "Prio3AllBits must be Prio3AnyBits, as its circuit is named"),
        ({"algorithm_id": 1}, "Prio3AnyBits and Prio3Count have the same code point"),
        ({"short_name": "count"}, "Prio3AnyBits and Prio3Count have the same name"),
    ):
        with pytest.raises(ParameterError, match=message):
            by_name([COUNT, dataclasses.replace(ANY_BITS, **changes)])
