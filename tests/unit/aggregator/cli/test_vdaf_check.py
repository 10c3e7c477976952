"""`prio vdaf check`: which files pass, which fail, and what it says about them."""

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from aggregator.cli.vdaf import app
from aggregator.vdaf.check import run_vector_file, type_name
from aggregator.vdaf.vector_files import VectorFailure
from tests.support.vdaf_vectors import CASES, make_vector

HISTOGRAM = next(case for case in CASES if case.file.startswith("Prio3Histogram"))
VECTOR = json.loads(json.dumps(make_vector(HISTOGRAM)))

Vector = dict[str, Any]


def flip(text: str) -> str:
    """Change the last hexadecimal digit."""
    return text[:-1] + format(int(text[-1], 16) ^ 1, "x")


def run(change: Callable[[Vector], object], name: str = "Prio3Histogram_x.json") -> None:
    vector = copy.deepcopy(VECTOR)
    change(vector)
    run_vector_file(name, json.dumps(vector))


def step_of(vector: Vector, name: str, *, success: bool = True) -> Vector:
    return next(
        step
        for step in vector["operations"]
        if step["operation"] == name and step["success"] is success
    )


def test_a_correct_file_passes() -> None:
    run(lambda _: None)


@pytest.mark.parametrize(
    ("path", "message"),
    [
        (("public_share",), "operation 0: public_share is not the published one"),
        (("input_shares", 2), r"operation 0: input_shares\[2\] is not the published one"),
        (("verifier_shares", 0, 1), r"operation 2: verifier_shares\[1\] is not the published one"),
        (("verifier_messages", 0), "operation 4: verifier_message is not the published one"),
        (("out_shares", 0), r"operation 5: out_shares\[0\] is not the published one"),
    ],
    ids=lambda value: str(value[0]) if isinstance(value, tuple) else "",
)
def test_one_wrong_digit_of_any_published_value_fails_its_step(
    path: tuple[str | int, ...], message: str
) -> None:
    def change(vector: Vector) -> None:
        place: Any = vector["reports"][0]  # JSON has no type
        for key in path[:-1]:
            place = place[key]
        place[path[-1]] = flip(place[path[-1]])

    with pytest.raises(VectorFailure, match=f"^{message}$"):
        run(change)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda v: v["agg_shares"].__setitem__(0, flip(v["agg_shares"][0])), "agg_shares"),
        (lambda v: v["agg_result"].__setitem__(0, 9), "agg_result is "),
        (lambda v: v["reports"][0]["input_shares"].pop(), "2 input_shares, not 3"),
        (lambda v: v["operations"].clear(), "^no operations$"),
        (lambda v: v["operations"][0].update(operation="prep_init"), "unknown step 'prep_init'"),
        (lambda v: v["operations"][0].update(success=1), "success is neither true nor false"),
        (lambda v: v["operations"][0].pop("report_index"), "has no report_index"),
        (lambda v: v["operations"][0].update(report_index=99), "reports has no item 99"),
        (lambda v: v["operations"][0].update(report_index=-1), "reports has no item -1"),
        (lambda v: v["operations"].pop(1), "without a verify_init that succeeded"),
        (lambda v: step_of(v, "verify_next").update(round=2), "round 1 only, not 2"),
        (lambda v: v.pop("length"), "^the file has no length$"),
        (lambda v: v.update(length="5"), "^length is not an integer$"),
        (lambda v: v.update(length=0), "^no such instance: length must be"),
        (lambda v: v.update(shares=1), "^no such instance: num_shares must be"),
        (lambda v: v.update(ctx="zz"), "ctx is not hexadecimal"),
        (lambda v: v.update(ctx=[]), "ctx is not a string"),
        (lambda v: v.update(reports={}), "reports is not a list"),
        (lambda v: v.update(reports=[1]), "an item of reports is not a JSON object"),
        (lambda v: v.update(agg_param="00"), "verify_init failed: agg_param must be empty"),
        (lambda v: v["reports"][0].update(measurement=5), "shard failed: measurement 0"),
        (lambda v: v["reports"][0].update(measurement=None), "shard failed: .*, not None"),
    ],
)
def test_any_other_fault_of_a_file_is_named(
    change: Callable[[Vector], object], message: str
) -> None:
    with pytest.raises(VectorFailure, match=message):
        run(change)


@pytest.mark.parametrize(
    "name",
    [
        "shard",
        "verify_init",
        "verifier_shares_to_message",
        "verify_next",
        "aggregate",
        "unshard",
    ],
)
def test_a_step_that_should_fail_and_does_not_fails_the_file(name: str) -> None:
    with pytest.raises(VectorFailure, match=f"{name} succeeded where it should fail"):
        run(lambda vector: step_of(vector, name).update(success=False))


def test_a_step_that_should_succeed_and_does_not_fails_the_file() -> None:
    def change(vector: Vector) -> None:
        step_of(vector, "verifier_shares_to_message", success=False).update(success=True)

    with pytest.raises(VectorFailure, match="verifier_shares_to_message failed: the proof"):
        run(change)


