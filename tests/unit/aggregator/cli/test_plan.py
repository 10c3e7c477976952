"""`prio plan`: its keys, its exit statuses, and that each figure is the library's."""

import json
import math
import tomllib
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import pytest
from click.testing import Result
from typer.testing import CliRunner

from aggregator.cli.steward.plan import app
from aggregator.dp import pld
from aggregator.dp.by_section import with_equal_errors
from aggregator.dp.certified import to_float
from aggregator.dp.mechanisms import Mechanism
from aggregator.dp.policy import MECHANISMS
from aggregator.dp.policy_table import policy_from_mapping
from aggregator.dp.sensitivity import max_entry
from aggregator.dp.truncated_geometric import TruncatedGeometric
from aggregator.protocol.budget import horizon
from aggregator.protocol.task_file import task_to_toml
from aggregator.steward.planning.output import to_json, to_text
from aggregator.vdaf.instances import TYPES, VdafType
from tests.support.tasks import make_task

POWERS = {"epsilon": "1/2", "delta": "1/10000", "rho": "1/50"}
"""Parameters of any mechanism."""


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, list(arguments))


def answer(*arguments: str) -> dict[str, object]:
    result = run(*arguments, "--json")
    assert result.exit_code == 0, result.stderr
    found = json.loads(result.stdout)
    assert isinstance(found, dict)
    assert found.pop("version") == 1
    return found


@pytest.mark.slow
def test_selection_has_the_promised_keys_and_figures() -> None:
    found = answer("selection", "--epsilon", "1", "--delta", "1e-5", "--count", "12")
    assert list(found) == [
        "n1", "n2", "keep_probability", "drop_probability", "recursion", "truncated_geometric",
        "two_thresholds", "laplace", "gaussian", "midpoints", "recommended",
    ]  # fmt: skip
    assert (found["n1"], found["n2"]) == (11, 22)
    assert found["keep_probability"] == pytest.approx(0.760310996923, rel=1e-11)
    assert found["recursion"] == found["keep_probability"]
    assert found["truncated_geometric"] == {"k": 11, "edge_mass": pytest.approx(7.7182118276e-6)}
    laplace, gaussian = found["laplace"], found["gaussian"]
    assert isinstance(laplace, dict)
    assert isinstance(gaussian, dict)
    assert list(laplace) == ["threshold", "keep_probability"]
    assert laplace["threshold"] == pytest.approx(11.8197782844, rel=1e-11)
    assert list(gaussian) == ["sigma", "threshold", "keep_probability"]
    assert gaussian["threshold"] == pytest.approx(18.15217161, rel=1e-9)
    assert found["recommended"] == "optimal"


def test_selection_for_several_buckets_recommends_the_gaussian_rule() -> None:
    common = ("selection", "--epsilon", "1", "--delta", "1e-5", "--count", "40", "--kappa", "4")
    assert answer(*common)["recommended"] == "gaussian"
    halved = answer(*common, "--neighbours", "replacement")
    assert halved["n1"] == 87


@pytest.mark.slow
def test_selection_says_from_how_many_people_on_a_curator_shows_a_bucket_almost_surely() -> None:
    common = ("--epsilon", "1", "--delta", "1e-5", "--count", "9", "--neighbours", "replacement")
    midpoints = answer("selection", *common)["midpoints"]
    assert isinstance(midpoints, dict)
    assert (midpoints["optimal"]["50%"], midpoints["optimal"]["99%"]) == (23, 30)


def test_selection_at_the_edges_has_null_where_a_rule_does_not_exist() -> None:
    without = answer("selection", "--epsilon", "1", "--delta", "0", "--count", "12")
    assert without["keep_probability"] == 0
    assert without["recommended"] is without["laplace"] is without["gaussian"] is None
    blind = answer("selection", "--epsilon", "0", "--delta", "0.25", "--count", "3")
    assert blind["keep_probability"] == 0.75
    assert blind["laplace"] is None


