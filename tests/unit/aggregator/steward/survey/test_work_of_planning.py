"""Planning a survey takes work in proportion to its labels, whatever is asked beside them."""

import json
from collections.abc import Mapping

import numpy as np
import pytest

from aggregator.collector.results import Quantity
from aggregator.collector.results.shared_terms import Adder, Key, Weight
from aggregator.steward.survey import plan, spreads, survey_from_toml
from tests.support.surveys import VISITS, department
from tests.support.synthetic_surveys import survey_text

FEW = 150
BY = 'by = "department"'
PLAN = VISITS.replace("min_batch_size = 3", "min_batch_size = 900")


@pytest.fixture
def added(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return how many weights of noise each step adds, as steps are made."""
    counted, multiple = list[int](), Adder.multiple

    def counting(
        self: Adder, terms: dict[Key, Weight], part: Mapping[Key, Weight], factor: Weight
    ) -> None:
        counted.append(len(part))
        multiple(self, terms, part, factor)

    monkeypatch.setattr(Adder, "multiple", counting)
    return counted


@pytest.mark.parametrize("more", ["", BY], ids=["beside another", "by group"])
@pytest.mark.parametrize("kind", ["choice", "number"])
def test_twice_as_many_labels_take_about_twice_the_work(
    kind: str, more: str, added: list[int]
) -> None:
    work = []
    for count in (FEW, 2 * FEW):
        labels = json.dumps([f"label {number}" for number in range(count)])
        asked = {
            "choice": f'kind = "choice"\nlabels = {labels}\n',
            "number": f'kind = "number"\nlow = 0\nhigh = {count}\ndesign = "histogram"\n',
        }
        question = f'{department()}[[question]]\nname = "which"\n{asked[kind]}'
        added.clear()
        plan(survey_from_toml(PLAN.replace("[budget]", f"{more}\n[budget]") + question))
        work.append(sum(added))
    assert work[1] < 2.6 * work[0], work


def test_tables_of_all_pairs_for_few_people_take_few_intervals_each(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    counted, drawn = list[int](), spreads._drawn

    def counting(quantity: Quantity, made: np.random.Generator) -> Quantity:
        counted.append(len(quantity.sources()))
        return drawn(quantity, made)

    monkeypatch.setattr(spreads, "_drawn", counting)
    sizes = {"a": 3, "b": 3, "c": 3}
    found = plan(survey_from_toml(survey_text(sizes, 'epsilon = "1"')))
    assert max(counted) >= 60, "noise decides how wide the intervals of tables are"
    assert len(counted) <= 12 * len(found.parts)
