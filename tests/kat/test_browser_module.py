"""The JavaScript module, by Node: its bytes are the vectors' and ours, step by step."""

import json
import os
import subprocess
from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path

import pytest

from aggregator.client.module import joined_module
from aggregator.client.survey.numbers import Unfit, number
from aggregator.client.vectors import client_vectors
from aggregator.client.verdicts import SEVERAL_DAYS
from tests.support.node import MODULE, node, run_tests
from tests.support.tasks import LAPLACE, NO_NOISE, make_task
from tests.support.vdaf_vectors import FOLDER

FORM = MODULE.parents[1] / "steward" / "survey" / "form" / "form.js"
GAUSSIAN = {"mechanism": "DiscreteGaussian", "rho": "1/8", "delta": "1e-6"}
SECTIONS = {"type": "Prio3Sections", "sections": "onehot:3 given:0,2,100 atmost:2,2"}
TASKS: tuple[tuple[Mapping[str, str | int], Mapping[str, str | int]], ...] = (
    ({"type": "Prio3Count"}, LAPLACE),
    ({"type": "Prio3Sum", "max_measurement": 255}, LAPLACE),
    ({"type": "Prio3Sum", "max_measurement": 1}, NO_NOISE),
    ({"type": "Prio3Sum", "max_measurement": 2**53 - 1}, NO_NOISE),
    ({"type": "Prio3Histogram", "length": 4}, GAUSSIAN),
    ({"type": "Prio3Histogram", "length": 1000}, LAPLACE),
    ({"type": "Prio3Histogram", "length": 7, "chunk_length": 7}, NO_NOISE),
    ({"type": "Prio3Histogram", "length": 5, "chunk_length": 1}, NO_NOISE),
    ({"type": "Prio3SumVec", "length": 3, "max_measurement": 7}, LAPLACE),
    ({"type": "Prio3SumVec", "length": 2, "max_measurement": 2**40 + 5}, NO_NOISE),
    ({"type": "Prio3MultihotCountVec", "length": 4, "max_weight": 2}, LAPLACE),
    ({"type": "Prio3MultihotCountVec", "length": 60, "max_weight": 10}, NO_NOISE),
    ({"type": "Prio3L1BoundSum", "length": 3, "max_value": 7}, LAPLACE),
    (
        {"type": "Prio3L1BoundSum", "length": 9, "max_value": 1000, "chunk_length": 4},
        NO_NOISE,
    ),
    (SECTIONS, LAPLACE),
    (SECTIONS, LAPLACE | {"epsilon": "3/2", "shares": "2x1/4 1/2"}),
    (SECTIONS, GAUSSIAN | {"shares": "1/2 2x1/4"}),
    ({"type": "Prio3Count"}, LAPLACE | {"shares": "1", "group": "a", "group_place": 0}),
)
POLICIES: tuple[Mapping[str, str | int], ...] = (
    LAPLACE | {"window": 24, "window_start": 3, "budget": "7/2", "max_releases": 4},
    LAPLACE | {"population": "staff of Österbro", "private_threshold": 12},
    LAPLACE | {"population": "staff", "group": "ein Wort für alles", "group_place": 7},
    NO_NOISE | {"suppress_at_or_below": 5},
    {"mechanism": "TruncatedGeometric", "epsilon": "1", "delta": "1e-6", "private_threshold": "2k"},
)
"""For a histogram of four buckets; their bytes are read by other code than ours."""


BY_BROTLI = """
const { brotliCompressSync, constants } = require('node:zlib');
const params = { [constants.BROTLI_PARAM_QUALITY]: 11 };
const module = require('node:fs').readFileSync(0);
process.stdout.write(String(brotliCompressSync(module, { params }).length));
"""


def test_the_joined_module_is_below_15_kilobytes_by_brotli() -> None:
    done = subprocess.run(  # noqa: S603  the node that is installed
        [node(), "--eval", BY_BROTLI],
        input=joined_module().encode(),
        stdout=subprocess.PIPE,
        check=True,
    )
    assert int(done.stdout) < 15_000


