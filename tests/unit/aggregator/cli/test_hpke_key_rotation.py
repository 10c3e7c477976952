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
    new_key(file)
    return file


def new_key(config: Path) -> int:
    """Make a key; return its id, which the command prints."""
    return int(run_here("hpke", "new", "--config", config).stdout)


def keys_of(config: Path) -> tuple[list[int], set[int]]:
    """Return the ids that the service advertises, in order, and those of the keys it opens with."""
    with open_aggregator(config) as party:
        runtime = Runtime(Role.HELPER, party.database, SystemClock(), SystemEntropy())

        async def ask() -> tuple[list[int], set[int]]:
            configs = await runtime.configs()
            return [each.id for each in configs.configs], set(await runtime.keypairs())

        return anyio.run(ask)


def test_a_key_is_rotated_without_losing_a_report(config: Path) -> None:
    ((first,), _) = keys_of(config)
    second = new_key(config)
    advertised, opening = keys_of(config)
    assert ({*advertised}, opening) == ({first, second}, {first, second})
    assert run_here("hpke", "retire", str(first), "--config", config).returncode == 0
    assert keys_of(config) == ([second], {first, second})
    lines = run_here("hpke", "list", "--config", config).stdout.splitlines()
    assert [line.split()[:2] for line in lines] == [
        [str(second), "advertised"],
        [str(first), "retired"],
    ]
    assert lines[1].endswith("kept for clients that have not heard of the next key")
    new, old = json.loads(run_here("hpke", "list", "--config", config, "--json").stdout)["keys"]
    assert (new["config_id"], new["retired_at"], old["config_id"]) == (second, None, first)
    assert lines[1].endswith(f"kept for {old['needed_for']}")
    assert old["retired_at"] >= old["created_at"]
    assert new_key(config) not in {first, second}  # the first is still needed


@pytest.mark.parametrize(
    ("ahead", "reason"), [(0, "is the only one"), (7, "is not advertised"), (256, "255")]
)
def test_a_key_that_cannot_be_retired_stays(config: Path, ahead: int, reason: str) -> None:
    ((only,), _) = keys_of(config)
    config_id = ahead if ahead > 255 else (only + ahead) % 256
    done = run_here("hpke", "retire", str(config_id), "--config", config)
    assert done.returncode == 2
    assert reason in done.stderr
    assert keys_of(config) == ([only], {only})