@pytest.mark.slow
def test_a_public_list_may_have_a_threshold_of_its_own_over_the_same_noise() -> None:
    common = ("selection", "--epsilon", "1", "--delta", "1e-5", "--count", "1")
    assert answer(*common)["two_thresholds"] is None
    found = answer(*common, "--public-threshold", "0")["two_thresholds"]
    assert isinstance(found, dict)
    assert found["private"]["threshold"] == 11
    assert found["private"]["keep_probability"] == pytest.approx(7.7182118276e-6)
    # P[1 + X > 0], X symmetric: half of what is not at 0, and 0.
    assert found["public"]["threshold"] == 0
    assert 0.5 < found["public"]["keep_probability"] < 0.8


@pytest.mark.slow
def test_keep_names_large_buckets_and_no_empty_ones(tmp_path: Path) -> None:
    counts = tmp_path / "counts.csv"
    counts.write_text('zebra,1000\n"a, quoted name",23\nnobody,0\n', encoding="utf-8")
    found = answer("keep", "--epsilon", "1", "--delta", "1e-5", "--counts", str(counts))
    assert found == {"shown": ["a, quoted name", "zebra"]}
    # Of one person at a delta of one half the name is shown half of the time.
    counts.write_text("".join(f"{i},1\n" for i in range(400)), encoding="utf-8")
    shown = answer("keep", "--epsilon", "1", "--delta", "0.5", "--counts", str(counts))["shown"]
    assert isinstance(shown, list)
    assert 80 < len(shown) < 320  # but for a chance of 10^-33


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a,1\nb\n", "counts: line 2 is not a name, a comma and a whole number"),
        ("a,-1\n", "counts: line 1 is not"),
        ("a,1\na,2\n", "counts: line 2 has a name that stood there before"),
        ("a,9223372036854775808\n", "each count must be an integer from 0 to"),
    ],
)
def test_keep_refuses_invalid_counts_without_repeating_names(
    text: str, message: str, tmp_path: Path
) -> None:
    counts = tmp_path / "counts.csv"
    counts.write_text(text, encoding="utf-8")
    done = run("keep", "--epsilon", "1", "--delta", "1e-5", "--counts", str(counts))
    assert done.exit_code == 2
    assert message in done.stderr


def test_claims_are_recomputed_and_labelled_beside_what_is_sound(tmp_path: Path) -> None:
    common = ("claims", "--epsilon0", "1", "--epsilon", "0.5", "--confidence", "0.75")
    found = answer(*common)
    assert list(found) == [
        "claimed_confidence", "claimed_epsilon", "claimed_noise", "label", "sampled", "composed",
        "sound",
    ]  # fmt: skip
    assert found["claimed_confidence"] == pytest.approx(0.622459331202, rel=1e-11)
    assert found["claimed_epsilon"] == pytest.approx(0.642625980491, rel=1e-11)
    assert "not a privacy guarantee" in str(found["label"])
    assert found["sampled"] is found["composed"] is None
    sound = found["sound"]
    assert isinstance(sound, dict)
    # The delta goes with the level that is claimed, and none with that of the mechanism.
    assert (sound["epsilon"], sound["epsilon_without_delta"]) == (0.5, 1)
    assert sound["delta"] == pytest.approx(-math.expm1(-0.25), rel=1e-11)
    assert answer(*common[:-1], "0.1")["claimed_noise"] is None

    file = tmp_path / "sensitivities.txt"
    file.write_text("3\n1\n2.5\n2\n", encoding="utf-8")
    sampled = answer(
        *common, "--coverage", "0.8", "--accuracy", "0.01", "--sensitivities", str(file)
    )["sampled"]
    assert isinstance(sampled, dict)
    assert (sampled["samples"], sampled["sensitivity"]) == (4, 3)
    assert sampled["covered"] == pytest.approx(0.79)
    assert sampled["covered_on_average"] == pytest.approx(0.8)
    assert "not differential privacy" in sampled["label"]
    given = answer(*common, "--coverage", "0.9", "--accuracy", "0.01", "--samples", "15000")
    assert isinstance(given["sampled"], dict)
    assert given["sampled"]["claimed_confidence"] == pytest.approx(0.810383276938, rel=1e-11)


def test_claims_of_several_releases_are_shown_beside_what_they_cost() -> None:
    common = ("claims", "--epsilon0", "0.5", "--epsilon", "0.2", "--confidence", "0.5")
    composed = answer(*common, "--releases", "100", "--delta", "1e-5")["composed"]
    assert isinstance(composed, dict)
    assert composed["theorem9"] == pytest.approx(41.93171152, rel=1e-9)
    assert "proof is not" in composed["label"]
    if pld.is_available():
        assert composed["pld_of_laplace_noise"] == pytest.approx(28.5016, abs=1e-4)


