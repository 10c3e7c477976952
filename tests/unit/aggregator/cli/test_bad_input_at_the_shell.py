"""What a shell can get wrong before any service is asked: one line, the fault named, status 2."""

import json
import tomllib
from pathlib import Path

import pytest

from aggregator.dap.profile import Role
from aggregator.dp.window import Window
from aggregator.protocol.provisioning import provision
from aggregator.protocol.task_file import task_from_toml, task_to_toml
from tests.support.commands import Done, run_here, service_text
from tests.support.entropy import SeededEntropy
from tests.support.tasks import LAPLACE, LEADER_URL, PARTIES, make_task, task_text


def new_task(folder: Path, *arguments: str) -> Done:
    return run_here(
        *("task", "new", "--out", folder / "task"),
        *PARTIES,
        *("--min-batch-size", "10", "--max-reports", str(2**24)),
        *arguments,
    )


def test_a_task_in_order_is_written_as_one_public_file_and_three_secret_ones(
    tmp_path: Path,
) -> None:
    done = new_task(tmp_path, "--vdaf", "Prio3Count", "--epsilon", "1/2")
    assert done.returncode == 0, done.stderr
    files = {path.name: path for path in (tmp_path / "task").iterdir()}
    assert sorted(files) == ["collector.toml", "helper.toml", "leader.toml", "task.toml"]
    assert "[secrets]" not in files.pop("task.toml").read_text()
    for path in files.values():
        assert path.stat().st_mode & 0o077 == 0
        assert "[secrets]" in path.read_text()


@pytest.mark.parametrize(
    ("settings", "is_warned"),
    [
        ([], True),
        (["max_batches_per_person=4"], True),
        (["budget=2"], False),
        (["max_releases=4"], False),
    ],
    ids=str,
)
def test_a_task_whose_releases_nobody_limits_is_made_with_a_warning(
    tmp_path: Path,
    settings: list[str],
    is_warned: bool,  # noqa: FBT001 - a parameter
) -> None:
    options = [text for setting in settings for text in ("--privacy", setting)]
    done = new_task(tmp_path, "--vdaf", "Prio3Count", "--epsilon", "1/2", *options)
    assert done.returncode == 0, done.stderr
    warning = "warning: the task has neither a budget nor max_releases"
    assert (warning in done.stderr) == is_warned
    assert "warning" not in done.stdout


