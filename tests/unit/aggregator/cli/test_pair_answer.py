"""What `prio audit pair` prints of an audit that is done."""

import json
import math

import numpy as np
import pytest

from aggregator.cli.service.task_making import make_task
from aggregator.cli.steward.audit_pair import _answer, _scales
from aggregator.cli.steward.pair_answer import PairAnswer
from aggregator.dap.hpke import generate_keypair
from aggregator.steward.audit.noise_table import LARGEST, Integers
from aggregator.steward.audit.pair_audit import Mistake, Releases
from tests.support.entropy import SeededEntropy

TASK = make_task(
    generate_keypair(0, SeededEntropy(1)).config,
    {"type": "Prio3Histogram", "length": 512},
    {"mechanism": "PureDpDiscreteLaplace", "epsilon": "1"},
    leader="http://leader.invalid/",
    helper="http://helper.invalid/",
    time_precision=60,
    min_batch_size=1,
    max_reports=1000,
    task_info="audit",
)
SCALES = _scales(TASK)
TABLE = SCALES[0].laws.single
RANDOM = np.random.default_rng(1)


def draws() -> Integers:
    return RANDOM.choice(TABLE.values, (2, 512), p=TABLE.probabilities)


def answer(leader: Integers, helper: Integers, *mistakes: Mistake) -> PairAnswer:
    total = np.clip(leader + helper, -LARGEST, LARGEST)
    releases = Releases(leader, helper, total, (8, 8), (8, 8), mistakes)
    return _answer(TASK, releases, SCALES, 1e-6)


def test_the_answer_for_an_honest_pair_says_what_the_audit_could_have_found() -> None:
    given = answer(draws(), draws())
    assert not given.is_refuted
    text = given.text()
    assert "2 windows of 512 buckets: 1024 draws of each aggregator" in text
    assert "right noise is refuted with a probability of at most 1e-06" in text
    assert "1.00000  adds no noise" in text
    assert "the law holds, as far as such an audit can see" in text
    assert "REFUSED" not in text


@pytest.mark.slow
@pytest.mark.parametrize(
    ("leader", "helper", "whose", "words"),
    [
        (1, 0, "leader", "the leader's only"),
        (0, 1, "helper", "the helper's only"),
        (0, 0, "neither", "nobody's"),
    ],
)
def test_the_answer_says_whose_noise_is_there(
    leader: int, helper: int, whose: str, words: str
) -> None:
    given = answer(leader * draws(), helper * draws())
    assert given.is_refuted
    assert given.document()["noise_of"] == whose
    assert f"REFUTED; whose noise is in the results: {words}" in given.text()


@pytest.mark.slow
def test_a_share_that_is_not_the_sum_of_the_reports_is_named_and_nothing_more() -> None:
    wild = RANDOM.choice([-LARGEST, LARGEST], (2, 512))
    given = answer(draws(), wild)
    assert given.noise_of == "unknown"
    assert "helper: wrong sum: the share is not the sum of the uploaded reports" in given.text()


def test_a_share_that_was_mended_still_tells_whose_noise_is_there() -> None:
    given = answer(draws(), draws(), Mistake("helper", "report 3 is not in the helper's share"))
    assert given.is_refuted
    assert given.noise_of == "both"


@pytest.mark.slow
def test_the_document_is_json_whatever_is_impossible() -> None:
    given = answer(draws(), RANDOM.choice([-LARGEST, LARGEST], (2, 512)))
    document = json.loads(json.dumps(given.document(), allow_nan=False))
    logs = {(each["series"], each["name"]): each["log_p"] for each in document["checks"]}
    assert logs["helper", "extremes"] is None
    assert logs["leader", "extremes"] <= 0
    assert document["log_p_threshold"] == pytest.approx(math.log(1e-6 / len(logs)))
    (scale,) = document["scales"]
    assert scale["surely_found"]["power"] == 0.999
    assert scale["sections"] == []
    assert document["version"] == 2
