"""Both aggregators change their HPKE keys by age, over 57 days: processes with shifted clocks."""

import json
import time
from pathlib import Path

import httpx
import pytest

from aggregator.codec import decode
from aggregator.dap.hpke import HpkeConfigList
from aggregator.dap.report_errors import ReportError
from tests.support import shifted
from tests.support.patience import PATIENCE_SECONDS, wait_until
from tests.support.processes import COMMANDS, Processes
from tests.support.uploader import Uploader, errors_of

pytestmark = pytest.mark.slow

TASK = (
    *("--vdaf", "Prio3Count", "--privacy", "max_releases=2", "--mechanism", "None"),
    *("--min-batch-size", "2", "--max-reports", "1000"),
)
HOUR, DAY = 3600, 86_400
AGGREGATORS = ("helper", "leader")


def wait_for_event(services: Processes, name: str, event: str, **fields: int) -> None:
    wanted = {"event": event, **fields}.items()
    wait_until(lambda: any(wanted <= line.items() for line in services.log(name)), name, event)


def key_of(services: Processes, name: str, http: httpx.Client) -> int:
    """Return the id of the key that a party advertises."""
    answer = http.get(f"{services.urls[name]}hpke_config")
    return decode(HpkeConfigList, answer.content).preferred().id


def collect(services: Processes, task_id: str, start: int, end: int) -> tuple[int, list[int]]:
    """Return the count and the values of the whole hours that hold some times."""
    bounds = start // HOUR * HOUR, (end // HOUR + 1) * HOUR
    done = services.prio(
        *("collect", "--config", services.configs["collector"], task_id, "--json", "--now"),
        *("--start", str(bounds[0]), "--end", str(bounds[1])),
    )
    result = json.loads(done.stdout)["result"]
    return result["report_count"], result["values"]


def test_keys_are_replaced_and_destroyed_by_age_and_no_accepted_report_is_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(shifted.SETTLING, "0")
    with (
        Processes(tmp_path) as services,
        httpx.Client(trust_env=False, timeout=PATIENCE_SECONDS) as http,
    ):
        now = int(time.time())
        task_id, task_file = services.make_task("survey", *TASK)
        for name in AGGREGATORS:
            services.programs[name] = shifted.command(-40 * DAY)
        services.start(*AGGREGATORS)
        old = Uploader(services, task_file, http)
        assert errors_of(old.send(3, ahead=-40 * DAY)) == []
        first = {name: key_of(services, name, http) for name in AGGREGATORS}
        for name in AGGREGATORS:
            assert services.stop(name) == 0

        services.programs.clear()
        services.start(*COMMANDS)
        for name in AGGREGATORS:
            wait_for_event(services, name, "hpke key made")
        new = Uploader(services, task_file, http)
        assert errors_of(old.send(3)) == errors_of(new.send(3)) == []
        assert collect(services, task_id, now - 40 * DAY, int(time.time())) == (9, [9])
        for name in AGGREGATORS:
            assert services.stop(name) == 0

        for name in AGGREGATORS:
            services.programs[name] = shifted.command(17 * DAY)
        services.start(*AGGREGATORS)
        for name in AGGREGATORS:
            wait_for_event(services, name, "hpke key destroyed", config_id=first[name])
        late = errors_of(old.send(3, ahead=17 * DAY))
        assert late == [ReportError.OUTDATED_CONFIG] * 3
        assert errors_of(new.send(3, ahead=17 * DAY)) == []
        assert (old.accepted, new.accepted) == (6, 6)
        wait_for_event(services, "leader", "aggregation job finished", aggregated=3, rejected=0)
        for name in AGGREGATORS:
            lines = services.log(name)
            assert [line for line in lines if line["level"] == "error"] == []