def test_the_table_that_the_planner_wrote_is_a_tasks_policy(tmp_path: Path) -> None:
    file = tmp_path / "privacy.toml"
    advised = run_here(
        *("plan", "advise", "--reports", "1800", "--buckets", "6", "--error", "3%"),
        *("--releases", "4", "--population", "staff-2026", "--out", file),
    )
    assert advised.returncode == 0, advised.stderr
    done = new_task(
        tmp_path, "--vdaf", "Prio3Histogram", "--length", "6", "--privacy-file", str(file)
    )
    assert done.returncode == 0, done.stderr
    written = tomllib.loads((tmp_path / "task" / "task.toml").read_text())["privacy"]
    planned = tomllib.loads(file.read_text())["privacy"]
    assert planned["population"] == "staff-2026"
    assert {name: written[name] for name in planned} == planned


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("epsilon = 1", "must have the table"),
        ("[privacy", "not TOML"),
        ("[privacy]\nepsilon = 0.5", "epsilon must be text or a whole number"),
    ],
)
def test_what_is_no_privacy_table_is_refused(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "privacy.toml"
    file.write_text(text)
    done = new_task(tmp_path, "--vdaf", "Prio3Count", "--privacy-file", str(file))
    assert done.returncode == 2
    assert message in done.stderr


@pytest.mark.parametrize(("most", "is_warned"), [("5000", True), ("1", False)])
def test_columns_under_one_maximum_are_made_with_a_warning(
    tmp_path: Path,
    most: str,
    is_warned: bool,  # noqa: FBT001 - a parameter
) -> None:
    done = new_task(
        *(tmp_path, "--vdaf", "Prio3SumVec", "--length", "4", "--max-measurement", most),
        *("--epsilon", "1"),
    )
    assert done.returncode == 0, done.stderr
    assert ("the noise of the largest possible entry" in done.stderr) == is_warned


def test_sections_with_shares_of_their_own_are_made_without_that_warning(tmp_path: Path) -> None:
    privacy = tmp_path / "privacy.toml"
    privacy.write_text(
        '[privacy]\nmechanism = "PureDpDiscreteLaplace"\nepsilon = "1"\nshares = "1/3 2/3"\n'
    )
    made = (tmp_path, "--vdaf", "Prio3Sections", "--sections", "onehot:3 number:100")
    done = new_task(*made, "--privacy-file", str(privacy))
    assert done.returncode == 0, done.stderr
    assert "the noise of the largest possible entry" not in done.stderr


@pytest.mark.parametrize("delta", ["1/100", "99/100"])
def test_no_task_is_made_with_a_delta_of_a_hundredth(tmp_path: Path, delta: str) -> None:
    done = new_task(
        *(tmp_path, "--vdaf", "Prio3Histogram", "--length", "4", "--epsilon", "1/2"),
        *("--mechanism", "TruncatedGeometric", "--privacy", f"delta={delta}"),
    )
    assert done.returncode == 2
    assert f"delta must be below 1/100, not {delta}" in done.stderr


def test_a_task_is_made_with_windows_that_begin_when_its_makers_say(tmp_path: Path) -> None:
    task = ("--vdaf", "Prio3Count", "--epsilon", "1/2", "--window", "24")
    assert new_task(tmp_path, *task, "--window-start", "2026-01-01T05:00").returncode == 0
    made = task_from_toml((tmp_path / "task" / "task.toml").read_text())
    assert made.policy.window == Window(24, 5)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--window", "0"], "window must be from 1 to"),
        (["--window-start", "2026-01-01"], "window-start: needs --window"),
        (["--window", "24", "--window-start", "1800"], "window-start: must be a multiple of"),
        (["--window", "24", "--window-start", "noon"], "window-start: must be ISO 8601"),
    ],
)
def test_windows_that_make_no_sense_make_no_task(
    tmp_path: Path, options: list[str], message: str
) -> None:
    done = new_task(tmp_path, "--vdaf", "Prio3Count", "--epsilon", "1/2", *options)
    assert done.returncode == 2
    assert message in done.stderr
    assert not (tmp_path / "task").exists()


@pytest.mark.parametrize("epsilon", ["0", "-1", "1/0", "nan", "inf", "1e400", "half", ""])
def test_an_unusable_epsilon_makes_no_task(tmp_path: Path, epsilon: str) -> None:
    done = new_task(tmp_path, "--vdaf", "Prio3Count", f"--epsilon={epsilon}")
    assert done.returncode == 2
    assert "epsilon" in done.stderr
    assert not (tmp_path / "task").exists()


def test_a_task_without_epsilon_must_ask_for_no_noise(tmp_path: Path) -> None:
    done = new_task(tmp_path, "--vdaf", "Prio3Count")
    assert done.returncode == 2
    assert "epsilon" in done.stderr
    done = new_task(tmp_path, "--vdaf", "Prio3Count", "--mechanism", "None")
    assert done.returncode == 0
    assert "None" in done.stderr


@pytest.mark.parametrize("value", ["0.5", "1.0", "true", "[1]"])
def test_an_epsilon_that_is_not_text_is_refused_in_a_task_file(tmp_path: Path, value: str) -> None:
    text = task_text(privacy=LAPLACE)
    assert 'epsilon = "1/2"' in text
    file = tmp_path / "task.toml"
    file.write_text(text.replace('epsilon = "1/2"', f"epsilon = {value}"))
    done = run_here("task", "check", file)
    assert done.returncode == 2
    assert "epsilon" in done.stderr


