"""What the code says of its settings and commands, as documents."""

from pathlib import Path

import pytest

import aggregator
from aggregator.cli.reference import CLASSES, commands, commands_document, main, settings_document
from aggregator.cli.service.reading import FIXED
from aggregator.service.config import NEEDED_FIRST

DOCUMENTS = Path(aggregator.__file__).parents[1] / "docs"


@pytest.mark.parametrize("name", ["settings.md", "commands.md"])
def test_the_documents_are_what_the_code_says(tmp_path: Path, name: str) -> None:
    main(tmp_path)
    assert (DOCUMENTS / name).read_bytes() == (tmp_path / name).read_bytes(), "run make docs"


def rows(document: str) -> list[list[str]]:
    return [line.strip("| ").split(" | ") for line in document.splitlines() if "| `" in line]


def test_every_setting_is_described_once_for_each_party_that_has_it() -> None:
    described = [row[0].strip("`") for row in rows(settings_document())]
    for settings in CLASSES.values():
        for name, field in settings.model_fields.items():
            declared = sum(name in kind.__annotations__ for kind in CLASSES.values())
            assert described.count(name) == (1 if name == "role" else declared), name
            assert field.description
    assert [row[0].strip("`") for row in rows(settings_document())[: len(NEEDED_FIRST)]] == [
        *NEEDED_FIRST
    ]


def test_what_a_setting_may_be_and_is_if_not_given_comes_from_its_type() -> None:
    table = {row[0].strip("`"): row[1:] for row in rows(settings_document())}
    assert table["log_format"][:3] == ["every party", "`json`, `console`", "`console`"]
    assert table["max_connections"][:2] == ["from 1 to 65,536", "`512`"]
    assert table["work_interval_seconds"][:2] == ["above 0 to 3,600", "`0.5`"]
    assert table["hpke_cache_seconds"][1] == "`86400` (1 day)"
    assert table["max_bytes_in_flight"][1] == "`67108864` (64 MiB)"
    assert table["exact_results"][:2] == ["`true`, `false`", ""]
    assert table["max_delta"][:2] == ["fraction", "`1/100000`"]
    marked = {name for name, cells in table.items() if cells[-1].endswith("*restart*")}
    assert marked == set(FIXED)


def test_every_command_is_described_with_its_first_sentence() -> None:
    described = {row[0].strip("`"): row[1] for row in rows(commands_document())}
    assert set(described) == {name for name, _ in commands()}
    assert len(described) > 50
    assert not [name for name, summary in described.items() if not summary.endswith(".")]