def test_steps_that_fail_as_they_should_pass() -> None:
    def first_report_only(vector: Vector, operations: list[Vector]) -> None:
        vector["operations"] = operations

    def bad_measurement(vector: Vector) -> None:
        vector["reports"][0]["measurement"] = 5
        first_report_only(vector, [{"operation": "shard", "report_index": 0, "success": False}])

    def bad_share(vector: Vector) -> None:
        vector["reports"][0]["input_shares"][0] = "00"
        init = {"operation": "verify_init", "report_index": 0, "aggregator_id": 0}
        first_report_only(vector, [init | {"success": False}])

    def bad_agg_share(vector: Vector) -> None:
        vector["agg_shares"][0] = "ff" * 80
        first_report_only(vector, [{"operation": "unshard", "success": False}])

    def bad_out_share(vector: Vector) -> None:
        vector["reports"][0]["out_shares"][1] = "ff"
        first_report_only(
            vector, [{"operation": "aggregate", "aggregator_id": 1, "success": False}]
        )

    for change in (bad_measurement, bad_share, bad_agg_share, bad_out_share):
        run(change)


def test_the_type_is_the_name_up_to_the_first_underscore() -> None:
    assert type_name("Prio3Count_bad_helper_seed.json") == "Prio3Count"
    assert type_name("XofTurboShake128.json") == "XofTurboShake128"
    with pytest.raises(VectorFailure, match="unknown type 'Poplar1'"):
        run_vector_file("Poplar1_0.json", "{}")


def test_the_command_counts_files_and_ends_with_1_if_one_failed(tmp_path: Path) -> None:
    good, bad = tmp_path / "Prio3Histogram_good.json", tmp_path / "Prio3Histogram_bad.json"
    good.write_text(json.dumps(VECTOR))
    bad.write_text(json.dumps({**VECTOR, "agg_result": [0] * 5}))
    junk, binary = tmp_path / "Prio3Count_junk.json", tmp_path / "Prio3Count_binary.json"
    junk.write_text("[1, 2")
    binary.write_bytes(b"\xff\xfe\xfd")
    missing, other = tmp_path / "Prio3Count_no.json", tmp_path / "Other_0.json"
    other.write_text("{}")

    ok = CliRunner().invoke(app, ["check", str(good), str(good)])
    assert (ok.exit_code, ok.output) == (0, "2 passed, 0 failed\n")

    files = [good, bad, junk, binary, missing, other]
    failed = CliRunner().invoke(app, ["check", *map(str, files)])
    assert failed.exit_code == 1
    lines = failed.output.splitlines()
    assert lines[-1] == "1 passed, 5 failed"
    for file, line in zip(files[1:], lines[:-1], strict=True):
        assert line.startswith(f"FAILED {file}: ")
    reasons = ["agg_result is", "not JSON", "cannot be read", "cannot be read", "unknown type"]
    for reason, line in zip(reasons, lines, strict=False):
        assert reason in line


def test_on_a_terminal_the_command_shows_how_far_it_is_apart_from_what_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TTY_COMPATIBLE", "1")
    monkeypatch.setenv("TERM", "xterm")
    bad = tmp_path / "Prio3Count_0.json"
    bad.write_text("{")
    shown = CliRunner().invoke(app, ["check", str(bad)])
    assert "0:00:00" in shown.stderr
    first, last = shown.stdout.splitlines()
    assert first.startswith(f"FAILED {bad}")
    assert last == "0 passed, 1 failed"


def test_a_xof_vector_is_checked() -> None:
    # TurboSHAKE128 of the tag, the seed and the binder, from pycryptodome.
    vector = {
        "seed": bytes(range(32)).hex(),
        "dst": b"domain separation tag".hex(),
        "binder": b"binder string".hex(),
        "length": 2,
        "derived_seed": "b62ef0a2778190792d4d42d8c167ba20e0c37a3f319ba79645829c427d70eea5",
        "expanded_vec_field128": (
            "b62ef0a2778190792d4d42d8c167ba20e0c37a3f319ba79645829c427d70eea5"
        ),
    }
    run_vector_file("XofTurboShake128.json", json.dumps(vector))
    for name in ("derived_seed", "expanded_vec_field128"):
        with pytest.raises(VectorFailure, match=f"{name} is not the published one"):
            run_vector_file("XofTurboShake128.json", json.dumps({**vector, name: "00" * 32}))
    with pytest.raises(VectorFailure, match="seed must have 32 bytes, not 1"):
        run_vector_file("XofTurboShake128.json", json.dumps({**vector, "seed": "00"}))
    for length in (-1, 2**40):
        with pytest.raises(VectorFailure, match=f"length must be from 0 to 1048576, not {length}"):
            run_vector_file("XofTurboShake128.json", json.dumps({**vector, "length": length}))