def test_a_sum_that_could_wrap_makes_no_task(tmp_path: Path) -> None:
    size = ("--vdaf", "Prio3Sum", "--epsilon", "1", "--max-measurement")
    assert new_task(tmp_path, *size, str(2**38)).returncode == 0
    done = new_task(tmp_path / "wide", *size, str(2**40))
    assert done.returncode == 2
    assert "max_reports" in done.stderr


def test_an_unknown_type_and_a_missing_parameter_are_named(tmp_path: Path) -> None:
    assert "Prio3Mean" in new_task(tmp_path, "--vdaf", "Prio3Mean", "--epsilon", "1").stderr
    assert "length" in new_task(tmp_path, "--vdaf", "Prio3Histogram", "--epsilon", "1").stderr


@pytest.mark.parametrize(
    "vdaf",
    [
        ("Prio3Count",),
        ("Prio3Sum", "--max-measurement", "5"),
        ("Prio3SumVec", "--length", "3", "--max-measurement", "5"),
        ("Prio3Histogram", "--length", "3"),
        ("Prio3MultihotCountVec", "--length", "3", "--max-weight", "2"),
        ("Prio3L1BoundSum", "--length", "3", "--max-value", "5"),
    ],
)
def test_every_type_with_a_code_point_can_be_asked_for(
    tmp_path: Path, vdaf: tuple[str, ...]
) -> None:
    assert new_task(tmp_path, "--epsilon", "1", "--vdaf", *vdaf).returncode == 0


@pytest.mark.parametrize(
    ("setting", "line"),
    [
        ("bound=false", "bound = false"),
        ("population=2026", 'population = "2026"'),
        ("max_batches_per_person=4", "max_batches_per_person = 4"),
    ],
)
def test_a_privacy_setting_is_text_a_number_or_a_boolean_as_in_the_task_file(
    tmp_path: Path, setting: str, line: str
) -> None:
    done = new_task(tmp_path, "--vdaf", "Prio3Count", "--epsilon", "1", "--privacy", setting)
    assert done.returncode == 0, done.stderr
    assert line in (tmp_path / "task" / "task.toml").read_text()


def test_a_folder_that_exists_is_named_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / "task").mkdir()
    done = new_task(tmp_path, "--vdaf", "Prio3Count", "--epsilon", "1")
    assert (done.returncode, done.stderr) == (
        2,
        f"prio: {tmp_path / 'task'}: exists already; give a name that is free\n",
    )


def test_another_file_of_the_same_name_is_not_taken_for_the_public_task_file(
    tmp_path: Path,
) -> None:
    service = tmp_path / "leader.toml"
    service.write_text(service_text("leader", "x"))
    assert "service file" in run_here("upload", service, "1").stderr
    new_task(tmp_path, "--vdaf", "Prio3Count", "--epsilon", "1")
    assert "has secrets" in run_here("upload", tmp_path / "task" / "leader.toml", "1").stderr


def test_measurements_come_from_arguments_or_a_file_and_not_from_both(tmp_path: Path) -> None:
    file = tmp_path / "task.toml"
    file.write_text(task_text())
    done = run_here("upload", file)
    assert (done.returncode, "measurements" in done.stderr) == (2, True)
    done = run_here("upload", file, "1", "--csv", file)
    assert (done.returncode, "measurements" in done.stderr) == (2, True)
    done = run_here("upload", file, "--csv", file)
    assert (done.returncode, "column" in done.stderr) == (2, True)
    done = run_here("upload", file, "1", "--time", "yesterday")
    assert (done.returncode, "time" in done.stderr) == (2, True)


def test_a_setting_that_does_not_exist_is_named(tmp_path: Path) -> None:
    config = tmp_path / "leader.toml"
    config.write_text(
        'service.role = "leader"\nservice.database = "x.sqlite"\n'
        'keys.store_key_file = "x.key"\nlease_second = 1\n'
    )
    done = run_here("leader", "serve", "--processes=1", "--config", config)
    assert done.returncode == 2
    assert "lease_second" in done.stderr


