"""What the code says of its settings and commands, as documents."""

import re
from pathlib import Path

import pytest

import aggregator
from aggregator.cli import groups
from aggregator.cli.service.reading import FIXED
from aggregator.service.config import TABLES, TUNING, table_of
from tests.support.reference import (
    CLASSES,
    commands,
    commands_document,
    help_table,
    main,
    settings_document,
)

DOCUMENTS = Path(aggregator.__file__).parents[1] / "docs"


@pytest.mark.parametrize("name", ["settings.md", "commands.md"])
def test_the_documents_are_what_the_code_says(tmp_path: Path, name: str) -> None:
    main(tmp_path, tmp_path / "help.json")
    assert (DOCUMENTS / name).read_bytes() == (tmp_path / name).read_bytes(), "run make docs"


def test_help_before_a_command_is_loaded_is_the_first_sentence_of_its_docstring() -> None:
    kept = Path(groups.__file__).with_name("help.json")
    assert kept.read_text("utf-8") == help_table(), "run make docs"


def rows(document: str) -> list[list[str]]:
    return [line.strip("| ").split(" | ") for line in document.splitlines() if "| `" in line]


def test_every_setting_is_described_once_for_each_party_that_has_it() -> None:
    described = [row[0].strip("`") for row in rows(settings_document())]
    for settings in CLASSES.values():
        for name, field in settings.model_fields.items():
            declared = sum(name in kind.__annotations__ for kind in CLASSES.values())
            if name != "schedule":  # tables of its own
                assert described.count(name) == (1 if name == "role" else declared), name
            assert field.description


def test_each_setting_is_described_under_the_table_in_which_it_stands() -> None:
    found = re.findall(r"(?ms)^## `\[(\w+)\]`\n(.*?)(?=^## |\Z)", settings_document())
    parts = dict(found)
    assert [*parts] == [*TABLES, TUNING]
    for table, part in parts.items():
        names = [row[0].strip("`") for row in rows(part)]
        assert names
        assert {table_of(name) for name in names} == {table}


def test_what_a_setting_may_be_and_is_if_not_given_comes_from_its_type() -> None:
    table = {row[0].strip("`"): row[1:] for row in rows(settings_document())}
    assert table["log_format"][:3] == ["every party", "`json`, `console`", "`console`"]
    assert table["max_connections"][1:3] == ["from 1 to 65,536", "`512`"]
    assert table["work_interval_seconds"][1:3] == ["above 0 to 3,600", "`0.5`"]
    assert table["hpke_cache_seconds"][2] == "`86400` (1 day)"
    assert table["max_bytes_in_flight"][2] == "`67108864` (64 MiB)"
    assert table["exact_results"][1:3] == ["`true`, `false`", ""]
    assert table["max_delta"][1:3] == ["fraction", "`1/100000`"]
    marked = {name for name, cells in table.items() if cells[-1].endswith("*restart*")}
    assert marked == set(FIXED)


def test_every_command_is_described_with_its_first_sentence() -> None:
    described = {row[0].strip("`"): row[1] for row in rows(commands_document())}
    assert set(described) == {name for name, _ in commands()}
    assert len(described) > 50
    assert not [name for name, summary in described.items() if not summary.endswith(".")]
