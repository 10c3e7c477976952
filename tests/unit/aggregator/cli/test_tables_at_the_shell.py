"""Tables as people have them: what Excel saves, what a pipe gives, and what is wrong in them."""

from pathlib import Path

import pytest

from aggregator.dap.profile import Role
from aggregator.protocol.provisioning import provision
from aggregator.protocol.task_file import task_to_toml
from tests.support.commands import Done, run_here, service_text
from tests.support.entropy import SeededEntropy
from tests.support.tasks import make_task

HISTOGRAM = {"type": "Prio3Histogram", "length": 4}
VECTOR = {"type": "Prio3SumVec", "length": 2, "max_measurement": 20}
BUCKETS = ("--buckets", "excellent,good,fair,poor")


def upload(folder: Path, vdaf: dict[str, object], *arguments: str | Path, stdin: str = "") -> Done:
    task = folder / "task.toml"
    task.write_text(task_to_toml(make_task(vdaf=vdaf)))
    return run_here("upload", task, *arguments, stdin=stdin)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig"])
def test_a_byte_order_mark_is_no_part_of_the_first_column(tmp_path: Path, encoding: str) -> None:
    table = tmp_path / "answers.csv"
    table.write_text("health\ndreadful\n", encoding=encoding)
    done = upload(tmp_path, HISTOGRAM, "--csv", table, "--column", "health", *BUCKETS)
    assert done.returncode == 2
    assert "line 2, health: 'dreadful' is none of the buckets" in done.stderr


def test_a_table_comes_from_standard_input(tmp_path: Path) -> None:
    table = "\ufeffid;health\n1;dreadful\n"
    done = upload(
        *(tmp_path, HISTOGRAM, "--csv", "-", "--column", "health", "--delimiter", ";", *BUCKETS),
        stdin=table,
    )
    assert "line 2, health: 'dreadful'" in done.stderr


def test_another_delimiter_is_guessed_in_the_message(tmp_path: Path) -> None:
    done = upload(
        *(tmp_path, HISTOGRAM, "--csv", "-", "--column", "health", "--delimiter", ",", *BUCKETS),
        stdin="id;health\n1;good\n",
    )
    assert "is it separated by ';' and not by ','?" in done.stderr


def test_a_delimiter_of_two_characters_is_refused(tmp_path: Path) -> None:
    done = upload(
        *(tmp_path, HISTOGRAM, "--csv", "-", "--column", "health", "--delimiter", ";;", *BUCKETS),
        stdin="id;;health\n1;;good\n",
    )
    assert "delimiter: must be one character, not ';;'" in done.stderr


@pytest.mark.parametrize(
    ("row", "message"),
    [("3,547.58", "line 2, cost: must be an integer, not '547.58'"), ("3,21", "from 0 to 20")],
)
def test_a_bad_cell_of_a_vector_is_named_by_its_column(
    tmp_path: Path, row: str, message: str
) -> None:
    done = upload(
        *(tmp_path, VECTOR, "--csv", "-", "--column", "visits", "--column", "cost"),
        stdin=f"visits,cost\n{row}\n",
    )
    assert done.returncode == 2
    assert message in done.stderr
    assert "measurement 0" not in done.stderr


def test_too_few_names_of_values_are_refused_before_anything_is_asked(tmp_path: Path) -> None:
    config, file = tmp_path / "collector.toml", tmp_path / "task.toml"
    config.write_text(service_text("collector"))
    own = run_here("collector", "config", "--config", config).stdout.strip()
    task = make_task(collector_hpke_config=own)
    file.write_text(provision(task, SeededEntropy(1))[Role.COLLECTOR])
    assert run_here("task", "add", "--config", config, file).returncode == 0
    done = run_here(
        *("collect", "--config", config, str(task.task_id), "--buckets", "a,b"),
        *("--start", "2026-11-20T10:00", "--end", "2026-11-20T11:00"),
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert "buckets: must be 4 different labels, one for each value, not 2" in done.stderr
