"""An upload builds no statement: what each transaction runs was made once."""

from collections import Counter

import pytest
from sqlalchemy.sql import coercions

from aggregator.service.storage.engine.database import Database
from aggregator.service.storage.reports.counters import Stage, count_reports
from aggregator.service.storage.reports.reports import put_reports
from aggregator.service.storage.tasks.version import settings_version
from tests.support.store import TASK_ID, new_reports


@pytest.fixture
def built(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How many expressions have been made of what."""
    counts: Counter[str] = Counter()
    real = coercions.expect

    def counted(role: object, element: object, *args: object, **kwargs: object) -> object:
        counts[getattr(role, "__name__", str(role))] += 1
        return real(role, element, *args, **kwargs)

    monkeypatch.setattr(coercions, "expect", counted)
    return counts


def test_an_upload_builds_no_statement(store: Database, built: Counter[str]) -> None:
    def upload(first: int) -> None:
        def put(tx: object) -> None:
            settings_version(tx)
            reports = new_reports(range(first, first + 3))
            assert put_reports(tx, TASK_ID, reports, 10**6, first_day=0) == [None] * 3
            count_reports(tx, TASK_ID, Stage.UPLOAD, Counter(invalid_message=1))

        store.run_sync("upload", put)

    upload(0)  # statements are compiled, and those of this kind of database made
    built.clear()
    upload(10)
    assert built.total() == 0, built
