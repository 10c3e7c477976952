"""A task that was made elsewhere is joined by one command, under the very bytes it came with."""

import dataclasses
import json
from pathlib import Path

import pytest

from aggregator.cli.service.parties import open_aggregator
from aggregator.codec import encode
from aggregator.dap.attribution import Attribution
from aggregator.dap.extensions import Extension
from aggregator.dap.ids import encode_base64url
from aggregator.dap.profile import BatchMode
from aggregator.dap.task import TaskConfiguration, task_extensions
from aggregator.dap.times import Interval
from aggregator.protocol.in_band import id_of
from aggregator.service.storage.tasks.tasks import get_task
from tests.support.commands import Done, run_here, service_text
from tests.support.tasks import COLLECTOR_CONFIG, NO_NOISE, PARTIES, TASK_ID, make_task

KEY, TOKEN = encode_base64url(bytes(range(32))), "shown-by-the-leader-to-the-helper"
COLLECTOR_TOKEN = "shown-by-the-collector"  # noqa: S105  a test's
COUNT = make_task({"type": "Prio3Count"}).configuration
THEIRS = TaskConfiguration(
    task_info=b"\xff\0their task\n",
    leader_aggregator_endpoint="https://leader.example/a/b",
    helper_aggregator_endpoint="https://helper.example/",
    time_precision=60,
    min_batch_size=10,
    batch_mode=BatchMode.LEADER_SELECTED,
    vdaf_type=COUNT.vdaf_type,
    vdaf_configuration=COUNT.vdaf_configuration,
    extensions=task_extensions(Interval.of(28_000_000, 1000)),
)


ATTRIBUTED = dataclasses.replace(
    THEIRS,
    task_info=b"",
    extensions=task_extensions(attribution=Attribution("measures.example", "shop.example")),
)


def config_of(folder: Path, role: str) -> Path:
    config = folder / f"{role}.toml"
    names = service_text(role)
    config.write_text(names)
    return config


def imported(config: Path, configuration: str, *more: str, privacy: str = "mechanism=None") -> Done:
    arguments = {
        "--id": str(TASK_ID),
        "--configuration": configuration,
        "--collector-config": COLLECTOR_CONFIG,
        "--max-reports": "1000",
        "--verify-key": KEY,
        "--leader-token": TOKEN,
        "--collector-token": COLLECTOR_TOKEN,
    }
    given = [text for name, value in arguments.items() for text in (name, value)]
    chosen = ["--privacy", privacy] if privacy else []
    return run_here("task", "import", "--config", config, *given, *chosen, *more)


def test_the_id_of_a_task_is_its_configurations_hash_if_none_is_given(tmp_path: Path) -> None:
    done = run_here(
        *("task", "import", "--config", config_of(tmp_path, "helper")),
        *("--configuration", encode(THEIRS).hex()),
        *("--collector-config", COLLECTOR_CONFIG),
        *("--max-reports", "1000", "--verify-key", KEY, "--leader-token", TOKEN),
        *("--privacy", "mechanism=None"),
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"{id_of(encode(THEIRS))}  fingerprint ")


def test_a_task_of_attribution_is_joined_and_shown_with_its_hosts(tmp_path: Path) -> None:
    config, data = config_of(tmp_path, "helper"), encode(ATTRIBUTED)
    policy = ("--privacy", "mechanism=PureDpDiscreteLaplace", "--privacy", "epsilon=2")
    assert imported(config, data.hex(), *policy, privacy="").returncode == 0
    shown = json.loads(run_here("task", "show", "--config", config, TASK_ID).stdout)
    hosts = {"collector_identity": "measures.example", "budget_source": "shop.example"}
    assert shown["attribution"] == hosts


@pytest.mark.parametrize("role", ["leader", "helper"])
def test_a_task_is_joined_under_the_very_bytes_that_it_came_with(tmp_path: Path, role: str) -> None:
    config, data = config_of(tmp_path, role), encode(THEIRS)
    (tmp_path / "configuration.hex").write_text(data.hex() + "\n")
    options = ("--verify-key-id", "5", "--token-header", "DAP-Auth-Token")
    for form in (encode_base64url(data), data.hex(), f"@{tmp_path / 'configuration.hex'}"):
        done = imported(config, form, *options)
        assert done.returncode == 0, done.stderr
        assert done.stdout.startswith(f"{TASK_ID}  fingerprint ")
    shown = json.loads(run_here("task", "show", "--json", "--config", config, TASK_ID).stdout)
    assert shown == {"id": str(TASK_ID), "configuration": encode_base64url(data)}
    listed = run_here("task", "list", "--config", config).stdout
    assert listed.count("\n") == 1
    assert r"\x00their task\n" in listed
    with open_aggregator(config) as party:
        stored = party.database.read_sync("task", lambda tx: get_task(tx, TASK_ID.value))
        assert stored is not None
        assert stored.record.verify_key_id == 5
        assert stored.record.peer_token == (TOKEN if role == "leader" else None)
        assert 'token_header = "DAP-Auth-Token"' in stored.record.definition


