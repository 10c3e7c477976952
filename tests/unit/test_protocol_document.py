"""Each rule of the draft in docs/protocol.md has a test, which is there."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
ROW = re.compile(
    r"^\| [^|]+ \| [^|]+ \| (?P<state>[^|]+) \| `(?P<test>test_\w+)` \|$", re.MULTILINE
)
TEST = re.compile(r"^ *(?:async )?def (test_\w+)", re.MULTILINE)
TEXT = (ROOT / "docs" / "protocol.md").read_text(encoding="utf-8")
TABLE = TEXT.partition("## The draft's rules")[2].partition("\n## ")[0]


def names_of_tests() -> set[str]:
    found: set[str] = set()
    for path in ROOT.glob("tests/**/test_*.py"):
        found.update(TEST.findall(path.read_text(encoding="utf-8")))
    return found


def test_every_rule_names_a_test_that_there_is() -> None:
    rows = [match["test"] for match in ROW.finditer(TABLE)]
    assert len(rows) >= 50
    assert len(rows) == TABLE.count("\n| ") - 2  # all but the heading and its line
    assert set(rows) - names_of_tests() == set()


def test_every_rule_is_kept_or_it_is_said_why_not() -> None:
    states = [match["state"].partition(";")[0].partition(":")[0] for match in ROW.finditer(TABLE)]
    assert {state.partition(",")[0] for state in states} == {"yes", "ours", "no"}