def test_sections_need_not_be_named_twice() -> None:
    common = ("risk", "--epsilon0", "1", "--epsilon", "0.5", "--sections", "onehot:3")
    assert answer(*common) == answer(*common, "--circuit", "sections")


def test_threshold_has_the_promised_keys_and_figures() -> None:
    found = answer(
        "threshold", "--reports", "1000", "--probability", "0.005", "--threshold", "20",
        "--epsilon", "0.5",
    )  # fmt: skip
    assert list(found) == ["applies", "rare_answer", "r", "bound", "exact", "caveats"]
    assert found["applies"] is True
    assert found["bound"] == {
        "epsilon": pytest.approx(3.131563096e-7, rel=1e-9),
        "delta": pytest.approx(3.131562606e-7, rel=1e-9),
    }
    assert found["exact"] == {
        "delta_at_zero": pytest.approx(2.345524655e-7, rel=1e-9),
        "delta": pytest.approx(1.888129532e-7, rel=1e-9),
        "epsilon_max": pytest.approx(1.402505456, rel=1e-9),
        "release_probability": pytest.approx(3.050596532e-7, rel=1e-9),
        "suppressed_loss": pytest.approx(2.345525096e-7, rel=1e-9),
    }
    caveats = found["caveats"]
    assert isinstance(caveats, list)
    assert "collector sees every count" in caveats[0]
    assert any("no guarantee" in caveat for caveat in caveats)


def test_threshold_turns_the_question_round_where_yes_is_usual() -> None:
    of_no = answer("threshold", "--reports", "1000", "--probability", "0.995", "--threshold", "20")
    of_yes = answer("threshold", "--reports", "1000", "--probability", "0.005", "--threshold", "20")
    assert of_no == {**of_yes, "rare_answer": "no"}
    assert of_no["applies"] is True


def test_threshold_says_where_nothing_is_ever_shown() -> None:
    small = answer("threshold", "--reports", "41", "--probability", "0.05", "--threshold", "20")
    assert "nothing is ever shown" in str(small["caveats"])
    assert small["exact"]["release_probability"] == 0


def test_threshold_says_what_holds_beyond_epsilon_max() -> None:
    found = answer(
        "threshold", "--reports", "1000", "--probability", "0.01", "--threshold", "20",
        "--epsilon", "2",
    )  # fmt: skip
    assert "only an upper bound" in str(found["caveats"])


def test_threshold_where_the_theorem_says_nothing_prints_the_exact_curve_and_fails() -> None:
    result = run(
        "threshold", "--reports", "1000", "--probability", "0.005", "--threshold", "5", "--json"
    )
    assert result.exit_code == 2
    assert "must lie in [0, 1), not 1.00402" in result.stderr
    found = json.loads(result.stdout)
    assert found["applies"] is False
    assert found["bound"] is None
    assert found["exact"]["delta_at_zero"] == pytest.approx(0.1759076164, rel=1e-9)


def test_threshold_against_an_active_attacker_with_too_many_answers_is_no_privacy() -> None:
    result = run(
        "threshold", "--reports", "1000", "--probability", "1e-7", "--threshold", "100",
        "--known", "101", "--active", "--json",
    )  # fmt: skip
    assert result.exit_code == 2
    assert json.loads(result.stdout)["exact"]["delta_at_zero"] > 0.9999


def test_a_probability_below_every_double_is_a_json_number() -> None:
    result = run(
        "threshold", "--reports", "1000", "--probability", "1e-7", "--threshold", "100",
        "--known", "100", "--json",
    )  # fmt: skip
    exact = json.loads(result.stdout, parse_float=Decimal)["exact"]
    assert exact["delta_at_zero"] == Decimal("5.7460294820707631e-561")
    assert json.loads(result.stdout)["exact"]["delta_at_zero"] == 0


