"""`prio survey check` says how far off results will be, of those who are asked."""

import re
from pathlib import Path

import pytest

from tests.support.commands import run_here
from tests.support.surveys import VISITS

SMOKER = '[[question]]\nname = "smoker"\nkind = "yes-no"\n'
AGE = '[[question]]\nname = "age"\nkind = "number"\nlow = 0\nhigh = 100\n'


@pytest.mark.parametrize("is_routed", [True, False])
def test_the_error_of_a_number_that_not_everybody_is_asked_for_is_told_for_half(
    tmp_path: Path,
    is_routed: bool,  # noqa: FBT001  a parameter
) -> None:
    file = tmp_path / "survey.toml"
    file.write_text(VISITS + SMOKER + AGE + 'ask_if = { smoker = "yes" }\n' * is_routed)
    done = run_here("survey", "check", file)
    assert done.returncode == 0, done.stderr
    found = re.search(r"^age .*, mean ± ([0-9.]+)", done.stdout, re.MULTILINE)
    assert found is not None, done.stdout
    half = re.search(r"asked only if .*, and if half are asked, mean ± ([0-9.]+)", done.stdout)
    assert (half is not None) == is_routed
    if half is not None:
        assert float(half[1]) == pytest.approx(2 * float(found[1]), rel=0.001)
