"""Surveys in the JavaScript module, by Node: its sheets, entries and refusals are ours."""

import json
from pathlib import Path

import pytest

from aggregator.client.module import joined_module, joined_survey
from tests.support.node import MODULE, run_tests
from tests.support.survey_cases import surveys

SURVEYS = 60


@pytest.mark.slow
def test_what_answers_become_and_what_is_said_of_bad_ones_is_ours_in_files_and_joined(
    tmp_path: Path,
) -> None:
    given = tmp_path / "vectors.json"
    given.write_text(json.dumps(surveys(SURVEYS)))
    (tmp_path / "package.json").write_text('{"type": "module"}')
    (tmp_path / "prio.js").write_text(joined_module(), "utf-8")
    part = tmp_path / "prio-survey.js"
    part.write_text(joined_survey(), "utf-8")
    for module in (MODULE / "survey.js", part):
        run_tests("survey.mjs", SURVEY_MODULE=str(module), SURVEY_VECTORS=str(given))