def test_risk_has_the_promised_keys_and_figures() -> None:
    found = answer(
        "risk", "--circuit", "histogram", "--epsilon0", "1", "--epsilon", "0.5", "--published",
        "--k", "1",
    )  # fmt: skip
    exact, published = found["exact"], found["published"]
    assert isinstance(exact, dict)
    assert isinstance(published, dict)
    assert list(exact) == [
        "probability_loss_at_most", "probability_loss_above", "delta", "expected_loss", "support",
    ]  # fmt: skip
    assert exact["probability_loss_at_most"] == pytest.approx(0.470007424403, rel=1e-11)
    assert exact["delta"] == pytest.approx(0.152451906799, rel=1e-11)
    assert [atom["loss"] for atom in exact["support"]] == [1, 0, -1]
    assert published["claimed_confidence"] == pytest.approx(0.622459331202, rel=1e-11)
    assert "not a privacy guarantee; overstates confidence" in published["label"]


def test_risk_shows_published_figures_only_when_asked() -> None:
    assert "published" not in answer("risk", "--epsilon0", "1", "--epsilon", "0.5")


def test_risk_of_laplace_noise_and_of_two_honest_aggregators_has_no_finite_support() -> None:
    for extra in (("--circuit", "laplace"), ("--aggregators", "2")):
        exact = answer("risk", "--epsilon0", "1", "--epsilon", "0.5", *extra)["exact"]
        assert isinstance(exact, dict)
        assert exact["support"] is None
        assert 0 < exact["delta"] < 0.3


@pytest.mark.slow
def test_risk_of_a_vector_and_two_honest_aggregators_has_its_curve_only() -> None:
    exact = answer(
        "risk", "--circuit", "multihot", "--length", "9", "--max-weight", "2", "--epsilon0", "1",
        "--epsilon", "0.1", "--aggregators", "2",
    )["exact"]  # fmt: skip
    assert isinstance(exact, dict)
    assert exact["delta"] == pytest.approx(0.0714227537723, rel=1e-9)
    assert exact["probability_loss_at_most"] is exact["probability_loss_above"] is None


def test_the_risk_of_two_draws_is_refused_where_the_worst_neighbours_are_unknown() -> None:
    given = ("risk", "--circuit", "l1boundsum", "--length", "3", "--max-value", "2")
    levels = ("--epsilon0", "1", "--epsilon", "0.5")
    assert 0 < answer(*given, *levels)["exact"]["delta"] < 0.3  # type: ignore[index]  # JSON
    refused = run(*given, *levels, "--aggregators", "2")
    assert refused.exit_code == 2
    assert "exact loss of Prio3L1BoundSum under 2 draws of noise is not known" in refused.stderr


def test_the_risk_of_a_report_with_counts_and_a_number_is_that_of_its_furthest_neighbours() -> None:
    given = ("risk", "--sections", "onehot:3 number:20", "--epsilon0", "1/2", "--epsilon", "1/4")
    exact = answer(*given)["exact"]
    assert isinstance(exact, dict)
    assert exact["delta"] == pytest.approx(0.09739154247, rel=1e-9)
    refused = run(*given, "--aggregators", "2")
    assert refused.exit_code == 2
    assert "exact loss of Prio3Sections under 2 draws of noise is not known" in refused.stderr


def test_budget_has_the_promised_keys_and_figures() -> None:
    found = answer(
        "budget", "--people", "100", "--compensation", "5500", "--epsilon0", "0.5", "--error", "2",
        "--budget", "80000",
    )  # fmt: skip
    assert list(found) == ["budget", "published_optimum", "sound"]
    assert found["budget"] == pytest.approx(74434.4057801, rel=1e-11)
    published, sound = found["published_optimum"], found["sound"]
    assert isinstance(published, dict)
    assert isinstance(sound, dict)
    assert list(published) == ["epsilon", "claimed_confidence", "budget", "label"]
    assert published["epsilon"] == pytest.approx(0.274115283558, rel=1e-11)
    # At 0.5 two draws of a count have an error of 2.94, and at 0.519 of 2.83: nothing does both.
    assert sound["epsilon_range"] == {
        "low": pytest.approx(0.7166, abs=5e-5),
        "high": pytest.approx(1 / math.log(550_000 / 80_000), rel=1e-11),
        "is_empty": True,
    }


