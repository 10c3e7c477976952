"""A survey's page as a file, for its picture: `python -m tests.support.form_picture FILE`."""

import sys
from pathlib import Path

from aggregator.steward.survey import Meaning
from aggregator.steward.survey.form.page import form_page
from tests.support.surveys import task_of

SURVEY = Path(__file__).parents[2] / "examples" / "ways-to-work.toml"

if __name__ == "__main__":
    task = task_of(SURVEY.read_text(encoding="utf-8"))
    Path(sys.argv[1]).write_text(form_page(task, Meaning.of_task(task)), encoding="utf-8")
