"""A survey's page as a file, for its picture: `python -m tests.support.form_picture FILE`."""

import sys
from pathlib import Path

from aggregator.steward.survey.form.page import form_page
from tests.support.texts import asked_in

SURVEY = Path(__file__).parents[2] / "examples" / "ways-to-work.toml"

if __name__ == "__main__":
    page = form_page(asked_in(SURVEY.read_text(encoding="utf-8")))
    Path(sys.argv[1]).write_text(page, encoding="utf-8")
