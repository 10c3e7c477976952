"""How long the transaction takes that stores a group of uploads, alone.

On demand: `pytest -m bench tests/load`. The least of many is what other work did not lengthen.
"""

import dataclasses
import statistics
import time
from pathlib import Path

import pytest

from aggregator.service.config import GROUP_REPORTS
from aggregator.service.storage.engine.transaction import Transaction
from aggregator.service.storage.reports.reports import put_reports
from tests.support.store import TASK_ID, make_store, new_reports, stored

pytestmark = [pytest.mark.bench, pytest.mark.slow, pytest.mark.usefixtures("engine")]

BODY = bytes(5480)
TRANSACTIONS = 40


def test_a_full_group_is_stored(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store = make_store(tmp_path)
    seconds = []
    for first in range(0, TRANSACTIONS * GROUP_REPORTS, GROUP_REPORTS):
        numbers = range(first, first + GROUP_REPORTS)
        group = [dataclasses.replace(each, body=BODY) for each in new_reports(numbers)]

        def put(tx: Transaction) -> None:
            put_reports(tx, TASK_ID, group, 10**6)  # noqa: B023  called at once

        began = time.monotonic()
        store.run_sync("upload", put)
        seconds.append(time.monotonic() - began)
    assert stored(store) == TRANSACTIONS * GROUP_REPORTS
    store.close()
    with capsys.disabled():
        print(  # noqa: T201 - what a measurement is for
            f"\na report of a full group: least {1e6 * min(seconds) / GROUP_REPORTS:,.0f} us, "
            f"median {1e6 * statistics.median(seconds) / GROUP_REPORTS:,.0f} us"
        )