@pytest.mark.parametrize(
    ("circuit", "error", "low"),
    [
        (("count",), "2", 0.7166),
        (("histogram", "--length", "4"), "2", 1.4332),
        (("count",), "10", 0.1497),
        (("histogram", "--length", "4"), "10", 0.2994),
    ],
)
def test_the_sound_range_begins_where_both_aggregators_draws_have_the_wanted_error(
    circuit: tuple[str, ...], error: str, low: float
) -> None:
    given = ("--people", "100", "--compensation", "1", "--epsilon0", "1", "--error", error)
    sound = answer("budget", *given, "--circuit", *circuit)["sound"]
    assert isinstance(sound, dict)
    found = sound["epsilon_range"]["low"]
    assert found == pytest.approx(low, abs=5e-5)
    spread = answer("error", "--circuit", *circuit, "--epsilon", f"{found:.12f}")
    two = spread["two_aggregators"]
    assert isinstance(two, dict)
    assert two["mean_absolute_error"] == pytest.approx(float(error), rel=1e-9)


def test_error_has_the_promised_keys_and_figures() -> None:
    found = answer("error", "--circuit", "histogram", "--length", "256", "--epsilon", "1")
    assert found == {
        "noise": "discrete Laplace, t = 2",
        "sensitivity": 2,
        "scale": 2,
        "one_aggregator": {
            "variance": pytest.approx(7.83539617807, rel=1e-11),
            "mean_absolute_error": pytest.approx(1 / math.sinh(1 / 2), rel=1e-11),
            "half_width": 6,
            "joint_half_width": 17,
        },
        "two_aggregators": {
            "variance": pytest.approx(15.6707923561, rel=1e-11),
            "mean_absolute_error": pytest.approx(2.93610892185, rel=1e-11),
            "half_width": 8,
            "joint_half_width": 21,
        },
    }


def test_case_and_hyphens_of_a_type_do_not_matter() -> None:
    sizes = ("--length", "3", "--max-measurement", "4", "--epsilon", "1")
    for name in ("sumvec", "sum-vec", "SumVec"):
        assert answer("error", "--circuit", name, *sizes)["sensitivity"] == 12


@pytest.mark.slow
def test_releases_of_every_type_of_measurement_are_composed() -> None:
    common = ("--epsilon0", "0.5", "--releases", "100", "--delta", "1e-5")
    optimal = {
        name: answer("compose", "--circuit", name, *common)["optimal"]
        for name in ("count", "sum", "sumvec", "histogram", "multihot", "l1boundsum")
    }
    # With the least parameters: one sum, or two that divide epsilon between them.
    assert optimal["count"] == optimal["sum"]
    halves = {optimal[name] for name in ("sumvec", "histogram", "multihot", "l1boundsum")}
    assert len(halves) == 1
    assert halves.pop() < optimal["count"]


@pytest.mark.parametrize("kind", [kind for kind in MECHANISMS.values() if kind.is_noisy])
def test_releases_of_every_mechanism_cost_what_a_task_with_it_says(
    kind: type[Mechanism], tmp_path: Path
) -> None:
    chosen = {name: text for name, text in POWERS.items() if name in kind.parameter_names}
    task = make_task(
        {"type": "Prio3Histogram", "length": 5, "chunk_length": 2},
        {"mechanism": kind.name, **chosen, "max_reports_per_person": 2},
    )
    file = tmp_path / "task.toml"
    file.write_text(task_to_toml(task))
    common = ("compose", "--releases", "9", "--delta", "1/500")
    options = {"epsilon": "--epsilon0", "delta": "--release-delta", "rho": "--rho"}
    given = [word for name, text in chosen.items() for word in (options[name], text)]
    shape = ("--circuit", "histogram", "--length", "5", "--max-reports-per-person", "2")
    found = answer(*common, "--mechanism", kind.name, *given, *shape)
    assert found["best"] is not None
    assert found == answer(*common, "--task", str(file))


def test_compose_has_the_promised_keys_and_names_the_best() -> None:
    found = answer("compose", "--epsilon0", "0.5", "--releases", "100", "--delta", "1e-5")
    assert list(found) == [
        "basic", "odometer", "advanced", "zcdp", "optimal", "gaussian", "pld",
        "best", "deltas", "notes",
    ]  # fmt: skip
    assert found["optimal"] == pytest.approx(31.17286350, rel=1e-9)
    assert found["best"] in {"optimal", "pld"}
    assert "enforce that number of releases" in str(found["notes"])