@pytest.mark.parametrize(
    ("configuration", "more", "privacy", "reason"),
    [
        (encode(THEIRS).hex()[:-2], (), "mechanism=None", "configuration: TaskConfiguration: byte"),
        ("no!", (), "mechanism=None", "must be hexadecimal, or base64url"),
        (encode(THEIRS).hex(), (), "", "privacy: the configuration binds no policy"),
        (
            encode(THEIRS).hex(),
            ("--profile", "dap-17"),
            "mechanism=None",
            "profile: must be dap-18",
        ),
        (
            encode(THEIRS).hex(),
            ("--token-header", "Cookie"),
            "mechanism=None",
            "token_header: must be Authorization or DAP-Auth-Token",
        ),
        (encode(THEIRS).hex(), ("--verify-key", "AAAA"), "mechanism=None", "must be 32 bytes"),
        (
            encode(make_task({"type": "Prio3Count"}, NO_NOISE).configuration).hex(),
            (),
            "mechanism=None",
            "binds a policy already",
        ),
    ],
)
def test_what_cannot_be_joined_is_refused_by_name(
    tmp_path: Path, configuration: str, more: tuple[str, ...], privacy: str, reason: str
) -> None:
    done = imported(config_of(tmp_path, "helper"), configuration, *more, privacy=privacy)
    assert done.returncode == 2
    assert reason in " ".join(done.stderr.split())


def test_a_task_with_an_extension_that_we_do_not_know_is_refused(tmp_path: Path) -> None:
    """A party must do what the extension says, whatever that is."""
    extended = TaskConfiguration(
        task_info=b"x",
        leader_aggregator_endpoint="https://leader.example/",
        helper_aggregator_endpoint="https://helper.example/",
        time_precision=60,
        min_batch_size=10,
        batch_mode=BatchMode.TIME_INTERVAL,
        vdaf_type=COUNT.vdaf_type,
        vdaf_configuration=COUNT.vdaf_configuration,
        extensions=(Extension(0x7777, b""),),
    )
    done = imported(config_of(tmp_path, "helper"), encode(extended).hex())
    assert done.returncode == 2
    assert "task extension 0x7777 is not known" in done.stderr


def test_a_new_task_has_a_start_and_a_duration(tmp_path: Path) -> None:
    arguments = (
        *("task", "new", "--vdaf", "count", *PARTIES),
        *("--min-batch-size", "10", "--max-reports", "100", "--mechanism", "None"),
        *("--privacy", "max_releases=1"),
    )
    done = run_here(
        *arguments, "--out", tmp_path / "a", "--start", "2026-01-01T00:00Z", "--duration", "48"
    )
    assert done.returncode == 0, done.stderr
    assert "--privacy bound=false leaves it out" in done.stderr
    text = (tmp_path / "a" / "task.toml").read_text()
    assert "start = 490896\nduration = 48\n" in text
    for more, reason in (
        (("--start", "2026-01-01T00:00Z"), "start: give both --start and --duration"),
        (("--start", "2026-01-01T00:01Z", "--duration", "1"), "start: must be a multiple"),
    ):
        refused = run_here(*arguments, "--out", tmp_path / "b", *more)
        assert refused.returncode == 2
        assert reason in refused.stderr


@pytest.mark.parametrize("name", ["leader", "collector"])
def test_a_token_that_could_be_guessed_is_refused_and_not_shown(tmp_path: Path, name: str) -> None:
    short = "x" * 21
    done = imported(config_of(tmp_path, "leader"), encode(THEIRS).hex(), f"--{name}-token", short)
    assert done.returncode == 2
    assert f"secrets.{name}_token: must have at least 22 characters" in done.stderr
    assert short not in done.stderr
