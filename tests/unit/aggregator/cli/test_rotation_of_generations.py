"""A leader's service gives back the room of bodies whose reports have left."""

from pathlib import Path

import anyio
import pytest

from aggregator.cli.service import services
from aggregator.service.config import LeaderSettings
from aggregator.service.storage.reports import generations
from aggregator.service.storage.reports.rejecting import drop_reports
from tests.support.patience import PATIENCE_SECONDS
from tests.support.store import TASK_ID, bodies_left, create_job, make_store, stored_in, upload


@pytest.mark.parametrize("serve", [True, False])
async def test_a_leader_empties_generations_by_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, serve: bool
) -> None:
    for name in ("TURN_SECONDS", "UNUSED_SECONDS"):
        monkeypatch.setattr(generations, name, 0)
    monkeypatch.setattr(services, "GENERATIONS_SECONDS", 0.01)
    key = tmp_path / "key"
    key.write_text("A" * 43)  # 32 zero bytes, the key of the tests' stores
    key.chmod(0o600)
    store = make_store(tmp_path)
    upload(store, range(3))
    job = create_job(store)
    assert job is not None
    store.run_sync("drop", lambda tx: drop_reports(tx, TASK_ID, job.key))
    assert bodies_left(store) == 1
    settings = LeaderSettings(database=f"sqlite:///{stored_in(tmp_path)}", store_key_file=key)
    stop = anyio.Event()
    with anyio.fail_after(PATIENCE_SECONDS):
        async with (
            services._leader(settings, serve=serve, work=False) as service,
            anyio.create_task_group() as group,
        ):
            for work in service.works:
                group.start_soon(work, stop)
            while bodies_left(store):  # noqa: ASYNC110  another connection tells nobody
                await anyio.sleep(0.01)
            stop.set()
    store.close()