OF_A_PAGE = """
import { readFileSync } from 'node:fs';
const [, form, numbers] = process.argv;
const { fractionOf } = await import(numbers);
const [source] = /const isUnclear[^]*?\\n}\\n/.exec(readFileSync(form, 'utf8'));
const numberIn = new Function(`${source}; return numberIn;`)();
const grid = { low: ['0', '1'], step: ['1', '1000'] };
const texts = JSON.parse(readFileSync(0, 'utf8'));
const read = texts.map((text) => numberIn(text, grid, fractionOf)?.map(String) ?? null);
process.stdout.write(JSON.stringify(read));
"""
NUMBERS = [
    *("0", "007", "40", " 40\n", "+4", "-4", "-0", "1.50", "0.1", "9" * 30, "0." + "1" * 30),
    *(".5", "-.5", "+.5", "5.", "-5.", "0.", ".0"),
]
NO_NUMBERS = [
    *("", " ", ".", "-", "+.", "..5", "5..", "1.2.3", "- 5", "1 000", "1_0", "0x10", "1/2", "5%"),
    *("inf", "nan", "five", "\u0665", "1" * 31, "." + "1" * 31, "1." + "1" * 31, "--5", "\ud800"),
]


def test_a_page_reads_the_numbers_that_an_application_reads() -> None:
    """Only an exponent is no number in a page, where nobody writes one."""
    done = subprocess.run(  # noqa: S603  the node that is installed
        [node(), "--input-type=module", "--eval", OF_A_PAGE, FORM, MODULE / "numbers.js"],
        input=json.dumps([*NUMBERS, *(each.replace(".", ",") for each in NUMBERS), *NO_NUMBERS]),
        capture_output=True,
        text=True,
        check=True,
    )
    read = json.loads(done.stdout)
    of_page = [None if pair is None else Fraction(int(pair[0]), int(pair[1])) for pair in read]
    numbers = [number(text) for text in NUMBERS]
    assert of_page == [*numbers, *numbers, *(None for _ in NO_NUMBERS)]
    for text in NO_NUMBERS:
        with pytest.raises(Unfit, match="must be a number"):
            number(text)


def test_shares_are_those_of_the_vectors() -> None:
    published = os.environ.get("VDAF_TEST_VECTORS")
    run_tests("vectors.mjs", VECTORS=":".join([str(FOLDER), *([published] if published else [])]))


def test_sections_are_encoded_as_the_types_of_their_kinds() -> None:
    run_tests("sections.mjs")


def test_limbs_are_right_at_their_bounds() -> None:
    run_tests("arithmetic.mjs")


@pytest.mark.slow
@pytest.mark.parametrize("is_joined", [False, True], ids=["files", "joined"])
def test_whole_reports_are_ours_byte_for_byte(tmp_path: Path, *, is_joined: bool) -> None:
    histogram = {"type": "Prio3Histogram", "length": 4}
    tasks = [make_task(*each) for each in TASKS]
    tasks += [make_task(histogram, policy, min_batch_size=12) for policy in POLICIES]
    tasks += [
        make_task(privacy=LAPLACE, interval={"start": 100, "duration": 50}),
        make_task(privacy=LAPLACE, batch_mode="leader_selected"),
        make_task(privacy=LAPLACE, profile="dap-19"),
        make_task(leader="https://leader.example/dap", helper="http://127.0.0.1:8081"),
    ]
    files = [
        client_vectors(task, task.prio3.circuit.furthest_measurements(), 1_700_000_000)
        for task in tasks
    ]
    vectors = tmp_path / "vectors.json"
    vectors.write_text(json.dumps(files))
    module = MODULE / "index.js"
    if is_joined:
        module = tmp_path / "prio.mjs"
        module.write_text(joined_module(), "utf-8")
    run_tests("reports.mjs", CLIENT_VECTORS=str(vectors), MODULE=str(module))


@pytest.fixture
def of_one_report(tmp_path: Path) -> str:
    task = make_task({"type": "Prio3Count"}, LAPLACE)
    vectors = tmp_path / "vectors.json"
    vectors.write_text(json.dumps([client_vectors(task, [1], 1_700_000_000)]))
    return str(vectors)


def test_no_report_is_lost_or_doubled_on_a_bad_day(of_one_report: str) -> None:
    run_tests("client.mjs", CLIENT_VECTORS=of_one_report, SEVERAL_DAYS=str(SEVERAL_DAYS))


def test_nothing_waits_without_an_end_for_a_browser_that_does_not_answer(
    of_one_report: str,
) -> None:
    run_tests("slow.mjs", CLIENT_VECTORS=of_one_report)


def test_a_page_knows_the_time_where_its_device_does_not(of_one_report: str) -> None:
    run_tests("clock.mjs", CLIENT_VECTORS=of_one_report)


def test_a_page_speaks_its_reader_s_language_with_numbers_as_there() -> None:
    run_tests("language.mjs")
