"""`prio hpke`: a new key pair is advertised first, a retired one no more, and both open reports."""

import json
from pathlib import Path

import anyio
import pytest

from aggregator.cli.service.parties import open_aggregator
from aggregator.clock import SystemClock
from aggregator.dap.profile import Role
from aggregator.entropy import SystemEntropy
from aggregator.service.runtime import Runtime
from tests.support.commands import run_here, service_file


@pytest.fixture
def config(tmp_path: Path) -> Path:
    file = service_file(tmp_path, "helper")
    assert run_here("hpke", "new", "--config", file).stdout == "0\n"
    return file


def keys_of(config: Path) -> tuple[list[int], set[int]]:
    """Return the ids that the service advertises, in order, and those of the keys it opens with."""
    with open_aggregator(config) as desk:
        runtime = Runtime(Role.HELPER, desk.database, SystemClock(), SystemEntropy())

        async def ask() -> tuple[list[int], set[int]]:
            configs = await runtime.configs()
            return [each.id for each in configs.configs], set(await runtime.keypairs())

        return anyio.run(ask)


def test_a_key_is_rotated_without_losing_a_report(config: Path) -> None:
    assert run_here("hpke", "new", "--config", config).stdout == "1\n"
    advertised, opening = keys_of(config)
    assert (sorted(advertised), opening) == ([0, 1], {0, 1})
    assert run_here("hpke", "retire", "0", "--config", config).returncode == 0
    assert keys_of(config) == ([1], {0, 1})
    lines = run_here("hpke", "list", "--config", config).stdout.splitlines()
    assert [line.split()[:2] for line in lines] == [["1", "advertised"], ["0", "retired"]]
    assert lines[1].endswith("kept for clients that have not heard of the next key")
    new, old = json.loads(run_here("hpke", "list", "--config", config, "--json").stdout)["keys"]
    assert (new["config_id"], new["retired_at"], old["config_id"]) == (1, None, 0)
    assert lines[1].endswith(f"kept for {old['needed_for']}")
    assert old["retired_at"] >= old["created_at"]
    assert run_here("hpke", "new", "--config", config).stdout == "2\n"  # 0 is still needed


@pytest.mark.parametrize(
    ("config_id", "reason"), [("0", "is the only one"), ("7", "is not advertised"), ("256", "255")]
)
def test_a_key_that_cannot_be_retired_stays(config: Path, config_id: str, reason: str) -> None:
    done = run_here("hpke", "retire", config_id, "--config", config)
    assert done.returncode == 2
    assert reason in done.stderr
    assert keys_of(config) == ([0], {0})
