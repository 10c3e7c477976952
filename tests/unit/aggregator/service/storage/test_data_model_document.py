import re
from pathlib import Path

import aggregator
from aggregator.service.storage.engine.states import MACHINES
from aggregator.service.storage.engine.tables import metadata
from tests.support.data_model import render

DOCUMENT = Path(aggregator.__file__).parents[1] / "docs" / "data-model.md"


def test_the_document_is_what_the_tables_and_transitions_say() -> None:
    assert DOCUMENT.read_text() == render(), "run python -m tests.support.data_model"


def test_the_document_shows_every_table_column_and_verb() -> None:
    document = render()
    for table in metadata.sorted_tables:
        assert re.search(rf"^\| .*`{table.name}`.* \| ", document, re.MULTILINE)
        for column in table.columns:
            assert f"`{column.name}`" in document
    for machine in MACHINES:
        for transition in machine.transitions:
            assert f": {transition.verb}\n" in document


def test_what_is_said_to_be_about_people_names_tables_and_columns_that_there_are() -> None:
    rows = render().partition("## What is about people")[2].partition("\n## ")[0]
    named = re.findall(r"`(\w+)(?:\.(\w+))?`", rows)
    assert len(named) > 10
    for table, column in named:
        assert table in metadata.tables
        assert not column or column in metadata.tables[table].columns