def test_advise_writes_a_privacy_section_that_a_task_file_takes(tmp_path: Path) -> None:
    section = tmp_path / "privacy.toml"
    found = answer(
        "advise", "--reports", "2000", "--buckets", "8", "--error", "5%", "--releases", "4",
        "--population", "staff", "--with-threshold", "--out", str(section),
    )  # fmt: skip
    table = tomllib.loads(section.read_text(encoding="utf-8"))["privacy"]
    assert table == found["privacy"]
    policy = policy_from_mapping(table)
    assert policy.mechanism.name == found["mechanism"] == "PureDpDiscreteLaplace"
    assert (policy.population, policy.max_batches_per_person) == ("staff", 4)
    assert policy.budget == 4 * Fraction(table["epsilon"])
    histogram = {"type": "Prio3Histogram", "length": 8, "chunk_length": 3}
    assert horizon(make_task(histogram, table)) == 4
    error = found["error"]
    assert isinstance(error, dict)
    assert error["half_width"] <= 100
    sentences = found["sentences"]
    assert isinstance(sentences, list)
    assert len(sentences) == 3
    assert all(sentence.endswith(".") for sentence in sentences)


def test_advise_prints_the_section_for_a_reader() -> None:
    result = run("advise", "--reports", "100", "--buckets", "2", "--epsilon", "1/2")
    assert result.exit_code == 0
    assert 'epsilon = "1/2"' in result.stdout
    assert "Prio3Count" in result.stdout
    assert "a quarter of the variance" in result.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            "selection --epsilon -1 --delta 0.1 --count 3",
            "epsilon must lie in [0, 1000], not -1",
        ),
        ("selection --epsilon nan --delta 0.1 --count 3", "epsilon must be a finite number"),
        ("selection --epsilon 1 --delta 2 --count 3", "delta must lie in [0, 1], not 2"),
        ("threshold --reports 10 --probability 1 --threshold 3", "probability must lie in (0, 1)"),
        ("threshold --reports 10 --probability 0.1 --threshold 11", "threshold must be"),
        ("risk --epsilon0 0 --epsilon 1", "epsilon0 must lie in (0, 1000], not 0"),
        ("risk --epsilon0 1 --epsilon 1 --aggregators 3", "aggregators must be 1 or 2, not 3"),
        ("claims --epsilon0 1 --epsilon 2 --confidence 0.5", "epsilon must lie in [0, epsilon0"),
        ("claims --epsilon0 1 --epsilon 0.5 --confidence 0.5 --samples 9", "accuracy: missing"),
        ("claims --epsilon0 1 --epsilon 0.5 --confidence 0.5 --accuracy 0.1", "samples: missing"),
        ("budget --people 0 --compensation 1 --epsilon0 1", "people must be"),
        ("error --circuit histogram --length 1 --epsilon 1", "no measurement of Prio3Histogram"),
        ("error --circuit mean --epsilon 1", "circuit must be one of count, sum, sumvec, "),
        ("error --circuit count --length 3 --epsilon 1", "Prio3Count has no parameter length"),
        (
            "risk --circuit laplace --length 3 --epsilon0 1 --epsilon 1",
            "laplace has no parameter length",
        ),
        ("error --circuit count --epsilon 1 --confidence 1", "confidence must lie in (0, 1)"),
        ("error --circuit count", "epsilon: missing; the mechanism PureDpDiscreteLaplace needs it"),
        ("error --circuit count --epsilon 1 --rho 1", "rho: the mechanism PureDpDiscreteLaplace"),
        ("error --circuit count --epsilon 1 --mechanism Loud", "mechanism must be one of None, "),
        ("error --circuit count --epsilon 1 --reports 0", "reports must be an integer at least 1"),
        ("error --circuit count --epsilon 1 --relative-error 0%", "relative error must lie in (0"),
        ("compose --epsilon0 1 --releases 0 --delta 0.1", "releases must be"),
        ("compose --epsilon0 1 --releases 3 --delta 0", "delta must lie in (0, 1), not 0"),
        ("compose --releases 3 --delta 0.1", "give either epsilon0, or rho, or a task file"),
        ("compose --epsilon0 1 --task x --releases 3 --delta 0.1", "give either epsilon0, or rho"),
        ("compose --circuit laplace --epsilon0 1 --releases 3 --delta 0.1", "circuit must be one"),
        ("compose --rho 1 --releases 3 --delta 0.1", "epsilon: missing; the mechanism Pure"),
        (
            "claims --epsilon0 1 --epsilon 0.5 --confidence 0.5 --releases 0",
            "releases must be at least 1",
        ),
        ("compose --task /nowhere.toml --releases 3 --delta 0.1", "/nowhere.toml: No such file"),
        ("advise --reports 10 --buckets 3", "give either error or epsilon"),
        ("advise --reports 10 --epsilon 1", "give either buckets or a circuit"),
        ("advise --reports 10 --buckets 3 --circuit count --epsilon 1", "give either buckets or"),
        ("advise --reports 10 --buckets 3 --length 4 --epsilon 1", "length: is for a circuit"),
        ("advise --reports 10 --circuit sum --epsilon 1", "needs the parameter max_measurement"),
    ],
)
def test_a_wrong_parameter_is_named_and_the_status_is_2(arguments: str, message: str) -> None:
    result = run(*arguments.split())
    assert result.exit_code == 2
    assert message in result.stderr
    assert result.stdout == ""