def test_settings_can_come_from_the_environment_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = run_here("task", "list")
    assert done.returncode == 2
    assert "PRIO_ROLE" in done.stderr
    monkeypatch.setenv("PRIO_ROLE", "helper")
    monkeypatch.setenv("PRIO_DATABASE", str(tmp_path / "helper.sqlite"))
    monkeypatch.setenv("PRIO_STORE_KEY_FILE", str(tmp_path / "helper.key"))
    assert run_here("hpke", "new").returncode == 0
    assert run_here("task", "list") == Done(0, "", "")
    done = run_here("collector", "config")
    assert (done.returncode, "helper" in done.stderr) == (2, True)


def test_the_environment_wins_over_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = tmp_path / "helper.toml"
    config.write_text(service_text("helper", "file"))
    monkeypatch.setenv("PRIO_DATABASE", str(tmp_path / "environment.sqlite"))
    assert run_here("hpke", "new", "--config", config).returncode == 0
    assert [path.name for path in tmp_path.glob("*.sqlite")] == ["environment.sqlite"]


def test_a_task_whose_tokens_would_travel_in_the_clear_needs_an_explicit_option(
    tmp_path: Path,
) -> None:
    config, task = tmp_path / "helper.toml", tmp_path / "task.toml"
    config.write_text(service_text("helper", "x"))
    plain = make_task(helper="http://helper.example/")
    task.write_text(task_to_toml(plain))
    given = provision(plain, SeededEntropy(b"task"))[Role.HELPER]
    for arguments, text in (
        (("upload", task, "1"), ""),
        (("task", "add", "--config", config, "-"), given),
    ):
        done = run_here(*arguments, stdin=text)
        assert done.returncode == 2
        assert "helper: http://helper.example/ is plain HTTP to another machine" in done.stderr
    config.write_text(config.read_text() + "tls.insecure_http = true\n")
    assert run_here("task", "add", "--config", config, "-", stdin=given).returncode == 0


def test_a_secret_that_was_given_never_comes_back_in_a_message(tmp_path: Path) -> None:
    config = tmp_path / "leader.toml"
    config.write_text(
        'service.role = "leader"\nservice.database = "x.sqlite"\n'
        'keys.store_key_file = "x.key"\nkeys.store_key = 5551234\n'
    )
    config.chmod(0o600)
    done = run_here("task", "list", "--config", config)
    assert done.returncode == 2
    assert "store_key" in done.stderr
    assert "5551234" not in done.stderr + done.stdout


def test_a_file_that_is_not_text_is_bad_input_and_none_of_it_is_shown(tmp_path: Path) -> None:
    task, table = tmp_path / "task.toml", tmp_path / "table.csv"
    task.write_text(task_text())
    table.write_bytes(b"bucket\n\xff\n")
    for arguments, said in (
        (("upload", task, "--csv", table, "--column", "bucket"), "table.csv: is not UTF-8 (line 2"),
        (("task", "check", table), f"{table}: is not UTF-8 text"),
    ):
        done = run_here(*arguments)
        assert done.returncode == 2
        assert done.stderr.startswith(f"prio: {said}")


@pytest.mark.parametrize("name", ["Prio3SumVec", "sumvec", "sum-vec", "PRIO3SUMVEC"])
def test_a_type_of_measurement_has_one_list_of_names_and_any_of_them_is_taken(
    tmp_path: Path, name: str
) -> None:
    made = new_task(
        tmp_path,
        *("--vdaf", name, "--length", "3", "--max-measurement", "7"),
        *("--mechanism", "PureDpDiscreteLaplace", "--epsilon", "1"),
    )
    assert made.returncode == 0, made.stderr
    assert 'type = "Prio3SumVec"' in (tmp_path / "task" / "task.toml").read_text()
    planned = run_here(
        *("plan", "compose", "--releases", "2", "--delta", "1e-6", "--epsilon0", "1/2"),
        *("--circuit", name, "--length", "3", "--max-measurement", "7"),
    )
    assert planned.returncode == 0, planned.stderr
    wrong = new_task(tmp_path / "wrong", "--vdaf", f"{name}s", "--mechanism", "None")
    assert wrong.returncode == 2
    said = "vdaf must be one of count, sum, sumvec, histogram, multihot, l1boundsum, sections, not"
    assert said in " ".join(wrong.stderr.split())


