"""`prio attribution collect`: whoever is broken off still knows where the bundle is."""

from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any, NoReturn

import anyio
import pytest

from aggregator.cli.collector import attribution
from aggregator.collector import bundles, collect, keys
from aggregator.collector.collect import Collection, Pending
from aggregator.dap.attribution import min_dp_budget
from aggregator.dap.messages import CollectionJobReq, CollectorSelectedQuery
from aggregator.service.transport import client

WHERE = "https://leader.example/tasks/task/collection_jobs/job"


class Killed(BaseException):
    """The command ends here."""


async def killed(*_: object) -> NoReturn:
    raise Killed


class Leader:
    """Opens one job."""

    def __init__(self, *_: object) -> None:
        """Take whatever a collector takes."""

    async def start(self, _request: CollectionJobReq) -> tuple[Collection, Pending]:
        return Collection(b"", WHERE), Pending(1)


def test_a_job_is_named_before_any_report_is_bound_to_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(keys, "keypair_of", lambda _: None)
    monkeypatch.setattr(client, "client_of", lambda _: nullcontext())
    monkeypatch.setattr(collect, "TaskCollector", Leader)
    monkeypatch.setattr(bundles, "fill", killed)
    party: Any = SimpleNamespace(database=None, settings=None)
    task: Any = None
    request = CollectionJobReq(CollectorSelectedQuery(), extensions=min_dp_budget(1))
    asking = attribution._AtLeader(party, task, "token")
    with pytest.raises(Killed):
        anyio.run(attribution._collect, asking, request, [], None, 1.0)
    assert f"--job {WHERE}" in capsys.readouterr().err
