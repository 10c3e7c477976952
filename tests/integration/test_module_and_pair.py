"""Reports of the JavaScript module at real aggregators, from Node: each is counted once."""

import json
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from aggregator.protocol.task_file import task_for_clients
from tests.support.module_pair import module_site
from tests.support.node import SCRIPTS, node
from tests.support.pair import NOW
from tests.support.tasks import make_task

CASES: list[tuple[Mapping[str, str | int], list[int] | list[list[int]], tuple[int, ...]]] = [
    ({"type": "Prio3Count"}, [1, 0, 1, 1, 0] * 4, (12,)),
    ({"type": "Prio3Histogram", "length": 4}, [0, 1, 1, 3, 3, 3] * 4, (4, 8, 0, 12)),
    (
        {"type": "Prio3MultihotCountVec", "length": 5, "max_weight": 2},
        [[1, 0, 0, 0, 1], [0, 0, 0, 0, 0], [0, 1, 0, 0, 1]] * 4,
        (4, 4, 0, 0, 8),
    ),
    (
        {"type": "Prio3L1BoundSum", "length": 3, "max_value": 9},
        [[9, 0, 0], [3, 3, 3], [0, 0, 0]] * 4,
        (48, 12, 12),
    ),
]


@pytest.mark.parametrize(
    ("vdaf", "measurements", "expected"), CASES, ids=[str(case[0]["type"]) for case in CASES]
)
def test_reports_of_each_type_are_counted_once_though_every_other_answer_is_lost(
    tmp_path: Path,
    vdaf: Mapping[str, str | int],
    measurements: list[int] | list[list[int]],
    expected: tuple[int, ...],
) -> None:
    task = make_task(vdaf)
    with module_site(tmp_path, task) as site:
        site.loses = lambda number: number % 2 == 1
        uploads = {
            "task": task_for_clients(task),
            "measurements": measurements,
            "address": site.address,
            "now": NOW,
            "folder": str(tmp_path / "outbox"),
        }
        done = subprocess.run(  # noqa: S603  our own script
            [node(), SCRIPTS / "uploads.mjs"],
            env=os.environ | {"UPLOADS": json.dumps(uploads)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        total = json.loads(done.stdout)
        assert (total["counted"], total["late"], total["refused"]) == (len(measurements), 0, 0)
        assert total["passes"] > 1
        result = site.collect()
    assert result.report_count == len(measurements)
    assert tuple(result.values) == expected
