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
        assert re.search(f"^### .*`{table.name}`", document, re.MULTILINE)
        for column in table.columns:
            assert f"`{column.name}`" in document
    for machine in MACHINES:
        for transition in machine.transitions:
            assert f": {transition.verb}\n" in document