GAUSSIAN = "compose --releases 100 --delta 1e-6 --mechanism DiscreteGaussian --circuit sumvec"
TRUNCATED = "compose --releases 9 --delta 1e-3 --mechanism TruncatedGeometric --circuit histogram"


@pytest.mark.parametrize(
    ("arguments", "outcome"),
    [
        ("threshold --reports 1000 --probability 0.005 --threshold 20 --epsilon 1e30", "[0, 1000]"),
        ("threshold --reports 99 --probability 1e-300 --threshold 9 --known 30 --epsilon 0.5", ""),
        ("threshold --reports 10000000 --probability 5e-3 --threshold 51000 --known 5000000", ""),
        ("risk --epsilon0 1 --epsilon 1e300", ""),
        ("risk --circuit sum --epsilon0 1e-300 --epsilon 0.5 --aggregators 2", "epsilon0 is so"),
        ("budget --people 9 --compensation 5 --epsilon0 1e30", "epsilon0 must lie in (0, 1000]"),
        (f"{GAUSSIAN} --rho 1e-30", ""),
        (f"{GAUSSIAN} --rho 1e30", ""),
        (f"{GAUSSIAN} --rho 999", ""),
        (f"{GAUSSIAN} --rho 1/100 --length 10000000 --max-measurement 100", ""),
        (f"{TRUNCATED} --epsilon0 1e30 --release-delta 1e-7", ""),
        ("compose --releases 9 --delta 1e-3 --epsilon0 1e30", "epsilon0 must lie in (0, 1000]"),
    ],
)
def test_whatever_is_asked_for_is_answered_or_refused_soon(arguments: str, outcome: str) -> None:
    result = run(*arguments.split())
    assert outcome in result.stderr
    assert result.exit_code == (2 if outcome else 0)


def test_text_is_the_same_answer_for_a_reader() -> None:
    text = run("risk", "--epsilon0", "1", "--epsilon", "0.5", "--circuit", "histogram").stdout
    assert "probability loss at most: 0.4700074244" in text
    assert "- loss 1, probability 0.3874556190" in text


def test_json_numbers_keep_their_size_and_infinities_are_null() -> None:
    assert to_json(Decimal("Infinity")) == "null"
    assert to_json(Decimal("1e-301")) == "1e-301"
    assert to_json({"a": [], "b": {}}) == '{\n  "a": [],\n  "b": {}\n}'
    assert to_json({"a": True}) == '{\n  "a": true\n}'
    assert to_text({"a": {}, "b": [1, 2], "c": None}) == "a: none\nb:\n  - 1\n  - 2\nc: none"