@pytest.mark.parametrize("text", ["[" * 100_000, '{"version": ' + "9" * 5000 + "}"])
def test_another_operators_list_that_cannot_be_read_is_named(tmp_path: Path, text: str) -> None:
    file = tmp_path / "helper.json"
    file.write_text(text)
    done = run_here("job", "compare", file)
    assert done.returncode == 2
    assert f"{file}: not JSON" in done.stderr


@pytest.mark.parametrize("value", ["[" * 100_000, "9" * 5000])
def test_a_privacy_file_that_cannot_be_read_is_named(tmp_path: Path, value: str) -> None:
    file = tmp_path / "privacy.toml"
    file.write_text(f"a = {value}")
    done = new_task(tmp_path, "--vdaf", "Prio3Count", "--privacy-file", str(file))
    assert done.returncode == 2
    assert "privacy-file: not TOML" in done.stderr


@pytest.mark.parametrize("url", ["http://[::1", "https://", "https://a.example:99999/"])
def test_an_aggregator_at_no_address_is_refused_when_its_task_is_made(
    tmp_path: Path, url: str
) -> None:
    done = new_task(tmp_path, "--vdaf", "Prio3Count", "--epsilon=1", "--helper", url)
    assert done.returncode == 2
    assert "helper: must be http:// or https://, a host of letters" in done.stderr


@pytest.mark.parametrize(
    "url", [LEADER_URL, "https://leader.example", "https://Leader.example:443/"]
)
def test_one_aggregator_is_not_leader_and_helper_of_a_task(tmp_path: Path, url: str) -> None:
    done = new_task(tmp_path, "--vdaf", "Prio3Count", "--epsilon=1", "--helper", url)
    assert done.returncode == 2
    assert "is the leader's URL; name the other aggregator's" in done.stderr
    assert not (tmp_path / "task").exists()


@pytest.mark.parametrize("url", ["http://[::1", "https://", "https://a.example:99999/"])
def test_a_peer_at_no_address_is_refused(tmp_path: Path, url: str) -> None:
    config = tmp_path / "leader.toml"
    config.write_text(service_text("leader", "l"))
    done = run_here("doctor", "--config", config, "--peer", url)
    assert done.returncode == 2
    assert "peer: must be http:// or https://, a host of letters" in done.stderr


def test_our_side_is_printed_for_the_other_operator_and_is_not_compared_with_itself(
    tmp_path: Path,
) -> None:
    config = tmp_path / "leader.toml"
    config.write_text(service_text("leader", "l"))
    asked = ("doctor", "--config", config, "--peer", "https://helper.example/")
    done = run_here(*asked, "--ours")
    assert json.loads(done.stdout)["request_timeout_seconds"] == 45
    side = tmp_path / "ours.json"
    side.write_text(done.stdout)
    refused = run_here(*asked, "--theirs", side)
    assert refused.returncode == 2
    assert "theirs: a leader's, as ours is" in refused.stderr
    missing = run_here(*asked, "--theirs", tmp_path / "none.json")
    assert missing.returncode == 2
    assert "none.json" in missing.stderr


def test_a_time_of_thousands_of_digits_is_no_time(tmp_path: Path) -> None:
    new_task(tmp_path, "--vdaf", "Prio3Count", "--epsilon=1")
    done = run_here("upload", tmp_path / "task" / "task.toml", "--time", "9" * 5000, "1")
    assert done.returncode == 2
    assert "time: must be ISO 8601, such as" in done.stderr