def test_a_shape_out_of_range_is_named_with_its_range_and_what_was_given() -> None:
    for given, message in (
        ("sumvec --max-measurement 3 --length 0", "length must be an integer from 1 to 4294967295"),
        ("sum --max-measurement 0", "max_measurement must be an integer from 1 to"),
        ("multihot --length 9 --max-weight 0", "max_weight must be an integer from 1 to 9"),
    ):
        refused = run("error", "--epsilon", "1", "--circuit", *given.split())
        assert refused.exit_code == 2
        assert message in refused.stderr
        assert ", not 0" in refused.stderr


@pytest.mark.parametrize("kind", [kind for kind in MECHANISMS.values() if kind.is_noisy])
@pytest.mark.parametrize("row", TYPES.values(), ids=lambda row: row.short_name)
def test_the_error_of_every_mechanism_and_type_is_that_of_the_noise_of_a_release(
    kind: type[Mechanism], row: VdafType
) -> None:
    circuit = row.prio3({**row.least(), "length": 3} if "length" in row.least() else row.least())
    sizes = [
        word
        for name, value in circuit.circuit.parameters.items()
        for word in (f"--{name.replace('_', '-')}", str(value))
    ]
    chosen = {name: text for name, text in POWERS.items() if name in kind.parameter_names}
    options = [word for name, text in chosen.items() for word in (f"--{name}", text)]
    common = ("error", "--circuit", row.short_name, *sizes, "--mechanism", kind.name, *options)
    result = run(*common, "--max-reports-per-person", "3", "--reports", "50", "--json")
    if kind is TruncatedGeometric and not circuit.circuit.is_one_hot:
        assert result.exit_code == 2
        assert "TruncatedGeometric is for Prio3Histogram" in result.stderr
        return
    found = json.loads(result.stdout)
    given = policy_from_mapping({"mechanism": kind.name, **chosen, "max_reports_per_person": 3})
    mechanism = with_equal_errors(given.mechanism, circuit.circuit)
    assert found["noise"] == mechanism.describe_scale(circuit.circuit)
    both, sure = found["two_aggregators"], Fraction(95, 100)
    laws = (law for _, law in mechanism.laws(circuit.circuit) if law is not None)
    assert both["variance"] == max(to_float(law.variance()) for law in laws)
    assert both["half_width"] == mechanism.half_width(circuit.circuit, sure)
    assert both["joint_half_width"] == mechanism.joint_half_width(circuit.circuit, sure)
    largest_sum = 50 * max_entry(circuit.circuit)
    assert both["relative_half_width"] == pytest.approx(both["half_width"] / largest_sum)


def test_the_smallest_batch_is_the_first_whose_error_is_as_small_as_wanted() -> None:
    given = ("error", "--circuit", "sum", "--max-measurement", "7", "--epsilon", "1/4")
    smallest = answer(*given, "--relative-error", "3%")["smallest_batch"]
    assert isinstance(smallest, dict)
    for name, key in (("one_value", "half_width"), ("jointly", "joint_half_width")):
        size = smallest[name]
        for reports, is_enough in ((size, True), (size - 1, False)):
            both = answer(*given, "--reports", str(reports))["two_aggregators"]
            assert isinstance(both, dict)
            assert (both[f"relative_{key}"] <= 0.03) == is_enough
    assert answer(*given, "--relative-error", "0.03")["smallest_batch"] == smallest


def test_noise_that_no_field_has_room_for_has_no_error_and_tiny_noise_has_none() -> None:
    refused = run("error", "--circuit", "count", "--epsilon", "1e-90")
    assert refused.exit_code == 2
    assert "noise of scale 1e+90 is wider than any field" in refused.stderr
    tiny = answer("error", "--circuit", "count", "--epsilon", "1e9")["two_aggregators"]
    assert set(tiny.values()) == {0}  # type: ignore[attr-defined]  # JSON


@pytest.mark.parametrize(
    ("arguments", "missing"),
    [
        (("--circuit", "sum"), "max_measurement"),
        (("--circuit", "histogram"), "length"),
        (("--circuit", "sumvec", "--length", "3"), "max_measurement"),
        (("--circuit", "multihot", "--length", "3"), "max_weight"),
    ],
)
def test_an_error_is_not_told_for_a_size_that_nobody_gave(
    arguments: tuple[str, ...], missing: str
) -> None:
    refused = run("error", *arguments, "--epsilon", "1")
    assert refused.exit_code == 2
    assert f"needs the parameter {missing}" in refused.stderr
